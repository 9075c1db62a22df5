// The large values of constants, kept aside: passes work on a copy of the graph that lacks them,
// and each is copied once, if the result still has it.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_CONSTANT_VALUES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_CONSTANT_VALUES_H_

#include <string>
#include <unordered_map>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

// Copies all of `from`, but no large value of a constant.
void CopyWithoutValue(const tensorflow::NodeDef& from, tensorflow::NodeDef* to);
void CopyAllButNodes(const tensorflow::GraphDef& from, tensorflow::GraphDef* to);
void CopyWithoutValues(const tensorflow::GraphDef& from, tensorflow::GraphDef* to);

class ConstantValues {
 public:
  // Takes note of the large values in `graph`, which must outlive this object. Of one that passes
  // made, they are taken rather than copied.
  void Add(const tensorflow::GraphDef& graph);
  void AddOwn(tensorflow::GraphDef* graph);

  // The value of a Const of any of the copies; nullptr where it has none.
  const tensorflow::AttrValue* Find(const tensorflow::NodeDef& constant) const;

  // The value is no longer needed. Releases it, if it is of a graph that passes made.
  void Forget(const tensorflow::NodeDef& constant);

  // Puts back the values that `graph` lacks.
  void Restore(tensorflow::GraphDef* graph);

 private:
  struct Place {
    const tensorflow::AttrValue* value;
    tensorflow::AttrValue* own;  // the same, or nullptr
  };
  std::unordered_map<std::string, Place> places_;  // by the constant's name
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_CONSTANT_VALUES_H_
