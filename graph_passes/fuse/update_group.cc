#include "graph_passes/fuse/update_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/control_inputs.h"

namespace npu_precision {
namespace {

std::string Control(const GraphView& view, int id) {
  return absl::StrCat("^", view.node(id).name());
}

}  // namespace

std::set<std::string> ControlsOf(const GraphView& view, const std::set<int>& members,
                                 const std::set<int>& gone) {
  std::set<std::string> controls;
  for (const auto* nodes : {&members, &gone}) {
    for (int id : *nodes) AddControlInputs(view.node(id), &controls);
  }
  for (const auto* nodes : {&members, &gone}) {
    for (int id : *nodes) controls.erase(Control(view, id));
  }
  return controls;
}

UpdateGroup::UpdateGroup(const GraphView& view, const UpdateExpressions& expressions,
                         const std::vector<WrittenUpdate>& updates, const std::vector<int>& group)
    : view_(view), expressions_(expressions), updates_(updates), group_(group), builder_(view) {
  for (int number : group_) members_.insert(updates_[number].node);
}

bool UpdateGroup::Fuse(const UpdateExpressions::MadeOne& made_one) {
  std::vector<OutputPort> values;
  for (int number : group_) values.push_back(updates_[number].value);
  taken_ = expressions_.Taken(members_, values);
  FindReads();
  if (taken_.empty() && !SparesCopies()) return false;
  if (!WriteProgram()) return false;
  FindGone();
  FindControls();
  return !NeedsItself(made_one);
}

// Finds the reads whose values the program has: what a member stores, or what a variable holds just
// before the first member that writes it, or after its last update. Other reads are inputs.
void UpdateGroup::FindReads() {
  for (int number : group_) {
    for (const WrittenUpdate::Read& read : updates_[number].reads) {
      if (std::count(group_.begin(), group_.end(), read.after) != 0) {
        reads_[read.node] = read.after;
        continue;
      }
      const OutputPort handle = view_.fanin(read.node)[0];
      const auto comes_next = [&](const WrittenUpdate& update) {
        return update.handle == handle && update.previous == read.after;
      };
      const auto next = std::find_if(updates_.begin(), updates_.end(), comes_next);
      const bool is_last = next == updates_.end() && HasElements(read.node);
      const int number_of_next = static_cast<int>(next - updates_.begin());
      if (is_last || std::count(group_.begin(), group_.end(), number_of_next) != 0) {
        reads_[read.node] = kNoUpdate;
      }
    }
  }
}

// Whether the read yields a float32 for each element, as the program's variables must; not one
// number for all.
bool UpdateGroup::HasElements(int read) const {
  const OutputPort value = {read, 0};
  return view_.dtype(value) == tensorflow::DT_FLOAT && expressions_.Shape(value).dims() > 0;
}

// Whether a read vanishes that would copy the whole variable.
bool UpdateGroup::SparesCopies() const {
  return std::any_of(reads_.begin(), reads_.end(), [this](const auto& read) {
    const OutputPort handle = view_.fanin(read.first)[0];
    return std::any_of(updates_.begin(), updates_.end(), [&](const WrittenUpdate& update) {
      return !update.is_whole && update.handle == handle;
    });
  });
}

bool UpdateGroup::IsRelative(const WrittenUpdate& update) const {
  return view_.node(update.node).op() != "AssignVariableOp";
}

// Whether the update waits for a read of the variable, which so has a value.
bool UpdateGroup::Exists(const WrittenUpdate& update) const {
  bool exists = false;
  VisitControlInputs(view_, update.node, [&](int, int producer) {
    exists |=
        view_.node(producer).op() == "ReadVariableOp" && view_.fanin(producer)[0] == update.handle;
  });
  return exists;
}

bool UpdateGroup::WriteProgram() {
  std::map<std::pair<int, int>, int> now;  // by handle: the step of its value
  for (int number : group_) {
    const WrittenUpdate& update = updates_[number];
    const std::pair<int, int> handle = {update.handle.node, update.handle.port};
    const bool is_read = std::any_of(reads_.begin(), reads_.end(), [&](const auto& read) {
      return read.second == kNoUpdate && view_.fanin(read.first)[0] == update.handle;
    });
    if (now.count(handle) != 0) continue;
    if (is_read || IsRelative(update)) {
      now[handle] = builder_.Variable(update.handle);
    } else if (!Exists(update)) {
      return false;
    }
  }
  std::map<int, int> steps;
  const auto step_of_read = [&](int id) {
    const auto read = reads_.find(id);
    if (read == reads_.end()) return -1;
    if (read->second != kNoUpdate) return stored_.at(read->second);
    return builder_.Variable(view_.fanin(id)[0]);
  };
  for (int number : group_) {
    const WrittenUpdate& update = updates_[number];
    int& value = now[{update.handle.node, update.handle.port}];
    const int step = expressions_.Write(update.value, taken_, step_of_read, &steps, &builder_);
    if (!IsRelative(update)) {
      value = step;
    } else {
      const bool adds = view_.node(update.node).op() == "AssignAddVariableOp";
      value = adds ? builder_.Add(value, step) : builder_.Sub(value, step);
    }
    stored_[number] = value;
  }
  for (size_t k = 0; k < group_.size(); ++k) {
    const OutputPort handle = updates_[group_[k]].handle;
    const bool is_last = std::none_of(group_.begin() + k + 1, group_.end(),
                                      [&](int later) { return updates_[later].handle == handle; });
    if (is_last) builder_.Store(handle, stored_[group_[k]]);
  }
  return true;
}

void UpdateGroup::FindGone() {
  gone_ = taken_;
  const auto inside = [this](int id) { return gone_.count(id) != 0 || members_.count(id) != 0; };
  for (const auto& read : reads_) {
    if (expressions_.OnlyServes(read.first, inside)) {
      gone_.insert(read.first);
    } else if (expressions_.IsReadOnlyBy(read.first, inside)) {
      unread_.insert(read.first);
    }
  }
}

// A read that stays and is before the update must stay before it; one that is after it waits for a
// member, which waits for the update op.
void UpdateGroup::FindControls() {
  controls_ = ControlsOf(view_, members_, gone_);
  for (const auto& read : reads_) {
    if (gone_.count(read.first) != 0) continue;
    if (read.second == kNoUpdate) {
      controls_.insert(Control(view_, read.first));
    } else {
      controls_.erase(Control(view_, read.first));
    }
  }
}

bool UpdateGroup::NeedsItself(const UpdateExpressions::MadeOne& made_one) const {
  if (members_.size() == 1) return false;
  std::set<int> needed;
  for (const auto* inputs : {&builder_.tensors(), &builder_.scalars()}) {
    for (const OutputPort& input : *inputs) needed.insert(input.node);
  }
  for (const std::string& control : controls_) {
    needed.insert(view_.IndexOf(absl::string_view(control).substr(1)));
  }
  return expressions_.Reaches(members_, needed, made_one);
}

}  // namespace npu_precision
