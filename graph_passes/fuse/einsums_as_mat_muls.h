// Writes an Einsum of two operands that have batch dimensions in common, as attention has two, as a
// BatchMatMul between Transposes:
//
//   Einsum "aecd,abcd->acbe" (k, q)   becomes  BatchMatMulV2(Transpose(q), Transpose(k), adj_y)
//   Einsum "acbe,aecd->abcd" (p, v)   becomes  Transpose(BatchMatMulV2(p, Transpose(v)))
//
// TensorFlow's Einsum does the same inside, but transposes by Eigen, and oneDNN has a kernel for a
// Transpose. The order of the operands, and that of the batch dimensions, are those that leave the
// fewest Transposes. Operands that several Einsums transpose alike are transposed once.
//
// Refused: where an operand or the result has another number of dimensions than batch, rows,
// columns and the one that is summed over need, or one label twice, or an ellipsis; operands whose
// rank is not known, or which are known to differ in what they have in common; nodes with control
// inputs, of another dtype than float32, or not on a CPU; a node that the caller feeds, that keeps
// float32 by its scope, or that a file of the user names.
//
// Operands that differ in a batch dimension are an error of an Einsum. Where their sizes are not
// known and one of them turns out to be 1, a BatchMatMul repeats it.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_EINSUMS_AS_MAT_MULS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_EINSUMS_AS_MAT_MULS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status WriteEinsumsAsMatMuls(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_EINSUMS_AS_MAT_MULS_H_
