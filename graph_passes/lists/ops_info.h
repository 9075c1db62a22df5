// Ops-info files in CANN's format: the list of each op, and the dtypes that the target supports.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_OPS_INFO_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_OPS_INFO_H_

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph_passes/lists/ir_names.h"
#include "graph_passes/lists/list_color.h"
#include "graph_passes/lists/severity.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// The floating dtypes that one input or output of an op may have.
struct FloatDtypes {
  bool float32 = false;
  bool float16 = false;
  bool bfloat16 = false;

  static FloatDtypes All() {
    FloatDtypes all;
    all.float32 = all.float16 = all.bfloat16 = true;
    return all;
  }

  // True for every dtype that is not one of the three.
  bool Allows(tensorflow::DataType dtype) const;

  // "float16,float32", as written in a file.
  std::string Text() const;
};

// Parses names of dtypes separated by commas. Returns false if a name is not a dtype; `error` has
// the name.
bool ParseFloatDtypes(const std::string& text, FloatDtypes* dtypes, std::string* error);

struct OpInfo {
  ListColor color = ListColor::kGray;
  // Restrictions, by the index of the OpDef's argument.
  std::map<int, FloatDtypes> inputs;
  std::map<int, FloatDtypes> outputs;
  // The dtypes that a type attribute may have if no restricted argument is bound to it: those of
  // the target.
  FloatDtypes otherwise = FloatDtypes::All();
  std::string place;  // "FILE:LINE:COLUMN"
  // Why the ops of its file are on their list, in words. CANN's format has no such key.
  std::string why;
};

// By op type of TensorFlow.
using OpsInfo = std::unordered_map<std::string, OpInfo>;

// One entry of a file. The name is TensorFlow's or Ascend's, as written.
struct OpsInfoEntry {
  std::string name;
  OpInfo info;
};

// A problem in a file. Only an error stops a run.
struct OpsInfoProblem {
  Severity severity;
  const char* rule;  // "unknown-key", the name by which lint calls it
  std::string place;
  std::string text;
};

// Reads the entries of a file, in the order of their names. `problems` gets what is wrong in it:
// wrong types, unknown dtypes, keys that CANN's format does not have. Returns an error if the text
// is not a JSON object.
tensorflow::Status ReadOpsInfo(const std::string& file, const std::string& text,
                               std::vector<OpsInfoEntry>* entries,
                               std::vector<OpsInfoProblem>* problems);

// Adds the entries of one file to `ops`. Each replaces an earlier entry as a whole. An entry with
// an op's own name beats entries with an Ascend IR name for it. Among several of the latter, the
// one that keeps more in float32 wins. If one is white and another black, that is an error in
// `problems`.
void AddEntries(const std::vector<OpsInfoEntry>& entries, const IrNames& ir_names, OpsInfo* ops,
                std::vector<OpsInfoProblem>* problems);

// Warns about entries whose names neither TensorFlow nor Ascend knows.
void FindUnknownOps(const std::vector<OpsInfoEntry>& entries, const IrNames& ir_names,
                    std::vector<OpsInfoProblem>* problems);

// Runs the three steps. Returns the first error. `warnings`, unless it is nullptr, gets the
// warnings; only then are unknown ops searched.
tensorflow::Status ParseOpsInfo(const std::string& file, const std::string& text,
                                const IrNames& ir_names, OpsInfo* ops,
                                std::vector<OpsInfoProblem>* warnings = nullptr);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_OPS_INFO_H_
