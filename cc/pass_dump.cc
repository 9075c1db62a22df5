#include "cc/pass_dump.h"

#include "absl/strings/str_cat.h"
#include "cc/files.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {

tensorflow::Status PassDump::Show(int number, const std::string& pass, const std::string& text) {
  if (own_.empty()) {
    TF_RETURN_IF_ERROR(MakeNewFolder("dump_passes_dir", folder_, FileStem(graph_), &own_));
  }
  const std::string name = absl::StrCat(absl::Dec(number, absl::kZeroPad2), "_", pass, ".txt");
  return WriteFile("dump_passes_dir", own_, name, text);
}

}  // namespace npu_precision
