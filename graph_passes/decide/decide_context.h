// Everything a decision depends on besides the graph.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_CONTEXT_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_CONTEXT_H_

#include <set>
#include <string>

#include "graph_passes/decide/dtype_support.h"
#include "graph_passes/decide/precision_mode.h"
#include "graph_passes/lists/op_lists.h"

namespace npu_precision {

struct DecideContext {
  PrecisionMode mode;
  const OpLists* lists;
  const DtypeSupport* support;
  // Whether gray that moves values and hears no vote follows what reads it, where that saves Casts;
  // on the target that is emulated it would not.
  bool follow_consumers = false;
  std::set<std::string> preserved;  // nodes that must yield their dtype under their name
  std::set<std::string> fed;        // nodes whose outputs the caller replaces

  // Whether the caller fetches or feeds a node: what it yields is not ours to change.
  bool IsFixed(const std::string& name) const {
    return preserved.count(name) != 0 || fed.count(name) != 0;
  }

  // Whether the mode changes nodes of this dtype, and into what.
  bool Changes(tensorflow::DataType dtype) const {
    if (mode.rule == ModeRule::kForceFloat32) {
      return dtype == tensorflow::DT_HALF || dtype == tensorflow::DT_BFLOAT16;
    }
    return dtype == tensorflow::DT_FLOAT;
  }
  tensorflow::DataType NewDtype() const {
    return mode.rule == ModeRule::kForceFloat32 ? tensorflow::DT_FLOAT : mode.low_type;
  }
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_CONTEXT_H_
