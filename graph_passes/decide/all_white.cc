#include "graph_passes/decide/all_white.h"

#include "graph_passes/decide/loss_region.h"
#include "graph_passes/graph/fused_ops.h"

namespace npu_precision {
namespace {

class AllWhite {
 public:
  AllWhite(const GraphView& view, const DecideContext& context, NodeClasses* classes,
           std::vector<GroupState>* groups, Decisions* decisions)
      : view_(view),
        context_(context),
        classes_(*classes),
        groups_(*groups),
        decisions_(*decisions) {}

  void Run() {
    const std::vector<bool> region = LossRegion(view_, WhiteByDefault());
    for (int group = 0; group < view_.num_groups(); ++group) {
      if (region[group]) RestoreListing(view_.node_of_group(group));
    }
    for (int group = 0; group < view_.num_groups(); ++group) {
      if (region[group]) KeepBlack(group);
    }
    for (int group = 0; group < view_.num_groups(); ++group) Lower(group);
  }

 private:
  // The groups that only all_white lowers, or has lowered in an earlier run.
  std::vector<bool> WhiteByDefault() const {
    std::vector<bool> found(view_.num_groups(), false);
    for (int group = 0; group < view_.num_groups(); ++group) {
      const int id = view_.node_of_group(group);
      const TypeGroup& type = view_.group_numbered(group);
      if (groups_[group].kind != GroupState::kDecided) {
        found[group] = true;
      } else if (type.dtype == context_.NewDtype() && view_.op_def(id) != nullptr) {
        const tensorflow::NodeDef& node = view_.node(id);
        const DeviceKind kind = context_.support->KindOf(node);
        found[group] = context_.lists->OfOp(OpsOf(node).front(), kind).white_by_default;
      }
    }
    return found;
  }

  void RestoreListing(int id) {
    NodeClass& node = classes_.nodes[id];
    if (!node.listing.white_by_default) return;
    const tensorflow::NodeDef& def = view_.node(id);
    node.listing = context_.lists->OfOpInLists(OpsOf(def).front(), context_.support->KindOf(def));
    decisions_.nodes[id].listing = node.listing;
  }

  void KeepBlack(int group) {
    const int id = view_.node_of_group(group);
    const bool is_black = classes_.nodes[id].listing.color == ListColor::kBlack;
    if (!is_black || groups_[group].kind == GroupState::kDecided) return;
    groups_[group] = GroupState::Decided(Vote::kKept);
    decisions_.nodes[id].reason = Reason::kBlackList;
  }

  void Lower(int group) {
    const int id = view_.node_of_group(group);
    const NodeClass& node = classes_.nodes[id];
    GroupState& state = groups_[group];
    if (!node.listing.white_by_default || state.kind == GroupState::kDecided) return;
    Reason& reason = decisions_.nodes[id].reason;
    if (state.kind == GroupState::kFollows) {
      state = GroupState::Decided(Vote::kLowered);
      reason = Reason::kWhiteList;
      decisions_.nodes[id].cause = -1;  // it belonged to a rule that kept another group
      return;
    }
    const bool is_neutral = node.fixed == Reason::kNeutralSource;
    state = GroupState::Decided(is_neutral ? Vote::kUnknown : Vote::kKept);
    if (reason == Reason::kNone) reason = node.fixed;
  }

  const GraphView& view_;
  const DecideContext& context_;
  NodeClasses& classes_;
  std::vector<GroupState>& groups_;
  Decisions& decisions_;
};

}  // namespace

void DecideAllWhite(const GraphView& view, const DecideContext& context, NodeClasses* classes,
                    std::vector<GroupState>* groups, Decisions* decisions) {
  AllWhite(view, context, classes, groups, decisions).Run();
}

}  // namespace npu_precision
