#include "graph_passes/analysis/op_ranges.h"

#include <unordered_map>

#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {
namespace {

using In = const OpRangeInputs&;

constexpr double kInfinity = ValueRange::kInfinity;

ValueRange Input(In in, size_t index) {
  return index < in.ranges.size() ? in.ranges[index] : ValueRange();
}

template <int index>
ValueRange Same(In in) {
  return Input(in, index);
}

ValueRange JoinOf(absl::Span<const ValueRange> ranges) {
  ValueRange all = ValueRange::Nothing();
  for (const ValueRange& range : ranges) all = Join(all, range);
  return all;
}

ValueRange JoinAll(In in) { return JoinOf(in.ranges); }

// The last or first input is an index or size, not a value of the result.
ValueRange JoinAllButLast(In in) {
  return in.ranges.empty() ? ValueRange() : JoinOf(in.ranges.subspan(0, in.ranges.size() - 1));
}
ValueRange JoinAllButFirst(In in) {
  return in.ranges.empty() ? ValueRange() : JoinOf(in.ranges.subspan(1));
}

// Yields the elements of the first input and, beside them, zeros.
ValueRange WithZeros(In in) { return Join(Input(in, 0), ValueRange::Of(0)); }

template <int low, int high>
ValueRange Between(In) {
  return {low, high};
}

ValueRange NotNegative(In) { return {0, kInfinity}; }
ValueRange NotPositive(In) { return {-kInfinity, 0}; }

double Attribute(In in, const char* name, double otherwise) {
  const auto found = in.node.attr().find(name);
  return found == in.node.attr().end() ? otherwise : found->second.f();
}

ValueRange CastOf(In in) {
  const auto source = in.node.attr().find("SrcT");
  if (source == in.node.attr().end()) return ValueRange();
  switch (source->second.type()) {
    case tensorflow::DT_BOOL:
      return {0, 1};
    case tensorflow::DT_UINT8:
      return {0, 255};
    case tensorflow::DT_INT8:
      return {-128, 127};
    case tensorflow::DT_UINT16:
      return {0, 65535};
    case tensorflow::DT_INT16:
      return {-32768, 32767};
    case tensorflow::DT_FLOAT:
    case tensorflow::DT_HALF:
    case tensorflow::DT_BFLOAT16:
    case tensorflow::DT_DOUBLE:
      return Input(in, 0);
    default:
      return ValueRange();
  }
}

ValueRange Sum(In in) {
  const ValueRange terms = Input(in, 0);
  if (terms == ValueRange::Of(0)) return terms;
  if (std::isfinite(in.num_terms)) return Times(terms, ValueRange::Of(in.num_terms));
  return {terms.low >= 0 ? 0 : -kInfinity, terms.high <= 0 ? 0 : kInfinity};
}

// A product at the edge of a padded image has fewer terms.
ValueRange Product(In in) {
  const ValueRange term = Times(Input(in, 0), Input(in, 1));
  return Join(Times(term, ValueRange::Of(in.num_terms)), ValueRange::Of(0));
}

ValueRange AddAll(In in) {
  ValueRange sum = ValueRange::Of(0);
  for (const ValueRange& term : in.ranges) sum = Plus(sum, term);
  return sum;
}

ValueRange Subtract(In in) {
  return in.first_two_are_one ? ValueRange::Of(0) : Minus(Input(in, 0), Input(in, 1));
}

ValueRange Multiply(In in) {
  return in.first_two_are_one ? SquareOf(Input(in, 0)) : Times(Input(in, 0), Input(in, 1));
}

ValueRange SquaredDifference(In in) { return SquareOf(Minus(Input(in, 0), Input(in, 1))); }
ValueRange Divide(In in) { return DividedBy(Input(in, 0), Input(in, 1)); }
ValueRange Maximum(In in) { return Larger(Input(in, 0), Input(in, 1)); }
ValueRange Minimum(In in) { return Smaller(Input(in, 0), Input(in, 1)); }
ValueRange Clip(In in) { return Smaller(Larger(Input(in, 0), Input(in, 1)), Input(in, 2)); }
ValueRange Negative(In in) { return Minus(ValueRange::Of(0), Input(in, 0)); }
ValueRange Magnitudes(In in) { return AbsOf(Input(in, 0)); }
ValueRange Square(In in) { return SquareOf(Input(in, 0)); }
ValueRange Inverse(In in) { return DividedBy(ValueRange::Of(1), Input(in, 0)); }
ValueRange Cosine(In in) {
  return Input(in, 0) == ValueRange::Of(0) ? ValueRange::Of(1) : ValueRange{-1, 1};
}

ValueRange Exponential(In in) {
  return Rising(Input(in, 0), [](double x) { return std::exp(x); });
}
ValueRange ExponentialMinusOne(In in) {
  return Rising(Input(in, 0), [](double x) { return std::expm1(x); });
}

// For functions of non-negative numbers: a negative input yields NaN, which no range includes.
template <double function(double)>
ValueRange OfNotNegative(In in) {
  return Rising(Larger(Input(in, 0), ValueRange::Of(0)), function);
}

double InverseRoot(double x) { return x == 0 ? kInfinity : 1 / std::sqrt(x); }
ValueRange InverseSquareRoot(In in) {
  const ValueRange input = Larger(Input(in, 0), ValueRange::Of(0));
  return {InverseRoot(input.high), InverseRoot(input.low)};
}

ValueRange LogOnePlus(In in) {
  return Rising(Larger(Input(in, 0), ValueRange::Of(-1)), [](double x) { return std::log1p(x); });
}

ValueRange Relu(In in) { return Larger(Input(in, 0), ValueRange::Of(0)); }
ValueRange Relu6(In in) { return Smaller(Relu(in), ValueRange::Of(6)); }
ValueRange LeakyRelu(In in) {
  const double alpha = Attribute(in, "alpha", 0.2);
  if (!(alpha >= 0 && alpha <= 1)) return ValueRange();
  return Rising(Input(in, 0), [alpha](double x) { return x < 0 ? alpha * x : x; });
}
ValueRange Elu(In in) {
  return Rising(Input(in, 0), [](double x) { return x < 0 ? std::expm1(x) : x; });
}
ValueRange Softplus(In in) {
  return Rising(Input(in, 0), [](double x) { return x > 30 ? x : std::log1p(std::exp(x)); });
}
ValueRange Sigmoid(In in) {
  return Rising(Input(in, 0), [](double x) { return 1 / (1 + std::exp(-x)); });
}
ValueRange HyperbolicTangent(In in) {
  return Rising(Input(in, 0), [](double x) { return std::tanh(x); });
}
ValueRange ErrorFunction(In in) {
  return Rising(Input(in, 0), [](double x) { return std::erf(x); });
}
ValueRange Up(In in) {
  return Rising(Input(in, 0), [](double x) { return std::ceil(x); });
}
ValueRange Down(In in) {
  return Rising(Input(in, 0), [](double x) { return std::floor(x); });
}
ValueRange ToNearest(In in) {
  return Rising(Input(in, 0), [](double x) { return std::nearbyint(x); });
}

const std::unordered_map<std::string, OpRange>& Table() {
  static const auto* table = new std::unordered_map<std::string, OpRange>{
      // Sources.
      {"Cast", CastOf},
      {"ZerosLike", Between<0, 0>},
      {"OnesLike", Between<1, 1>},
      {"Fill", Same<1>},
      {"OneHot", [](In in) { return Join(Input(in, 2), Input(in, 3)); }},
      {"RandomUniform", Between<0, 1>},
      {"StatelessRandomUniform", Between<0, 1>},
      {"StatelessRandomUniformV2", Between<0, 1>},
      {"TruncatedNormal", Between<-2, 2>},
      {"StatelessTruncatedNormal", Between<-2, 2>},
      {"StatelessTruncatedNormalV2", Between<-2, 2>},

      // The same values, in another place or with another shape.
      {"Identity", Same<0>},
      {"Snapshot", Same<0>},
      {"StopGradient", Same<0>},
      {"PreventGradient", Same<0>},
      {"CheckNumerics", Same<0>},
      {"EnsureShape", Same<0>},
      {"Reshape", Same<0>},
      {"ExpandDims", Same<0>},
      {"Squeeze", Same<0>},
      {"Transpose", Same<0>},
      {"BroadcastTo", Same<0>},
      {"Tile", Same<0>},
      {"Reverse", Same<0>},
      {"ReverseV2", Same<0>},
      {"ReverseSequence", Same<0>},
      {"Roll", Same<0>},
      {"Slice", Same<0>},
      {"StridedSlice", Same<0>},
      // A GPU yields zero for an index out of range.
      {"Gather", WithZeros},
      {"GatherV2", WithZeros},
      {"GatherNd", WithZeros},
      {"Unpack", Same<0>},
      {"Split", Same<1>},
      {"SplitV", Same<0>},
      {"MirrorPad", Same<0>},
      {"SpaceToDepth", Same<0>},
      {"DepthToSpace", Same<0>},
      {"Pad", WithZeros},
      {"SpaceToBatchND", WithZeros},
      {"BatchToSpaceND", Same<0>},
      {"Diag", WithZeros},
      {"MatrixDiag", WithZeros},
      {"MatrixBandPart", WithZeros},
      {"PadV2", [](In in) { return Join(Input(in, 0), Input(in, 2)); }},
      {"Pack", JoinAll},
      {"ConcatV2", JoinAllButLast},
      {"Concat", JoinAllButFirst},
      {"Select", JoinAllButFirst},
      {"SelectV2", JoinAllButFirst},

      // Control flow. A Merge yields the value of any of its inputs; ValueRanges handles loops.
      {"Enter", Same<0>},
      {"Exit", Same<0>},
      {"NextIteration", Same<0>},
      {"Switch", Same<0>},
      {"_SwitchN", Same<0>},
      {"Merge", JoinAll},

      // Picked or averaged values.
      {"Max", Same<0>},
      {"Min", Same<0>},
      {"Mean", Same<0>},
      {"MaxPool", Same<0>},
      {"AvgPool", Same<0>},
      {"MaxPool3D", Same<0>},
      {"AvgPool3D", Same<0>},
      {"ResizeBilinear", Same<0>},
      {"ResizeNearestNeighbor", Same<0>},

      // Arithmetic.
      {"Add", [](In in) { return Plus(Input(in, 0), Input(in, 1)); }},
      {"AddV2", [](In in) { return Plus(Input(in, 0), Input(in, 1)); }},
      {"BiasAdd", [](In in) { return Plus(Input(in, 0), Input(in, 1)); }},
      {"AddN", AddAll},
      {"Sum", Sum},
      {"MatMul", Product},
      {"BatchMatMul", Product},
      {"BatchMatMulV2", Product},
      {"BatchMatMulV3", Product},
      {"Conv2D", Product},
      {"Conv3D", Product},
      {"DepthwiseConv2dNative", Product},
      {"Sub", Subtract},
      {"Mul", Multiply},
      {"RealDiv", Divide},
      {"Div", Divide},
      {"Reciprocal", Inverse},
      {"Inv", Inverse},
      {"SquaredDifference", SquaredDifference},
      {"Square", Square},
      {"Neg", Negative},
      {"Abs", Magnitudes},
      {"Sign", Between<-1, 1>},
      {"Maximum", Maximum},
      {"Minimum", Minimum},
      {"ClipByValue", Clip},
      {"Floor", Down},
      {"Ceil", Up},
      {"Round", ToNearest},
      {"Rint", ToNearest},
      {"L2Loss", NotNegative},
      {"EuclideanNorm", NotNegative},

      // Functions.
      {"Exp", Exponential},
      {"Expm1", ExponentialMinusOne},
      {"Log", OfNotNegative<std::log>},
      {"Log1p", LogOnePlus},
      {"Sqrt", OfNotNegative<std::sqrt>},
      {"Rsqrt", InverseSquareRoot},
      {"Sin", Between<-1, 1>},
      {"Cos", Cosine},
      {"Erf", ErrorFunction},
      {"Erfc", Between<0, 2>},
      {"Sigmoid", Sigmoid},
      {"Tanh", HyperbolicTangent},
      {"Softsign", Between<-1, 1>},
      {"Softplus", Softplus},
      {"Relu", Relu},
      {"Relu6", Relu6},
      {"LeakyRelu", LeakyRelu},
      {"Elu", Elu},
      {"Softmax", Between<0, 1>},
      {"LogSoftmax", NotPositive},
  };
  return *table;
}

}  // namespace

OpRange OpRangeOf(const std::string& op) {
  const auto found = Table().find(op);
  return found == Table().end() ? nullptr : found->second;
}

}  // namespace npu_precision
