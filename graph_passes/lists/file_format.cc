#include "graph_passes/lists/file_format.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph_passes/lists/json_text.h"
#include "graph_passes/lists/known_ops.h"
#include "re2/re2.h"

namespace npu_precision {
namespace {

// {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {...}}}
bool IsFusionSwitch(const Json::Value& root) {
  if (root.size() != 1 || !root.isMember("Switch")) return false;
  const Json::Value& fusions = root["Switch"];
  return fusions.isObject() && (fusions.isMember("GraphFusion") || fusions.isMember("UBFusion"));
}

// Lines such as "ConvBatchnormFusionPass:off".
bool HasSwitchLines(const std::string& text) {
  static const auto* line_of = new RE2(R"(\s*\w+\s*:\s*(?i:on|off)\s*)");
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  return std::all_of(lines.begin(), lines.end(),
                     [](const std::string& line) { return RE2::FullMatch(line, *line_of); });
}

}  // namespace

const char* FileFormatName(FileFormat format) {
  switch (format) {
    case FileFormat::kMixlist:
      return "modify_mixlist";
    case FileFormat::kCustomDtypes:
      return "customize_dtypes";
    case FileFormat::kOpsInfo:
      return "ops-info";
    case FileFormat::kFusionSwitch:
      break;
  }
  return "fusion_switch_file";
}

FileFormat DetectFormat(const std::string& text, const IrNames& ir_names) {
  // A mixlist begins so, perhaps after a comment, and no line of a customize_dtypes file does.
  static const auto* begins_json = new RE2(R"((?:\xef\xbb\xbf)?\s*(?:[{\["/].*)?)", [] {
    RE2::Options options(RE2::Latin1);
    options.set_dot_nl(true);
    return options;
  }());
  if (!RE2::FullMatch(text, *begins_json)) {
    return HasSwitchLines(text) ? FileFormat::kFusionSwitch : FileFormat::kCustomDtypes;
  }
  JsonDocument document;
  if (!ParseJson("", text, &document).ok()) return FileFormat::kMixlist;
  if (IsFusionSwitch(document.root)) return FileFormat::kFusionSwitch;
  const std::vector<std::string> names = document.root.getMemberNames();
  const bool has_ops = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return IsKnownOp(name, ir_names);
  });
  return has_ops ? FileFormat::kOpsInfo : FileFormat::kMixlist;
}

}  // namespace npu_precision
