// Adds up in float32 straight from tensors of the low type, without a Cast of each to float32.
//
//   AddN(Cast(a), b), AddV2(Cast(a), b)        become   NpuPrecisionSum(a, b)
//   BiasAdd(Cast(AddV2(a, b)), bias)           becomes  NpuPrecisionSum(a, b, bias)
//   BiasAddGrad(Cast(a)), Sum(Cast(a), [0, 1]) become   NpuPrecisionSumRows(a)
//   UnsortedSegmentSum(Cast(a), ids, n)        becomes  NpuPrecisionSumSegments(a, ids, n)
//
// as in the sum of a weight's gradients over the steps of a loop, in the gate of a recurrent cell,
// and in gradients of biases and embeddings. Float32 terms are added in their order. A sum of the
// low type that only a Cast to float32 reads is not rounded any more; but only where it comes first
// is it added together with float32 terms, beside which each of its own might be too small to
// count.
//
// Refused: a Cast that others read too, which would stay; sums that TensorFlow fuses into a product
// (fused_later.h); dimensions that broadcast, but for first ones that a term lacks; to compute in
// float32 what keep_dtype_scope() or a list on the node keeps.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_LOW_SUMS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_LOW_SUMS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status AddLowTerms(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_LOW_SUMS_H_
