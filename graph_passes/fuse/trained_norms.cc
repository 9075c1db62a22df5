#include "graph_passes/fuse/trained_norms.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/fuse/flat_nodes.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/fuse/trained_norm_form.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/input_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr char kPass[] = "trained_norms";
// A bound on the sums of shifts in one another.
constexpr int kMostLevels = 8;
constexpr char kNorm[] = "FusedBatchNormV3", kGradient[] = "FusedBatchNormGradV3";

// A vector of channels may have the rank of x.
bool IsVector(const tensorflow::PartialTensorShape& shape, int64_t channels) {
  return (shape.dims() == 1 || shape.dims() == 4) && shape.num_elements() == channels &&
         shape.dim_size(shape.dims() - 1) == channels;
}

class Writer {
 public:
  explicit Writer(PassState* state)
      : state_(state), view_(state->view()), site_(*state, FusionSite::Devices::kCpusAndGpus) {}

  void Run() {
    std::vector<TrainedNorm> norms;
    std::set<int> taken;
    for (TrainedNorm& norm : TrainedNorms(view_, site_)) {
      // Two norms of one x add their gradients in one sum.
      const bool is_taken = taken.count(norm.end) != 0 || taken.count(norm.dx) != 0;
      const std::string why = is_taken ? "another norm of the same tensor is fused" : WhyNot(norm);
      if (!why.empty()) {
        state_->missed.push_back({kPass, Name(norm.root), why});
        continue;
      }
      taken.insert(norm.end);
      if (norm.dx != TrainedNorm::kNone) taken.insert(norm.dx);
      norms.push_back(std::move(norm));
    }
    if (norms.empty()) return;
    GraphDef* out = state_->Copied();
    FlatNodes nodes(view_, site_, out);
    for (const TrainedNorm& norm : norms) {
      WriteForward(norm, &nodes, out);
      if (norm.dx != TrainedNorm::kNone) WriteGradient(norm, &nodes, out);
    }
    for (const TrainedNorm& norm : norms) {
      if (norm.shift != TrainedNorm::kNone && IsZero(norm.small)) LeaveOut(norm, out);
    }
    Drop(norms, out);
  }

 private:
  // Why the norm cannot be written, as a clause; empty if it can.
  std::string WhyNot(const TrainedNorm& norm) const {
    if (!norm.why_not.empty()) return norm.why_not;
    if (norm.has_other_gradient) {
      return "its gradient has another form, or is computed in part";
    }
    const bool has_gradient = norm.dx != TrainedNorm::kNone;
    std::vector<int> changed = {norm.mean, norm.end};
    if (norm.variance != TrainedNorm::kNone) changed.push_back(norm.variance);
    if (norm.shift != TrainedNorm::kNone) {
      changed.insert(changed.end(), {norm.shift, norm.meeting});
      if (!IsVector(site_.Shape({norm.shift, 0}), norm.input.channels)) return NoVector(norm.shift);
    }
    if (has_gradient) changed.push_back(norm.dx);
    for (const std::vector<int>* vectors : {&norm.scaled, &norm.sums}) {
      changed.insert(changed.end(), vectors->begin(), vectors->end());
    }
    for (int id : changed) {
      if (!site_.MayChange(id) || !site_.AreAlike(id, norm.end) ||
          view_.outputs(id)[0].dtype != tensorflow::DT_FLOAT ||
          KeptByMark(view_.node(id), state_->context, false) != Reason::kNone) {
        return absl::StrCat(Name(id), " keeps its op or dtype");
      }
    }
    // What is fetched has one output, and the fused ops have several.
    for (int id : {norm.end, norm.dx}) {
      if (id != TrainedNorm::kNone && state_->preserved.count(view_.node(id).name()) != 0) {
        return absl::StrCat(Name(id), " is fetched");
      }
    }
    if (!IsVector(site_.Shape({norm.mean, 0}), norm.input.channels)) return NoVector(norm.mean);
    if (IsCircle(norm)) return "gamma or beta comes from its mean or variance";
    if (!MayRun(norm.end, kNorm)) return NoKernel(kNorm);
    if (has_gradient && !MayRun(norm.dx, kGradient)) return NoKernel(kGradient);
    for (int id : norm.variables) {
      if (!MayDrop(id)) return absl::StrCat(Name(id), " has to stay");
    }
    return "";
  }

