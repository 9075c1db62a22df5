// The dtypes of a node: its type groups, and how its inputs and outputs are bound to them.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_NODE_TYPES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_NODE_TYPES_H_

#include <vector>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// One type attribute of a node, or one element of a list(type) attribute.
struct TypeGroup {
  short attr;     // index into OpDef.attr
  short element;  // index into the list, -1 for a plain type attribute
  tensorflow::DataType dtype;
};

constexpr int kFixedDtype = -1;  // a port whose dtype no attribute sets

struct Port {
  tensorflow::DataType dtype;
  short group;     // index into NodeTypes::groups, or kFixedDtype
  short argument;  // index into OpDef.input_arg or output_arg
};

struct NodeTypes {
  std::vector<TypeGroup> groups;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
};

// Reads `node`'s attributes by `op_def`. FailedPrecondition names the node and the attribute that
// is missing or of another kind.
tensorflow::Status DescribeTypes(const tensorflow::NodeDef& node, const tensorflow::OpDef& op_def,
                                 NodeTypes* types);

// Sets the attribute of `group`, a group of `node`, to `dtype`.
void SetGroupDtype(const tensorflow::OpDef& op_def, const TypeGroup& group,
                   tensorflow::DataType dtype, tensorflow::NodeDef* node);

// Whether the OpDef allows `dtype` for `group`.
bool OpDefAllows(const tensorflow::OpDef& op_def, const TypeGroup& group,
                 tensorflow::DataType dtype);

// "T", or "T[2]" for an element of a list.
std::string GroupName(const tensorflow::OpDef& op_def, const TypeGroup& group);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_NODE_TYPES_H_
