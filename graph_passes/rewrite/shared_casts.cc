#include "graph_passes/rewrite/shared_casts.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/low_types.h"

namespace npu_precision {

using tensorflow::DataType;
using tensorflow::NodeDef;

SharedCasts::SharedCasts(const DecideContext& context, const std::set<std::string>& varying,
                         ChangedGraph* graph)
    : context_(context),
      graph_(*graph),
      view_(graph->view()),
      carriers_(varying, graph),
      references_(context.fed, graph) {
  for (int id = 0; id < view_.size(); ++id) {
    if (!view_.IsTransparentCast(id)) continue;
    const OutputPort from = view_.fanin(id)[0];
    const DataType dtype = view_.outputs(id)[0].dtype;
    casts_.emplace(Key(from.node, from.port, dtype), view_.node(id).name());
    const bool rounds = dtype == tensorflow::DT_FLOAT && view_.IsTransparentCast(from.node) &&
                        view_.dtype(view_.fanin(from.node)[0]) == dtype;
    if (rounds) AddRounded(view_.node(from.node).name(), view_.node(id).name());
  }
}

void SharedCasts::Add(const OutputPort& tensor, DataType dtype, const std::string& name) {
  casts_[Key(tensor.node, tensor.port, dtype)] = name;
}

std::string SharedCasts::Cast(const OutputPort& tensor, DataType dtype, int consumer) {
  return Converted({dtype, false}, tensor, consumer);
}

std::string SharedCasts::Rounded(const OutputPort& tensor, DataType low_type, int consumer) {
  return Converted({low_type, true}, tensor, consumer);
}

// Follows the tensor out of loops as long as it stays the same, converts it there, and carries the
// result back into each loop.
std::string SharedCasts::Converted(const Conversion& conversion, OutputPort tensor, int consumer) {
  std::vector<OutputPort> inside;  // from the innermost loop outwards
  std::string name;
  for (;;) {
    if (!conversion.rounds) name = WithoutNewNode(conversion.to, &tensor);
    const int enter = name.empty() ? carriers_.EnterOf(tensor) : -1;
    if (enter < 0) break;
    inside.push_back(tensor);
    name = carriers_.Find(conversion, {enter, 0});
    if (!name.empty()) break;
    tensor = view_.fanin(enter)[0];
    consumer = enter;
    const auto rounded = rounded_outputs_.find({tensor.node, tensor.port});
    if (rounded == rounded_outputs_.end() || rounded->second == conversion.to) continue;
    name = RoundingOf(tensor, rounded->second, consumer);
    if (IsLowType(conversion.to)) {
      const std::string& device = view_.node(tensor.node).device();
      name = LowOf(name, conversion.to, device);
      if (conversion.rounds) name = BackToFloat32(name, conversion.to, device);
    }
    break;
  }
  if (name.empty()) {
    name = conversion.rounds ? RoundingOf(tensor, conversion.to, consumer)
                             : CastOf(tensor, conversion.to, consumer);
  }
  for (; !inside.empty(); inside.pop_back()) {
    name = carriers_.Carry(conversion, inside.back(), name);
    if (!conversion.rounds) Add(inside.back(), conversion.to, name);
  }
  return name;
}

// Returns "" if a new node is needed. May replace `tensor` by another tensor to convert.
std::string SharedCasts::WithoutNewNode(DataType wanted, OutputPort* tensor) const {
  if (view_.IsTransparentCast(tensor->node)) {
    const OutputPort source = view_.fanin(tensor->node)[0];
    if (graph_.NewDtype(source) == wanted) *tensor = source;
  }
  const DataType dtype = graph_.NewDtype(*tensor);
  if (dtype == wanted) return graph_.InputName(*tensor);
  const NodeDef& producer = view_.node(tensor->node);
  if (producer.op() == "Cast" && context_.fed.count(producer.name()) == 0 &&
      !HasControlInputs(view_, tensor->node)) {
    // Undoing a widening is exact: read the tensor before it.
    const OutputPort source = view_.fanin(tensor->node)[0];
    if (graph_.NewDtype(source) == wanted && IsLowType(wanted)) return graph_.InputName(source);
  }
  if (carriers_.EnterOf(*tensor) < 0) return "";
  const auto found = casts_.find(Key(tensor->node, tensor->port, wanted));
  return found == casts_.end() ? "" : found->second;
}

std::string SharedCasts::CastOf(const OutputPort& tensor, DataType dtype, int consumer) {
  const CastSource source = references_.SourceOf(tensor, consumer);
  if (!source.is_shared) {
    const std::string own = graph_.UniqueName(
        absl::StrCat(view_.node(consumer).name(), "/npu_cast_ref_", DtypeName(dtype)));
    AddCast(own, source, dtype);
    return own;
  }
  std::string& name = casts_[Key(tensor.node, tensor.port, dtype)];
  if (name.empty()) {
    name = graph_.CastName(tensor, dtype);
    AddCast(name, source, dtype);
  }
  return name;
}

void SharedCasts::AddCast(const std::string& name, const CastSource& source, DataType dtype) {
  NodeDef* cast =
      graph_.AddCast(name, graph_.InputName(source.tensor), graph_.NewDtype(source.tensor), dtype,
                     view_.node(source.tensor.node).device());
  for (const std::string& input : source.control_inputs) cast->add_input(input);
}

std::string SharedCasts::RoundingOf(const OutputPort& tensor, DataType low_type, int consumer) {
  if (graph_.NewDtype(tensor) == low_type) return Cast(tensor, tensorflow::DT_FLOAT, consumer);
  return BackToFloat32(Cast(tensor, low_type, consumer), low_type,
                       view_.node(tensor.node).device());
}

std::string SharedCasts::BackToFloat32(const std::string& low, DataType low_type,
                                       const std::string& device) {
  std::string& rounded = rounded_[low];
  if (rounded.empty()) {
    rounded = graph_.UniqueName(absl::StrCat(absl::StrReplaceAll(low, {{":", "_"}}), "/npu_cast_0_",
                                             DtypeName(tensorflow::DT_FLOAT)));
    graph_.AddCast(rounded, low, low_type, tensorflow::DT_FLOAT, device);
  }
  return rounded;
}

std::string SharedCasts::LowOf(const std::string& rounded, DataType low_type,
                               const std::string& device) {
  std::string& low = low_of_rounded_[{rounded, low_type}];
  if (low.empty()) {
    low = graph_.UniqueName(absl::StrCat(absl::StrReplaceAll(rounded, {{":", "_"}}), "/npu_cast_0_",
                                         DtypeName(low_type)));
    graph_.AddCast(low, rounded, tensorflow::DT_FLOAT, low_type, device);
  }
  return low;
}

}  // namespace npu_precision
