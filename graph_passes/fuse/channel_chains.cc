#include "graph_passes/fuse/channel_chains.h"

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/node_attributes.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

constexpr int kRank = 4;
constexpr size_t kMostSteps = 8;

}  // namespace

ChannelChain ChannelChains::From(const InputPort& use, const std::string& sum,
                                 const std::string& scale) const {
  ChannelChain chain;
  chain.root = view_.fanin(use.node)[use.index];
  ChannelChain found = chain;
  for (InputPort next = use; chain.steps.size() < kMostSteps; next = view_.fanout(next.node)[0]) {
    ChannelChain::Step step;
    if (!site_.AreAlike(use.node, next.node)) break;
    if (!IsStep(next, &step) || !ReadsChannels(step.vector, &chain)) {
      if (!found.steps.empty() && found.steps.size() == chain.steps.size()) {
        TakeSum(next, &found);
      }
      break;
    }
    chain.steps.push_back(step);
    (view_.node(next.node).op() == "Mul" ? chain.has_scale : chain.has_offset) = true;
    const std::string& becomes = chain.has_offset ? sum : scale;
    if (!becomes.empty() && site_.MayBecome(next.node, becomes)) found = chain;
    if (!MayVanish(next.node)) break;
  }
  return found;
}

// Takes a sum with another tensor, if a vector is added to it.
void ChannelChains::TakeSum(const InputPort& use, ChannelChain* chain) const {
  const int inner = use.node;
  const std::string& op = view_.node(inner).op();
  if (!AddsAll(op) || view_.num_fanin(inner) != 2 || is_taken_[inner] || !MayVanish(inner)) {
    return;
  }
  const InputPort outer = view_.fanout(inner)[0];
  ChannelChain::Step step;
  if (!AddsTensors(view_.node(outer.node).op()) || !site_.AreAlike(inner, outer.node) ||
      !site_.MayChange(outer.node) || !IsStep(outer, &step) || !ReadsChannels(step.vector, chain)) {
    return;
  }
  chain->inner = inner;
  chain->outer = outer.node;
  chain->other = view_.fanin(inner)[1 - use.index];
  chain->last_vector = step.vector;
  chain->has_offset = true;
}

bool ChannelChains::IsStep(const InputPort& use, ChannelChain::Step* step) const {
  const tensorflow::NodeDef& node = view_.node(use.node);
  const std::string& op = node.op();
  if (op == "BiasAdd") {
    if (use.index != 0 || !HasChannelsLast(node)) return false;
  } else if (op != "Mul" && !AddsTensors(op) && !(op == "Sub" && use.index == 0)) {
    return false;
  }
  *step = {use.node, view_.fanin(use.node)[1 - use.index]};
  return true;
}

// Whether the tensor has one element per channel, the last dimension.
bool ChannelChains::ReadsChannels(const OutputPort& tensor, ChannelChain* chain) const {
  const tensorflow::PartialTensorShape shape = site_.Shape(tensor);
  if (shape.dims() < 1 || shape.dims() > kRank || !shape.IsFullyDefined()) return false;
  const int64_t channels = shape.dim_size(shape.dims() - 1);
  if (channels < 2 || shape.num_elements() != channels) return false;
  if (chain->steps.empty()) chain->channels = channels;
  return channels == chain->channels;
}

bool ChannelChains::IsFree(const ChannelChain& chain) const {
  for (const ChannelChain::Step& step : chain.steps) {
    if (is_taken_[step.node]) return false;
  }
  return true;
}

void ChannelChains::Take(const ChannelChain& chain) {
  for (const ChannelChain::Step& step : chain.steps) is_taken_[step.node] = true;
  is_taken_[chain.end()] = true;
}

std::vector<ChannelChain::Step> ChannelChains::AllSteps(const ChannelChain& chain) const {
  std::vector<ChannelChain::Step> steps = chain.steps;
  if (chain.inner != ChannelChain::kNone) steps.push_back({chain.outer, chain.last_vector});
  return steps;
}

std::string ChannelChains::Scale(const ChannelChain& chain, FlatNodes* nodes) const {
  std::string scale;
  for (const ChannelChain::Step& step : chain.steps) {
    if (view_.node(step.node).op() != "Mul") continue;
    const std::string vector = Vector(step, chain.channels, nodes);
    scale =
        scale.empty() ? vector : Combined(NameAt(step.node, "scale"), "Mul", scale, vector, nodes);
  }
  return scale;
}

std::string ChannelChains::Offset(const ChannelChain& chain, FlatNodes* nodes) const {
  std::string offset;
  for (const ChannelChain::Step& step : AllSteps(chain)) {
    const std::string& op = view_.node(step.node).op();
    if (op == "Mul" && offset.empty()) continue;
    const std::string vector = Vector(step, chain.channels, nodes);
    const std::string name = NameAt(step.node, "offset");
    if (offset.empty()) {
      offset = op == "Sub" ? Combined(name, "Neg", vector, "", nodes) : vector;
    } else {
      const char* combines = op == "Mul" ? "Mul" : op == "Sub" ? "Sub" : "AddV2";
      offset = Combined(name, combines, offset, vector, nodes);
    }
  }
  return offset;
}

std::string ChannelChains::Combined(const std::string& name, const char* op, const std::string& a,
                                    const std::string& b, FlatNodes* nodes) const {
  tensorflow::NodeDef* node = nodes->Add(name, op);
  node->add_input(a);
  if (!b.empty()) node->add_input(b);
  return node->name();
}

std::string ChannelChains::NameAt(int node, const char* part) const {
  return absl::StrCat(view_.node(node).name(), "/npu_folded_", part);
}

std::string ChannelChains::Vector(const ChannelChain::Step& step, int64_t channels,
                                  FlatNodes* nodes) const {
  if (site_.Shape(step.vector).dims() == 1) return TensorName(view_, step.vector);
  return nodes->Reshape(NameAt(step.node, "vector"), step.vector, {channels});
}

}  // namespace npu_precision
