// The user's customize_dtypes file: dtypes for the inputs and outputs of the nodes that it names.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_CUSTOM_DTYPES_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_CUSTOM_DTYPES_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "graph_passes/lists/ir_names.h"
#include "graph_passes/lists/mixlist.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// One line: "OpType::MatMulV2:InputDtype:float16,float16,OutputDtype:float32", or the same with
// "scope/name::" in place of "OpType::MatMulV2:".
struct CustomDtypes {
  std::string subject;  // the op type or the name of a node, as written
  std::string place;    // "FILE:LINE:COLUMN"
  bool names_op = false;
  // The op types of TensorFlow that the line names; none if TensorFlow lacks Ascend's op.
  std::vector<std::string> ops;
  std::vector<tensorflow::DataType> inputs, outputs;
  // Offsets in the file: of the line, its end of line included, and of the subject.
  size_t begin = 0, end = 0;
  size_t subject_begin = 0, subject_end = 0;
};

// An error in the file. If it has a fix, `replacement` replaces the text at these offsets.
struct CustomDtypesProblem {
  std::string place;
  std::string text;
  bool fixable = false;
  std::string replacement;
  size_t begin = 0, end = 0;
};

// Reads the lines of a file; empty lines are ignored. `problems` gets all errors in it. If there
// are no errors, it gets contradictions: two lines with different dtypes for one node or op type.
void ReadCustomDtypes(const std::string& file, const std::string& text, const IrNames& ir_names,
                      std::vector<CustomDtypes>* lines, std::vector<CustomDtypesProblem>* problems);

// As ReadCustomDtypes, but returns the first problem as an error.
tensorflow::Status ParseCustomDtypes(const std::string& file, const std::string& text,
                                     const IrNames& ir_names, std::vector<CustomDtypes>* lines);

// Converts the lines that name op types to mixlist entries, for the warnings that apply to both.
std::vector<MixlistEntry> OpTypeEntries(const std::vector<CustomDtypes>& lines);

// A lookup table of the lines of a file without problems.
class CustomDtypesFile {
 public:
  CustomDtypesFile() = default;
  explicit CustomDtypesFile(std::vector<CustomDtypes> lines);
  CustomDtypesFile(const CustomDtypesFile&) = delete;
  CustomDtypesFile& operator=(const CustomDtypesFile&) = delete;
  CustomDtypesFile& operator=(CustomDtypesFile&&) = default;

  bool empty() const { return lines_.empty(); }
  const std::vector<CustomDtypes>& lines() const { return lines_; }

  // The merged lines about a node, at the place of the first line, or nullptr.
  const CustomDtypes* OfName(const std::string& name) const;
  // The merged lines about an op type, or nullptr.
  const CustomDtypes* OfOp(const std::string& op) const;

 private:
  using Index = std::unordered_map<std::string, size_t>;
  const CustomDtypes* Find(const Index& index, const std::string& key) const;

  void Add(const std::string& key, const CustomDtypes& line, Index* index);

  std::vector<CustomDtypes> lines_;
  std::vector<CustomDtypes> merged_;  // several lines about one node or op type, merged
  Index of_name_, of_op_;             // indices into merged_
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_CUSTOM_DTYPES_H_
