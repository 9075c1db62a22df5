// Parses and checks the optimizer's parameter_map.
#ifndef NPU_PRECISION_CC_PARAMETERS_H_
#define NPU_PRECISION_CC_PARAMETERS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/targets.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/float16_compute.h"
#include "graph_passes/decide/precision_mode.h"
#include "tensorflow/core/lib/core/status.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"

namespace npu_precision {

// The names of the switchable passes that are on by default. Passes for speed are on only for the
// host: another target is emulated, so they would gain nothing.
std::set<std::string> DefaultPasses(bool on_host);

struct Parameters {
  PrecisionMode mode = DefaultPrecisionMode();
  std::string modify_mixlist;    // path, or the JSON itself; "" when not given
  std::string mixlist_edits;     // the same as text, applied after the file
  std::string customize_dtypes;  // path, "" when not given
  bool all_white = false;
  bool white_only = false;
  bool keep_costly_islands = false;
  bool lower_compiled = true;  // functions that XLA compiles, too
  bool autocast_only = false;  // nodes without a mark of autocast() keep their dtype
  Float16Compute float16_compute = Float16Compute::kAuto;
  std::string target = kHostTarget;
  std::string ops_info_dir;
  std::string ops_info_overlay;
  std::string report_dir;
  bool strict = false;
  std::string dump_passes_dir;
  std::set<std::string> passes = DefaultPasses(true);  // those that are on, by name
  std::set<std::string> named_rewrites;                // those that the user takes in by name
  bool saturates = false;                              // emulated values do not overflow
  bool for_onednn = false;                             // the result runs with oneDNN
  std::vector<std::string> inert;  // names given that have no effect here, sorted
  // A warning for each given name that is not a parameter, and probably not a misspelt one that has
  // an effect: npu_bridge ignores such names.
  std::vector<std::string> unknown;
  // A line for each old name of a rewrite that was given. It says what to write now.
  std::vector<std::string> old_names;
  // The parameters that were given, as text, for the ledger; sorted by name.
  std::vector<std::pair<std::string, std::string>> given;
};

// Parses the parameters. `config` may be nullptr: then every parameter has its default.
tensorflow::Status ParseParameters(const tensorflow::RewriterConfig_CustomGraphOptimizer* config,
                                   Parameters* parameters);

// Returns an error if a parameter edits the lists, and the mode does not use them.
tensorflow::Status CheckUsesLists(const Parameters& parameters);

// The name of the optimizer in a RewriterConfig.
constexpr char kOptimizerName[] = "NpuOptimizer";

struct ParameterType {
  const char* name;
  char type;  // 's' or 'b', the member of AttrValue
};
// Does not include the old names of rewrites.
const std::vector<ParameterType>& KnownParameters();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_PARAMETERS_H_
