#include "graph_passes/rewrite/movable_casts.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::NodeDef;

constexpr DataType kFloat = tensorflow::DT_FLOAT;
constexpr DataType kNone = tensorflow::DT_INVALID;

DataType TypeOf(const NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? kNone : found->second.type();
}

std::string OutputOf(const GraphBody& body, const NodeDef& cast) {
  return body.OutputOf(cast, "y", 0);
}

std::string CopyOf(const GraphBody& body, const NodeDef& identity) {
  return body.OutputOf(identity, "output", 0);
}

}  // namespace

bool MovableCasts::MayMove(const GraphBody& body, const NodeDef& node) const {
  if (node.op() != "Cast" || node.input_size() != 1 || IsRounding(node)) return false;
  const auto truncate = node.attr().find("Truncate");
  return (truncate == node.attr().end() || !truncate->second.b()) &&
         !body.IsControlProducer(node.name()) && !IsKept(body, node);
}

bool MovableCasts::LowersTo(const GraphBody& body, const NodeDef& node, DataType low) const {
  return MayMove(body, node) && TypeOf(node, "SrcT") == kFloat && TypeOf(node, "DstT") == low;
}

bool MovableCasts::OnlyCasts(const GraphBody& body, const std::string& tensor, DataType* low,
                             const NodeDef* except, bool may_return) const {
  if (!may_return && body.IsReturned(tensor)) return false;
  for (const GraphBody::Reader& reader : body.Readers(tensor)) {
    if (reader.node == except) continue;
    if (IsCopy(body, *reader.node)) {
      if (!OnlyCasts(body, CopyOf(body, *reader.node), low)) return false;
      continue;
    }
    const DataType to = TypeOf(*reader.node, "DstT");
    if (!IsLowType(to) || (*low != kNone && *low != to) || !LowersTo(body, *reader.node, to)) {
      return false;
    }
    *low = to;
  }
  return true;
}

DataType MovableCasts::CastFrom(const GraphBody& body, const std::string& tensor) const {
  const NodeDef* cast = body.Producer(tensor);
  if (cast == nullptr || !MayMove(body, *cast) || TypeOf(*cast, "DstT") != kFloat) return kNone;
  const DataType from = TypeOf(*cast, "SrcT");
  return IsLowType(from) ? from : kNone;
}

// Whether the node is a frozen ReadVariableOp in the body of a loop.
bool MovableCasts::IsCopy(const GraphBody& body, const NodeDef& node) const {
  return node.op() == "Identity" && node.input_size() == 1 && !IsKept(body, node);
}

void MovableCasts::DropReadingCasts(GraphBody* body, const std::string& tensor, DataType low,
                                    const NodeDef* except) {
  for (const GraphBody::Reader& reader : body->Readers(tensor)) {
    if (reader.node == except) continue;
    if (reader.node->op() == "Identity") {
      (*reader.node->mutable_attr())["T"].set_type(low);
      DropReadingCasts(body, CopyOf(*body, *reader.node), low);
      continue;
    }
    body->MoveReaders(OutputOf(*body, *reader.node), tensor);
    body->Drop(reader.node);
  }
}

void MovableCasts::SkipCast(GraphBody* body, NodeDef* node, int k) {
  NodeDef* cast = body->Producer(body->Input(*node, k));
  body->SetInput(node, k, body->Input(*cast, 0));
  DropIfUnread(body, cast);
}

void MovableCasts::SkipCastOfResult(GraphBody* body, const std::string& result) {
  NodeDef* cast = body->Producer(body->Result(result));
  body->SetResult(result, body->Input(*cast, 0));
  DropIfUnread(body, cast);
}

void MovableCasts::CastInput(GraphBody* body, NodeDef* node, int k, DataType low) {
  const std::string tensor = body->Input(*node, k);
  if (CastFrom(*body, tensor) == low) {
    SkipCast(body, node, k);
    return;
  }
  NodeDef* cast = nullptr;
  for (const GraphBody::Reader& reader : body->Readers(tensor)) {
    if (LowersTo(*body, *reader.node, low)) cast = reader.node;
  }
  if (cast == nullptr) {
    cast = Add(body, *node, tensor, kFloat, low);
    body->AddInput(cast, tensor);
  }
  body->SetInput(node, k, OutputOf(*body, *cast));
}

void MovableCasts::CastOutput(GraphBody* body, const NodeDef& node, const std::string& tensor,
                              DataType low) {
  const std::vector<GraphBody::Reader> readers = body->Readers(tensor);
  const auto is_low = [&](const GraphBody::Reader& reader) {
    return LowersTo(*body, *reader.node, low);
  };
  if (body->IsReturned(tensor) || !std::all_of(readers.begin(), readers.end(), is_low)) {
    NodeDef* cast = Add(body, node, tensor, low, kFloat);
    body->MoveReaders(tensor, OutputOf(*body, *cast));
    body->AddInput(cast, tensor);
  }
  for (const GraphBody::Reader& reader : readers) {
    if (!is_low(reader)) continue;
    body->MoveReaders(OutputOf(*body, *reader.node), tensor);
    body->Drop(reader.node);
  }
}

void MovableCasts::DropIfUnread(GraphBody* body, NodeDef* cast) {
  const std::string tensor = OutputOf(*body, *cast);
  if (!IsRead(*body, tensor) && !body->IsReturned(tensor)) body->Drop(cast);
}

NodeDef* MovableCasts::Add(GraphBody* body, const NodeDef& like, const std::string& tensor,
                           DataType from, DataType to) {
  const std::vector<std::string> parts = absl::StrSplit(tensor, ':');
  const std::string port = parts.size() > 1 ? parts.back() : "0";
  NodeDef* cast = body->Add(absl::StrCat(parts[0], "/npu_cast_", port, "_", DtypeName(to)));
  cast->set_op("Cast");
  cast->set_device(like.device());
  (*cast->mutable_attr())["SrcT"].set_type(from);
  (*cast->mutable_attr())["DstT"].set_type(to);
  (*cast->mutable_attr())["Truncate"].set_b(false);
  MarkInserted(cast);
  return cast;
}

}  // namespace npu_precision
