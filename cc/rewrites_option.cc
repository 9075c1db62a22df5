#include "cc/rewrites_option.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/did_you_mean.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::Status;
using tensorflow::errors::InvalidArgument;

std::vector<std::string> RewriteNames() {
  std::vector<std::string> names;
  for (const Pass& pass : Passes()) {
    if (IsRewrite(pass)) names.push_back(pass.name);
  }
  return names;
}

}  // namespace

bool IsRewrite(const Pass& pass) {
  return pass.purpose == Switch::kForSpeed || pass.purpose == Switch::kForSize;
}

Status ParseRewrites(const std::string& text, NamedRewrites* result) {
  const std::vector<std::string> names = RewriteNames();
  bool is_first = true;
  for (const auto& part : absl::StrSplit(text, ',')) {
    std::string item(absl::StripAsciiWhitespace(part));
    const bool may_start = is_first;
    is_first = false;
    if (item == "all" || item == "none") {
      if (!may_start) {
        return InvalidArgument("rewrites: got ", Quoted(item), " after other items in ",
                               Quoted(text), ", expected it first");
      }
      result->start = item;
      continue;
    }
    const bool is_out = !item.empty() && item[0] == '-';
    if (is_out || (!item.empty() && item[0] == '+')) item.erase(0, 1);
    if (std::find(names.begin(), names.end(), item) == names.end()) {
      const auto old = OldRewriteKeys().find(item);
      return InvalidArgument(
          "rewrites: got ", Quoted(item), ", expected one of ", absl::StrJoin(names, ", "),
          old != OldRewriteKeys().end() ? absl::StrCat(" (did you mean ", Quoted(old->second), "?)")
                                        : DidYouMean(item, names));
    }
    const auto inserted = result->named.emplace(item, !is_out);
    if (!inserted.second && inserted.first->second == is_out) {
      return InvalidArgument("rewrites: got ", Quoted(item), " both in and out in ", Quoted(text),
                             ", expected one of the two");
    }
  }
  return Status();
}

bool TakesIn(const NamedRewrites& rewrites, const char* pass) {
  const auto named = rewrites.named.find(pass);
  return named != rewrites.named.end() && named->second;
}

std::set<std::string> ApplyRewrites(const NamedRewrites& rewrites,
                                    const std::set<std::string>& defaults) {
  std::set<std::string> chosen;
  for (const Pass& pass : Passes()) {
    if (!IsRewrite(pass)) continue;
    const auto named = rewrites.named.find(pass.name);
    const bool is_on = named != rewrites.named.end() ? named->second
                       : rewrites.start.empty()      ? defaults.count(pass.name) != 0
                                                     : rewrites.start == "all";
    if (is_on) chosen.insert(pass.name);
  }
  return chosen;
}

const std::map<std::string, std::string>& OldRewriteKeys() {
  static const auto* keys = new std::map<std::string, std::string>{
      {"loop_constants", "hoist_loop_invariants"},
      {"fold_batch_norms", "fold_batch_norms"},
      {"batch_norm_v3", "batch_norm_v3"},
      {"grouped_convolutions", "grouped_convolutions"},
      {"pad_into_convolutions", "pad_into_convolutions"},
      {"means_as_pools", "means_as_pools"},
      {"flatten_mat_muls", "flatten_mat_muls"},
      {"einsums_as_mat_muls", "einsums_as_mat_muls"},
      {"squeeze_masks", "squeeze_masks"},
      {"layer_norm", "layer_norm"},
      {"activations", "activations"},
      {"fold_constants", "fold_constants"},
      {"same_padding", "same_padding"},
      {"sink_reshapes", "sink_reshapes"},
      {"call_boundaries", "call_boundaries"},
  };
  return *keys;
}

}  // namespace npu_precision
