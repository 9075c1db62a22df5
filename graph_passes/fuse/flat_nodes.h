// The nodes that passes add to a graph around a product: Reshapes, Transposes and Squeezes, and the
// constants that they read.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_FLAT_NODES_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_FLAT_NODES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph_passes/fuse/flat_product.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/rewrite/unique_names.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace npu_precision {

class FlatNodes {
 public:
  // All must outlive this object. New nodes are appended to `out`.
  FlatNodes(const GraphView& view, const FusionSite& site, tensorflow::GraphDef* out);

  // From now on, new nodes get the device and marks of `like`. They are in the frame of the node
  // `in_frame`: a constant in a loop has to have an input from there.
  void Begin(int like, int in_frame);

  // Each returns the text of an input that reads the result.
  std::string Vector(const std::string& name, const std::vector<int64_t>& values);
  std::string Scalar(const std::string& name, int value);
  std::string Reshape(const std::string& name, const OutputPort& tensor,
                      const std::vector<int64_t>& shape);
  // The tensor as [-1, columns]: one node for all who ask for the same.
  std::string Rows(const OutputPort& tensor, int64_t columns);
  // One node for all who ask for the same, too.
  std::string Transpose(const OutputPort& tensor, const std::vector<int>& perm);
  static std::string TransposeName(const GraphView& view, const OutputPort& tensor,
                                   const std::vector<int>& perm);
  // The tensor without dimensions of size 1; one node for all who ask for the same.
  std::string Squeeze(const OutputPort& tensor, const std::vector<int>& dims);
  static std::string SqueezeName(const GraphView& view, const OutputPort& tensor,
                                 const std::vector<int>& dims);
  // The shape of the product's result.
  std::string ResultShape(const std::string& name, const FlatProduct& product);

  // Makes a new node of `op`, whose attributes besides T are yet to be set.
  tensorflow::NodeDef* Add(const std::string& name, const char* op);

 private:
  // The node that computes the same for the device and marks of `like_`: its name, or "" if it is
  // yet to be made, and then stored here.
  std::string* Made(const std::string& name);
  tensorflow::NodeDef* Constant(const std::string& name, tensorflow::TensorProto** value);

  const GraphView& view_;
  const FusionSite& site_;
  tensorflow::GraphDef* const out_;
  UniqueNames names_;
  const bool has_loops_;
  int like_ = -1, in_frame_ = -1;
  // By name: each with the node whose device and marks it has.
  std::map<std::string, std::vector<std::pair<int, std::string>>> made_;
};

// The text of an input that reads the tensor.
std::string TensorName(const GraphView& view, const OutputPort& tensor);

// Makes `node`, which keeps its name, device and marks, a float32 one of another op without inputs.
void BecomeOp(const char* op, tensorflow::NodeDef* node);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FLAT_NODES_H_
