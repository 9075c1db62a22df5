// Guesses which of the known names was meant.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_DID_YOU_MEAN_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_DID_YOU_MEAN_H_

#include <string>
#include <vector>

namespace npu_precision {

// The nearest candidate, ignoring case, else the first that `given` abbreviates, or nullptr when
// none is near. `distance` gets how many letters differ.
const std::string* Nearest(const std::string& given, const std::vector<std::string>& candidates,
                           size_t* distance);

// "; did you mean 'x'?" with the nearest candidate, or "" when none is near.
std::string DidYouMean(const std::string& given, const std::vector<std::string>& candidates);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_DID_YOU_MEAN_H_
