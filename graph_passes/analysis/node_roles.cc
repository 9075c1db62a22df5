#include "graph_passes/analysis/node_roles.h"

#include <algorithm>
#include <utility>

#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/types.h"

namespace npu_precision {
namespace {

bool HasFloat(absl::Span<const Port> ports) {
  return std::any_of(ports.begin(), ports.end(), [](const Port& port) {
    return tensorflow::DataTypeIsFloating(tensorflow::BaseType(port.dtype));
  });
}

bool TakesFunction(const std::string&, const tensorflow::OpDef* op_def) {
  if (op_def == nullptr) return false;
  return std::any_of(op_def->attr().begin(), op_def->attr().end(), [](const auto& attr) {
    return attr.type() == "func" || attr.type() == "list(func)";
  });
}

// An op that may be a part of a step: it yields an element for each element, or a norm of all
// gradients, which is the Sum of a Pack of L2Loss.
bool MayServeUpdates(const std::string& op) {
  return IsElementwise(op) || IsControlFlow(op) || op == "Cast" || op == "L2Loss" || op == "Pack";
}

class Roles {
 public:
  Roles(const GraphView& view, const std::set<std::string>& fetched)
      : view_(view),
        fetched_(fetched),
        never_changes_(view, NeverChanges),
        takes_function_(view, TakesFunction),
        reads_shapes_(view, ReadsShapesOnly),
        writes_(view, WritesVariable),
        may_serve_(view, MayServeUpdates),
        sums_(view, "Sum"),
        packs_(view, "Pack") {}

  std::vector<NodeRole> Run() && {
    for (int id = 0; id < view_.size(); ++id) roles_.push_back(OwnRole(id));
    if (!writes_.IsEmpty()) FindUpdates();
    return std::move(roles_);
  }

 private:
  NodeRole OwnRole(int id) const {
    if (writes_.Has(id)) return NodeRole::kUpdatesVariable;
    if (takes_function_.Has(id) || view_.calls_function(id)) return NodeRole::kBookkeeping;
    const bool yields = HasFloat(view_.outputs(id));
    if (reads_shapes_.Has(id) && !yields) return NodeRole::kBookkeeping;
    if (!never_changes_.Has(id)) return NodeRole::kComputes;
    if (!HasFloat(view_.inputs(id))) return NodeRole::kSource;
    return yields ? NodeRole::kComputes : NodeRole::kBookkeeping;
  }

  // From the writes backwards: a node is a part of the step once all its readers are.
  void FindUpdates() {
    std::vector<int> readers(view_.size(), 0);
    for (int id = 0; id < view_.size(); ++id) {
      if (!UsesValues(id)) continue;
      for (const OutputPort& input : view_.fanin(id)) ++readers[input.node];
    }
    std::vector<int> open = writes_.Ids();
    while (!open.empty()) {
      const int id = open.back();
      open.pop_back();
      for (const OutputPort& input : view_.fanin(id)) {
        if (--readers[input.node] > 0 || !MayServe(input.node)) continue;
        roles_[input.node] = NodeRole::kUpdatesVariable;
        open.push_back(input.node);
      }
    }
  }

  // Whether a reader makes a node useful: a test for infinity, or a reader of the shape, does not.
  bool UsesValues(int id) const {
    return view_.op_def(id) == nullptr || never_changes_.Has(id) || view_.calls_function(id) ||
           HasFloat(view_.outputs(id));
  }

  bool MayServe(int id) const {
    if (roles_[id] != NodeRole::kComputes || !HasFloat(view_.outputs(id))) return false;
    if (fetched_.count(view_.node(id).name()) != 0) return false;
    return may_serve_.Has(id) || (sums_.Has(id) && packs_.Has(view_.fanin(id)[0].node));
  }

  const GraphView& view_;
  const std::set<std::string>& fetched_;
  const OpSet never_changes_, takes_function_, reads_shapes_, writes_, may_serve_, sums_, packs_;
  std::vector<NodeRole> roles_;
};

constexpr std::pair<NodeRole, const char*> kNames[] = {
    {NodeRole::kComputes, "computes"},
    {NodeRole::kSource, "source"},
    {NodeRole::kUpdatesVariable, "updates_variable"},
    {NodeRole::kBookkeeping, "bookkeeping"},
};

}  // namespace

const char* NodeRoleName(NodeRole role) { return kNames[static_cast<int>(role)].second; }

NodeRole NodeRoleFromName(const std::string& name) {
  for (const auto& entry : kNames) {
    if (name == entry.second) return entry.first;
  }
  return NodeRole::kComputes;
}

std::vector<NodeRole> NodeRoles(const GraphView& view, const std::set<std::string>& fetched) {
  return Roles(view, fetched).Run();
}

}  // namespace npu_precision
