#include "graph_passes/lists/ops_info_keys.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/did_you_mean.h"

namespace npu_precision {
namespace {

using Names = std::vector<std::string>;

// Keys of an entry, besides precision_reduce, inputN and outputN:
// https://www.hiascend.com/document/
// detail/zh/canncommercial/latest/others/tbeaicpudevg/atlasopdev_10_0079.html
const Names& KeysWithoutEffect() {
  static const auto* names = new Names{"aclnnSupport",
                                       "async",
                                       "attr",
                                       "binfile",
                                       "compute",
                                       "dynamicCompileStatic",
                                       "dynamicFormat",
                                       "dynamicRankSupport",
                                       "dynamicShapeSupport",
                                       "enableVectorCore",
                                       "heavyOp",
                                       "imply",
                                       "inputMemContinues",
                                       "jitCompile",
                                       "kernel",
                                       "multiKernelSupportDynamicGraph",
                                       "needCheckSupport",
                                       "op",
                                       "opFile",
                                       "opInfo",
                                       "opInterface",
                                       "outputInplaceAbility",
                                       "outputMemContinues",
                                       "param",
                                       "partial",
                                       "prebuildPattern",
                                       "promoteType",
                                       "rangeLimit",
                                       "slicePattern",
                                       "softsync",
                                       "unknownshape"};
  return *names;
}

// Keys of an input or output, besides dtype.
const Names& ArgumentKeysWithoutEffect() {
  static const auto* names = new Names{"dtypeForBin",
                                       "format",
                                       "formatForBin",
                                       "formatMatchMode",
                                       "ignoreContiguous",
                                       "initValue",
                                       "isOutputShapeDependOnCompute",
                                       "name",
                                       "needCompile",
                                       "outputShapeDependOnCompute",
                                       "paramType",
                                       "reshapeType",
                                       "shape",
                                       "sub_format",
                                       "unknownshape_dtype",
                                       "unknownshape_format",
                                       "valueDepend",
                                       "virtual"};
  return *names;
}

// The key without case and separators.
std::string Folded(const std::string& key) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(key), {{"_", ""}, {"-", ""}});
}

bool IsAmong(const std::string& name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

KeyVerdict JudgeKey(KeysOf keys, const std::string& key) {
  const bool is_entry = keys == KeysOf::kEntry;
  const Names& others = is_entry ? KeysWithoutEffect() : ArgumentKeysWithoutEffect();
  // Keys such as attr_axis describe an attribute's allowed values.
  if (IsAmong(key, others) || (is_entry && absl::StartsWith(key, "attr_")))
    return {true, false, ""};
  const std::string folded = Folded(key);
  for (const char* kind : {"input", "output"}) {
    if (!is_entry || !absl::StartsWith(folded, kind)) continue;
    return {false, true,
            absl::StrCat("got key ", Quoted(key), ", expected one like \"", kind, "0\"")};
  }
  const std::string with_effect = is_entry ? kPrecisionReduce : "dtype";
  Names all = others;
  all.push_back(with_effect);
  const KnownNames names(all);
  const std::string* nearest = names.Nearest(key);
  if (folded == Folded(with_effect) || (nearest != nullptr && *nearest == with_effect)) {
    return {false, true,
            absl::StrCat("got key ", Quoted(key), "; did you mean '", with_effect, "'?")};
  }
  return {false, false,
          absl::StrCat("got key ", Quoted(key),
                       ", which CANN's format does not have, so it has no effect",
                       DidYouMean(key, names))};
}

}  // namespace npu_precision
