// What a mode has done to the graphs of sessions so far, and a line for users if it lowered none of
// the ops that it is for.
#ifndef NPU_PRECISION_GRAPH_PASSES_IDLE_MODE_H_
#define NPU_PRECISION_GRAPH_PASSES_IDLE_MODE_H_

#include <cstdint>
#include <map>
#include <string>

#include "graph_passes/counts.h"
#include "graph_passes/decide/decision.h"

namespace npu_precision {

// Adds up graphs. Those without ops on the white list, such as initializers, say nothing about the
// mode; neither do ops that the user keeps.
class IdleMode {
 public:
  void Add(const Counts& counts);

  // Nothing was lowered, although there are white ops that the user does not keep.
  bool IsIdle() const;
  // Later graphs will not change that, as far as is known: kernels or dtypes are missing.
  bool IsCertain() const;
  // "MODE lowered nothing ...", with the reason of most white ops, and the command that explains.
  std::string Sentence(const std::string& mode) const;

 private:
  int64_t lowered_ = 0, white_ = 0;  // without white ops that the user keeps
  std::map<Reason, int64_t> white_kept_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_IDLE_MODE_H_
