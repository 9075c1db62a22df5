#include "graph_passes/analysis/watched_tensors.h"

#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/private_ops.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;

// Yields values of another device or of a constant, which are the same in each step.
bool IsConstantOrReceived(const std::string& op) {
  return op == "Const" || op == "HostConst" || op == "_Recv" || op == "_HostRecv";
}

bool IsCast(const std::string& op) {
  return op == "Cast" || op == kSaturateOp || op == kKeptCastOp;
}

}  // namespace

bool IsWatched(Watch watch, const std::string& op, DataType dtype) {
  if (watch == Watch::kNothing || IsConstantOrReceived(op)) return false;
  // Their inputs are watched.
  if (PassesValues(op)) return false;
  if (watch == Watch::kAll) return IsLowType(dtype) || dtype == tensorflow::DT_FLOAT;
  return IsLowType(dtype) && !IsNeutralSource(op);
}

bool IsRead(const std::string& op) { return IsNeutralSource(op) || op == "_EagerConst"; }

bool PassesValues(const std::string& op) { return SelectsValues(op) || IsCast(op); }

bool Rounds(const std::string& op, DataType from, DataType to) {
  return IsCast(op) && from == tensorflow::DT_FLOAT && IsLowType(to);
}

}  // namespace npu_precision
