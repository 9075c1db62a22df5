#include "cc/ops_info_folder.h"

#include "absl/strings/str_cat.h"
#include "cc/device_folders.h"
#include "cc/files.h"
#include "cc/tf_compat.h"
#include "graph_passes/lists/json_text.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/io/path.h"
#include "tensorflow/core/platform/env.h"

namespace npu_precision {
namespace {

using tensorflow::Status;
using tensorflow::errors::InvalidArgument;

// A file from CANN may have hundreds of op types that are unknown here.
constexpr size_t kMostWarnings = 3;

void Warn(const std::string& parameter, const std::string& file,
          const std::vector<OpsInfoProblem>& problems, std::vector<std::string>* warnings) {
  for (size_t i = 0; i < problems.size() && i < kMostWarnings; ++i) {
    warnings->push_back(absl::StrCat(parameter, ": ", problems[i].place, ": ", problems[i].text));
  }
  if (problems.size() <= kMostWarnings) return;
  warnings->push_back(absl::StrCat(parameter, ": ", file, ": ", problems.size() - kMostWarnings,
                                   " more entries or keys are not known; `npu-precision lint ",
                                   file, "` names them"));
}

// Reads the .json files of one folder into `ops`.
Status ReadFolder(const std::string& parameter, const std::string& folder, const IrNames& ir_names,
                  OpsInfo* ops, std::vector<std::string>* warnings) {
  std::vector<std::string> files;
  TF_RETURN_IF_ERROR(ListJsonFiles(parameter, folder, &files));
  for (const std::string& file : files) {
    std::string text;
    TF_RETURN_IF_ERROR(ReadFile(parameter, file, kMaxJsonBytes, &text));
    std::vector<OpsInfoProblem> problems;
    const Status parsed = ParseOpsInfo(file, text, ir_names, ops, &problems);
    if (!parsed.ok()) return InvalidArgument(parameter, ": ", StatusText(parsed));
    Warn(parameter, file, problems, warnings);
  }
  return Status();
}

}  // namespace

Status AddOpsInfoFolder(const std::string& parameter, const std::string& folder,
                        const IrNames& ir_names, tensorflow::DataType low_type, OpLists* lists,
                        std::vector<std::string>* warnings) {
  OpsInfo common;
  TF_RETURN_IF_ERROR(ReadFolder(parameter, folder, ir_names, &common, warnings));
  for (DeviceKind kind : {DeviceKind::kOther, DeviceKind::kCpu, DeviceKind::kGpu}) {
    lists->AddOpsInfo(kind, common, false);
  }
  for (const DeviceFolder& device : DeviceFolders()) {
    const std::string path = tensorflow::io::JoinPath(folder, device.name);
    if (!tensorflow::Env::Default()->IsDirectory(path).ok()) continue;
    OpsInfo ops;
    TF_RETURN_IF_ERROR(ReadFolder(parameter, path, ir_names, &ops, warnings));
    if (Applies(device, low_type)) lists->AddOpsInfo(device.kind, std::move(ops), false);
  }
  return Status();
}

}  // namespace npu_precision
