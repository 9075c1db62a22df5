#include "graph_passes/decide/decision.h"

namespace npu_precision {

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNotFloat:
      return "not_float";
    case Verdict::kKept:
      return "kept";
    case Verdict::kLowered:
      return "lowered";
    case Verdict::kRaised:
      return "raised";
  }
  return "not_float";
}

Verdict VerdictFromName(const std::string& name) {
  for (Verdict verdict : {Verdict::kRaised, Verdict::kLowered}) {
    if (name == VerdictName(verdict)) return verdict;
  }
  return Verdict::kKept;
}

bool Decisions::ChangesAnything(const GraphView& view) const {
  if (!rounded_inputs.empty() || !rounded_outputs.empty()) return true;
  for (int group = 0; group < view.num_groups(); ++group) {
    if (group_dtypes[group] != view.group_numbered(group).dtype) return true;
  }
  return false;
}

}  // namespace npu_precision
