#include "graph_passes/graph/quoted.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace npu_precision {
namespace {

constexpr size_t kLongestQuote = 200;

}  // namespace

std::string Quoted(const std::string& text) {
  if (text.size() <= kLongestQuote) return absl::StrCat("'", absl::CHexEscape(text), "'");
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kLongestQuote)), "...' (", text.size(),
                      " bytes)");
}

}  // namespace npu_precision
