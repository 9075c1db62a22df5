#include "cc/targets.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cc/embedded_configs.h"
#include "cc/files.h"
#include "cc/parameters.h"
#include "cc/tf_compat.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/did_you_mean.h"
#include "graph_passes/lists/json_text.h"
#include "graph_passes/lists/mixlist_warnings.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/platform/logging.h"

namespace npu_precision {
namespace {

using tensorflow::Status;
using tensorflow::errors::InvalidArgument;

constexpr char kIrNamesFile[] = "ascend_ir_names.json";
constexpr char kMagnifiersFile[] = "magnifiers.json";

// A folder of lists for CPUs in the modes that lower to bfloat16, and whether it applies here.
struct Bfloat16Folder {
  const char* device;
  bool (*applies)();
};
constexpr Bfloat16Folder kBfloat16Folders[] = {
    {"cpu_onednn_bfloat16", OneDnnComputesInBfloat16},
    {"cpu_bfloat16_mean", MeanOfBfloat16AddsInFloat32},
};

const Bfloat16Folder* FindBfloat16Folder(const std::string& device) {
  for (const Bfloat16Folder& folder : kBfloat16Folders) {
    if (device == folder.device) return &folder;
  }
  return nullptr;
}

// "host/cpu/softmax.json": target, device folder or "", in that order.
struct ConfigPath {
  std::string target, device;
};

ConfigPath Parse(const std::string& path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  if (parts.size() == 2) return {parts[0], ""};
  if (parts.size() == 3) return {parts[0], parts[1]};
  return {"", ""};
}

DeviceKind KindOfFolder(const std::string& device) {
  if (device == "cpu") return DeviceKind::kCpu;
  if (device == "gpu") return DeviceKind::kGpu;
  return DeviceKind::kOther;
}

// Parses every file that is built into the library. A mistake in one ends the process at once. It
// cannot reach a user, because the project's tests load all of them.
struct BuiltIns {
  IrNames ir_names;
  Magnifiers magnifiers;
  std::map<std::string, OpLists> lists;           // by target
  std::map<std::string, OpLists> bfloat16_lists;  // the same, in the modes that lower to bfloat16

