#include "cc/parameters.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/inert_parameters.h"
#include "cc/rewrites_option.h"
#include "cc/targets.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/did_you_mean.h"
#include "graph_passes/pass_table.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::AttrValue;
using tensorflow::Status;
using tensorflow::errors::InvalidArgument;

// The values of `overflow`.
constexpr char kInfinity[] = "inf";
constexpr char kSaturate[] = "saturate";

const char* MemberOf(const AttrValue& value) {
  switch (value.value_case()) {
    case AttrValue::kS:
      return ".s (a string)";
    case AttrValue::kI:
      return ".i (an integer)";
    case AttrValue::kF:
      return ".f (a float)";
    case AttrValue::kB:
      return ".b (a bool)";
    case AttrValue::kType:
      return ".type";
    case AttrValue::kShape:
      return ".shape";
    case AttrValue::kTensor:
      return ".tensor";
    case AttrValue::kList:
      return ".list";
    case AttrValue::kFunc:
      return ".func";
    case AttrValue::kPlaceholder:
      return ".placeholder";
    case AttrValue::VALUE_NOT_SET:
      break;
  }
  return "no value";
}

Status CheckType(const ParameterType& parameter, const AttrValue& value) {
  const bool is_string = parameter.type == 's';
  if (value.value_case() == (is_string ? AttrValue::kS : AttrValue::kB)) return Status();
  return InvalidArgument(parameter.name, ": got ", MemberOf(value), ", expected ",
                         is_string ? ".s (a string)" : ".b (a bool)", "; write parameter_map[\"",
                         parameter.name, "\"].", parameter.type,
                         is_string ? " = b\"...\"" : " = True");
}

// Whether an unknown name was probably intended as a parameter that has an effect here. Ignoring it
// would then change results.
bool MeansOneWithEffect(const std::string& name, const KnownNames& names) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const char* part : {"mixlist", "mix_list", "precision"}) {
    if (absl::StrContains(lower, part)) return true;
  }
  const std::string* nearest = names.Nearest(name);
  const auto& known = KnownParameters();
  return nearest != nullptr && std::any_of(known.begin(), known.end(), [&](const ParameterType& p) {
           return *nearest == p.name;
         });
}

// Returns an error, or adds a warning.
Status CheckUnknownParameter(const std::string& name, std::vector<std::string>* warnings) {
  std::vector<std::string> all = InertParameters();
  std::string with_effect;
  for (const ParameterType& parameter : KnownParameters()) {
    all.push_back(parameter.name);
    absl::StrAppend(&with_effect, with_effect.empty() ? "" : ", ", parameter.name);
  }
  const KnownNames names(std::move(all));
  if (MeansOneWithEffect(name, names)) {
    return InvalidArgument("got unknown parameter ", Quoted(name), ", expected one of ",
                           with_effect,
                           " (npu_bridge's other parameters are accepted and have no effect here)",
                           DidYouMean(name, names));
  }
  warnings->push_back(absl::StrCat("got unknown parameter ", Quoted(name), ", which has no effect",
                                   DidYouMean(name, names)));
  return Status();
}

// The strings and bools of the map, each of the right type and not empty.
struct Values {
  std::map<std::string, std::string> strings;
  std::map<std::string, bool> bools;

  std::string String(const char* name, const std::string& otherwise) const {
    const auto found = strings.find(name);
    return found == strings.end() ? otherwise : found->second;
  }
  bool Bool(const char* name, bool otherwise) const {
    const auto found = bools.find(name);
    return found == bools.end() ? otherwise : found->second;
  }
};

