#include "graph_passes/graph/registered_ops.h"

#include <algorithm>

#include "tensorflow/core/framework/op.h"

namespace npu_precision {

const tensorflow::OpDef* RegisteredOp(const std::string& name) {
  const tensorflow::OpDef* op_def = nullptr;
  return tensorflow::OpRegistry::Global()->LookUpOpDef(name, &op_def).ok() ? op_def : nullptr;
}

std::vector<std::string> RegisteredOpNames() {
  std::vector<tensorflow::OpDef> ops;
  tensorflow::OpRegistry::Global()->GetRegisteredOps(&ops);
  std::vector<std::string> names;
  for (const tensorflow::OpDef& op : ops) names.push_back(op.name());
  // The order in the registry differs between processes.
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace npu_precision
