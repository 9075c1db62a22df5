#include "graph_passes/decide/plan_fused_ops.h"

#include <unordered_map>
#include <unordered_set>

#include "graph_passes/decide/decide_precision.h"
#include "graph_passes/graph/fused_ops.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Status;

enum class FusedForm { kParts, kWholeChanged, kWholeKept };

bool Changed(const Decision& decision) {
  return decision.verdict == Verdict::kLowered || decision.verdict == Verdict::kRaised;
}

// Whether `group` changes with its fused node. Attribute U of a fused batch norm is the dtype of
// the statistics, which stay float32.
bool ChangesWhole(const GraphView& view, const DecideContext& context, int id,
                  const TypeGroup& group) {
  return context.Changes(group.dtype) && view.op_def(id)->attr(group.attr).name() != "U";
}

// Whether there is a kernel for the fused node as a whole in the new dtype.
bool HasChangedKernel(const GraphView& view, const DecideContext& context, int id) {
  NodeDef node = view.node(id);
  for (const TypeGroup& group : view.groups(id)) {
    if (!ChangesWhole(view, context, id, group)) continue;
    if (!OpDefAllows(*view.op_def(id), group, context.NewDtype())) return false;
    SetGroupDtype(*view.op_def(id), group, context.NewDtype(), &node);
  }
  return context.support->CanRun(view.node(id), node);
}

// Whether the fused op computes the statistics of a batch norm in its own dtype. They must stay
// float32.
bool LowersStatistics(const NodeDef& node) {
  if (node.op() == "_FusedBatchNormEx") return false;
  for (const std::string& op : OpsOf(node)) {
    if (op == "FusedBatchNormV3") return true;
  }
  return false;
}

class Planner {
 public:
  Planner(const GraphDef& graph, const ConstantValues& values, const DecideContext& context)
      : graph_(graph), values_(values), context_(context) {}

  Status Run(GraphDef* planned, GraphView* view, Decisions* decisions) {
    TF_RETURN_IF_ERROR(GraphView::Build(graph_, &original_));
    std::vector<Expansion> expansions;
    ExpandFusedOps(
        graph_, [this](const NodeDef& node) { return MaySplit(node, context_); }, &expanded_,
        &expansions);
    TF_RETURN_IF_ERROR(GraphView::Build(expanded_, &parts_));
    TF_RETURN_IF_ERROR(DecidePrecision(parts_, values_, context_, &of_parts_));
    for (const RoundedInput& each : of_parts_.rounded_inputs) rounded_.insert(each.input.node);
    for (const RoundedOutput& each : of_parts_.rounded_outputs) rounded_.insert(each.tensor.node);
    for (const Expansion& expansion : expansions) forms_[expansion.fused] = FormOf(expansion);
    for (const Expansion& expansion : expansions) {
      for (const std::string& part : expansion.parts) fused_of_[part] = expansion.fused;
      root_[expansion.fused] = parts_.IndexOf(expansion.parts.front());
    }
    std::vector<Expansion> split;
    ExpandFusedOps(
        graph_,
        [this](const NodeDef& node) {
          const auto form = forms_.find(node.name());
          return form != forms_.end() && form->second == FusedForm::kParts;
        },
        planned, &split);
    TF_RETURN_IF_ERROR(GraphView::Build(*planned, view));
    Carry(*view, decisions);
    return Status();
  }

 private:
  FusedForm FormOf(const Expansion& expansion) const {
    size_t changed = 0;
    for (const std::string& part : expansion.parts) {
      changed += Changed(of_parts_.nodes[parts_.IndexOf(part)]);
    }
    for (const std::string& part : expansion.parts) {
      if (rounded_.count(parts_.IndexOf(part)) != 0) return FusedForm::kParts;
    }
    if (changed == 0) return FusedForm::kWholeKept;
    const int id = original_.IndexOf(expansion.fused);
    const bool whole = changed == expansion.parts.size() && !LowersStatistics(original_.node(id)) &&
                       HasChangedKernel(original_, context_, id);
    return whole ? FusedForm::kWholeChanged : FusedForm::kParts;
  }

  void Carry(const GraphView& view, Decisions* decisions) const {
    decisions->nodes.resize(view.size());
    decisions->warnings = of_parts_.warnings;
    for (RoundedInput each : of_parts_.rounded_inputs) {
      each.input.node = view.IndexOf(parts_.node(each.input.node).name());
      decisions->rounded_inputs.push_back(each);
    }
    for (RoundedOutput each : of_parts_.rounded_outputs) {
      each.tensor.node = view.IndexOf(parts_.node(each.tensor.node).name());
      decisions->rounded_outputs.push_back(each);
    }
    for (int id = 0; id < view.size(); ++id) {
      // The last part of a fused node has its name, and yields its values.
      const int last = parts_.IndexOf(view.node(id).name());
      decisions->ranges.push_back(of_parts_.ranges[last]);
      const auto form = forms_.find(view.node(id).name());
      const bool whole = form != forms_.end() && form->second != FusedForm::kParts;
      const int from = whole ? root_.at(view.node(id).name()) : last;
      decisions->nodes[id] = of_parts_.nodes[from];
      decisions->nodes[id].cause = Cause(view, of_parts_.nodes[from].cause);
      for (int g = 0; g < view.num_groups(id); ++g) {
        tensorflow::DataType dtype = view.groups(id)[g].dtype;
        if (!whole) {
          dtype = of_parts_.group_dtypes[parts_.first_group(from) + g];
        } else if (form->second == FusedForm::kWholeChanged &&
                   ChangesWhole(view, context_, id, view.groups(id)[g])) {
          dtype = context_.NewDtype();
        }
        decisions->group_dtypes.push_back(dtype);
      }
    }
  }

  // The node of the cause in `view`. For a part of a fused node that stays whole, it is the fused
  // node.
  int Cause(const GraphView& view, int cause) const {
    if (cause < 0) return -1;
    const std::string& name = parts_.node(cause).name();
    const int id = view.IndexOf(name);
    if (id >= 0) return id;
    const auto fused = fused_of_.find(name);
    return fused == fused_of_.end() ? -1 : view.IndexOf(fused->second);
  }

  const GraphDef& graph_;
  const ConstantValues& values_;
  const DecideContext& context_;
  GraphDef expanded_;
  GraphView original_, parts_;
  Decisions of_parts_;
  std::unordered_set<int> rounded_;                        // ids in parts_ of nodes with such ports
  std::unordered_map<std::string, FusedForm> forms_;       // by fused name
  std::unordered_map<std::string, std::string> fused_of_;  // by part name
  std::unordered_map<std::string, int> root_;              // by fused name, id in parts_
};

}  // namespace

bool HasFusedOps(const GraphDef& graph) {
  for (const NodeDef& node : graph.node()) {
    if (StandsForSeveral(node)) return true;
  }
  return false;
}

bool MaySplit(const NodeDef& node, const DecideContext& context) {
  return context.fed.count(node.name()) == 0 &&
         (node.op() != "_FusedBatchNormEx" || context.preserved.count(node.name()) == 0);
}

Status PlanFusedOps(const GraphDef& graph, const ConstantValues& values,
                    const DecideContext& context, GraphDef* planned, GraphView* view,
                    Decisions* decisions) {
  return Planner(graph, values, context).Run(planned, view, decisions);
}

}  // namespace npu_precision
