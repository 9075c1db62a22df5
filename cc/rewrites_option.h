// The parameter `rewrites`: which passes for speed or size run. A pass is known by the name of its
// row, so that a new pass adds no parameter.
#ifndef NPU_PRECISION_CC_REWRITES_OPTION_H_
#define NPU_PRECISION_CC_REWRITES_OPTION_H_

#include <map>
#include <set>
#include <string>

#include "graph_passes/pass_table.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Whether `rewrites` switches it.
bool IsRewrite(const Pass& pass);

// What a text asks for.
struct NamedRewrites {
  std::string start;                  // "all", "none", or "": the defaults of the target
  std::map<std::string, bool> named;  // whether it is taken in, of each that is named
};

// Items between commas: first "all" or "none", if any; then `-name`, `name` or `+name`.
tensorflow::Status ParseRewrites(const std::string& text, NamedRewrites* result);

// Whether the pass is taken in by its name.
bool TakesIn(const NamedRewrites& rewrites, const char* pass);

// Names of the passes that run.
std::set<std::string> ApplyRewrites(const NamedRewrites& rewrites,
                                    const std::set<std::string>& defaults);

// The parameters that switched one rewrite each before there was `rewrites`, and the names of those
// rewrites. They are still accepted; none is added.
const std::map<std::string, std::string>& OldRewriteKeys();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_REWRITES_OPTION_H_
