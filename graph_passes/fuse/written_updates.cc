#include "graph_passes/fuse/written_updates.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/union_find.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::PartialTensorShape;

constexpr char kRead[] = "ReadVariableOp";
constexpr int kUnknown = kNoUpdate - 1;

// Whether the op writes single rows, as the update of an embedding does. Its inputs are the handle,
// the rows' numbers, and the rows.
bool WritesRows(const std::string& op) { return absl::StartsWith(op, "ResourceScatter"); }

bool Writes(const std::string& op) { return Assigns(op) || WritesRows(op); }

class Finder {
 public:
  Finder(const GraphView& view, const FusionSite& site, const UpdateExpressions& expressions)
      : view_(view), site_(site), expressions_(expressions), reads_(view, kRead) {}

  std::vector<WrittenUpdate> Find() {
    std::map<std::pair<int, int>, std::vector<int>> writers;  // by handle
    for (int id : OpSet(view_, Writes).Ids()) {
      if (view_.num_fanin(id) != (Assigns(view_.node(id).op()) ? 2 : 3)) continue;
      const OutputPort handle = view_.fanin(id)[0];
      writers[{handle.node, handle.port}].push_back(id);
    }
    for (auto& each : writers) {
      if (SortByTime(&each.second)) Add(each.second);
    }
    for (size_t k = 0; k < found_.size(); ++k) FindReads(static_cast<int>(k));
    return InOrder();
  }

 private:
  OutputPort ValueOf(int id) const { return view_.fanin(id)[view_.num_fanin(id) - 1]; }

  bool WaitsFor(int id, int other) const {
    bool waits = false;
    VisitControlInputs(view_, id, [&](int, int producer) { waits |= producer == other; });
    return waits;
  }

  // Whether the update, or an op of its value, or a read for that, waits for the other. TensorFlow
  // drops a dependency that follows from another.
  bool IsAfter(int id, int other) const {
    if (WaitsFor(id, other)) return true;
    const OutputPort value = ValueOf(id);
    const auto waits = [&](int each) { return WaitsFor(each, other); };
    const std::set<int> behind = expressions_.Behind({value}), reads = ReadsBehind(value);
    return std::any_of(behind.begin(), behind.end(), waits) ||
           std::any_of(reads.begin(), reads.end(), waits);
  }

  // Whether each is after the one before; and in this order then.
  bool SortByTime(std::vector<int>* writers) const {
    if (writers->size() == 1) return true;
    const auto before = [this](int a, int b) { return IsAfter(b, a); };
    for (size_t k = 0; k < writers->size(); ++k) {
      // The first of the rest waits for no other of them.
      const auto first = std::find_if(writers->begin() + k, writers->end(), [&](int id) {
        return std::none_of(writers->begin() + k, writers->end(),
                            [&](int other) { return before(other, id); });
      });
      if (first == writers->end()) return false;
      std::iter_swap(writers->begin() + k, first);
      if (k > 0 && !before((*writers)[k - 1], (*writers)[k])) return false;
    }
    return true;
  }

  // Adds the updates of one handle, if they are all that writes it.
  void Add(const std::vector<int>& writers) {
    std::vector<WrittenUpdate> chain;
    for (int id : writers) {
      WrittenUpdate update;
      if (!IsUpdate(id, &update)) return;
      const int number = static_cast<int>(found_.size() + chain.size());
      if (!chain.empty()) {
        update.previous = number - 1;
        update.after.push_back(number - 1);
      }
      number_of_[id] = number;
      chain.push_back(std::move(update));
    }
    found_.insert(found_.end(), chain.begin(), chain.end());
  }

  bool IsUpdate(int id, WrittenUpdate* update) const {
    update->node = id;
    update->is_whole = Assigns(view_.node(id).op());
    update->handle = view_.fanin(id)[0];
    update->value = ValueOf(id);
    PartialTensorShape shape;  // unknown
    if (update->is_whole) {
      if (!site_.MayChange(id) || view_.dtype(update->value) != tensorflow::DT_FLOAT) return false;
      shape = expressions_.Shape(update->value);
      if (!shape.IsFullyDefined() || shape.dims() == 0) return false;
    }
    const auto uses = view_.fanout(update->handle);
    return std::all_of(uses.begin(), uses.end(), [&](const InputPort& use) {
      const std::string& op = view_.node(use.node).op();
      if (reads_.Has(use.node)) return expressions_.Shape({use.node, 0}).IsCompatibleWith(shape);
      return OnlyReadsHandle(op) || Writes(op);
    });
  }

