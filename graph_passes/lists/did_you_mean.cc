#include "graph_passes/lists/did_you_mean.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace npu_precision {
namespace {

// Levenshtein distance, given up (as limit + 1) once it must exceed `limit`.
size_t EditDistance(const std::string& a, const std::string& b, size_t limit) {
  const size_t gap = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (gap > limit) return limit + 1;
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    size_t best = row[0];
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitute, row[j] + 1, row[j - 1] + 1});
      best = std::min(best, row[j]);
    }
    if (best > limit) return limit + 1;
  }
  return row[b.size()];
}

}  // namespace

const std::string* Nearest(const std::string& given, const std::vector<std::string>& candidates,
                           size_t* distance) {
  const std::string wanted = absl::AsciiStrToLower(given);
  // A third of the word may differ: enough for typos, too little for another word.
  const size_t limit = std::max<size_t>(1, std::min<size_t>(wanted.size() / 3, 6));
  *distance = limit + 1;
  const std::string* nearest = nullptr;
  for (const std::string& candidate : candidates) {
    const size_t differ = EditDistance(wanted, absl::AsciiStrToLower(candidate), limit);
    if (differ < *distance) {
      *distance = differ;
      nearest = &candidate;
    }
  }
  for (const std::string& candidate : candidates) {
    const bool abbreviated = wanted.size() >= 4 && absl::StartsWithIgnoreCase(candidate, wanted);
    if (nearest == nullptr && abbreviated) nearest = &candidate;
  }
  return nearest;
}

std::string DidYouMean(const std::string& given, const std::vector<std::string>& candidates) {
  size_t distance;
  const std::string* nearest = Nearest(given, candidates, &distance);
  return nearest == nullptr ? "" : absl::StrCat("; did you mean '", *nearest, "'?");
}

}  // namespace npu_precision
