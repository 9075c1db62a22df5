#include "graph_passes/decide/compute_dtypes.h"

#include <algorithm>

#include "graph_passes/analysis/handles.h"
#include "graph_passes/decide/lowered_groups.h"
#include "graph_passes/decide/shared_dtypes.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

using tensorflow::DT_BFLOAT16;

bool ReadsUnrounded(const std::string& op) { return IsElementwise(op) || ReadsShapesOnly(op); }

bool ComputesInFloat32(const DecideContext& context, const tensorflow::NodeDef& node,
                       tensorflow::DataType low_type) {
  if (low_type == DT_BFLOAT16) {
    return context.float16_compute != Float16Compute::kNative &&
           context.support->TruncatesBfloat16(node);
  }
  switch (context.float16_compute) {
    case Float16Compute::kNative:
      return false;
    case Float16Compute::kFloat32:
      return true;
    case Float16Compute::kAuto:
      break;
  }
  return !context.support->HasFastFloat16(node);
}

class Decider {
 public:
  Decider(const GraphView& view, const DecideContext& context)
      : view_(view),
        context_(context),
        selects_(view, SelectsValues),
        reads_unrounded_(view, ReadsUnrounded) {}

  ComputeDtypes Run() {
    FindGroups();
    if (std::find(found_.in_float32.begin(), found_.in_float32.end(), true) ==
        found_.in_float32.end()) {
      return found_;
    }
    FindStored();
    FindExact();
    for (int id = 0; id < view_.size(); ++id) {
      found_.read_unrounded.push_back(found_.is_exact[id] || !is_stored_[id]);
    }
    return found_;
  }

 private:
  void FindGroups() {
    std::vector<bool> lowered = LoweredGroups(view_);
    for (int g = 0; g < view_.num_groups(); ++g) {
      lowered[g] = lowered[g] && IsLowType(view_.group_numbered(g).dtype);
    }
    found_.in_float32 = lowered;
    const std::vector<int> leaders = ClassLeaders(view_, lowered, FindHandles(view_, {}, {}));
    std::vector<bool> stays(view_.num_groups(), false);
    for (int g = 0; g < view_.num_groups(); ++g) {
      const tensorflow::DataType dtype = view_.group_numbered(g).dtype;
      if (!IsLowType(dtype)) continue;
      const tensorflow::NodeDef& node = view_.node(view_.node_of_group(g));
      if (!lowered[g] || !ComputesInFloat32(context_, node, dtype)) stays[leaders[g]] = true;
    }
    for (int g = 0; g < view_.num_groups(); ++g) {
      if (stays[leaders[g]]) found_.in_float32[g] = false;
    }
  }

  bool IsInFloat32(int group) const { return group != kNoGroup && found_.in_float32[group]; }

  // A tensor is stored, and so rounded, unless all its readers compute in float32 elementwise.
  void FindStored() {
    is_stored_.assign(view_.size(), false);
    for (int id = 0; id < view_.size(); ++id) {
      for (const InputPort& use : view_.fanout(id)) {
        const bool is_fused = reads_unrounded_.Has(use.node) && IsInFloat32(view_.GroupOf(use));
        if (!is_fused) is_stored_[id] = true;
      }
    }
  }

  // Starts with all ops that select values as exact, because of loops, and then propagates from ops
  // that are not exact to their consumers.
  void FindExact() {
    std::vector<int> not_exact;
    for (int id = 0; id < view_.size(); ++id) {
      found_.is_exact.push_back(view_.op_def(id) != nullptr && selects_.Has(id));
      if (!found_.is_exact[id]) not_exact.push_back(id);
    }
    for (size_t i = 0; i < not_exact.size(); ++i) {
      const int id = not_exact[i];
      if (is_stored_[id] || !YieldsFloat32(id)) continue;  // its readers read rounded values
      for (const InputPort& use : view_.fanout(id)) {
        if (!found_.is_exact[use.node] || !IsInFloat32(view_.GroupOf(use))) continue;
        found_.is_exact[use.node] = false;
        not_exact.push_back(use.node);
      }
    }
  }

  bool YieldsFloat32(int id) const {
    for (int port = 0; port < view_.num_outputs(id); ++port) {
      if (IsInFloat32(view_.GroupOf(OutputPort{id, port}))) return true;
    }
    return false;
  }

  const GraphView& view_;
  const DecideContext& context_;
  const OpSet selects_, reads_unrounded_;
  std::vector<bool> is_stored_;  // by node id
  ComputeDtypes found_;
};

}  // namespace

ComputeDtypes DecideComputeDtypes(const GraphView& view, const DecideContext& context) {
  return Decider(view, context).Run();
}

}  // namespace npu_precision
