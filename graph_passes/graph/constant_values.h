// Keeps the large values of constants aside. Passes work on a copy of the graph without them; each
// value is copied once, if the result still has the constant.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_CONSTANT_VALUES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_CONSTANT_VALUES_H_

#include <string>
#include <unordered_map>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

// Copies all of `from` except a large value of a constant.
void CopyWithoutValue(const tensorflow::NodeDef& from, tensorflow::NodeDef* to);
void CopyAllButNodes(const tensorflow::GraphDef& from, tensorflow::GraphDef* to);
void CopyWithoutValues(const tensorflow::GraphDef& from, tensorflow::GraphDef* to);

class ConstantValues {
 public:
  // Records the large values in `graph`, which must outlive this object. If passes made the graph,
  // its values are moved rather than copied.
  void Add(const tensorflow::GraphDef& graph);
  void AddOwn(tensorflow::GraphDef* graph);

  // The value of a Const in any of the copies; nullptr if it has none.
  const tensorflow::AttrValue* Find(const tensorflow::NodeDef& constant) const;

  // Releases a value that is no longer needed, if it belongs to a graph that passes made.
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