Status ReadValues(const tensorflow::RewriterConfig_CustomGraphOptimizer& config, Values* values,
                  std::vector<std::string>* inert, std::vector<std::string>* unknown) {
  std::map<std::string, const AttrValue*> sorted;
  for (const auto& entry : config.parameter_map()) sorted[entry.first] = &entry.second;
  for (const auto& entry : sorted) {
    if (OldRewriteKeys().count(entry.first) != 0) {
      TF_RETURN_IF_ERROR(CheckType({entry.first.c_str(), 'b'}, *entry.second));
      values->bools[entry.first] = entry.second->b();
      continue;
    }
    const auto& known = KnownParameters();
    const auto parameter =
        std::find_if(known.begin(), known.end(),
                     [&entry](const ParameterType& p) { return entry.first == p.name; });
    if (parameter == known.end()) {
      const auto& names = InertParameters();
      if (std::find(names.begin(), names.end(), entry.first) == names.end()) {
        TF_RETURN_IF_ERROR(CheckUnknownParameter(entry.first, unknown));
        continue;
      }
      inert->push_back(entry.first);
      continue;
    }
    TF_RETURN_IF_ERROR(CheckType(*parameter, *entry.second));
    if (parameter->type == 'b') {
      values->bools[entry.first] = entry.second->b();
    } else if (entry.second->s().empty()) {
      return InvalidArgument(entry.first,
                             ": got an empty value; leave the parameter out to have its default");
    } else {
      values->strings[entry.first] = entry.second->s();
    }
  }
  return Status();
}

Status ChooseMode(const Values& values, PrecisionMode* mode) {
  const std::string v1 = values.String("precision_mode", "");
  const std::string v2 = values.String("precision_mode_v2", "");
  if (!v1.empty() && !v2.empty()) {
    return InvalidArgument("got both precision_mode (", Quoted(v1), ") and precision_mode_v2 (",
                           Quoted(v2), "), expected one of the two");
  }
  if (values.Bool("autocast_only", false)) {
    if (!v1.empty() || !v2.empty()) {
      return InvalidArgument("autocast_only: got true with ",
                             v1.empty() ? "precision_mode_v2 " : "precision_mode ",
                             Quoted(v1.empty() ? v2 : v1),
                             ": what autocast() did not mark keeps its dtype; give one of the two");
    }
    *mode = MixedMode(tensorflow::DT_HALF);  // Replaced by the mode of each mark.
    return Status();
  }
  if (!v1.empty()) return ParsePrecisionMode(v1, mode);
  if (!v2.empty()) return ParsePrecisionModeV2(v2, mode);
  return Status();
}

// Combines `rewrites` and the old names of rewrites.
Status ReadRewrites(const Values& values, NamedRewrites* rewrites) {
  const auto given = values.strings.find("rewrites");
  if (given != values.strings.end()) TF_RETURN_IF_ERROR(ParseRewrites(given->second, rewrites));
  for (const auto& old : OldRewriteKeys()) {
    const auto value = values.bools.find(old.first);
    if (value == values.bools.end()) continue;
    const auto named = rewrites->named.emplace(old.second, value->second);
    if (named.first->second != value->second) {
      return InvalidArgument(old.first, ": got ", value->second ? "true" : "false",
                             ", and the opposite in rewrites ", Quoted(given->second), "; leave ",
                             old.first, " out");
    }
  }
  return Status();
}

std::vector<std::string> OldNames(const Values& values) {
  std::vector<std::string> lines;
  for (const auto& old : OldRewriteKeys()) {
    const auto value = values.bools.find(old.first);
    if (value == values.bools.end()) continue;
    lines.push_back(absl::StrCat(old.first, ": write rewrites: \"", value->second ? "" : "-",
                                 old.second, "\""));
  }
  return lines;
}

std::set<std::string> ChoosePasses(const Values& values, const NamedRewrites& rewrites,
                                   bool on_host) {
  std::set<std::string> chosen = ApplyRewrites(rewrites, DefaultPasses(on_host));
  for (const Pass& pass : Passes()) {
    const bool is_parameter = pass.purpose != Switch::kNone && !IsRewrite(pass);
    if (is_parameter && values.Bool(pass.name, false)) chosen.insert(pass.name);
  }
  return chosen;
}

