// Suggests the known name that a misspelt one probably stands for.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_DID_YOU_MEAN_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_DID_YOU_MEAN_H_

#include <array>
#include <string>
#include <vector>

namespace npu_precision {

// A set of names, prepared for many suggestions.
class KnownNames {
 public:
  explicit KnownNames(std::vector<std::string> names);

  // The nearest name, ignoring case; else the first name that `given` abbreviates; else nullptr.
  const std::string* Nearest(const std::string& given) const;
  // The names that differ from `given` in one letter or only in case.
  std::vector<std::string> OneLetterFrom(const std::string& given) const;
  const std::vector<std::string>& names() const { return names_; }

 private:
  // How often each letter occurs in a name: a cheap lower bound for the distance.
  using Letters = std::array<signed char, 32>;
  static Letters LettersOf(const std::string& lower);
  size_t Distance(const std::string& lower, const Letters& letters, size_t i, size_t limit) const;

  std::vector<std::string> names_, lower_;
  std::vector<Letters> letters_;
};

// Returns "; did you mean 'x'?" with the nearest name, or "" if none is near.
std::string DidYouMean(const std::string& given, const KnownNames& names);
std::string DidYouMean(const std::string& given, const std::vector<std::string>& candidates);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_DID_YOU_MEAN_H_
