// Writes an Einsum of two operands with common batch dimensions, such as the two Einsums of
// attention, as a BatchMatMul between Transposes:
//
//   Einsum "aecd,abcd->acbe" (k, q)   becomes  BatchMatMulV2(Transpose(q), Transpose(k), adj_y)
//   Einsum "acbe,aecd->abcd" (p, v)   becomes  Transpose(BatchMatMulV2(p, Transpose(v)))
//
// TensorFlow's Einsum does the same internally, but transposes with Eigen, while oneDNN has a
// kernel for Transpose. The pass chooses the order of the operands and of the batch dimensions that
// needs the fewest Transposes. Operands that several Einsums transpose alike are transposed once.
//
// Refused: operands or results with dimensions other than batch, rows, columns and the summed one,
// with a label twice, or with an ellipsis; operands whose rank is not known, or whose common
// dimensions are known to differ; nodes with control inputs, of another dtype than float32, or not
// on a CPU; a node that the caller feeds, that keeps float32 by its scope, or that a file of the
// user names.
//
// Operands that differ in a batch dimension are an error in an Einsum. If their sizes are not known
// and one of them is 1 at run time, a BatchMatMul broadcasts it.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_EINSUMS_AS_MAT_MULS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_EINSUMS_AS_MAT_MULS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status WriteEinsumsAsMatMuls(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_EINSUMS_AS_MAT_MULS_H_
