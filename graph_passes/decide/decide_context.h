// The inputs of a decision besides the graph.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_CONTEXT_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_CONTEXT_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/decide/dtype_support.h"
#include "graph_passes/decide/float16_compute.h"
#include "graph_passes/decide/precision_mode.h"
#include "graph_passes/graph/element_counts.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/tensor_shapes.h"
#include "graph_passes/lists/custom_dtypes.h"
#include "graph_passes/lists/magnifiers.h"
#include "graph_passes/lists/op_lists.h"

namespace npu_precision {

struct DecideContext {
  PrecisionMode mode;
  const OpLists* lists;
  const CustomDtypesFile* custom_dtypes = nullptr;  // nullptr if there is no such file
  const Magnifiers* magnifiers;
  const DtypeSupport* support;
  Float16Compute float16_compute = Float16Compute::kNative;
  // Whether nodes keep float32 if their kernels on this machine are slower in the low type. Not if
  // another device is emulated.
  bool weighs_kernels = false;
  // Whether XLA compiles the graph, instead of running kernels.
  bool compiled = false;
  // Whether low_weights will run.
  bool keeps_weights = false;
  // Whether a flight recorder will watch the tensors that are rounded.
  bool is_watched = false;
  // Whether lowered nodes keep float32 if their Casts take more time than they save.
  bool keep_costly_islands = false;
  // Whether modes that lower nodes without float32 kernels lower all matrix and convolution ops.
  bool lowers_matrix_ops = false;
  std::set<std::string> preserved;  // nodes that must yield their dtype under their name
  std::set<std::string> fetched;    // those preserved nodes whose values the caller reads
  std::set<std::string> fed;        // nodes whose outputs the caller replaces

  // The marks of autocast() on the nodes that this run decides about; DT_INVALID stands for nodes
  // without a mark.
  std::set<tensorflow::DataType> autocast = {tensorflow::DT_INVALID};

  // What calls the function whose body this is.
  BodyRole body_role = BodyRole::kCalled;
  // If that is a While, what its condition reads of the results.
  std::vector<ReadByCondition> read_by_condition;

  ElementCounts elements;
  TensorShapes shapes;

  // Whether the caller fetches or feeds the node, so that its outputs must stay as they are.
  bool IsFixed(const std::string& name) const {
    return preserved.count(name) != 0 || fed.count(name) != 0;
  }

  // Whether the mode changes nodes of this dtype; and the dtype that it gives them.
  bool Changes(tensorflow::DataType dtype) const {
    return mode.rule == ModeRule::kForceFloat32 ? IsLowType(dtype) : dtype == tensorflow::DT_FLOAT;
  }
  tensorflow::DataType NewDtype() const {
    return mode.rule == ModeRule::kForceFloat32 ? tensorflow::DT_FLOAT : mode.low_type;
  }
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_CONTEXT_H_
