// Lowers TensorLists that the body of a While reads its steps from, or writes its results to:
//
//   list = TensorListFromTensor(x); body(list): op(Cast(TensorListGetItem(list)))
//   becomes  list = TensorListFromTensor(Cast(x)); body(list): op(TensorListGetItem(list))
//
// Refused: lists with any other reader or writer, in the body or outside.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_LISTS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_LISTS_H_

#include "graph_passes/graph/graph_body.h"
#include "graph_passes/rewrite/movable_casts.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

// Lowers the list in variable `i` of the loop. Returns its low type, or DT_INVALID if it stays.
tensorflow::DataType LowerListOfLoop(GraphBody* caller, const tensorflow::NodeDef& loop, int i,
                                     GraphBody* body, GraphBody* condition, MovableCasts* casts);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_LISTS_H_
