// Makes the nodes that passes add around a product: Reshapes, Transposes and Squeezes, and the
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
  // `in_frame`: a constant in a loop needs an input from that frame.
  void Begin(int like, int in_frame);

  // Each function returns the text of an input that reads the result.
  std::string Vector(const std::string& name, const std::vector<int64_t>& values);
  std::string Scalar(const std::string& name, int value);
  // A float32 vector of equal numbers.
  std::string Floats(const std::string& name, int64_t count, float value);
  std::string Reshape(const std::string& name, const OutputPort& tensor,
                      const std::vector<int64_t>& shape);
  // For an input that was added: of float32.
  std::string Reshape(const std::string& name, const std::string& input,
                      const std::vector<int64_t>& shape);
  // The tensor as [-1, columns]: one node for all calls with the same arguments.
  std::string Rows(const OutputPort& tensor, int64_t columns);
  // Also one node for all calls with the same arguments.
  std::string Transpose(const OutputPort& tensor, const std::vector<int>& perm);
  static std::string TransposeName(const GraphView& view, const OutputPort& tensor,
                                   const std::vector<int>& perm);
  // The tensor without dimensions of size 1; one node for all calls with the same arguments.
  std::string Squeeze(const OutputPort& tensor, const std::vector<int>& dims);
  static std::string SqueezeName(const GraphView& view, const OutputPort& tensor,
                                 const std::vector<int>& dims);
  // The shape of the product's result.
  std::string ResultShape(const std::string& name, const FlatProduct& product);

  // Makes a new node of `op`. The caller sets its attributes besides T.
  tensorflow::NodeDef* Add(const std::string& name, const char* op);

 private:
  std::string AddReshape(const std::string& name, const std::string& input,
                         tensorflow::DataType dtype, const std::vector<int64_t>& shape);
  // The name of the node that computes the same with the device and marks of `like_`; "" if there
  // is none yet: the caller then stores its name here.
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

// Turns `node`, the node `id` of the site's graph, into a float32 node of another op with these
// inputs; empty ones are left out. It keeps its name, device, scope marks and control inputs.
void ReplaceOp(const FusionSite& site, int id, const std::string& op,
               const std::vector<std::string>& inputs, tensorflow::NodeDef* node);

// Turns `node` into a fused batch norm, or a gradient of one, in float32. It keeps its inputs.
void BecomeFusedNorm(const char* op, double epsilon, bool is_training, tensorflow::NodeDef* node);

// Turns `node` into a float32 node of another op without inputs. It keeps its name, device and
// marks.
void BecomeOp(const char* op, tensorflow::NodeDef* node);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FLAT_NODES_H_
