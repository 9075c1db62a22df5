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
    for (int id : ends) {
      for (const InputPort& use : view_.fanout(id)) PushReader(use, &starts);
    }
    std::vector<int> backward = Walk(starts, [&](int group, std::vector<int>* next) {
      const int id = view_.node_of_group(group);
      view_.VisitOutputs(group, [&](int port) {
        for (const InputPort& use : view_.fanout({id, port})) PushReader(use, next);
      });
    });
    // A gradient also reads values of the forward pass. They belong to the loss.
    for (int id : ends) {
      for (const OutputPort& producer : view_.fanin(id)) PushProducer(producer, &backward);
    }
    const auto to_producers = [&](int group, std::vector<int>* next) {
      const int id = view_.node_of_group(group);
      view_.VisitInputs(group, [&](int k) { PushProducer(view_.fanin(id)[k], next); });
    };
    std::vector<int> producers = backward;
    for (int group : backward) to_producers(group, &producers);
    Walk(producers, to_producers);
    return found_;
  }

 private:
  // Both look through the nodes that an earlier run inserted. The bounds end the walks on a damaged
  // graph where those form a cycle.
  void PushProducer(OutputPort output, std::vector<int>* groups) const {
    for (int hops = 0; hops < view_.size() && view_.IsTransparent(output.node); ++hops) {
      output = view_.fanin(output.node)[0];
    }
    if (view_.op_def(output.node) == nullptr) return;
    const int group = view_.outputs(output.node)[output.port].group;
    if (group != kFixedDtype) groups->push_back(view_.first_group(output.node) + group);
  }

  void PushReader(const InputPort& input, std::vector<int>* groups) const {
    std::vector<InputPort> readers = {input};
    for (size_t i = 0; i < readers.size() && static_cast<int>(i) <= view_.size(); ++i) {
      const InputPort reader = readers[i];
      if (view_.IsTransparent(reader.node)) {
        for (const InputPort& use : view_.fanout(reader.node)) readers.push_back(use);
        continue;
      }
      if (view_.op_def(reader.node) == nullptr) continue;
      const int group = view_.inputs(reader.node)[reader.index].group;
      if (group != kFixedDtype) groups->push_back(view_.first_group(reader.node) + group);
    }
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
