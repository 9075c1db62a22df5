// Sets the decided dtypes and inserts the Casts that they need. Decides nothing itself.
//
// Puts a Cast on every edge whose two ends no longer agree. The Cast is shared by all consumers.
// Before: relu -> MatMul(float32) -> Exp.
// After: relu -> Cast -> MatMul(float16) -> Cast -> Exp(float32).
// A preserved node that changed is renamed, and a Cast takes its name. In cube mode inputs are
// rounded by two Casts instead.
//
// The special cases have files of their own: shared_casts, loop_carriers (loops), reference_casts
// (reference variables), rename_stateful (nodes with state), unique_names.
//
// Some later passes change dtypes too. lower_io_types lowers marked inputs if the caller asks for
// it. compute_in_float32 and emulate raise nodes that were lowered here; restore_float16 undoes
// compute_in_float32 in a later run. No other pass changes the dtype of a node. classify_nodes and
// plan_fused_ops try dtypes on copies, to ask whether a kernel exists.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_INSERT_CASTS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_INSERT_CASTS_H_

#include <string>

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status InsertCasts(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_INSERT_CASTS_H_
