#include "graph_passes/decide/follows_forward.h"

#include <string>

#include "graph_passes/analysis/forward_names.h"

namespace npu_precision {
namespace {

constexpr int kUnknown = -2;
constexpr int kNone = -1;

class Follower {
 public:
  Follower(const GraphView& view, const NodeClasses& classes)
      : view_(view),
        classes_(classes),
        forward_(view.size(), kUnknown),
        kept_(view.size(), kNotAsked) {}

  std::vector<KeptGroup> Run() {
    std::vector<KeptGroup> keeps;
    if (!KeepsAnyByName()) return keeps;
    for (int id = 0; id < view_.size(); ++id) {
      if (KeepsByName(id) || !IsKept(id)) continue;
      for (int g = 0; g < view_.num_groups(id); ++g) {
        keeps.push_back({view_.first_group(id) + g, Reason::kFollowsForward, ForwardOf(id)});
      }
    }
    return keeps;
  }

 private:
  enum Kept : char { kNotAsked, kNo, kYes };

  bool KeepsAnyByName() const {
    for (int id = 0; id < view_.size(); ++id) {
      if (KeepsByName(id)) return true;
    }
    return false;
  }

  bool KeepsByName(int id) const {
    const NodeClass& node = classes_.nodes[id];
    if (node.listing.edited == Edited::kByName) return node.listing.color == ListColor::kBlack;
    return node.fixed == Reason::kKeepDtypeScope;
  }

  int ForwardOf(int id) {
    if (forward_[id] != kUnknown) return forward_[id];
    forward_[id] = kNone;
    for (const std::string& name : ForwardNames(view_.node(id).name())) {
      const int forward = view_.IndexOf(name);
      if (forward < 0 || forward == id) continue;
      forward_[id] = forward;
      break;
    }
    return forward_[id];
  }

  // Gradients of gradients make a chain; forward names are shorter, so it ends.
  bool IsKept(int id) {
    std::vector<int> chain;
    int last = id;
    while (last != kNone && kept_[last] == kNotAsked && !KeepsByName(last)) {
      chain.push_back(last);
      last = ForwardOf(last);
    }
    const bool is_kept = last != kNone && (kept_[last] == kYes || KeepsByName(last));
    for (int node : chain) kept_[node] = is_kept ? kYes : kNo;
    return is_kept;
  }

  const GraphView& view_;
  const NodeClasses& classes_;
  std::vector<int> forward_;  // by node id
  std::vector<Kept> kept_;    // by node id
};

}  // namespace

std::vector<KeptGroup> FollowsForward(const GraphView& view, const NodeClasses& classes) {
  return Follower(view, classes).Run();
}

}  // namespace npu_precision
