// The optimizer's parameter_map, read and checked.
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

// The names of passes that are on by default, of those that can be switched. Those for speed are on
// for the host alone: another target is emulated, so nothing is gained.
std::set<std::string> DefaultPasses(bool on_host);

struct Parameters {
  PrecisionMode mode = DefaultPrecisionMode();
  std::string modify_mixlist;    // path, "" when not given
  std::string mixlist_edits;     // the same as text, on top of it
  std::string customize_dtypes;  // path, "" when not given
  bool all_white = false;
  bool keep_costly_islands = false;
  bool autocast_only = false;  // what autocast() did not mark keeps its dtype
  Float16Compute float16_compute = Float16Compute::kAuto;
  std::string target = kHostTarget;
  std::string ops_info_dir;
  std::string ops_info_overlay;
  std::string report_dir;
  bool strict = false;
  std::string dump_passes_dir;
  std::set<std::string> passes = DefaultPasses(true);  // those that are on, by name
  bool saturates = false;                              // what is emulated does not overflow
  bool for_onednn = false;         // the CPUs where the result of an offline rewrite will run
  std::vector<std::string> inert;  // names given that have no effect here, sorted
  // A warning for each name given that is of no parameter, and not likely to stand for one that has
  // an effect: npu_bridge ignores such names.
  std::vector<std::string> unknown;
  // A line for each old name of a rewrite that was given, which says what to write now.
  std::vector<std::string> old_names;
  // The parameters that were given, as text, for the ledger; sorted by name.
  std::vector<std::pair<std::string, std::string>> given;
};

// `config` may be nullptr: every parameter has its default then.
tensorflow::Status ParseParameters(const tensorflow::RewriterConfig_CustomGraphOptimizer* config,
                                   Parameters* parameters);

// An error if a parameter edits the lists, and the mode does not use them.
tensorflow::Status CheckUsesLists(const Parameters& parameters);

// The name of the optimizer in a RewriterConfig.
constexpr char kOptimizerName[] = "NpuOptimizer";

struct ParameterType {
  const char* name;
  char type;  // 's' or 'b', the member of AttrValue
};
// Without the old names of rewrites.
const std::vector<ParameterType>& KnownParameters();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_PARAMETERS_H_
