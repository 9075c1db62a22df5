// The Casts between float32 and a low type that may move from one body to another, and their edits.
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

  // Whether Casts to one low type alone read the tensor, if anything does, and the function does
  // not return it. An Identity counts as what reads it. `low` gets the type, or, if it has one
  // already, must be the same. `except` is a reader that does not count.
  bool OnlyCasts(const GraphBody& body, const std::string& tensor, tensorflow::DataType* low,
                 const tensorflow::NodeDef* except = nullptr, bool may_return = false) const;
  bool IsRead(const GraphBody& body, const std::string& tensor) const {
    return !body.Readers(tensor).empty();
  }
  // The low type that a Cast makes the tensor from, or DT_INVALID.
  tensorflow::DataType CastFrom(const GraphBody& body, const std::string& tensor) const;

  // The tensor becomes of the low type: what read its Casts reads it.
  void DropReadingCasts(GraphBody* body, const std::string& tensor, tensorflow::DataType low,
                        const tensorflow::NodeDef* except = nullptr);
  // Input k, which a Cast made of a low type, reads what that Cast read.
  void SkipCast(GraphBody* body, tensorflow::NodeDef* node, int k);
  // The same for what the function returns.
  void SkipCastOfResult(GraphBody* body, const std::string& result);
  // Input k reads the tensor in the low type: past a Cast, or by one.
  void CastInput(GraphBody* body, tensorflow::NodeDef* node, int k, tensorflow::DataType low);
  // The tensor, which `node` yields, becomes of the low type: what read it in float32 reads a Cast.
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
