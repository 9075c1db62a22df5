#include "cc/targets.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cc/device_folders.h"
#include "cc/embedded_configs.h"
#include "cc/files.h"
#include "cc/ops_info_folder.h"
#include "cc/parameters.h"
#include "cc/tf_compat.h"
#include "graph_passes/graph/dtype_names.h"
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
constexpr char kTargetsFile[] = "targets.json";

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

// Ops-info by target and device folder.
using OpsInfos = std::map<std::string, std::map<std::string, OpsInfo>>;

OpsInfos ParseAll(const IrNames& ir_names) {
  OpsInfos infos;
  for (const EmbeddedFile& file : EmbeddedConfigs()) {
    const ConfigPath path = Parse(file.path);
    if (path.target.empty()) continue;
    TF_CHECK_OK(ParseOpsInfo(file.path, std::string(file.text, file.size), ir_names,
                             &infos[path.target][path.device]));
  }
  return infos;
}

// Parses every file that is built into the library. A mistake in one aborts the process. It cannot
// reach a user, because the project's tests load all of them.
struct BuiltIns {
  IrNames ir_names;
  Magnifiers magnifiers;
  std::map<std::string, TargetFacts> facts;
  std::map<std::string, OpLists> lists;           // by target
  std::map<std::string, OpLists> bfloat16_lists;  // the same, in the modes that lower to bfloat16

  BuiltIns() {
    for (const EmbeddedFile& file : EmbeddedConfigs()) {
      const std::string path = file.path, text(file.text, file.size);
      if (path == kIrNamesFile) TF_CHECK_OK(ParseIrNames(path, text, &ir_names));
      if (path == kMagnifiersFile) TF_CHECK_OK(ParseMagnifiers(path, text, &magnifiers));
      if (path == kTargetsFile) TF_CHECK_OK(ParseTargetFacts(path, text, &facts));
    }
    const OpsInfos infos = ParseAll(ir_names);
    for (const auto& target : facts) {
      lists[target.first] = Assemble(infos, target.second, target.first, tensorflow::DT_HALF);
      bfloat16_lists[target.first] =
          Assemble(infos, target.second, target.first, tensorflow::DT_BFLOAT16);
    }
  }

 private:
  static OpLists Assemble(const OpsInfos& infos, const TargetFacts& facts,
                          const std::string& target, tensorflow::DataType low_type) {
    OpLists lists(facts.computes);
    lists.set_follows_consumers(facts.follows_consumers);
    for (const std::string& name : {facts.lists_of, target}) {
      const auto folders = infos.find(name);
      if (folders == infos.end()) continue;
      lists.AddOpsInfo(DeviceKind::kOther, folders->second.at(""), true);
      for (const DeviceFolder& device : DeviceFolders()) {
        const auto ops = folders->second.find(device.name);
        if (ops == folders->second.end() || !Applies(device, low_type)) continue;
        lists.AddOpsInfo(device.kind, ops->second, true);
      }
    }
    return lists;
  }
};

const BuiltIns& TheBuiltIns() {
  static const auto* built_ins = new BuiltIns();
  return *built_ins;
}

Status LoadEdits(const Parameters& parameters, std::vector<MixlistEntry>* entries) {
  const std::string& file = parameters.modify_mixlist;
  if (IsMixlistItself(file)) {
    TF_RETURN_IF_ERROR(
        ParseMixlist("modify_mixlist", file, BuiltInIrNames(), entries, JsonPlaces::kKeys));
  } else if (!file.empty()) {
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

const TargetFacts& FactsOf(const std::string& target) { return TheBuiltIns().facts.at(target); }

std::map<std::string, OpsInfo> BuiltInOpsInfo(const std::string& target, const IrNames& ir_names) {
  OpsInfos infos = ParseAll(ir_names);
  std::map<std::string, OpsInfo> merged = infos[FactsOf(target).lists_of];
  for (const auto& folder : infos[target]) {
    for (const auto& op : folder.second) merged[folder.first][op.first] = op.second;
  }
  return merged;
}

Status LoadTargetLists(const Parameters& parameters, OpLists* lists,
                       std::vector<std::string>* warnings) {
  const tensorflow::DataType low_type = parameters.mode.low_type;
  const BuiltIns& all = TheBuiltIns();
  if (parameters.ops_info_dir.empty()) {
    *lists = (low_type == tensorflow::DT_BFLOAT16 ? all.bfloat16_lists : all.lists)
                 .at(parameters.target);
  } else {
    *lists = OpLists(FactsOf(parameters.target).computes);
    TF_RETURN_IF_ERROR(AddOpsInfoFolder("ops_info_dir", parameters.ops_info_dir, all.ir_names,
                                        low_type, lists, warnings));
  }
  if (parameters.ops_info_overlay.empty()) return Status();
  return AddOpsInfoFolder("ops_info_overlay", parameters.ops_info_overlay, all.ir_names, low_type,
                          lists, warnings);
}

Status LoadLists(const Parameters& parameters, OpLists* lists, std::vector<std::string>* warnings) {
  TF_RETURN_IF_ERROR(LoadTargetLists(parameters, lists, warnings));
  const PrecisionMode& mode = parameters.mode;
  if (Lowers(mode.rule) && !lists->ComputesIn(mode.low_type)) {
    warnings->push_back(absl::StrCat("precision_mode: got ", Quoted(mode.name), ", and target ",
                                     Quoted(parameters.target), ", which computes nothing in ",
                                     DtypeName(mode.low_type), ", so nothing is lowered"));
  }
  std::vector<MixlistEntry> entries;
  TF_RETURN_IF_ERROR(LoadEdits(parameters, &entries));
  lists->Edit(std::move(entries), warnings);
  if (parameters.all_white) lists->WhitenAll();
  if (parameters.white_only) lists->BlackenGray();
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
