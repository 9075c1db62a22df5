#include "graph_passes/analysis/loop_invariants.h"

#include "graph_passes/analysis/reference_reads.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

constexpr int kUnknown = -1;
constexpr int kBeingSought = -2;

bool ForwardsFirstInput(const std::string& op) { return op == "Identity" || op == "Switch"; }

// A read of a reference does not copy, so it sees writes in the loop and beside it.
bool MayBeWritten(const GraphView& view, int variable) {
  for (const InputPort& use : view.fanout(variable)) {
    if (view.op_def(use.node) == nullptr) return true;
    const int argument = view.inputs(use.node)[use.index].argument;
    if (view.op_def(use.node)->input_arg(argument).is_ref()) return true;
  }
  return false;
}

// By node id: memory of references that may change without a sign of it in the loop.
std::vector<Memory> VaryingMemory(const GraphView& view, const std::set<std::string>& fed) {
  std::vector<Memory> memory(view.size(), Memory::kItsOwn);
  for (int id = 0; id < view.size(); ++id) {
    const bool varies = !ReadsVariable(view.node(id).op()) || MayBeWritten(view, id);
    if (YieldsReference(view, id) && varies) memory[id] = Memory::kOfReference;
  }
  PropagateMemory(view, fed, &memory);
  return memory;
}

bool IsConstant(const tensorflow::NodeDef& enter) {
  const auto found = enter.attr().find("is_constant");
  return found != enter.attr().end() && found->second.b();
}

}  // namespace

LoopInvariants::LoopInvariants(const GraphView& view, const std::set<std::string>& fed)
    : view_(view), fed_(fed) {
  if (OpSet(view, "Enter").IsEmpty()) return;
  const std::vector<int> origins = Origins();
  enters_.resize(view.size());
  for (int id = 0; id < view.size(); ++id) enters_[id] = EnterOfOrigin(origins, id);
  DropVarying(origins);
  for (int id = 0; id < view.size(); ++id) enters_[id] = enters_[origins[id]];
}

// By node id: the node whose value it forwards through Identity and Switch, or itself.
std::vector<int> LoopInvariants::Origins() const {
  std::vector<int> origins(view_.size(), kUnknown);
  std::vector<int> passed;
  for (int start = 0; start < view_.size(); ++start) {
    passed.clear();
    int id = start;
    while (origins[id] == kUnknown && view_.op_def(id) != nullptr &&
           ForwardsFirstInput(view_.node(id).op()) && fed_.count(view_.node(id).name()) == 0) {
      origins[id] = kBeingSought;
      passed.push_back(id);
      id = view_.fanin(id)[0].node;
    }
    // A damaged graph may have a cycle of them.
    const int origin = origins[id] >= 0 ? origins[id] : id;
    origins[id] = origin;
    for (int node : passed) origins[node] = origin;
  }
  return origins;
}

// The Enter of a node that is its own origin, or -1.
int LoopInvariants::EnterOfOrigin(const std::vector<int>& origins, int origin) const {
  if (origins[origin] != origin) return -1;
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
    } else if (feeder != "NextIteration" || origins[view_.fanin(producer.node)[0].node] != origin) {
      return -1;
    }
  }
  return enter;
}

// Drops the Enters of tensors that vary in one of the loops around their own.
void LoopInvariants::DropVarying(const std::vector<int>& origins) {
  enum : char { kNotSeen, kSteady, kVaries };
  std::vector<char> seen(view_.size(), kNotSeen);
  const std::vector<Memory> varying = VaryingMemory(view_, fed_);
  std::vector<int> passed;
  for (int start = 0; start < view_.size(); ++start) {
    passed.clear();
    int enter = enters_[start];
    while (enter >= 0 && seen[enter] == kNotSeen) {
      // Varies until its state is known. The Enters of a cycle in a damaged graph stay so.
      seen[enter] = kVaries;
      const OutputPort from = view_.fanin(enter)[0];
      const int outside = origins[from.node];
      if (varying[outside] != Memory::kItsOwn) break;
      // The edge was wrong before, or comes from an op that TensorFlow does not know.
      if (view_.dtype(from) != view_.inputs(enter)[0].dtype) break;
      passed.push_back(enter);
      enter = enters_[outside];
    }
    if (enter < 0 || seen[enter] == kSteady) {
      for (int node : passed) seen[node] = kSteady;
    }
  }
  for (int& enter : enters_) {
    if (enter >= 0 && seen[enter] == kVaries) enter = -1;
  }
}

}  // namespace npu_precision