  std::string NoVector(int id) const {
    return absl::StrCat(Name(id), " has another shape than a vector of the channels");
  }

  std::string NoKernel(const char* op) const {
    return absl::StrCat(op, " has no kernel of ", DtypeName(state_->context.mode.low_type),
                        " here");
  }

  // Whether an input of the fused ops needs an output of theirs.
  bool IsCircle(const TrainedNorm& norm) const {
    std::vector<OutputPort> inputs;
    for (const OutputPort& vector : {norm.gamma, norm.beta}) {
      if (vector.node != TrainedNorm::kNone) inputs.push_back(vector);
    }
    if (Needs(inputs, {norm.mean, norm.variance})) return true;
    // If dy needs the result, neither gamma, beta nor x can need dy.
    if (norm.dx == TrainedNorm::kNone || Needs({norm.dy}, {norm.end})) return false;
    inputs.push_back(norm.input.x);
    return Needs(inputs, {norm.dy.node});
  }

  bool Needs(const std::vector<OutputPort>& tensors, const std::set<int>& nodes) const {
    std::vector<bool> seen(view_.size(), false);
    std::vector<int> open;
    for (const OutputPort& tensor : tensors) open.push_back(tensor.node);
    while (!open.empty()) {
      const int id = open.back();
      open.pop_back();
      if (seen[id]) continue;
      seen[id] = true;
      if (nodes.count(id) != 0) return true;
      if (FeedsLoopMerge(view_.node(id).op())) continue;
      for (const std::string& input : view_.node(id).input()) {
        open.push_back(view_.IndexOf(std::string(ParseInput(input).producer)));
      }
    }
    return false;
  }

  // Whether the machine has a kernel of the low type.
  bool MayRun(int id, const char* op) const {
    NodeDef node;
    BecomeFusedNorm(op, 1, true, &node);
    node.set_name(view_.node(id).name());
    node.set_device(view_.node(id).device());
    (*node.mutable_attr())["T"].set_type(state_->context.mode.low_type);
    return state_->context.support->CanRun(view_.node(id), node);
  }

  // Leaves out control inputs from nodes of the norm.
  void Replace(const TrainedNorm& norm, int id, const char* op,
               const std::vector<std::string>& inputs, NodeDef* node) const {
    NodeDef before;
    before.set_name(node->name());
    for (const std::string& input : node->input()) {
      const int from = view_.IndexOf(std::string(ParseInput(input).producer));
      if (input[0] == '^' && norm.inner.count(from) == 0) before.add_input(input);
    }
    ReplaceOp(site_, id, op, inputs, &before);
    node->Swap(&before);
  }

  std::string Name(int id) const { return view_.node(id).name(); }

  std::string Output(int id, int port) const { return absl::StrCat(Name(id), ":", port); }

  std::string Vector(const TrainedNorm& norm, const OutputPort& tensor, const char* what,
                     float value, FlatNodes* nodes) const {
    const std::string name = absl::StrCat(Name(norm.end), what);
    if (tensor.node == TrainedNorm::kNone) return nodes->Floats(name, norm.input.channels, value);
    if (site_.Shape(tensor).dims() == 1) return TensorName(view_, tensor);
    return nodes->Reshape(name, tensor, {norm.input.channels});
  }

  // A vector in the shape of what a node yields.
  std::string Shaped(int id, const TrainedNorm& norm, const std::string& vector,
                     FlatNodes* nodes) const {
    if (site_.Shape({id, 0}).dims() == 1) return vector;
    return nodes->Reshape(absl::StrCat(Name(id), "/npu_shaped"), vector,
                          {1, 1, 1, norm.input.channels});
  }

  // Gives a node the value of a vector.
  void Become(int id, const TrainedNorm& norm, const std::string& vector, FlatNodes* nodes,
              GraphDef* out) const {
    Replace(norm, id, "Identity", {Shaped(id, norm, vector, nodes)}, out->mutable_node(id));
  }

