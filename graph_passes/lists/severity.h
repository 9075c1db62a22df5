// The severity of a finding about a user's file.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_SEVERITY_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_SEVERITY_H_

namespace npu_precision {

enum class Severity : unsigned char { kError, kWarning, kNote };

inline const char* SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "error";
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_SEVERITY_H_
