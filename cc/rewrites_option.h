// The parameter `rewrites`: which passes for speed or size run. Each pass has the name of its row
// in the pass table, so a new pass needs no new parameter.
#ifndef NPU_PRECISION_CC_REWRITES_OPTION_H_
#define NPU_PRECISION_CC_REWRITES_OPTION_H_

#include <map>
#include <set>
#include <string>

#include "graph_passes/pass_table.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Whether `rewrites` switches the pass.
bool IsRewrite(const Pass& pass);

// The parsed text of `rewrites`.
struct NamedRewrites {
  std::string start;                  // "all", "none", or "": the defaults of the target
  std::map<std::string, bool> named;  // each named pass, and whether it is switched on
};

// Parses items between commas: first "all" or "none", if any; then `-name`, `name` or `+name`.
tensorflow::Status ParseRewrites(const std::string& text, NamedRewrites* result);

// Whether the text names the pass as one to run.
bool TakesIn(const NamedRewrites& rewrites, const char* pass);

// Returns the names of the passes that run.
std::set<std::string> ApplyRewrites(const NamedRewrites& rewrites,
                                    const std::set<std::string>& defaults);

// The older parameters that each switched one rewrite, and the names of those rewrites. They are
// still accepted; no new ones are added.
const std::map<std::string, std::string>& OldRewriteKeys();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_REWRITES_OPTION_H_
