// Ops-info files in CANN's format: the list of each op, and the dtypes that the target supports.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_OPS_INFO_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_OPS_INFO_H_

#include <map>
#include <string>
#include <unordered_map>

#include "graph_passes/lists/ir_names.h"
#include "graph_passes/lists/list_color.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// The floating dtypes that one input or output of an op may have.
struct FloatDtypes {
  bool float32 = false;
  bool float16 = false;
  bool bfloat16 = false;

  // True for every dtype that is not one of the three.
  bool Allows(tensorflow::DataType dtype) const;
};

struct OpInfo {
  ListColor color = ListColor::kGray;
  // Restrictions, by the index of the OpDef's argument. An absent argument may have any dtype.
  std::map<int, FloatDtypes> inputs;
  std::map<int, FloatDtypes> outputs;
  std::string place;  // "FILE:LINE:COLUMN"
};

// By op type of TensorFlow.
using OpsInfo = std::unordered_map<std::string, OpInfo>;

// Adds the entries of one file. The entry of an op replaces an earlier one as a whole. A key may be
// an Ascend IR name; within a file, the entry with an op's own name beats that of an IR name.
tensorflow::Status ParseOpsInfo(const std::string& file, const std::string& text,
                                const IrNames& ir_names, OpsInfo* ops);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_OPS_INFO_H_