  // The number of the update whose result the read yields; kUnknown if no edge tells.
  int After(int read) const {
    const OutputPort handle = view_.fanin(read)[0];
    int after = kUnknown;
    VisitControlInputs(view_, read, [&](int, int producer) {
      const auto writer = number_of_.find(producer);
      if (writer != number_of_.end() && writer->second < static_cast<int>(found_.size()) &&
          found_[writer->second].handle == handle) {
        after = std::max(after, writer->second);  // those of one handle are in their order
      }
    });
    return after;
  }

  // Whether the read is before all updates of its handle: the first waits for it, or needs it.
  bool IsBeforeAll(int read, int number) const {
    while (found_[number].previous != kNoUpdate) number = found_[number].previous;
    return found_[number].handle == view_.fanin(read)[0] &&
           (WaitsFor(found_[number].node, read) ||
            ReadsBehind(found_[number].value).count(read) != 0);
  }

  std::set<int> ReadsBehind(const OutputPort& value) const {
    std::set<int> reads;
    if (reads_.Has(value.node)) reads.insert(value.node);
    for (int id : expressions_.Behind({value})) {
      for (const OutputPort& input : view_.fanin(id)) {
        if (reads_.Has(input.node)) reads.insert(input.node);
      }
    }
    return reads;
  }

  void FindReads(int number) {
    WrittenUpdate& update = found_[number];
    if (!update.is_whole) return;
    for (int read : ReadsBehind(update.value)) {
      const int after = After(read);
      if (after != kUnknown) {
        update.reads.push_back({read, after});
        update.after.push_back(after);
      } else if (IsBeforeAll(read, number)) {
        update.reads.push_back({read, kNoUpdate});
      }
    }
  }

  std::vector<WrittenUpdate> InOrder() const {
    std::vector<int> place(found_.size(), -1);
    std::vector<WrittenUpdate> sorted;
    for (size_t k = 0; k < found_.size(); ++k) Place(static_cast<int>(k), &place, &sorted);
    for (WrittenUpdate& update : sorted) {
      for (int& number : update.after) number = place[number];
      for (WrittenUpdate::Read& read : update.reads) {
        if (read.after != kNoUpdate) read.after = place[read.after];
      }
      if (update.previous != kNoUpdate) update.previous = place[update.previous];
    }
    return sorted;
  }

  // The graph has no cycles, so neither have these.
  void Place(int number, std::vector<int>* place, std::vector<WrittenUpdate>* sorted) const {
    if ((*place)[number] >= 0) return;
    for (int earlier : found_[number].after) Place(earlier, place, sorted);
    (*place)[number] = static_cast<int>(sorted->size());
    sorted->push_back(found_[number]);
  }

  const GraphView& view_;
  const FusionSite& site_;
  const UpdateExpressions& expressions_;
  const OpSet reads_;
  std::vector<WrittenUpdate> found_;
  std::map<int, int> number_of_;  // by node id
};

}  // namespace

bool Assigns(const std::string& op) {
  return op == "AssignVariableOp" || op == "AssignAddVariableOp" || op == "AssignSubVariableOp";
}

std::vector<WrittenUpdate> FindWrittenUpdates(const GraphView& view, const FusionSite& site,
                                              const UpdateExpressions& expressions) {
  return Finder(view, site, expressions).Find();
}

std::vector<std::vector<int>> GroupsOf(const std::vector<WrittenUpdate>& updates) {
  UnionFind joined(updates.size());
  for (size_t k = 0; k < updates.size(); ++k) {
    for (int earlier : updates[k].after) {
      if (updates[k].is_whole && updates[earlier].is_whole) {
        joined.Join(static_cast<int>(k), earlier);
      }
    }
  }
  std::map<int, std::vector<int>> groups;
  for (size_t k = 0; k < updates.size(); ++k) {
    groups[joined.Find(static_cast<int>(k))].push_back(static_cast<int>(k));
  }
  std::vector<std::vector<int>> all;
  for (auto& group : groups) all.push_back(std::move(group.second));
  return all;
}

}  // namespace npu_precision