Status CheckPassesFitMode(const Values& values, const NamedRewrites& rewrites,
                          const Parameters& parameters) {
  const ModeRule rule = parameters.mode.rule;
  if (values.Bool("emulate", false) &&
      (rule == ModeRule::kForceFloat32 || rule == ModeRule::kKeepOrigin)) {
    return InvalidArgument("emulate: got true with precision_mode ", Quoted(parameters.mode.name),
                           ", which lowers nothing; use a mode that does, or leave emulate out");
  }
  for (const Pass& pass : Passes()) {
    const bool needs_low_types =
        pass.purpose == Switch::kForSpeed || pass.purpose == Switch::kForNetwork;
    if (!needs_low_types || LowersForSpeed(rule)) continue;
    const bool is_asked_for =
        IsRewrite(pass) ? TakesIn(rewrites, pass.name) : values.Bool(pass.name, false);
    if (!is_asked_for) continue;
    const std::string what = IsRewrite(pass) ? absl::StrCat("rewrites: got '", pass.name, "'")
                                             : absl::StrCat(pass.name, ": got true");
    return InvalidArgument(what, " with precision_mode ", Quoted(parameters.mode.name),
                           ", which changes at most dtypes; use a mixed mode or force_fp16, or "
                           "leave ",
                           pass.name, " out");
  }
  return Status();
}

// Decides whether emulated values saturate. There is only a choice if float16 is emulated; some
// targets saturate by default.
Status ChooseOverflow(const Values& values, const Parameters& parameters, bool* saturates) {
  const std::string given = values.String("overflow", "");
  const bool emulates = values.Bool("emulate", false);
  const bool is_half = parameters.mode.low_type == tensorflow::DT_HALF;
  *saturates = given.empty() ? emulates && is_half && FactsOf(parameters.target).saturates
                             : given == kSaturate;
  if (given.empty()) return Status();
  const std::vector<std::string> known = {kInfinity, kSaturate};
  if (std::find(known.begin(), known.end(), given) == known.end()) {
    return InvalidArgument("overflow: got ", Quoted(given), ", expected one of inf, saturate",
                           DidYouMean(given, known));
  }
  if (!emulates) {
    return InvalidArgument("overflow: got ", Quoted(given),
                           " without emulate, so that the kernels of this machine decide what "
                           "overflow yields; set emulate, or leave overflow out");
  }
  if (*saturates && !is_half) {
    return InvalidArgument("overflow: got 'saturate' with precision_mode ",
                           Quoted(parameters.mode.name),
                           ", which lowers to bfloat16: it has the range of float32, and what it "
                           "is for is float16; use 'inf', or leave overflow out");
  }
  return Status();
}

Status ChooseFloat16Compute(const Values& values, const Parameters& parameters,
                            Float16Compute* compute) {
  const std::string name = values.String("float16_compute", "");
  if (name.empty()) return Status();
  TF_RETURN_IF_ERROR(ParseFloat16Compute(name, compute));
  // "auto" is the default.
  const bool chooses = *compute != Float16Compute::kAuto;
  if (chooses && parameters.passes.count("emulate") != 0) {
    return InvalidArgument("float16_compute: got ", Quoted(name),
                           " with emulate, which computes everything in float32; leave one of the "
                           "two out");
  }
  return Status();
}

std::vector<ParameterType> AllParameters() {
  std::vector<ParameterType> parameters = {
      {"precision_mode", 's'},   {"precision_mode_v2", 's'}, {"modify_mixlist", 's'},
      {"target", 's'},           {"ops_info_dir", 's'},      {"report_dir", 's'},
      {"dump_passes_dir", 's'},  {"mixlist_edits", 's'},     {"overflow", 's'},
      {"float16_compute", 's'},  {"rewrites", 's'},          {"all_white", 'b'},
      {"white_only", 'b'},       {"autocast_only", 'b'},     {"strict", 'b'},
      {"ops_info_overlay", 's'}, {"customize_dtypes", 's'},  {"keep_costly_islands", 'b'},
      {"lower_compiled", 'b'}};
  for (const Pass& pass : Passes()) {
    if (pass.purpose != Switch::kNone && !IsRewrite(pass)) parameters.push_back({pass.name, 'b'});
  }
  return parameters;
}

}  // namespace

std::set<std::string> DefaultPasses(bool on_host) {
  std::set<std::string> names;
  for (const Pass& pass : Passes()) {
    if (pass.purpose == Switch::kForSpeed && on_host) names.insert(pass.name);
  }
  return names;
}

