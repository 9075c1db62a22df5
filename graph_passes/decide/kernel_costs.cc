#include "graph_passes/decide/kernel_costs.h"

#include <string>
#include <unordered_map>

#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {

double ExtraCasts(const tensorflow::NodeDef& node) {
  // Measured with 2 million elements on two cores with avx512_bf16, TensorFlow 2.15 and 2.21: the
  // smaller one of both. 1 is what Mul takes longer.
  static const auto* costs =
      new std::unordered_map<std::string, double>{{"Sigmoid", 9},
                                                  {"Tanh", 2.5},
                                                  {"Relu", 1.4},
                                                  {"Relu6", 4},
                                                  {"LeakyRelu", 1.2},
                                                  {"Selu", 6},
                                                  {"Softplus", 10},
                                                  {"Softsign", 3.3},
                                                  {"Exp", 2.9},
                                                  {"Log", 3},
                                                  {"Log1p", 3.4},
                                                  {"Erf", 2.9},
                                                  {"Erfc", 2.3},
                                                  {"Rsqrt", 2.2},
                                                  {"Sqrt", 0.7},
                                                  {"Inv", 1.9},
                                                  {"Reciprocal", 1.9},
                                                  {"Add", 1},
                                                  {"AddV2", 1},
                                                  {"Sub", 0.9},
                                                  {"Mul", 1},
                                                  {"RealDiv", 1},
                                                  {"Square", 1},
                                                  {"Maximum", 1.4},
                                                  {"Minimum", 1.5},
                                                  {"BiasAdd", 1},
                                                  {"Floor", 1.1},
                                                  {"SquaredDifference", 3.1},
                                                  {"SigmoidGrad", 5.5},
                                                  {"TanhGrad", 5.2},
                                                  {"ReluGrad", 1.6},
                                                  {"Relu6Grad", 2.1},
                                                  {"EluGrad", 2.9},
                                                  {"RsqrtGrad", 7},
                                                  {"SqrtGrad", 3.4},
                                                  {"InvGrad", 3.3},
                                                  {"ReciprocalGrad", 3.3},
                                                  {"SoftplusGrad", 9},
                                                  {"LeakyReluGrad", 1.8},
                                                  // These only move values, or work on bits.
                                                  {"Pad", -0.2},
                                                  {"Tile", -0.3},
                                                  {"ConcatV2", -0.3},
                                                  {"Transpose", -0.1},
                                                  {"Neg", -0.3},
                                                  {"Abs", -0.3}};
  if (node.op() == "AddN") {
    const auto count = node.attr().find("N");
    return count != node.attr().end() && count->second.i() == 2 ? 0.8 : 3;
  }
  const auto found = costs->find(node.op());
  return found == costs->end() ? 0 : found->second;
}

}  // namespace npu_precision
