// Detects which of the files that users write a text is.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_FILE_FORMAT_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_FILE_FORMAT_H_

#include <string>

#include "graph_passes/lists/ir_names.h"

namespace npu_precision {

// kFusionSwitch is CANN's file that switches its fusions on and off, which has no effect here.
enum class FileFormat { kMixlist, kCustomDtypes, kOpsInfo, kFusionSwitch };

// "modify_mixlist", "customize_dtypes", "ops-info", "fusion_switch_file".
const char* FileFormatName(FileFormat format);

// A JSON object is a fusion switch file if its only key is one of that format, an ops-info file if
// one of its keys is an op type, and otherwise a mixlist. Other text is a fusion switch file if
// each line is "NAME:on" or "NAME:off", and otherwise a customize_dtypes file. An empty text is a
// mixlist, which may not be empty.
FileFormat DetectFormat(const std::string& text, const IrNames& ir_names);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_FILE_FORMAT_H_
