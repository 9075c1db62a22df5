// The bodies of the functions that XLA compiles, as Grappler would prepare them.
#ifndef NPU_PRECISION_CC_PREPARED_BODIES_H_
#define NPU_PRECISION_CC_PREPARED_BODIES_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/utils/functions.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

class PreparedBodies {
 public:
  // Both must outlive the object.
  PreparedBodies(tensorflow::grappler::Cluster* cluster, const tensorflow::GraphDef& graph);

  // The function, which may be one that was added; nullptr if there is none of this name.
  const tensorflow::FunctionDef* Function(const std::string& name) const;

  // The prepared body of a function, with the signatures of those that it calls. Preparing may add
  // functions: calls that were specialized.
  tensorflow::Status Body(const tensorflow::FunctionDef& function,
                          const tensorflow::grappler::GrapplerFunctionItem** body);

  // The function with another body, made of `body`.
  tensorflow::Status WithBody(const tensorflow::FunctionDef& function,
                              const tensorflow::grappler::GrapplerFunctionItem& body,
                              tensorflow::FunctionDef* out) const;

  // Adds a function, unless there is one of its name.
  tensorflow::Status Add(const tensorflow::FunctionDef& function);

  // The names of all that were added.
  const std::vector<std::string>& added() const { return added_; }

 private:
  tensorflow::grappler::Cluster* const cluster_;
  const int producer_;
  tensorflow::FunctionLibraryDefinition library_;
  std::map<std::string, std::unique_ptr<const tensorflow::grappler::GrapplerFunctionItem>> bodies_;
  std::vector<std::string> added_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_PREPARED_BODIES_H_
