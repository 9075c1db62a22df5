// Finds and edits the Casts between float32 and a low type that may move from one body to another.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_MOVABLE_CASTS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_MOVABLE_CASTS_H_

#include <set>
#include <string>
#include <utility>

#include "graph_passes/graph/graph_body.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

class MovableCasts {
 public:
  // Nodes that must stay with their dtype, as (function, node). It must outlive this object.
  using Kept = std::set<std::pair<std::string, std::string>>;
  explicit MovableCasts(const Kept& kept) : kept_(kept) {}

  bool IsKept(const GraphBody& body, const tensorflow::NodeDef& node) const {
    return kept_.count({body.name(), node.name()}) != 0;
  }

  // Whether the tensor has no readers but Casts to one low type, and the function does not return
  // it. The readers of an Identity count instead of the Identity. `low` gets the type; if it
  // already has one, the types must agree. The reader `except` does not count.
  bool OnlyCasts(const GraphBody& body, const std::string& tensor, tensorflow::DataType* low,
                 const tensorflow::NodeDef* except = nullptr, bool may_return = false) const;
  bool IsRead(const GraphBody& body, const std::string& tensor) const {
    return !body.Readers(tensor).empty();
  }
  // The low type that a Cast converts the tensor from, or DT_INVALID.
  tensorflow::DataType CastFrom(const GraphBody& body, const std::string& tensor) const;

  // Gives the tensor the low type: the readers of its Casts read it directly.
  void DropReadingCasts(GraphBody* body, const std::string& tensor, tensorflow::DataType low,
                        const tensorflow::NodeDef* except = nullptr);
  // Makes input k, which a Cast converts from a low type, read the Cast's input.
  void SkipCast(GraphBody* body, tensorflow::NodeDef* node, int k);
  // The same for a result of the function.
  void SkipCastOfResult(GraphBody* body, const std::string& result);
  // Makes input k read the tensor in the low type: past a Cast, or through a new one.
  void CastInput(GraphBody* body, tensorflow::NodeDef* node, int k, tensorflow::DataType low);
  // Gives the tensor, an output of `node`, the low type: its float32 readers read a Cast.
  void CastOutput(GraphBody* body, const tensorflow::NodeDef& node, const std::string& tensor,
                  tensorflow::DataType low);

 private:
  bool MayMove(const GraphBody& body, const tensorflow::NodeDef& node) const;
  bool IsCopy(const GraphBody& body, const tensorflow::NodeDef& node) const;
  bool LowersTo(const GraphBody& body, const tensorflow::NodeDef& node,
                tensorflow::DataType low) const;
  void DropIfUnread(GraphBody* body, tensorflow::NodeDef* cast);
  tensorflow::NodeDef* Add(GraphBody* body, const tensorflow::NodeDef& like,
                           const std::string& tensor, tensorflow::DataType from,
                           tensorflow::DataType to);

  const Kept& kept_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_MOVABLE_CASTS_H_
