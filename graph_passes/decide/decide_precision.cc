#include "graph_passes/decide/decide_precision.h"

#include "graph_passes/decide/rule_table.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

Decisions KeepingAllDtypes(const GraphView& view) {
  Decisions decisions;
  decisions.nodes.resize(view.size());
  for (int id = 0; id < view.size(); ++id) {
    for (const TypeGroup& group : view.groups(id)) decisions.group_dtypes.push_back(group.dtype);
  }
  return decisions;
}

}  // namespace

tensorflow::Status DecidePrecision(const GraphView& view, const ConstantValues& values,
                                   const DecideContext& context, Decisions* decisions) {
  *decisions = KeepingAllDtypes(view);
  DecideState state(view, values, context, decisions);
  for (const DecideRule& rule : DecideRules()) {
    if (rule.when(state)) TF_RETURN_IF_ERROR(rule.run(&state));
  }
  return tensorflow::Status();
}

}  // namespace npu_precision
