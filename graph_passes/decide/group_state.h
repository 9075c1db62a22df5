// The state of one type group while the nodes are decided.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_GROUP_STATE_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_GROUP_STATE_H_

namespace npu_precision {

enum class Vote : unsigned char { kUnknown, kLowered, kKept };

struct GroupState {
  enum Kind : unsigned char {
    kDecided,        // `vote` stands
    kFollows,        // gray, can change
    kFollowsOrKeeps  // gray, cannot change: any vote makes it "kept"
  };
  Kind kind = kDecided;
  Vote vote = Vote::kUnknown;

  static GroupState Decided(Vote vote) { return {kDecided, vote}; }
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_GROUP_STATE_H_
