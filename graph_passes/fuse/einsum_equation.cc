#include "graph_passes/fuse/einsum_equation.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_split.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {

bool ReadEinsumEquation(const tensorflow::NodeDef& einsum, EinsumEquation* equation) {
  const auto found = einsum.attr().find("equation");
  if (found == einsum.attr().end()) return false;
  const std::vector<std::string> sides = absl::StrSplit(found->second.s(), "->");
  if (sides.size() != 2) return false;
  const std::vector<std::string> operands = absl::StrSplit(sides[0], ',');
  if (operands.size() != 2) return false;
  equation->operands[0] = operands[0];
  equation->operands[1] = operands[1];
  equation->result = sides[1];
  return true;
}

bool AllDiffer(std::string labels) {
  std::sort(labels.begin(), labels.end());
  return std::adjacent_find(labels.begin(), labels.end()) == labels.end();
}

}  // namespace npu_precision
