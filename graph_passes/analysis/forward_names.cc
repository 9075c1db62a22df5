#include "graph_passes/analysis/forward_names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace npu_precision {
namespace {

using Scopes = std::vector<std::string>;

constexpr char kTape[] = "gradient_tape";
constexpr char kGraph[] = "gradients";
constexpr char kOfOp[] = "_grad";

// Whether a scope is `name`, or the variant that TensorFlow uses if `name` is taken: gradients_1.
bool IsNamed(absl::string_view scope, const char* name) {
  if (!absl::ConsumePrefix(&scope, name)) return false;
  if (scope.empty()) return true;
  if (!absl::ConsumePrefix(&scope, "_") || scope.empty()) return false;
  for (char c : scope) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  return true;
}

std::string Joined(const Scopes& scopes, size_t outer, size_t begin, size_t end) {
  Scopes parts(scopes.begin(), scopes.begin() + outer);
  parts.insert(parts.end(), scopes.begin() + begin, scopes.begin() + end);
  return absl::StrJoin(parts, "/");
}

// Adds names for a node in the tape's scope: the scope has the forward op's name, and then the name
// of the gradient op, which may have scopes of its own.
void AddOfTape(const Scopes& scopes, size_t tape, std::vector<std::string>* names) {
  for (size_t end = scopes.size() - 1; end > tape + 1; --end) {
    names->push_back(Joined(scopes, tape, tape + 1, end));
  }
  // The gradient of a gradient is in the scope of that gradient, but the name of its op may differ.
  if (scopes.size() > tape + 3 && IsNamed(scopes[tape + 1], kTape)) {
    std::string sibling = Joined(scopes, tape, tape + 1, scopes.size());
    names->push_back(sibling);
    const size_t number = sibling.find_last_not_of("0123456789");
    if (sibling[number] == '_') names->push_back(sibling.substr(0, number));
  }
}

// Adds names for a node in the scope of tf.gradients: the scope has the forward op's whole name
// with _grad, whatever scope the gradients are built in. The scope of an inlined function comes
// before both.
void AddOfGraph(const Scopes& scopes, size_t gradients, std::vector<std::string>* names) {
  for (size_t last = scopes.size() - 1; last > gradients; --last) {
    if (!absl::EndsWith(scopes[last], kOfOp)) continue;
    Scopes renamed = scopes;
    renamed[last] = std::string(absl::StripSuffix(scopes[last], kOfOp));
    for (size_t outer = 0; outer <= gradients; ++outer) {
      names->push_back(Joined(renamed, outer, gradients + 1, last + 1));
    }
    return;
  }
}

}  // namespace

bool IsInGradientScope(absl::string_view name) {
  const Scopes scopes = absl::StrSplit(name, '/');
  for (size_t i = 0; i + 1 < scopes.size(); ++i) {
    if (IsNamed(scopes[i], kTape)) return true;
  }
  return !ForwardNames(name).empty();
}

std::vector<std::string> ForwardNames(absl::string_view gradient) {
  const Scopes scopes = absl::StrSplit(gradient, '/');
  std::vector<std::string> names;
  // Only the outermost scope counts: the scopes inside are part of the forward op's name.
  for (size_t i = 0; i + 1 < scopes.size(); ++i) {
    if (IsNamed(scopes[i], kTape)) {
      AddOfTape(scopes, i, &names);
    } else if (IsNamed(scopes[i], kGraph)) {
      AddOfGraph(scopes, i, &names);
    }
    if (!names.empty()) break;
  }
  return names;
}

}  // namespace npu_precision
