#include "cc/update_plan.h"

#include <array>
#include <utility>

namespace npu_precision {
namespace {

PassKind KindOf(UpdateKind kind) {
  switch (kind) {
    case UpdateKind::kVariable:
      return PassKind::kLoadVariable;
    case UpdateKind::kTensor:
      return PassKind::kLoadTensor;
    case UpdateKind::kScalar:
      return PassKind::kLoadScalar;
    case UpdateKind::kOne:
      return PassKind::kOne;
    case UpdateKind::kAdd:
      return PassKind::kAdd;
    case UpdateKind::kSub:
      return PassKind::kSub;
    case UpdateKind::kMul:
      return PassKind::kMul;
    case UpdateKind::kDiv:
      return PassKind::kDiv;
    case UpdateKind::kSquare:
      return PassKind::kSquare;
    case UpdateKind::kSqrt:
      return PassKind::kSqrt;
    case UpdateKind::kRsqrt:
      return PassKind::kRsqrt;
    case UpdateKind::kNeg:
      return PassKind::kNeg;
    case UpdateKind::kStore:
      break;
  }
  return PassKind::kStore;
}

// The values that a pass reads; those behind the last are kNowhere.
using Values = std::array<int, 4>;

Values ReadBy(const UpdatePass& pass) {
  switch (pass.kind) {
    case PassKind::kLoadVariable:
    case PassKind::kLoadTensor:
    case PassKind::kLoadScalar:
    case PassKind::kOne:
      return {kNowhere, kNowhere, kNowhere, kNowhere};
    case PassKind::kSquare:
    case PassKind::kSqrt:
    case PassKind::kRsqrt:
    case PassKind::kNeg:
      return {pass.a, kNowhere, kNowhere, kNowhere};
    case PassKind::kStore:
      return {pass.b, kNowhere, kNowhere, kNowhere};
    case PassKind::kMulAdd:
    case PassKind::kMulSub:
    case PassKind::kSubMul:
    case PassKind::kSubDiv:
      return {pass.a, pass.b, pass.c, kNowhere};
    case PassKind::kSqrtAdd:
      return {pass.a, pass.c, kNowhere, kNowhere};
    case PassKind::kMoveBy:
      return {pass.a, pass.b, pass.c, pass.d};
    default:
      return {pass.a, pass.b, kNowhere, kNowhere};
  }
}

bool IsLoad(PassKind kind) {
  return kind == PassKind::kLoadVariable || kind == PassKind::kLoadTensor;
}

class Planner {
 public:
  Planner(const UpdateProgram& program, bool in_place)
      : in_place_(in_place),
        reads_(program.size(), 0),
        is_uniform_(program.size(), false),
        is_stored_(program.size(), false) {
    for (const UpdateStep& step : program) Add(step);
  }

  UpdatePlan Plan() {
    if (in_place_) {
      for (UpdatePass& pass : passes_) TakeTerm(&pass);
      for (UpdatePass& pass : passes_) TakeDifference(&pass);
      FindLastReaders();
      for (UpdatePass& pass : passes_) WriteAtOnce(&pass);
    }
    FindLastReaders();
    for (UpdatePass& pass : passes_) Place(&pass);
    return std::move(plan_);
  }

 private:
  void Add(const UpdateStep& step) {
    const auto number = passes_.size();
    UpdatePass pass = {KindOf(step.kind), step.a, step.b};
    bool is_uniform = !IsLoad(pass.kind) && pass.kind != PassKind::kStore;
    for (int value : ReadBy(pass)) {
      if (value == kNowhere) break;
      ++reads_[value];
      is_uniform = is_uniform && is_uniform_[value];
    }
    if (pass.kind == PassKind::kStore) {
      is_stored_[step.b] = true;
    } else {
      pass.value = static_cast<int>(number);
    }
    is_uniform_[number] = is_uniform;
    passes_.push_back(pass);
  }

  // The pass that yields the value, if it is of this kind, for one reader alone, and for each
  // element.
  UpdatePass* Own(int value, PassKind kind) {
    UpdatePass& pass = passes_[value];
    return pass.kind == kind && reads_[value] == 1 && !is_uniform_[value] ? &pass : nullptr;
  }

