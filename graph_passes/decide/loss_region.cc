#include "graph_passes/decide/loss_region.h"

#include "graph_passes/graph/marks.h"

namespace npu_precision {
namespace {

class Region {
 public:
  Region(const GraphView& view, const std::vector<bool>& open)
      : view_(view), open_(open), found_(view.num_groups(), false) {}

  std::vector<bool> Run() {
    std::vector<int> ends;
    for (int id = 0; id < view_.size(); ++id) {
      if (view_.op_def(id) != nullptr && HasLossScaleMark(view_.node(id))) ends.push_back(id);
    }
    std::vector<int> starts;
    for (int id : ends) PushConsumers(view_.fanout(id), &starts);
    std::vector<int> backward = Walk(starts, [&](int group, std::vector<int>* next) {
      const int id = view_.node_of_group(group);
      view_.VisitOutputs(group, [&](int port) { PushConsumers(view_.fanout({id, port}), next); });
    });
    // A gradient also reads values of the forward pass. They belong to the loss.
    for (int id : ends) {
      for (const OutputPort& producer : view_.fanin(id)) PushProducer(producer, &backward);
    }
    const auto to_producers = [&](int group, std::vector<int>* next) {
      view_.VisitProducers(group, [&](const OutputPort& from) { PushProducer(from, next); });
    };
    std::vector<int> producers = backward;
    for (int group : backward) to_producers(group, &producers);
    Walk(producers, to_producers);
    return found_;
  }

 private:
  // Both look through the nodes that an earlier run inserted.
  void PushProducer(const OutputPort& tensor, std::vector<int>* groups) const {
    const int group = view_.GroupOf(view_.LookThroughInserted(tensor));
    if (group != kNoGroup) groups->push_back(group);
  }

  void PushConsumers(absl::Span<const InputPort> uses, std::vector<int>* groups) const {
    view_.VisitThroughInserted(uses, [&](const InputPort& use) {
      const int group = view_.GroupOf(use);
      if (group != kNoGroup) groups->push_back(group);
    });
  }

  // Finds the open groups that `next` leads to from `starts`, and returns those that are new.
  template <typename Next>
  std::vector<int> Walk(const std::vector<int>& starts, const Next& next) {
    std::vector<int> found, open = starts;
    while (!open.empty()) {
      const int group = open.back();
      open.pop_back();
      if (!open_[group] || found_[group]) continue;
      found_[group] = true;
      found.push_back(group);
      next(group, &open);
    }
    return found;
  }

  const GraphView& view_;
  const std::vector<bool>& open_;
  std::vector<bool> found_;
};

}  // namespace

std::vector<bool> LossRegion(const GraphView& view, const std::vector<bool>& open) {
  return Region(view, open).Run();
}

}  // namespace npu_precision
