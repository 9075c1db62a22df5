// The targets and their op lists: the built-in ones, or the user's own ops-info folder.
#ifndef NPU_PRECISION_CC_TARGETS_H_
#define NPU_PRECISION_CC_TARGETS_H_

#include <string>
#include <vector>

#include "graph_passes/lists/ir_names.h"
#include "graph_passes/lists/op_lists.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

struct Parameters;

// The default: the machine the graph runs on, with nothing emulated.
constexpr char kHostTarget[] = "host";

std::vector<std::string> TargetNames();
tensorflow::Status CheckTarget(const std::string& target);

// Ascend's IR names, from the built-in data file.
const IrNames& BuiltInIrNames();

// The lists of the target, or of ops_info_dir where that is given. The kernels of the mode's low
// type may put an op on another list.
tensorflow::Status LoadTargetLists(const Parameters& parameters, OpLists* lists);

// The same, edited by the file modify_mixlist and the text mixlist_edits. `warnings` gets what the
// edits will surprise their author with.
tensorflow::Status LoadLists(const Parameters& parameters, OpLists* lists,
                             std::vector<std::string>* warnings);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_TARGETS_H_
