#include "graph_passes/fuse/fusion_site.h"

#include <cmath>

#include "graph_passes/analysis/waiting_constants.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/fused_ops.h"
#include "graph_passes/graph/int_values.h"
#include "graph_passes/graph/marks.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;
using tensorflow::TensorProto;

// A frozen variable is an Identity of a constant, and inlined functions add more.
constexpr int kMostCopies = 8;

}  // namespace

FusionSite::FusionSite(const PassState& state, Devices devices)
    : state_(state),
      view_(state.view()),
      devices_(state.is_named ? Devices::kCpusAndGpus : devices),
      is_control_producer_(ControlProducers(state.view())) {
  for (int id = 0; id < view_.size(); ++id) {
    for (std::string& name : ColocatedWith(view_.node(id))) {
      if (name != view_.node(id).name()) colocated_with_.insert(std::move(name));
    }
  }
}

bool FusionSite::MayChange(int id) const {
  const NodeDef& node = view_.node(id);
  if (view_.op_def(id) == nullptr || state_.context.fed.count(node.name()) != 0) return false;
  const DeviceKind device = state_.context.support->KindOf(node);
  const bool is_there = device == DeviceKind::kCpu ||
                        (devices_ == Devices::kCpusAndGpus && device == DeviceKind::kGpu);
  return is_there && !IsNamedByUser(node);
}

bool FusionSite::IsPrivate(int id) const {
  const std::string& name = view_.node(id).name();
  return !WaitsForOthers(id) && !is_control_producer_[id] &&
         state_.context.preserved.count(name) == 0 && state_.context.fed.count(name) == 0 &&
         colocated_with_.count(name) == 0;
}

bool FusionSite::MayBecome(int id, const std::string& op) const {
  const NodeDef& node = view_.node(id);
  ListColor before, after;
  return MayChange(id) && !IsNamedAs(node, OpsOf(node), &before) &&
         !IsNamedAs(node, {op}, &after) && before == after;
}

bool FusionSite::MayVanish(int id) const { return IsPrivate(id) && MayChange(id); }

bool FusionSite::WaitsForOthers(int id) const {
  bool waits = false;
  VisitControlInputs(view_, id, [&](int, int producer) {
    waits |= view_.node(producer).op() != "Const" || HasControlInputs(view_, producer);
  });
  return waits;
}

bool FusionSite::IsNamedByUser(const NodeDef& node) const {
  ListColor color;
  return IsNamedAs(node, OpsOf(node), &color);
}

bool FusionSite::IsNamedAs(const NodeDef& node, const std::vector<std::string>& ops,
                           ListColor* color) const {
  const DecideContext& context = state_.context;
  const std::string name = NameInMixlist(node.name());
  if (context.custom_dtypes != nullptr) {
    if (context.custom_dtypes->OfName(name) != nullptr) return true;
    for (const std::string& op : ops) {
      if (context.custom_dtypes->OfOp(op) != nullptr) return true;
    }
  }
  Listing listing;
  // Contradicting patterns are reported when all nodes are decided.
  const DeviceKind device = context.support->KindOf(node);
  const bool found = context.lists->OfNode(name, ops, device, &listing).ok();
  *color = listing.color;
  return !found || listing.edited != Edited::kNo;
}

bool FusionSite::AreAlike(int a, int b) const {
  const NodeDef& one = view_.node(a);
  const NodeDef& other = view_.node(b);
  return one.device() == other.device() && HasKeepDtypeMark(one) == HasKeepDtypeMark(other) &&
         AutocastMark(one) == AutocastMark(other) && ListMark(one) == ListMark(other);
}

void FusionSite::Inherit(int like, NodeDef* node) const {
  const NodeDef& from = view_.node(like);
  node->set_device(from.device());
  if (HasKeepDtypeMark(from)) MarkKeepDtype(node);
  InheritMarks(from, node);
}

const TensorProto* FusionSite::Constant(OutputPort tensor) const {
  for (int step = 0; step < kMostCopies; ++step) {
    const NodeDef& node = view_.node(tensor.node);
    if (state_.context.fed.count(node.name()) != 0) return nullptr;
    if (IsWaitedThrough(tensor.node)) return nullptr;
    if (node.op() == "Const") {
      const tensorflow::AttrValue* value = state_.values.Find(node);
      return value == nullptr ? nullptr : &value->tensor();
    }
    if (node.op() != "Identity" || view_.num_fanin(tensor.node) == 0) return nullptr;
    tensor = view_.fanin(tensor.node)[0];
  }
  return nullptr;
}

bool FusionSite::IsWaitedThrough(int id) const {
  if (!HasControlInputs(view_, id)) return false;
  if (waiting_constants_.empty()) waiting_constants_ = FindWaitingConstants(view_);
  return waiting_constants_[id];
}

bool FusionSite::Number(OutputPort tensor, double* value) const {
  const TensorProto* proto = Constant(tensor);
  tensorflow::Tensor parsed;
  if (proto == nullptr || PartialTensorShape(proto->tensor_shape()).num_elements() != 1 ||
      !parsed.FromProto(*proto)) {
    return false;
  }
  switch (proto->dtype()) {
    case tensorflow::DT_FLOAT:
      *value = parsed.flat<float>()(0);
      break;
    case tensorflow::DT_DOUBLE:
      *value = parsed.flat<double>()(0);
      break;
    case tensorflow::DT_HALF:
      *value = static_cast<float>(parsed.flat<Eigen::half>()(0));
      break;
    case tensorflow::DT_BFLOAT16:
      *value = static_cast<float>(parsed.flat<tensorflow::bfloat16>()(0));
      break;
    default:
      return false;
  }
  return std::isfinite(*value);
}

bool FusionSite::Integers(OutputPort tensor, std::vector<int64_t>* values) const {
  const TensorProto* proto = Constant(tensor);
  return proto != nullptr && ReadInts(*proto, values);
}

PartialTensorShape FusionSite::Shape(OutputPort tensor) const {
  // Checked first, because a request for a shape may infer the shapes of the whole graph.
  const TensorProto* constant = Constant(tensor);
  if (constant != nullptr) return PartialTensorShape(constant->tensor_shape());
  if (!state_.context.shapes) return PartialTensorShape();
  return state_.context.shapes(view_.node(tensor.node).name(), tensor.port);
}

}  // namespace npu_precision