const std::vector<ParameterType>& KnownParameters() {
  static const auto* parameters = new std::vector<ParameterType>(AllParameters());
  return *parameters;
}

Status CheckUsesLists(const Parameters& parameters) {
  if (parameters.all_white && parameters.white_only) {
    return InvalidArgument(
        "got all_white and white_only, expected one: gray ops are white, or kept");
  }
  if (parameters.mode.rule == ModeRule::kMix) return Status();
  const std::pair<const char*, std::string> given[] = {
      {"modify_mixlist", parameters.modify_mixlist},
      {"mixlist_edits", parameters.mixlist_edits},
      {"all_white", parameters.all_white ? "true" : ""},
      {"white_only", parameters.white_only ? "true" : ""},
      {"keep_costly_islands", parameters.keep_costly_islands ? "true" : ""}};
  for (const auto& parameter : given) {
    if (parameter.second.empty()) continue;
    return InvalidArgument(parameter.first, ": got ", Quoted(parameter.second),
                           " with precision_mode ", Quoted(parameters.mode.name),
                           ", which does not use the lists; use one of allow_mix_precision, "
                           "allow_mix_precision_fp16, allow_mix_precision_bf16, or leave ",
                           parameter.first, " out");
  }
  return Status();
}

Status ParseParameters(const tensorflow::RewriterConfig_CustomGraphOptimizer* config,
                       Parameters* parameters) {
  if (config == nullptr) return Status();
  // Read first, so that "strict" also applies to errors in the other parameters.
  const auto strict = config->parameter_map().find("strict");
  parameters->strict = strict != config->parameter_map().end() && strict->second.b();
  Values values;
  TF_RETURN_IF_ERROR(ReadValues(*config, &values, &parameters->inert, &parameters->unknown));
  TF_RETURN_IF_ERROR(ChooseMode(values, &parameters->mode));
  parameters->modify_mixlist = values.String("modify_mixlist", "");
  parameters->mixlist_edits = values.String("mixlist_edits", "");
  parameters->customize_dtypes = values.String("customize_dtypes", "");
  parameters->all_white = values.Bool("all_white", false);
  parameters->white_only = values.Bool("white_only", false);
  parameters->keep_costly_islands = values.Bool("keep_costly_islands", false);
  parameters->lower_compiled = values.Bool("lower_compiled", true);
  parameters->autocast_only = values.Bool("autocast_only", false);
  parameters->target = values.String("target", parameters->target);
  parameters->ops_info_dir = values.String("ops_info_dir", "");
  parameters->ops_info_overlay = values.String("ops_info_overlay", "");
  parameters->report_dir = values.String("report_dir", "");
  parameters->dump_passes_dir = values.String("dump_passes_dir", "");
  NamedRewrites rewrites;
  TF_RETURN_IF_ERROR(ReadRewrites(values, &rewrites));
  parameters->old_names = OldNames(values);
  parameters->passes = ChoosePasses(values, rewrites, parameters->target == kHostTarget);
  for (const auto& named : rewrites.named) {
    if (named.second) parameters->named_rewrites.insert(named.first);
  }
  // Naming one of the two says that the result will run with oneDNN.
  parameters->for_onednn = parameters->named_rewrites.count("grouped_convolutions") != 0 ||
                           parameters->named_rewrites.count("means_as_pools") != 0;
  TF_RETURN_IF_ERROR(ChooseFloat16Compute(values, *parameters, &parameters->float16_compute));
  for (const auto& entry : values.strings) parameters->given.push_back(entry);
  for (const auto& entry : values.bools) {
    parameters->given.emplace_back(entry.first, entry.second ? "true" : "false");
  }
  TF_RETURN_IF_ERROR(CheckTarget(parameters->target));
  TF_RETURN_IF_ERROR(CheckUsesLists(*parameters));
  TF_RETURN_IF_ERROR(CheckPassesFitMode(values, rewrites, *parameters));
  return ChooseOverflow(values, *parameters, &parameters->saturates);
}

}  // namespace npu_precision
