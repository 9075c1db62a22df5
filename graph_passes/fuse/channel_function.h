// Functions of an image x and a gradient dy whose coefficients are numbers of a channel, each for
// two random choices of what it depends on: see norm_algebra.h.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_CHANNEL_FUNCTION_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_CHANNEL_FUNCTION_H_

#include <array>
#include <string>
#include <vector>

namespace npu_precision {

struct ChannelFunction {
  // What the coefficients are of.
  enum Term : unsigned char { kOne, kX, kDy, kXX, kXDy, kNumTerms };
  static constexpr int kPoints = 2;
  using Number = std::array<double, kPoints>;

  std::array<Number, kNumTerms> terms{};
  // Whether it depends on x or dy, or on dy, also through their sums.
  bool is_of_batch = false, is_of_dy = false;

  static ChannelFunction Constant(double value);
  static ChannelFunction Variable(Term term);
  // Between `least` and `most`; the same for the same name.
  static ChannelFunction Random(const std::string& name, double least, double most);

  bool IsVector() const;  // does not have x or dy itself
  bool Equals(const ChannelFunction& other) const;
  // a + factor * b
  static ChannelFunction Sum(const ChannelFunction& a, const ChannelFunction& b, double factor = 1);
  // Returns false if the product would have terms of a higher degree.
  static bool Product(const ChannelFunction& a, const ChannelFunction& b, ChannelFunction* product);
};

// Whether it is one of the elementwise ops that batch norms and their gradients are written with.
bool IsOpOfNorms(const std::string& op);
// The result of such an op. Returns false if it is no such function of its inputs.
bool Apply(const std::string& op, const std::vector<const ChannelFunction*>& inputs,
           ChannelFunction* result);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_CHANNEL_FUNCTION_H_
