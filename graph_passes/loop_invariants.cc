#include "graph_passes/loop_invariants.h"

#include "graph_passes/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

constexpr int kUnknown = -1;
constexpr int kBeingFollowed = -2;

bool HandsOn(const std::string& op) { return op == "Identity" || op == "Switch"; }

bool HasEnter(const GraphView& view) {
  for (int id = 0; id < view.size(); ++id) {
    if (view.node(id).op() == "Enter") return true;
  }
  return false;
}

bool IsConstant(const tensorflow::NodeDef& enter) {
  const auto found = enter.attr().find("is_constant");
  return found != enter.attr().end() && found->second.b();
}

}  // namespace

LoopInvariants::LoopInvariants(const GraphView& view, const std::set<std::string>& fed)
    : view_(view), fed_(fed) {
  if (!HasEnter(view)) return;
  origins_.assign(view.size(), kUnknown);
  std::vector<int> way;
  for (int start = 0; start < view.size(); ++start) {
    way.clear();
    int id = start;
    while (origins_[id] == kUnknown && view.op_def(id) != nullptr && HandsOn(view.node(id).op()) &&
           fed_.count(view.node(id).name()) == 0) {
      origins_[id] = kBeingFollowed;
      way.push_back(id);
      id = view.fanin(id)[0].node;
    }
    // A damaged graph may have a cycle of them.
    const int origin = origins_[id] >= 0 ? origins_[id] : id;
    origins_[id] = origin;
    for (int passed : way) origins_[passed] = origin;
  }
}

int LoopInvariants::EnterOf(const OutputPort& tensor) const {
  if (origins_.empty()) return -1;
  const int origin = origins_[tensor.node];
  if (fed_.count(view_.node(origin).name()) != 0) return -1;
  const std::string& op = view_.node(origin).op();
  if (op == "Enter") return IsConstant(view_.node(origin)) ? origin : -1;
  if (!IsMerge(op)) return -1;
  int enter = -1;
  for (const OutputPort& producer : view_.fanin(origin)) {
    const std::string& feeder = view_.node(producer.node).op();
    if (fed_.count(view_.node(producer.node).name()) != 0) return -1;
    if (feeder == "Enter" && enter < 0) {
      enter = producer.node;
    } else if (feeder != "NextIteration" ||
               origins_[view_.fanin(producer.node)[0].node] != origin) {
      return -1;
    }
  }
  return enter;
}

}  // namespace npu_precision
