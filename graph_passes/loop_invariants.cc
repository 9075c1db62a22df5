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

// A read of a reference does not copy, so what the loop, or anything beside it, writes shows.
bool MayBeWritten(const GraphView& view, int variable) {
  for (const InputPort& use : view.fanout(variable)) {
    if (view.op_def(use.node) == nullptr) return true;
    const int argument = view.inputs(use.node)[use.index].argument;
    if (view.op_def(use.node)->input_arg(argument).is_ref()) return true;
  }
  return false;
}

bool YieldsReference(const GraphView& view, int id) {
  return view.op_def(id) != nullptr && view.outputs(id).size() > 0 &&
         view.op_def(id)->output_arg(view.outputs(id)[0].argument).is_ref();
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
  const int found = EnterOfOrigin(origins_[tensor.node]);
  // The bound ends the walk on a damaged graph whose Enters form a cycle.
  int enter = found;
  for (int frames = 0; enter >= 0 && frames < view_.size(); ++frames) {
    // An edge that was wrong before, or comes from an op TensorFlow does not know.
    if (view_.dtype(view_.fanin(enter)[0]) != view_.inputs(enter)[0].dtype) return -1;
    const int outside = origins_[view_.fanin(enter)[0].node];
    if (YieldsReference(view_, outside) &&
        (!ReadsVariable(view_.node(outside).op()) || MayBeWritten(view_, outside))) {
      return -1;
    }
    enter = EnterOfOrigin(outside);
  }
  return enter < 0 ? found : -1;
}

int LoopInvariants::EnterOfOrigin(int origin) const {
  const auto is_fed = [this](int id) { return fed_.count(view_.node(id).name()) != 0; };
  if (is_fed(origin)) return -1;
  const std::string& op = view_.node(origin).op();
  if (op == "Enter") return IsConstant(view_.node(origin)) ? origin : -1;
  if (!IsMerge(op)) return -1;
  int enter = -1;
  for (const OutputPort& producer : view_.fanin(origin)) {
    const std::string& feeder = view_.node(producer.node).op();
    if (is_fed(producer.node)) return -1;
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
