// Reads the user's own ops-info files, which replace a target's or are added on top of them.
#ifndef NPU_PRECISION_CC_OPS_INFO_FOLDER_H_
#define NPU_PRECISION_CC_OPS_INFO_FOLDER_H_

#include <string>
#include <vector>

#include "graph_passes/lists/ir_names.h"
#include "graph_passes/lists/op_lists.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Adds the .json files of `folder` to `lists`, in the order of their names, and those of its
// subfolders for one kind of device: see device_folders.h. An op's entry in a file directly in
// `folder` replaces the entries that `lists` has for any device. Errors name `parameter`;
// `warnings` gets a sentence for each file with unknown keys or op types.
tensorflow::Status AddOpsInfoFolder(const std::string& parameter, const std::string& folder,
                                    const IrNames& ir_names, tensorflow::DataType low_type,
                                    OpLists* lists, std::vector<std::string>* warnings);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_OPS_INFO_FOLDER_H_
