#include "graph_passes/graph/input_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace npu_precision {

ParsedInput ParseInput(absl::string_view input) {
  ParsedInput name = {input, 0, false};
  if (absl::ConsumePrefix(&name.producer, "^")) {
    name.is_control = true;
    return name;
  }
  // Names of nodes have no colon.
  const size_t colon = input.rfind(':');
  if (colon == absl::string_view::npos) return name;
  if (absl::SimpleAtoi(input.substr(colon + 1), &name.port)) {
    name.producer = input.substr(0, colon);
  } else {
    name.port = 0;
  }
  return name;
}

}  // namespace npu_precision
