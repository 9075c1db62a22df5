#include "graph_passes/lists/did_you_mean.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace npu_precision {
namespace {

// The number of letters to add, drop, replace, or swap with the next one; given up (as limit + 1)
// once it must exceed `limit`.
size_t EditDistance(const std::string& a, const std::string& b, size_t limit) {
  const size_t gap = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (gap > limit) return limit + 1;
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::move(last);
    last = row;
    row[0] = i;
    size_t best = row[0];
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substitute, last[j] + 1, row[j - 1] + 1});
      const bool swaps = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swaps) row[j] = std::min(row[j], before[j - 2] + 1);
      best = std::min(best, row[j]);
    }
    // A swap counts from the row before the last.
    if (best > limit && *std::min_element(last.begin(), last.end()) >= limit) return limit + 1;
  }
  return row[b.size()];
}

// Up to a third of the word may differ: enough for typos, too little for another word.
size_t Limit(const std::string& wanted) {
  return std::max<size_t>(1, std::min<size_t>(wanted.size() / 3, 6));
}

}  // namespace

KnownNames::KnownNames(std::vector<std::string> names) : names_(std::move(names)) {
  for (const std::string& name : names_) {
    lower_.push_back(absl::AsciiStrToLower(name));
    letters_.push_back(LettersOf(lower_.back()));
  }
}

KnownNames::Letters KnownNames::LettersOf(const std::string& lower) {
  Letters letters = {};
  for (const char c : lower) {
    signed char& count = letters[static_cast<unsigned char>(c) % letters.size()];
    if (count < 127) ++count;
  }
  return letters;
}

// The distance from name `i`, or a number above `limit`.
size_t KnownNames::Distance(const std::string& lower, const Letters& letters, size_t i,
                            size_t limit) const {
  // An edit adds a letter, removes a letter, or does both.
  size_t more = 0, fewer = 0;
  for (size_t k = 0; k < letters.size(); ++k) {
    const int difference = letters[k] - letters_[i][k];
    (difference > 0 ? more : fewer) += std::abs(difference);
  }
  if (std::max(more, fewer) > limit) return limit + 1;
  return EditDistance(lower, lower_[i], limit);
}

const std::string* KnownNames::Nearest(const std::string& given) const {
  const std::string wanted = absl::AsciiStrToLower(given);
  const Letters letters = LettersOf(wanted);
  size_t limit = Limit(wanted);
  const std::string* nearest = nullptr;
  for (size_t i = 0; i < names_.size(); ++i) {
    const size_t distance = Distance(wanted, letters, i, limit);
    if (distance > limit) continue;
    nearest = &names_[i];
    if (distance == 0) return nearest;
    limit = distance - 1;  // among equally near names, the first wins
  }
  if (nearest != nullptr || wanted.size() < 4) return nearest;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (absl::StartsWith(lower_[i], wanted)) return &names_[i];
  }
  return nullptr;
}

std::vector<std::string> KnownNames::OneLetterFrom(const std::string& given) const {
  const std::string wanted = absl::AsciiStrToLower(given);
  const Letters letters = LettersOf(wanted);
  std::vector<std::string> found;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (Distance(wanted, letters, i, 1) <= 1) found.push_back(names_[i]);
  }
  return found;
}

std::string DidYouMean(const std::string& given, const KnownNames& names) {
  const std::string* nearest = names.Nearest(given);
  return nearest == nullptr ? "" : absl::StrCat("; did you mean '", *nearest, "'?");
}

std::string DidYouMean(const std::string& given, const std::vector<std::string>& candidates) {
  return DidYouMean(given, KnownNames(candidates));
}

}  // namespace npu_precision
