// Evaluates the tensors around a batch norm as functions of its input x, an image, and of dy, the
// gradient of its result. In whatever form it is written, they are polynomials of x and dy whose
// coefficients are numbers of a channel. Two such functions are equal if they are for random values
// of what they depend on: the mean and variance of x, the sums of dy and of x * dy, and vectors
// such as gamma.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_NORM_ALGEBRA_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_NORM_ALGEBRA_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph_passes/fuse/channel_function.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/graph_view.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {

// The input of a batch norm over all axes but the last of a tensor of rank 4.
struct NormInput {
  OutputPort x{};
  int64_t channels = 0;
  int64_t places = 0;  // elements of a channel; -1 if it is not known
};

// Whether the op yields the elements of its input in their order, maybe in another shape.
bool KeepsElements(const std::string& op);

class NormAlgebra {
 public:
  static constexpr int kNone = -1;

  // `dy` has node kNone if there is none. `view` and `site` must outlive this object.
  NormAlgebra(const GraphView& view, const FusionSite& site, const NormInput& input,
              OutputPort dy = {kNone, 0});

  // The function that a tensor is; nullptr if it is none, or too far from x. A vector that comes
  // from elsewhere is a function of its own.
  const ChannelFunction* Of(OutputPort tensor) { return Find(tensor, 0); }
  // Whether the tensor has the shape of x.
  bool IsImage(OutputPort tensor) const;
  // Whether one number for each channel, or one for all, is spread over images of the shape of x.
  bool IsSpread(OutputPort tensor) const;
  // Whether it is [channels] or [1, 1, 1, channels].
  bool IsVector(OutputPort tensor) const;

  // These are of the batch.
  const ChannelFunction& mean() const { return means_[ChannelFunction::kX]; }
  const ChannelFunction& variance() const { return variance_; }
  const ChannelFunction& count() const { return count_; }  // elements of a channel
  const ChannelFunction& sum_of_dy() const { return sum_of_dy_; }
  const ChannelFunction& centred_sum() const { return centred_sum_; }  // of (x - mean) * dy

  // The functions found so far.
  struct Found {
    OutputPort tensor;
    const ChannelFunction* function;
  };
  // In the order of the names of their nodes.
  std::vector<Found> AllFound() const;
  // The nodes from `starts` on that compute functions of the batch: first those that read `starts`.
  std::vector<int> Region(const std::vector<OutputPort>& starts);
  // The nodes that compute functions, and the numbers that these read.
  const std::set<int>& nodes() const { return nodes_; }

 private:
  struct Entry {
    bool is_function = false;
    ChannelFunction function;
  };

  const ChannelFunction* Find(OutputPort tensor, int depth);
  bool Compute(OutputPort tensor, int depth, ChannelFunction* out);
  bool ComputeByOp(OutputPort tensor, int depth, ChannelFunction* out);
  bool Reduce(int id, int depth, ChannelFunction* out);
  bool MoveValues(OutputPort tensor, int depth, ChannelFunction* out);
  bool ReducesNothing(int axes) const;
  bool IsReshapedToOnes(OutputPort tensor) const;
  bool IsCount(int cast) const;

  const GraphView& view_;
  const FusionSite& site_;
  const NormInput input_;
  const OutputPort dy_;
  const tensorflow::PartialTensorShape shape_;
  ChannelFunction variance_, count_, sum_of_dy_, centred_sum_;
  std::array<ChannelFunction, ChannelFunction::kNumTerms> means_;  // of 1, x, dy, x * x and x * dy
  std::map<std::pair<int, int>, Entry> found_;
  std::set<int> nodes_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_NORM_ALGEBRA_H_
