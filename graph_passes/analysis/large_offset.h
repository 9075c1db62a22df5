// From which magnitude on a number that is added or subtracted hides what it is added to.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LARGE_OFFSET_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LARGE_OFFSET_H_

namespace npu_precision {

// Next to such an offset, bfloat16 has steps of 1/8 and float16 of 1/64. Activations such as a hard
// swish add at most 6.
constexpr float kLargeOffset = 16;

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LARGE_OFFSET_H_