  // Joins a sum with a product, quotient or root that it alone reads.
  void TakeTerm(UpdatePass* sum) {
    if (sum->kind == PassKind::kAdd) {
      Take(sum, sum->a, sum->b, PassKind::kMul, PassKind::kMulAdd) ||
          Take(sum, sum->b, sum->a, PassKind::kMul, PassKind::kMulAdd) ||
          Take(sum, sum->a, sum->b, PassKind::kSqrt, PassKind::kSqrtAdd) ||
          Take(sum, sum->b, sum->a, PassKind::kSqrt, PassKind::kSqrtAdd);
    } else if (sum->kind == PassKind::kSub) {
      Take(sum, sum->a, sum->b, PassKind::kMul, PassKind::kMulSub) ||
          Take(sum, sum->b, sum->a, PassKind::kMul, PassKind::kSubMul) ||
          Take(sum, sum->b, sum->a, PassKind::kDiv, PassKind::kSubDiv);
    }
  }

  // Returns false if the term is not of this kind, or others read it.
  bool Take(UpdatePass* sum, int term, int other, PassKind kind, PassKind both) {
    UpdatePass* taken = Own(term, kind);
    if (taken == nullptr) return false;
    *sum = {both, taken->a, taken->b, other, 0, sum->value};
    taken->value = kNowhere;
    return true;
  }

  // Joins a sum with the product of a difference that it alone reads.
  void TakeDifference(UpdatePass* sum) {
    if (sum->kind != PassKind::kMulAdd) return;
    UpdatePass* difference = Own(sum->a, PassKind::kSub);
    if (difference == nullptr) return;
    sum->kind = PassKind::kMoveBy;
    sum->a = difference->a;
    sum->d = difference->b;
    difference->value = kNowhere;
  }

  // Lets the pass that computes what is stored write the variable, if no later one reads what the
  // variable was before.
  void WriteAtOnce(UpdatePass* store) {
    if (store->kind != PassKind::kStore || is_uniform_[store->b]) return;
    UpdatePass& maker = passes_[store->b];
    if (IsLoad(maker.kind) || maker.variable != kNowhere) return;
    for (const UpdatePass& pass : passes_) {
      const bool is_of_before = pass.kind == PassKind::kLoadVariable && pass.a == store->a;
      if (is_of_before && last_[pass.value] > maker.value) return;
      const bool is_other = pass.kind == PassKind::kStore && &pass != store && pass.a == store->a;
      if (is_other) return;
    }
    maker.variable = store->a;
    store->b = kNowhere;
  }

  static bool IsDropped(const UpdatePass& pass) {
    return (pass.kind == PassKind::kStore ? pass.b : pass.value) == kNowhere;
  }

  void FindLastReaders() {
    last_.assign(passes_.size(), kNowhere);
    for (size_t k = 0; k < passes_.size(); ++k) {
      if (IsDropped(passes_[k])) continue;
      for (int value : ReadBy(passes_[k])) {
        if (value != kNowhere) last_[value] = static_cast<int>(k);
      }
    }
  }

  // Gives the pass its memory. What it reads for the last time may be overwritten.
  void Place(UpdatePass* pass) {
    if (IsDropped(*pass)) return;
    const bool is_once = pass->kind != PassKind::kStore && is_uniform_[pass->value];
    if (!is_once && in_place_) {
      const int number = static_cast<int>(pass - passes_.data());
      for (int value : ReadBy(*pass)) {
        if (value == kNowhere) break;
        const int slot = passes_[value].slot;
        if (last_[value] != number || is_uniform_[value] || slot == kNowhere) continue;
        free_.push_back(slot);
        passes_[value].slot = kNowhere;
      }
    }
    // A variable that is stored elsewhere may be overwritten before.
    const bool stays =
        in_place_ && pass->kind == PassKind::kLoadVariable && !is_stored_[pass->value];
    const bool is_there = stays || pass->variable != kNowhere || pass->kind == PassKind::kStore;
    if (!is_there) pass->slot = TakeSlot(is_once);
    (is_once ? plan_.once : plan_.each).push_back(*pass);
  }

  int TakeSlot(bool is_once) {
    if (is_once || free_.empty()) return plan_.slots++;
    const int slot = free_.back();
    free_.pop_back();
    return slot;
  }

  const bool in_place_;
  std::vector<UpdatePass> passes_;  // by step
  std::vector<int> reads_;          // by step: how many read what it yields
  std::vector<bool> is_uniform_;    // by step: it is the same for all elements
  std::vector<bool> is_stored_;     // by step: a variable becomes what it yields
  std::vector<int> last_;           // by step: the last that reads what it yields
  std::vector<int> free_;           // slots
  UpdatePlan plan_;
};

}  // namespace

UpdatePlan PlanUpdate(const UpdateProgram& program, bool in_place) {
  return Planner(program, in_place).Plan();
}

}  // namespace npu_precision
