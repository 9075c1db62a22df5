#include "graph_passes/fuse/update_expression.h"

#include <algorithm>
#include <unordered_map>

#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/low_types.h"

namespace npu_precision {
namespace {

using tensorflow::PartialTensorShape;

// TensorFlow's kernel adds so many terms from left to right, and more in another order.
constexpr int kMostTerms = 8;

bool IsCopy(const std::string& op) { return op == "Identity" || op == "StopGradient"; }

bool IsSum(const std::string& op) { return op == "AddN"; }

// The step of an op; kStore if there is none.
UpdateKind KindOf(const std::string& op) {
  static const auto* kinds = new std::unordered_map<std::string, UpdateKind>{
      {"Add", UpdateKind::kAdd},       {"AddV2", UpdateKind::kAdd},   {"Sub", UpdateKind::kSub},
      {"Mul", UpdateKind::kMul},       {"RealDiv", UpdateKind::kDiv}, {"Div", UpdateKind::kDiv},
      {"Square", UpdateKind::kSquare}, {"Sqrt", UpdateKind::kSqrt},   {"Rsqrt", UpdateKind::kRsqrt},
      {"Neg", UpdateKind::kNeg},
  };
  const auto found = kinds->find(op);
  return found == kinds->end() ? UpdateKind::kStore : found->second;
}

}  // namespace

UpdateExpressions::UpdateExpressions(const PassState& state, const FusionSite& site)
    : state_(state), site_(site), view_(state.view()), waiting_(view_.size()) {
  for (int id = 0; id < view_.size(); ++id) {
    VisitControlInputs(view_, id, [&](int, int producer) { waiting_[producer].push_back(id); });
  }
}

bool UpdateExpressions::IsFromLow(int id) const {
  return view_.node(id).op() == "Cast" && view_.num_fanin(id) == 1 &&
         view_.dtype(OutputPort{id, 0}) == tensorflow::DT_FLOAT &&
         IsLowType(view_.dtype(view_.fanin(id)[0]));
}

PartialTensorShape UpdateExpressions::Shape(const OutputPort& tensor) const {
  return site_.Shape(view_.LookThrough(
      tensor, [this](int id) { return view_.IsInserted(id) && view_.num_fanin(id) == 1; }));
}

bool UpdateExpressions::MayTake(int id) const {
  const std::string& op = view_.node(id).op();
  if (!site_.MayChange(id) || state_.preserved.count(view_.node(id).name()) != 0) return false;
  if (IsFromLow(id)) return true;
  const bool is_sum = IsSum(op) && view_.num_fanin(id) <= kMostTerms;
  if (!is_sum && !IsCopy(op) && KindOf(op) == UpdateKind::kStore) return false;
  if (view_.dtype(OutputPort{id, 0}) != tensorflow::DT_FLOAT) return false;
  if (view_.num_fanin(id) == 1) return true;
  const PartialTensorShape shape = Shape({id, 0});
  if (!shape.IsFullyDefined()) return false;
  const auto inputs = view_.fanin(id);
  return std::all_of(inputs.begin(), inputs.end(), [&](const OutputPort& input) {
    const PartialTensorShape of_input = Shape(input);
    return of_input.dims() == 0 || of_input.IsIdenticalTo(shape);
  });
}

std::set<int> UpdateExpressions::Behind(const std::vector<OutputPort>& values) const {
  std::set<int> found;
  std::vector<OutputPort> open = values;
  while (!open.empty()) {
    const OutputPort tensor = open.back();
    open.pop_back();
    if (found.count(tensor.node) != 0 || Shape(tensor).dims() == 0 || !MayTake(tensor.node)) {
      continue;
    }
    found.insert(tensor.node);
    if (IsFromLow(tensor.node)) continue;
    const auto inputs = view_.fanin(tensor.node);
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return found;
}

bool UpdateExpressions::IsReadOnlyBy(int id, const std::function<bool(int)>& inside) const {
  const std::string& name = view_.node(id).name();
  if (state_.context.fetched.count(name) != 0 || state_.context.fed.count(name) != 0) return false;
  const auto uses = view_.fanout(id);
  return std::all_of(uses.begin(), uses.end(),
                     [&](const InputPort& use) { return inside(use.node); });
}

bool UpdateExpressions::OnlyServes(int id, const std::function<bool(int)>& inside) const {
  return state_.preserved.count(view_.node(id).name()) == 0 && IsReadOnlyBy(id, inside) &&
         std::all_of(waiting_[id].begin(), waiting_[id].end(), inside);
}

std::set<int> UpdateExpressions::Taken(const std::set<int>& members,
                                       const std::vector<OutputPort>& values) const {
  std::set<int> taken = Behind(values);
  const auto inside = [&](int id) { return taken.count(id) != 0 || members.count(id) != 0; };
  std::vector<int> open(taken.begin(), taken.end());
  while (!open.empty()) {
    const int id = open.back();
    open.pop_back();
    if (taken.count(id) == 0 || OnlyServes(id, inside)) continue;
    taken.erase(id);
    // They serve another reader now.
    for (const OutputPort& input : view_.fanin(id)) open.push_back(input.node);
    VisitControlInputs(view_, id, [&](int, int producer) { open.push_back(producer); });
  }
  return taken;
}

bool UpdateExpressions::Reaches(const std::set<int>& members, const std::set<int>& needed,
                                const MadeOne& made_one) const {
  std::set<int> seen = members;
  std::vector<int> open(members.begin(), members.end());
  const auto visit = [&](int id) {
    if (seen.insert(id).second) open.push_back(id);
  };
  while (!open.empty()) {
    const int id = open.back();
    open.pop_back();
    if (members.count(id) == 0 && needed.count(id) != 0) return true;
    for (const InputPort& use : view_.fanout(id)) visit(use.node);
    for (int waiting : waiting_[id]) visit(waiting);
    const auto others = made_one.find(id);
    if (others == made_one.end()) continue;
    for (int other : others->second) visit(other);
  }
  return false;
}

int UpdateExpressions::Write(const OutputPort& value, const std::set<int>& taken,
                             const StepOfRead& step_of_read, std::map<int, int>* steps,
                             UpdateBuilder* builder) const {
  const int id = value.node;
  const auto known = steps->find(id);
  if (known != steps->end()) return known->second;
  const auto write = [&](const OutputPort& input) {
    return Write(input, taken, step_of_read, steps, builder);
  };
  int step = step_of_read(id);
  if (step >= 0) return step;
  const bool is_taken = taken.count(id) != 0;
  if (!is_taken && Shape(value).dims() == 0) return builder->Scalar(value);
  if (IsFromLow(id)) {
    step = builder->Tensor(view_.fanin(id)[0]);
  } else if (!is_taken) {
    return builder->Tensor(value);
  } else {
    const std::string& op = view_.node(id).op();
    const auto inputs = view_.fanin(id);
    step = write(inputs[0]);
    if (IsSum(op)) {
      for (size_t k = 1; k < inputs.size(); ++k) step = builder->Add(step, write(inputs[k]));
    } else if (inputs.size() == 2) {
      const int second = write(inputs[1]);
      step = builder->Of(KindOf(op), step, second);
    } else if (!IsCopy(op)) {
      step = builder->Of(KindOf(op), step);
    }
  }
  (*steps)[id] = step;
  return step;
}

}  // namespace npu_precision
