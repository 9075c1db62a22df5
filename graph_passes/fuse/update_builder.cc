#include "graph_passes/fuse/update_builder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph_passes/rewrite/cast_nodes.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {

int UpdateBuilder::IndexIn(const OutputPort& tensor, std::vector<OutputPort>* inputs) {
  const auto found = std::find(inputs->begin(), inputs->end(), tensor);
  const int index = static_cast<int>(found - inputs->begin());
  if (found == inputs->end()) inputs->push_back(tensor);
  return index;
}

int UpdateBuilder::Read(UpdateKind kind, const OutputPort& tensor,
                        std::vector<OutputPort>* inputs) {
  const int index = IndexIn(tensor, inputs);
  for (size_t k = 0; k < program_.size(); ++k) {
    if (program_[k].kind == kind && program_[k].a == index) return static_cast<int>(k);
  }
  return Append({kind, index});
}

void UpdateBuilder::Write(const char* op, const std::set<std::string>& controls,
                          tensorflow::NodeDef* node) const {
  node->set_op(op);
  node->clear_input();
  node->clear_attr();
  for (const auto* inputs : {&variables_, &tensors_, &scalars_}) {
    for (const OutputPort& input : *inputs) {
      node->add_input(InputName(view_.node(input.node).name(), input.port));
    }
  }
  for (const std::string& control : controls) node->add_input(control);
  auto& attr = *node->mutable_attr();
  attr["N"].set_i(variables_.size());
  attr["S"].set_i(scalars_.size());
  attr["T"].mutable_list();
  for (const OutputPort& tensor : tensors_) {
    attr["T"].mutable_list()->add_type(view_.dtype(tensor));
  }
  attr["program"].set_s(UpdateText(program_));
}

std::string UpdateBuilder::Text() const {
  std::string text = absl::StrCat(variables_.size(), " ", scalars_.size());
  for (const OutputPort& tensor : tensors_) absl::StrAppend(&text, " ", view_.dtype(tensor));
  return absl::StrCat(text, " ", UpdateText(program_));
}

}  // namespace npu_precision
