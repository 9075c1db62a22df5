#include "graph_passes/analysis/varying_nodes.h"

#include "graph_passes/analysis/loop_invariants.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

class Finder {
 public:
  Finder(const GraphView& view, const std::set<std::string>& fed)
      : view_(view),
        fed_(fed),
        invariants_(view, fed),
        results_(view, IsResult),
        identities_(view, "Identity") {}

  std::vector<bool> Run() const {
    std::vector<bool> varies(view_.size(), false);
    std::vector<int> open;
    const auto push = [&](int id) {
      if (varies[id]) return;
      varies[id] = true;
      open.push_back(id);
    };
    for (int id = 0; id < view_.size(); ++id) {
      if (VariesByItself(id)) push(id);
    }
    while (!open.empty()) {
      const int id = open.back();
      open.pop_back();
      for (const InputPort& use : view_.fanout(id)) {
        // A varying input changes every Merge except the Merge of an invariant.
        if (invariants_.EnterOf({use.node, 0}) < 0) push(use.node);
      }
    }
    return varies;
  }

 private:
  bool VariesByItself(int id) const {
    const std::string& op = view_.node(id).op();
    if (view_.op_def(id) == nullptr) return true;
    // All arguments of a function are fed. TensorFlow 1.15 presents them as placeholders.
    if (IsArgument(op) || op == "Placeholder") return !IsHandle(id) && !IsHandedOut(id);
    if (fed_.count(view_.node(id).name()) != 0) return true;
    if (IsMerge(op)) return ClosesLoop(id) && invariants_.EnterOf({id, 0}) < 0;
    return view_.op_def(id)->is_stateful() && !ReadsVariable(op) && !IsHandle(id);
  }

  bool ClosesLoop(int merge) const {
    for (const OutputPort& from : view_.fanin(merge)) {
      if (view_.node(from.node).op() == "NextIteration") return true;
    }
    return false;
  }

  bool IsHandle(int id) const {
    return view_.num_outputs(id) > 0 && view_.outputs(id)[0].dtype == tensorflow::DT_RESOURCE;
  }

  // Whether the function returns the argument unchanged, as the body of a While returns captures.
  bool IsHandedOut(int argument) const {
    std::vector<int> same = {argument};
    for (size_t i = 0; i < same.size(); ++i) {
      for (const InputPort& use : view_.fanout(same[i])) {
        if (results_.Has(use.node)) return true;
        if (identities_.Has(use.node)) same.push_back(use.node);
      }
    }
    return false;
  }

  const GraphView& view_;
  const std::set<std::string>& fed_;
  const LoopInvariants invariants_;
  const OpSet results_, identities_;
};

}  // namespace

std::vector<bool> VaryingNodes(const GraphView& view, const std::set<std::string>& fed) {
  return Finder(view, fed).Run();
}

}  // namespace npu_precision
