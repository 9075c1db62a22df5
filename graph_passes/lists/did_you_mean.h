// Guesses which known name a misspelt one stands for.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_DID_YOU_MEAN_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_DID_YOU_MEAN_H_

#include <string>
#include <vector>

namespace npu_precision {

// The nearest candidate, ignoring case; else the first that `given` abbreviates; else nullptr.
// `distance` gets the number of letters that differ.
const std::string* Nearest(const std::string& given, const std::vector<std::string>& candidates,
                           size_t* distance);

// "; did you mean 'x'?" with the nearest candidate, or "" when none is near.
std::string DidYouMean(const std::string& given, const std::vector<std::string>& candidates);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_DID_YOU_MEAN_H_
