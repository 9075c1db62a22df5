// Finds the list of each node from the target's built-in lists and the user's edits.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_OP_LISTS_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_OP_LISTS_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "graph_passes/lists/mixlist.h"
#include "graph_passes/lists/ops_info.h"

namespace npu_precision {

// The device types with lists of their own on the host. Others use the common lists.
enum class DeviceKind : unsigned char { kOther, kCpu, kGpu };

// Whether the mixlist says which list a node is on.
enum class Edited : unsigned char { kNo, kByOpType, kByName };

struct Listing {
  ListColor color = ListColor::kUnlisted;
  // The source of the color, as the ledger shows it: "built-in", the place of an ops-info or
  // mixlist entry, "all_white", "white_only" or "no file".
  const std::string* listed_by = nullptr;
  // White only because all_white is set and no edit says otherwise.
  bool white_by_default = false;
  Edited edited = Edited::kNo;
  // If an ops-info file gives the color: the reason, in the words of the file; otherwise nullptr.
  const std::string* why = nullptr;
};

// Why an entry of gray-list's to-remove has no effect.
constexpr char kStaysGray[] =
    "is gray when it is on no other list, so removing it from gray-list changes nothing; to-add of "
    "another list moves it";

class OpLists {
 public:
  OpLists() = default;
  // `computes` are the dtypes that the target computes in, whatever the op.
  explicit OpLists(const FloatDtypes& computes) { unlisted_.otherwise = computes; }

  // Whether gray nodes without a vote follow their consumers, as TargetFacts says of the target.
  void set_follows_consumers(bool follows) { follows_consumers_ = follows; }
  bool follows_consumers() const { return follows_consumers_; }

  // Later calls replace the entries of earlier ones, op by op. kOther sets the common lists.
  void AddOpsInfo(DeviceKind kind, OpsInfo ops, bool built_in);

  // Applies the edits. `warnings` gets edits without effect: an op removed from a list that it is
  // not on, or from the gray list without being added to another one.
  void Edit(std::vector<MixlistEntry> entries, std::vector<std::string>* warnings);

  // From now on, ops that the target has on its gray or black list are white unless an edit says
  // otherwise.
  void WhitenAll() { all_white_ = true; }
  bool all_white() const { return all_white_; }
  // From now on, ops that the target has on its gray list are black unless an edit says otherwise.
  void BlackenGray() { white_only_ = true; }

  // The list by op type, and the list without WhitenAll() and BlackenGray().
  Listing OfOp(const std::string& op, DeviceKind kind) const;
  Listing OfOpInLists(const std::string& op, DeviceKind kind) const;

  // The list of one node: a node:<RE2> entry beats the op type. `ops` are the op types that the
  // node stands for, several for a fused op. The node is black if any of them is black; otherwise
  // it has the list of the first. Returns an error if patterns contradict each other about this
  // node.
  tensorflow::Status OfNode(const std::string& name, const std::vector<std::string>& ops,
                            DeviceKind kind, Listing* listing) const;

  // Whether the list of a node may depend on its name.
  bool HasNodePatterns() const { return !node_edits_.empty(); }

  // The entry of the target's ops-info. For an op in no file, the entry only has the dtypes that
  // the target computes in.
  const OpInfo& Info(const std::string& op, DeviceKind kind) const;

  // Whether any op may compute in `dtype`, a floating one.
  bool ComputesIn(tensorflow::DataType dtype) const;

  const std::vector<MixlistEntry>& edits() const { return edits_; }

 private:
  struct Source {
    OpsInfo ops;
    bool built_in;
  };
  const OpInfo* Find(const std::string& op, DeviceKind kind, bool* built_in) const;
  // The listing of an op that no edit is about.
  Listing ByDefault(const Listing& listing) const;

  OpInfo unlisted_;
  std::unordered_map<int, std::vector<Source>> sources_;  // by DeviceKind, later wins
  std::vector<MixlistEntry> edits_;
  std::unordered_map<std::string, size_t> edit_of_op_;  // index into edits_ of the deciding entry
  std::vector<size_t> node_edits_;                      // indices of node:<RE2> entries
  bool all_white_ = false;
  bool white_only_ = false;
  bool follows_consumers_ = false;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_OP_LISTS_H_
