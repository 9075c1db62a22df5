#include "graph_passes/decide/magnified_inputs.h"

namespace npu_precision {

MagnifiedInputs::MagnifiedInputs(const GraphView& view, const Magnifiers& magnifiers)
    : view_(view), magnifiers_(magnifiers), chains_(view, "_UnaryOpsComposition") {
  for (int id = 0; id < view.size(); ++id) {
    const std::vector<MagnifiedInput> inputs =
        view.op_def(id) == nullptr ? std::vector<MagnifiedInput>() : Of(id);
    if (!inputs.empty()) nodes_.push_back(id);
    for (const MagnifiedInput& input : inputs) terms_.insert(input.terms);
  }
  nodes_ = InOrderOfNames(view, nodes_);
}

std::vector<MagnifiedInput> MagnifiedInputs::Of(int id) const {
  const tensorflow::NodeDef& node = view_.node(id);
  if (!chains_.Has(id)) return OfOp(node.op());
  const auto names = node.attr().find("op_names");
  std::vector<MagnifiedInput> inputs;
  for (int i = 0; names != node.attr().end() && i < names->second.list().s_size(); ++i) {
    for (MagnifiedInput input : OfOp(names->second.list().s(i))) {
      input.index = 0;
      if (i > 0) input.unless = Unless::kNever;
      inputs.push_back(input);
    }
  }
  return inputs;
}

std::vector<MagnifiedInput> MagnifiedInputs::OfOp(const std::string& op) const {
  const auto found = magnifiers_.find(op);
  return found == magnifiers_.end() ? std::vector<MagnifiedInput>() : found->second;
}

}  // namespace npu_precision
