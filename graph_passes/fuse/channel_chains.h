// Finds chains of sums and products of a tensor with vectors of one element per channel, such as
// the batch norm `x * scale + offset` of Keras 3, and writes what they come to: one scale and one
// offset.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_CHANNEL_CHAINS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_CHANNEL_CHAINS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph_passes/fuse/flat_nodes.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct ChannelChain {
  // One node of a chain: it combines its input with a vector.
  struct Step {
    int node;
    OutputPort vector;
  };
  static constexpr int kNone = -1;

  OutputPort root{};  // what the chain begins with
  int64_t channels = 0;
  std::vector<Step> steps;
  // TensorFlow's arithmetic optimizer writes (x * s + t) + other as (x * s + other) + t, where it
  // may write an AddN. If not kNone: the inner sum, the outer one, and what they add.
  int inner = kNone, outer = kNone;
  OutputPort other{}, last_vector{};

  bool has_scale = false, has_offset = false;
  // The node that yields the result of the chain.
  int end() const { return inner == kNone ? steps.back().node : inner; }
};

class ChannelChains {
 public:
  // Both must outlive this object.
  ChannelChains(const GraphView& view, const FusionSite& site)
      : view_(view), site_(site), is_taken_(view.size(), false) {}

  // The longest chain from the node of `use` on that ends where a node may become one of these ops:
  // `sum` for a chain with an offset, and `scale` for one without ("" if it must have one). Without
  // steps if there is none. Only the next node of the chain reads a node of it.
  ChannelChain From(const InputPort& use, const std::string& sum, const std::string& scale) const;
  // Whether no chain that was taken has nodes of this one.
  bool IsFree(const ChannelChain& chain) const;
  void Take(const ChannelChain& chain);

  // Whether only one input reads the node, and it may be dropped.
  bool MayVanish(int id) const { return site_.MayVanish(id) && site_.HasOneReader(id); }

  // Add the nodes that compute scale and offset; return the text of an input that reads the result,
  // "" if there is none.
  std::string Scale(const ChannelChain& chain, FlatNodes* nodes) const;
  std::string Offset(const ChannelChain& chain, FlatNodes* nodes) const;
  // Adds a node with one or two inputs (`b` may be "").
  std::string Combined(const std::string& name, const char* op, const std::string& a,
                       const std::string& b, FlatNodes* nodes) const;

 private:
  bool IsStep(const InputPort& use, ChannelChain::Step* step) const;
  bool ReadsChannels(const OutputPort& tensor, ChannelChain* chain) const;
  void TakeSum(const InputPort& use, ChannelChain* chain) const;
  std::vector<ChannelChain::Step> AllSteps(const ChannelChain& chain) const;
  std::string Vector(const ChannelChain::Step& step, int64_t channels, FlatNodes* nodes) const;
  std::string NameAt(int node, const char* part) const;

  const GraphView& view_;
  const FusionSite& site_;
  std::vector<bool> is_taken_;  // by node id
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_CHANNEL_CHAINS_H_
