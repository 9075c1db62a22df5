// Gives each reader of an empty TensorList a list of its own:
//
//   list = EmptyTensorList; Enter_1(list), Enter_2(list)
//   becomes  list = EmptyTensorList, list/npu_of_reader = EmptyTensorList;
//            Enter_1(list), Enter_2(list/npu_of_reader)
//
// TensorFlow keeps one node of those that are alike, for instance for all that the gradient of a
// loop needs of the forward pass. But the lists that come of it would all have one dtype.
//
// Refused: what the user's files name, or the caller feeds.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_SEPARATE_LISTS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_SEPARATE_LISTS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status SeparateLists(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_SEPARATE_LISTS_H_
