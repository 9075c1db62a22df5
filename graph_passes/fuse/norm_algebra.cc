#include "graph_passes/fuse/norm_algebra.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {
namespace {

constexpr int kRank = 4, kChannels = 3;
// Bounds on what is looked at for one norm.
constexpr int kMostDepth = 64;
constexpr size_t kMostTensors = 4096, kMostOfRegion = 256;
// Of the numbers that stand for tensors.
constexpr double kLeast = 0.5, kMost = 1.5;

bool KeepsShape(const std::string& op) { return op == "Identity" || op == "StopGradient"; }

bool Spreads(const std::string& op) { return op == "Tile" || op == "BroadcastTo"; }

ChannelFunction OfBatch(const char* name) {
  ChannelFunction function = ChannelFunction::Random(name, kLeast, kMost);
  function.is_of_batch = true;
  return function;
}

// Of vectors.
ChannelFunction Product(const ChannelFunction& a, const ChannelFunction& b) {
  ChannelFunction product;
  ChannelFunction::Product(a, b, &product);
  return product;
}

}  // namespace

bool KeepsElements(const std::string& op) {
  return KeepsShape(op) || op == "Reshape" || op == "Squeeze" || op == "ExpandDims";
}

NormAlgebra::NormAlgebra(const GraphView& view, const FusionSite& site, const NormInput& input,
                         OutputPort dy)
    : view_(view),
      site_(site),
      input_(input),
      dy_(dy),
      shape_(site.Shape(input.x)),
      variance_(OfBatch("^variance")),
      count_(input.places > 0 ? ChannelFunction::Constant(static_cast<double>(input.places))
                              : ChannelFunction::Random("^count", 100, 1000)) {
  const ChannelFunction mean = OfBatch("^mean"), of_dy = OfBatch("^dy");
  const ChannelFunction centred = OfBatch("^centred");
  means_[ChannelFunction::kOne] = ChannelFunction::Constant(1);
  means_[ChannelFunction::kX] = mean;
  means_[ChannelFunction::kDy] = of_dy;
  means_[ChannelFunction::kXX] = ChannelFunction::Sum(variance_, Product(mean, mean));
  means_[ChannelFunction::kXDy] = ChannelFunction::Sum(centred, Product(mean, of_dy));
  sum_of_dy_ = Product(of_dy, count_);
  centred_sum_ = Product(centred, count_);
}

bool NormAlgebra::IsImage(OutputPort tensor) const {
  const tensorflow::PartialTensorShape shape = site_.Shape(tensor);
  if (shape.dims() != kRank || shape.dim_size(kChannels) != input_.channels) return false;
  for (int dim = 0; dim < kChannels; ++dim) {
    if (shape.dim_size(dim) != shape_.dim_size(dim)) return false;
  }
  return true;
}

bool NormAlgebra::IsSpread(OutputPort tensor) const {
  const tensorflow::PartialTensorShape shape = site_.Shape(tensor);
  if (shape.dims() < 0 || shape.dims() > kRank) return false;
  const int64_t elements = shape.num_elements();
  return elements == 1 || (elements == input_.channels && shape.dims() > 0 &&
                           shape.dim_size(shape.dims() - 1) == elements);
}

bool NormAlgebra::IsVector(OutputPort tensor) const {
  const int rank = site_.Shape(tensor).dims();
  return (rank == 1 || rank == kRank) && IsSpread(tensor) &&
         site_.Shape(tensor).num_elements() == input_.channels;
}

std::vector<int> NormAlgebra::Region(const std::vector<OutputPort>& starts) {
  std::vector<int> region;
  std::set<int> seen;
  const auto add_readers = [&](const OutputPort& tensor) {
    for (const InputPort& use : view_.fanout(tensor)) {
      if (region.size() >= kMostOfRegion || !seen.insert(use.node).second) continue;
      const ChannelFunction* function =
          view_.num_outputs(use.node) == 1 ? Of({use.node, 0}) : nullptr;
      if (function != nullptr && function->is_of_batch) region.push_back(use.node);
    }
  };
  for (const OutputPort& start : starts) add_readers(start);
  for (size_t i = 0; i < region.size(); ++i) add_readers({region[i], 0});
  return region;
}

