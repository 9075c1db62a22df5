// The user's modify_mixlist: edits to the white, black and gray lists.
#ifndef NPU_PRECISION_GRAPH_PASSES_MIXLIST_H_
#define NPU_PRECISION_GRAPH_PASSES_MIXLIST_H_

#include <memory>
#include <string>
#include <vector>

#include "graph_passes/ir_names.h"
#include "graph_passes/list_color.h"
#include "re2/re2.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// One entry of one to-add or to-remove.
struct MixlistEntry {
  ListColor list;
  bool add;
  std::string text;   // as written
  std::string place;  // "FILE:LINE:COLUMN"
  // Exactly one of the two is set: the op types it names, or the pattern of node:<RE2>.
  std::vector<std::string> ops;
  std::shared_ptr<const RE2> node_pattern;
  bool for_any_graph = false;  // not written for this one, so it need not match a node of it
};

// Parses {"black-list": {"to-add": [...], "to-remove": [...]}, "white-list": ..., "gray-list": ...}
// into its entries, behind those that `entries` has. Errors: an unknown key, a wrong type, a bad
// pattern, and contradictions among them all: an op added to two lists, or added to and removed
// from one.
tensorflow::Status ParseMixlist(const std::string& file, const std::string& text,
                                const IrNames& ir_names, std::vector<MixlistEntry>* entries);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_MIXLIST_H_
