#include "graph_passes/lists/known_ops.h"

#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph_passes/graph/registered_ops.h"
#include "graph_passes/lists/did_you_mean.h"

namespace npu_precision {
namespace {

KnownNames OpNames(const IrNames& ir_names) {
  std::vector<std::string> names = RegisteredOpNames();
  for (const auto& entry : ir_names) names.push_back(entry.first);
  return KnownNames(std::move(names));
}

// The name in lower case, with digits replaced by the letters that look like them.
std::string AsSeen(const std::string& name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"1", "l"}, {"0", "o"}});
}

std::string Digits(const std::string& name) {
  std::string digits;
  for (const char c : name) {
    if (absl::ascii_isdigit(static_cast<unsigned char>(c))) digits += c;
  }
  return digits;
}

// The only name that differs by a letter or in case, but not in a number; else "".
std::string Meant(const std::string& given, const KnownNames& names) {
  const std::string seen = AsSeen(given);
  for (const std::string& name : names.names()) {
    if (name.size() == given.size() && AsSeen(name) == seen) return name;
  }
  std::set<std::string> near;
  for (const std::string& name : names.OneLetterFrom(given)) {
    if (Digits(name) == Digits(given)) near.insert(name);
  }
  return near.size() == 1 ? *near.begin() : "";
}

}  // namespace

bool IsKnownOp(const std::string& name, const IrNames& ir_names) {
  return ir_names.count(name) != 0 || RegisteredOp(name) != nullptr;
}

bool IsAscendsAlone(const std::string& name, const IrNames& ir_names) {
  const auto found = ir_names.find(name);
  if (found == ir_names.end()) return false;
  for (const std::string& op : found->second) {
    if (RegisteredOp(op) != nullptr) return false;
  }
  return true;
}

std::string SeveralOps(const std::string& name) {
  static const auto* ops = new std::map<std::string, const char*>{
      {"Gelu", "Erf or Tanh, with Mul and AddV2"},
      {"LayerNorm",
       "Mean, SquaredDifference, Rsqrt, Mul, Sub and AddV2, or Keras' FusedBatchNormV3"},
  };
  const auto found = ops->find(name);
  if (found == ops->end()) return "";
  return absl::StrCat("; here it is several ops: ", found->second,
                      ". List these, or the scope of the layer, as \"node:<scope>/.*\"");
}

// Each graph has its own optimizer with the same files, so the guesses are cached per process.
OpGuess GuessOp(const std::string& name, const IrNames& ir_names) {
  static std::mutex mutex;
  static auto* guesses = new std::unordered_map<std::string, OpGuess>();
  static const auto* names = new KnownNames(OpNames(ir_names));
  const std::lock_guard<std::mutex> lock(mutex);
  const auto known = guesses->find(name);
  if (known != guesses->end()) return known->second;
  return (*guesses)[name] = {DidYouMean(name, *names), Meant(name, *names)};
}

}  // namespace npu_precision