std::vector<NormAlgebra::Found> NormAlgebra::AllFound() const {
  std::vector<Found> all;
  for (const auto& entry : found_) {
    const OutputPort tensor{entry.first.first, entry.first.second};
    if (entry.second.is_function) all.push_back({tensor, &entry.second.function});
  }
  std::sort(all.begin(), all.end(), [this](const Found& a, const Found& b) {
    const std::string& of_a = view_.node(a.tensor.node).name();
    const std::string& of_b = view_.node(b.tensor.node).name();
    return of_a != of_b ? of_a < of_b : a.tensor.port < b.tensor.port;
  });
  return all;
}

const ChannelFunction* NormAlgebra::Find(OutputPort tensor, int depth) {
  const std::pair<int, int> key(tensor.node, tensor.port);
  const auto known = found_.find(key);
  if (known != found_.end()) return known->second.is_function ? &known->second.function : nullptr;
  if (depth > kMostDepth || found_.size() > kMostTensors) return nullptr;
  Entry& entry = found_[key];  // In a loop, the tensor is no function of itself.
  ChannelFunction function;
  if (!Compute(tensor, depth, &function)) return nullptr;
  entry.function = function;
  entry.is_function = true;
  return &entry.function;
}

bool NormAlgebra::Compute(OutputPort tensor, int depth, ChannelFunction* out) {
  if (tensor == input_.x || tensor == dy_) {
    *out = ChannelFunction::Variable(tensor == dy_ ? ChannelFunction::kDy : ChannelFunction::kX);
    return true;
  }
  if (view_.op_def(tensor.node) == nullptr || view_.dtype(tensor) != tensorflow::DT_FLOAT) {
    return false;
  }
  double number = 0;
  if (site_.Number(tensor, &number)) {
    *out = ChannelFunction::Constant(number);
    nodes_.insert(tensor.node);
    return true;
  }
  if (ComputeByOp(tensor, depth, out)) {
    nodes_.insert(tensor.node);
    return true;
  }
  if (!IsSpread(tensor)) return false;
  const std::string name = absl::StrCat(view_.node(tensor.node).name(), ":", tensor.port);
  *out = ChannelFunction::Random(name, kLeast, kMost);
  return true;
}

bool NormAlgebra::ComputeByOp(OutputPort tensor, int depth, ChannelFunction* out) {
  const int id = tensor.node;
  const std::string& op = view_.node(id).op();
  if (op == "Cast") {
    *out = count_;
    return IsCount(id);
  }
  if (op == "Sum" || op == "Mean") return Reduce(id, depth, out);
  if (KeepsElements(op) || Spreads(op)) return MoveValues(tensor, depth, out);
  if (!IsOpOfNorms(op)) return false;
  std::vector<const ChannelFunction*> inputs;
  for (const OutputPort& input : view_.fanin(id)) {
    inputs.push_back(Find(input, depth + 1));
    if (inputs.back() == nullptr) return false;
  }
  return Apply(op, inputs, out);
}

bool NormAlgebra::MoveValues(OutputPort tensor, int depth, ChannelFunction* out) {
  const std::string& op = view_.node(tensor.node).op();
  if (view_.num_fanin(tensor.node) == 0) return false;
  const OutputPort from = view_.fanin(tensor.node)[0];
  const ChannelFunction* function = Find(from, depth + 1);
  if (function == nullptr) return false;
  *out = *function;
  if (KeepsShape(op)) return true;
  if (KeepsElements(op)) {
    const bool is_vector = IsSpread(from) && (IsSpread(tensor) || IsReshapedToOnes(tensor));
    return is_vector || (!function->IsVector() && IsImage(tensor));
  }
  const bool has_rank = site_.Shape(from).dims() == kRank && IsSpread(from);
  return (has_rank || IsReshapedToOnes(from)) && input_.channels > 1;
}