  void WriteForward(const TrainedNorm& norm, FlatNodes* nodes, GraphDef* out) {
    nodes->Begin(norm.end, norm.input.x.node);
    const std::string name = Name(norm.end);
    const std::string none = nodes->Floats(absl::StrCat(name, "/npu_none"), 0, 0);
    const std::string gamma = Vector(norm, norm.gamma, "/npu_gamma", 1, nodes);
    const std::string beta = Vector(norm, norm.beta, "/npu_beta", 0, nodes);
    NodeDef* end = out->mutable_node(norm.end);
    Replace(norm, norm.end, kNorm, {TensorName(view_, norm.input.x), gamma, beta, none, none}, end);
    BecomeFusedNorm(kNorm, norm.epsilon, true, end);
    Become(norm.mean, norm, Output(norm.end, 1), nodes, out);
    if (norm.variance != TrainedNorm::kNone) {
      const std::string biased = Combined(absl::StrCat(name, "/npu_biased"), "Mul",
                                          Output(norm.end, 2), Share(norm, nodes), nodes);
      Become(norm.variance, norm, biased, nodes, out);
    }
    if (norm.shift != TrainedNorm::kNone) WriteZeros(norm, nodes, out);
    state_->rewrites.push_back({kPass, name, view_.node(norm.end).op(), kNorm});
  }

  // The fused op has added the shift.
  void WriteZeros(const TrainedNorm& norm, FlatNodes* nodes, GraphDef* out) {
    const std::string name = absl::StrCat(Name(norm.shift), "/npu_zeros");
    std::string zeros = nodes->Floats(name, norm.input.channels, 0);
    if (site_.Shape({norm.shift, 0}).dims() != 1) {
      zeros = nodes->Reshape(absl::StrCat(name, "_shaped"), zeros, {1, 1, 1, norm.input.channels});
    }
    Replace(norm, norm.shift, "Identity", {zeros}, out->mutable_node(norm.shift));
    zeros_.insert(norm.shift);
  }

  // Whether the node is a shift that was replaced by zeros, or a sum of such.
  bool IsZero(int id, int levels = kMostLevels) const {
    if (zeros_.count(id) != 0) return true;
    if (levels == 0) return false;
    const auto inputs = view_.fanin(id);
    return !inputs.empty() && AddsAll(view_.node(id).op()) &&
           std::all_of(inputs.begin(), inputs.end(),
                       [&](const OutputPort& input) { return IsZero(input.node, levels - 1); });
  }

  void LeaveOut(const TrainedNorm& norm, GraphDef* out) const {
    const auto inputs = view_.fanin(norm.meeting);
    const OutputPort& large = inputs[inputs[0].node == norm.small ? 1 : 0];
    Replace(norm, norm.meeting, "Identity", {TensorName(view_, large)},
            out->mutable_node(norm.meeting));
  }

  // (n - 1) / n
  std::string Share(const TrainedNorm& norm, FlatNodes* nodes) const {
    const std::string name = absl::StrCat(Name(norm.end), "/npu_share");
    const float channels = static_cast<float>(norm.input.channels);
    if (norm.input.places > 0) {
      return nodes->Floats(name, norm.input.channels,
                           static_cast<float>((norm.input.places - 1.0) / norm.input.places));
    }
    NodeDef* size = nodes->Add(absl::StrCat(name, "_size"), "Size");
    size->add_input(TensorName(view_, norm.input.x));
    (*size->mutable_attr())["out_type"].set_type(tensorflow::DT_INT32);
    const std::string size_name = size->name();
    NodeDef* cast = nodes->Add(absl::StrCat(name, "_cast"), "Cast");
    cast->add_input(size_name);
    cast->mutable_attr()->erase("T");
    (*cast->mutable_attr())["SrcT"].set_type(tensorflow::DT_INT32);
    (*cast->mutable_attr())["DstT"].set_type(tensorflow::DT_FLOAT);
    (*cast->mutable_attr())["Truncate"].set_b(false);
    const std::string count = cast->name();
    const std::string all =
        nodes->Floats(absl::StrCat(name, "_channels"), norm.input.channels, channels);
    const std::string part = Combined(absl::StrCat(name, "_part"), "RealDiv", all, count, nodes);
    const std::string one = nodes->Floats(absl::StrCat(name, "_one"), norm.input.channels, 1);
    return Combined(name, "Sub", one, part, nodes);
  }

