// The targets and their op lists: the built-in ones, or the user's own ops-info folder.
#ifndef NPU_PRECISION_CC_TARGETS_H_
#define NPU_PRECISION_CC_TARGETS_H_

#include <map>
#include <string>
#include <vector>

#include "graph_passes/lists/custom_dtypes.h"
#include "graph_passes/lists/ir_names.h"
#include "graph_passes/lists/magnifiers.h"
#include "graph_passes/lists/op_lists.h"
#include "graph_passes/lists/target_facts.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

struct Parameters;

// The default: the machine on which the graph runs. Nothing is emulated.
constexpr char kHostTarget[] = "host";

std::vector<std::string> TargetNames();
tensorflow::Status CheckTarget(const std::string& target);

// Ascend's IR names, from the built-in data file.
const IrNames& BuiltInIrNames();

// The inputs whose errors an op magnifies, from the built-in data file. The same on every target.
const Magnifiers& BuiltInMagnifiers();

// The facts about a target, which must be one of TargetNames().
const TargetFacts& FactsOf(const std::string& target);

// The built-in ops-info of a target, by device folder, "" for all devices. It includes the entries
// that the target takes from another one. `ir_names` maps Ascend's names.
std::map<std::string, OpsInfo> BuiltInOpsInfo(const std::string& target, const IrNames& ir_names);

// Loads the lists of the target, or of ops_info_dir if that is given, and the lists of
// ops_info_overlay on top of them. An op may be on another list in modes that lower to bfloat16,
// depending on its kernels. `warnings` gets sentences about suspicious content of the user's files.
tensorflow::Status LoadTargetLists(const Parameters& parameters, OpLists* lists,
                                   std::vector<std::string>* warnings);

// Loads the same lists, edited by the file modify_mixlist and the text mixlist_edits. `warnings`
// also gets a sentence for each edit that may not do what its author expects.
tensorflow::Status LoadLists(const Parameters& parameters, OpLists* lists,
                             std::vector<std::string>* warnings);

// Loads the lines of the file customize_dtypes, if that is given. `warnings` gets the lines with
// unknown op types.
tensorflow::Status LoadCustomDtypes(const Parameters& parameters, CustomDtypesFile* file,
                                    std::vector<std::string>* warnings);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_TARGETS_H_
