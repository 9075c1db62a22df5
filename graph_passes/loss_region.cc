#include "graph_passes/loss_region.h"

#include "graph_passes/marks.h"

namespace npu_precision {
namespace {

class Region {
 public:
  Region(const GraphView& view, const std::vector<GroupState>& groups)
      : view_(view), groups_(groups), found_(view.num_groups(), false) {}

  std::vector<bool> Run() {
    std::vector<int> ends;
    for (int id = 0; id < view_.size(); ++id) {
      if (view_.op_def(id) != nullptr && HasLossScaleMark(view_.node(id))) ends.push_back(id);
    }
    std::vector<int> starts;
    for (int id : ends) {
      for (const InputPort& use : view_.fanout(id)) starts.push_back(GroupOf(use));
    }
    std::vector<int> backward = Walk(starts, [&](int group, std::vector<int>* next) {
      const int id = view_.node_of_group(group);
      view_.VisitOutputs(group, [&](int port) {
        for (const InputPort& use : view_.fanout({id, port})) next->push_back(GroupOf(use));
      });
    });
    // A gradient is made of values of the forward pass too, which belong to the loss.
    for (int id : ends) {
      for (const OutputPort& producer : view_.fanin(id)) backward.push_back(GroupOf(producer));
    }
    const auto to_producers = [&](int group, std::vector<int>* next) {
      const int id = view_.node_of_group(group);
      view_.VisitInputs(group, [&](int k) { next->push_back(GroupOf(view_.fanin(id)[k])); });
    };
    std::vector<int> producers = backward;
    for (int group : backward) {
      if (group >= 0) to_producers(group, &producers);
    }
    Walk(producers, to_producers);
    return found_;
  }

 private:
  int GroupOf(const OutputPort& output) const {
    if (view_.op_def(output.node) == nullptr) return -1;
    const int group = view_.outputs(output.node)[output.port].group;
    return group == kFixedDtype ? -1 : view_.first_group(output.node) + group;
  }

  int GroupOf(const InputPort& input) const {
    if (view_.op_def(input.node) == nullptr) return -1;
    const int group = view_.inputs(input.node)[input.index].group;
    return group == kFixedDtype ? -1 : view_.first_group(input.node) + group;
  }

  bool IsOpen(int group) const { return groups_[group].kind != GroupState::kDecided; }

  // Finds what `next` leads to from these, and returns what was found.
  template <typename Next>
  std::vector<int> Walk(const std::vector<int>& starts, const Next& next) {
    std::vector<int> found, open = starts;
    while (!open.empty()) {
      const int group = open.back();
      open.pop_back();
      if (group < 0 || !IsOpen(group) || found_[group]) continue;
      found_[group] = true;
      found.push_back(group);
      next(group, &open);
    }
    return found;
  }

  const GraphView& view_;
  const std::vector<GroupState>& groups_;
  std::vector<bool> found_;
};

}  // namespace

std::vector<bool> LossRegion(const GraphView& view, const std::vector<GroupState>& groups) {
  return Region(view, groups).Run();
}

}  // namespace npu_precision