// Reshape(_, DynamicStitch([0, 1, 2, 3], [0, 1, 2], Shape(image), [1, 1, 1])), which is of the
// shape [1, 1, 1, channels].
bool NormAlgebra::IsReshapedToOnes(OutputPort tensor) const {
  const auto inputs_of = [this](int id, const char* op, int count) {
    const bool is = view_.node(id).op() == op && view_.num_fanin(id) == count;
    return is ? view_.fanin(id) : absl::Span<const OutputPort>();
  };
  const auto reshape = inputs_of(tensor.node, "Reshape", 2);
  if (reshape.empty()) return false;
  const auto stitch = inputs_of(reshape[1].node, "DynamicStitch", 4);
  if (stitch.empty()) return false;
  const auto shape = inputs_of(stitch[2].node, "Shape", 1);
  std::vector<int64_t> all, reduced, ones;
  return !shape.empty() && IsImage(shape[0]) && site_.Integers(stitch[0], &all) &&
         site_.Integers(stitch[1], &reduced) && site_.Integers(stitch[3], &ones) &&
         all == std::vector<int64_t>{0, 1, 2, 3} && reduced == std::vector<int64_t>{0, 1, 2} &&
         ones == std::vector<int64_t>{1, 1, 1};
}

bool NormAlgebra::Reduce(int id, int depth, ChannelFunction* out) {
  if (view_.num_fanin(id) != 2) return false;
  const OutputPort from = view_.fanin(id)[0];
  const ChannelFunction* of = Find(from, depth + 1);
  if (ReducesNothing(view_.fanin(id)[1].node)) {
    if (of != nullptr) *out = *of;
    return of != nullptr && !of->IsVector();
  }
  std::vector<int64_t> axes;
  if (!site_.Integers(view_.fanin(id)[1], &axes)) return false;
  // What is reduced has the rank of x.
  for (int64_t& axis : axes) axis += axis < 0 ? kRank : 0;
  std::sort(axes.begin(), axes.end());
  if (axes != std::vector<int64_t>{0, 1, 2}) return false;
  if (of == nullptr || (of->IsVector() && (input_.places < 0 || !IsImage(from)))) return false;
  ChannelFunction mean;
  for (int term = 0; term < ChannelFunction::kNumTerms; ++term) {
    ChannelFunction coefficient;
    coefficient.terms[ChannelFunction::kOne] = of->terms[term];
    mean = ChannelFunction::Sum(mean, Product(coefficient, means_[term]));
  }
  mean.is_of_batch = of->is_of_batch;
  mean.is_of_dy = of->is_of_dy;
  *out = view_.node(id).op() == "Mean" ? mean : Product(mean, count_);
  return true;
}

// The axes of a gradient of images that were not broadcast.
bool NormAlgebra::ReducesNothing(int axes) const {
  const auto is_of_image = [this](const OutputPort& shape) {
    return view_.node(shape.node).op() == "Shape" && view_.num_fanin(shape.node) == 1 &&
           IsImage(view_.fanin(shape.node)[0]);
  };
  const auto fanin = view_.fanin(axes);
  return view_.node(axes).op() == "BroadcastGradientArgs" && fanin.size() == 2 &&
         is_of_image(fanin[0]) && is_of_image(fanin[1]);
}

// Cast(Prod(GatherV2(Shape(image), [0, 1, 2], 0)))
bool NormAlgebra::IsCount(int cast) const {
  const auto input_of = [this](int id, const char* op) {
    const bool is_op = id != kNone && view_.node(id).op() == op && view_.num_fanin(id) > 0;
    return is_op ? view_.fanin(id)[0].node : kNone;
  };
  const int gather = input_of(input_of(cast, "Cast"), "Prod");
  const int shape = input_of(gather, "GatherV2");
  if (shape == kNone || view_.num_fanin(gather) != 3 || input_of(shape, "Shape") == kNone) {
    return false;
  }
  std::vector<int64_t> axes, axis;
  return site_.Integers(view_.fanin(gather)[1], &axes) &&
         site_.Integers(view_.fanin(gather)[2], &axis) && axes == std::vector<int64_t>{0, 1, 2} &&
         axis == std::vector<int64_t>{0} && IsImage(view_.fanin(shape)[0]);
}

}  // namespace npu_precision