  static std::string Combined(const std::string& name, const char* op, const std::string& a,
                              const std::string& b, FlatNodes* nodes) {
    NodeDef* node = nodes->Add(name, op);
    node->add_input(a);
    node->add_input(b);
    return node->name();
  }

  void WriteGradient(const TrainedNorm& norm, FlatNodes* nodes, GraphDef* out) {
    nodes->Begin(norm.dx, norm.input.x.node);
    const std::string gamma = Vector(norm, norm.gamma, "/npu_gamma_of_gradient", 1, nodes);
    const std::vector<std::string> inputs = {TensorName(view_, norm.dy),
                                             TensorName(view_, norm.input.x),
                                             gamma,
                                             Output(norm.end, 3),
                                             Output(norm.end, 4),
                                             Output(norm.end, 5)};
    NodeDef* dx = out->mutable_node(norm.dx);
    NodeDef* gradient = dx;
    if (norm.others.empty()) {
      Replace(norm, norm.dx, kGradient, inputs, dx);
    } else {
      gradient = nodes->Add(absl::StrCat(Name(norm.dx), "/npu_gradient"), kGradient);
      for (const std::string& input : inputs) gradient->add_input(input);
      std::vector<std::string> terms = {gradient->name()};
      for (const OutputPort& other : norm.others) terms.push_back(TensorName(view_, other));
      Replace(norm, norm.dx, "AddN", terms, dx);
      (*dx->mutable_attr())["N"].set_i(terms.size());
    }
    BecomeFusedNorm(kGradient, norm.epsilon, true, gradient);
    const std::string name = gradient->name();
    for (int id : norm.scaled) Become(id, norm, absl::StrCat(name, ":1"), nodes, out);
    for (int id : norm.sums) Become(id, norm, absl::StrCat(name, ":2"), nodes, out);
    state_->rewrites.push_back({kPass, Name(norm.dx), view_.node(norm.dx).op(), kGradient});
  }

  // The nodes that a node reads, or is colocated with.
  static std::vector<std::string> Needed(const NodeDef& node) {
    std::vector<std::string> names;
    for (const std::string& input : node.input()) {
      names.push_back(std::string(ParseInput(input).producer));
    }
    for (const std::string& name : ColocatedWith(node)) {
      if (name != node.name()) names.push_back(name);
    }
    return names;
  }

  // Deletes what no other node needs any more.
  void Drop(const std::vector<TrainedNorm>& norms, GraphDef* out) const {
    std::unordered_map<std::string, int> place;
    std::vector<int> readers(out->node_size(), 0);
    for (int k = 0; k < out->node_size(); ++k) place[out->node(k).name()] = k;
    for (const NodeDef& node : out->node()) {
      for (const std::string& name : Needed(node)) ++readers[place[name]];
    }
    std::vector<int> open;
    for (const TrainedNorm& norm : norms) {
      std::vector<int> own(norm.inner.begin(), norm.inner.end());
      for (int id : own) {
        if (MayDrop(id)) open.push_back(id);
      }
    }
    std::vector<bool> may_drop(out->node_size(), false), dropped(out->node_size(), false);
    for (int id : open) may_drop[id] = true;
    for (size_t i = 0; i < open.size(); ++i) {
      const int id = open[i];
      if (readers[id] > 0 || dropped[id]) continue;
      dropped[id] = true;
      for (const std::string& name : Needed(out->node(id))) {
        const int from = place[name];
        if (--readers[from] == 0 && (may_drop[from] || from >= view_.size())) open.push_back(from);
      }
    }
    GraphDef kept;
    for (int k = 0; k < out->node_size(); ++k) {
      if (!dropped[k]) kept.add_node()->Swap(out->mutable_node(k));
    }
    out->mutable_node()->Swap(kept.mutable_node());
  }

  bool MayDrop(int id) const {
    return site_.MayChange(id) && state_->preserved.count(view_.node(id).name()) == 0;
  }

  PassState* const state_;
  const GraphView& view_;
  const FusionSite site_;
  std::set<int> zeros_;  // the shifts that are zeros now
};

}  // namespace

tensorflow::Status WriteTrainedNorms(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  if (!OpSet(state->view(), "Mean").IsEmpty()) Writer(state).Run();
  *changed = state->rewrites.size() != rewrites;
  return tensorflow::Status();
}

}  // namespace npu_precision
