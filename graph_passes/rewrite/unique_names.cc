#include "graph_passes/rewrite/unique_names.h"

#include "absl/strings/str_cat.h"

namespace npu_precision {

std::string UniqueNames::Take(const std::string& wanted) {
  if (TakeIfFree(wanted)) return wanted;
  std::string name;
  do {
    name = absl::StrCat(wanted, "_", ++last_suffix_[wanted]);
  } while (!TakeIfFree(name));
  return name;
}

bool UniqueNames::TakeIfFree(const std::string& name) {
  return view_.IndexOf(name) < 0 && taken_.insert(name).second;
}

}  // namespace npu_precision