  BuiltIns() {
    for (const EmbeddedFile& file : EmbeddedConfigs()) {
      if (std::string(file.path) == kIrNamesFile) {
        TF_CHECK_OK(ParseIrNames(file.path, std::string(file.text, file.size), &ir_names));
      }
      if (std::string(file.path) == kMagnifiersFile) {
        TF_CHECK_OK(ParseMagnifiers(file.path, std::string(file.text, file.size), &magnifiers));
      }
    }
    std::map<std::string, std::map<DeviceKind, OpsInfo>> infos;
    std::map<std::string, OpsInfo> bfloat16_infos;
    for (const EmbeddedFile& file : EmbeddedConfigs()) {
      const ConfigPath path = Parse(file.path);
      if (path.target.empty()) continue;
      const Bfloat16Folder* bfloat16 = FindBfloat16Folder(path.device);
      if (bfloat16 != nullptr && !bfloat16->applies()) continue;
      OpsInfo* ops = bfloat16 != nullptr ? &bfloat16_infos[path.target]
                                         : &infos[path.target][KindOfFolder(path.device)];
      TF_CHECK_OK(ParseOpsInfo(file.path, std::string(file.text, file.size), ir_names, ops));
    }
    for (auto& target : infos) {
      for (auto& device : target.second) {
        lists[target.first].AddOpsInfo(device.first, std::move(device.second), true);
      }
    }
    bfloat16_lists = lists;
    for (auto& target : bfloat16_infos) {
      bfloat16_lists[target.first].AddOpsInfo(DeviceKind::kCpu, std::move(target.second), true);
    }
  }
};

const BuiltIns& TheBuiltIns() {
  static const auto* built_ins = new BuiltIns();
  return *built_ins;
}

const OpLists& BuiltInLists(const std::string& target, tensorflow::DataType low_type) {
  const BuiltIns& all = TheBuiltIns();
  return (low_type == tensorflow::DT_BFLOAT16 ? all.bfloat16_lists : all.lists).at(target);
}

Status LoadOpsInfoFolder(const std::string& folder, OpLists* lists) {
  std::vector<std::string> files;
  TF_RETURN_IF_ERROR(ListJsonFiles("ops_info_dir", folder, &files));
  OpsInfo ops;
  for (const std::string& file : files) {
    std::string text;
    TF_RETURN_IF_ERROR(ReadFile("ops_info_dir", file, kMaxJsonBytes, &text));
    const Status parsed = ParseOpsInfo(file, text, BuiltInIrNames(), &ops);
    if (!parsed.ok()) return InvalidArgument("ops_info_dir: ", StatusText(parsed));
  }
  lists->AddOpsInfo(DeviceKind::kOther, std::move(ops), false);
  return Status();
}

Status LoadEdits(const Parameters& parameters, std::vector<MixlistEntry>* entries) {
  const std::string& file = parameters.modify_mixlist;
  if (!file.empty()) {
    std::string text;
    TF_RETURN_IF_ERROR(ReadFile("modify_mixlist", file, kMaxJsonBytes, &text));
    const Status parsed = ParseMixlist(file, text, BuiltInIrNames(), entries);
    if (!parsed.ok()) return InvalidArgument("modify_mixlist: ", StatusText(parsed));
  }
  if (parameters.mixlist_edits.empty()) return Status();
  const size_t of_file = entries->size();
  TF_RETURN_IF_ERROR(
      ParseMixlist("mixlist_edits", parameters.mixlist_edits, BuiltInIrNames(), entries));
  for (size_t i = of_file; i < entries->size(); ++i) (*entries)[i].for_any_graph = true;
  return Status();
}

}  // namespace

std::vector<std::string> TargetNames() {
  std::vector<std::string> names;
  for (const auto& entry : TheBuiltIns().lists) names.push_back(entry.first);
  return names;
}

Status CheckTarget(const std::string& target) {
  const std::vector<std::string> names = TargetNames();
  if (std::find(names.begin(), names.end(), target) != names.end()) return Status();
  return InvalidArgument("target: got ", Quoted(target), ", expected one of ",
                         absl::StrJoin(names, ", "), DidYouMean(target, names));
}

const IrNames& BuiltInIrNames() { return TheBuiltIns().ir_names; }

const Magnifiers& BuiltInMagnifiers() { return TheBuiltIns().magnifiers; }

Status LoadTargetLists(const Parameters& parameters, OpLists* lists) {
  if (!parameters.ops_info_dir.empty()) return LoadOpsInfoFolder(parameters.ops_info_dir, lists);
  *lists = BuiltInLists(parameters.target, parameters.mode.low_type);
  return Status();
}

Status LoadLists(const Parameters& parameters, OpLists* lists, std::vector<std::string>* warnings) {
  TF_RETURN_IF_ERROR(LoadTargetLists(parameters, lists));
  std::vector<MixlistEntry> entries;
  TF_RETURN_IF_ERROR(LoadEdits(parameters, &entries));
  lists->Edit(std::move(entries), warnings);
  if (parameters.all_white) lists->WhitenAll();
  for (const EntryWarning& warning : UnknownOpWarnings(lists->edits(), BuiltInIrNames())) {
    warnings->push_back(warning.Line());
  }
  return Status();
}

Status LoadCustomDtypes(const Parameters& parameters, CustomDtypesFile* file,
                        std::vector<std::string>* warnings) {
  const std::string& path = parameters.customize_dtypes;
  if (path.empty()) return Status();
  std::string text;
  TF_RETURN_IF_ERROR(ReadFile("customize_dtypes", path, kMaxJsonBytes, &text));
  std::vector<CustomDtypes> lines;
  const Status parsed = ParseCustomDtypes(path, text, BuiltInIrNames(), &lines);
  if (!parsed.ok()) return InvalidArgument("customize_dtypes: ", StatusText(parsed));
  const std::vector<MixlistEntry> op_types = OpTypeEntries(lines);
  for (const EntryWarning& warning : UnknownOpWarnings(op_types, BuiltInIrNames())) {
    warnings->push_back(warning.Line());
  }
  *file = CustomDtypesFile(std::move(lines));
  return Status();
}

}  // namespace npu_precision
