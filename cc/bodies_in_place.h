// Shows what rules keep once the bodies of a compiled function's loops and branches stand in its
// graph. XLA needs each body as a function, so the optimizer decides about each alone, where a rule
// does not see that an op of one body magnifies what a node of another rounds. Where XLA does not
// compile, TensorFlow puts the bodies in place before the optimizer runs.
#ifndef NPU_PRECISION_CC_BODIES_IN_PLACE_H_
#define NPU_PRECISION_CC_BODIES_IN_PLACE_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cc/prepared_bodies.h"
#include "graph_passes/graph/marks.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Decides about a graph, and yields the names of the nodes that a rule keeps.
using NamesOfKept = std::function<tensorflow::Status(const tensorflow::grappler::GrapplerItem& item,
                                                     std::vector<std::string>* names)>;

class BodiesInPlace {
 public:
  // All must outlive the object.
  BodiesInPlace(tensorflow::grappler::Cluster* cluster, const NamesOfKept& kept, int producer,
                PreparedBodies* bodies);

  // Decides about the function with the bodies in place. Does nothing if they cannot be put there:
  // then each body is decided about alone.
  void Decide(const std::string& function);

  // Marks the nodes of a function's body that were kept then.
  void Mark(const std::string& function, tensorflow::GraphDef* body) const;

 private:
  // Adds the function and all that it names, with a mark on each node that tells where it is from.
  tensorflow::Status AddMarked(const std::string& function, std::set<std::string>* seen,
                               tensorflow::FunctionDefLibrary* marked) const;
  // The nodes that are kept, as names in the functions that they are from.
  tensorflow::Status Kept(const std::string& function, std::vector<Origin>* kept) const;

  tensorflow::grappler::Cluster* const cluster_;
  const NamesOfKept& kept_;
  const int producer_;
  PreparedBodies* const bodies_;
  std::map<std::string, std::set<std::string>> nodes_;  // the kept ones by function
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_BODIES_IN_PLACE_H_
