// The user's modify_mixlist: edits to the white, black and gray lists.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_MIXLIST_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_MIXLIST_H_

#include <memory>
#include <string>
#include <vector>

#include "graph_passes/lists/ir_names.h"
#include "graph_passes/lists/json_text.h"
#include "graph_passes/lists/list_color.h"
#include "re2/re2.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// One entry of one to-add or to-remove.
struct MixlistEntry {
  ListColor list;
  bool add;
  std::string text;   // as written
  std::string place;  // "FILE:LINE:COLUMN", or "FILE[KEY][KEY][NUMBER]"
  // Offsets of the entry's string in the file, quotes included, and the end of the entry before it
  // in its list, or 0.
  size_t begin = 0, end = 0, previous_end = 0;
  // Exactly one of the two is set: the op types that the entry names, or the pattern of node:<RE2>.
  std::vector<std::string> ops;
  std::shared_ptr<const RE2> node_pattern;
  bool for_any_graph = false;  // need not match a node of this graph
};

// An error in a mixlist, with the place of an entry, or "FILE" for more than one place.
struct MixlistProblem {
  std::string place;
  std::string text;
};

// Whether the value of an option is a mixlist itself, as the JSON of an object, and no path.
bool IsMixlistItself(const std::string& value);

// "white-list", "black-list", "gray-list".
std::string MixlistKey(ListColor color);

// Reads {"black-list": {"to-add": [...], "to-remove": [...]}, "white-list": ..., "gray-list": ...}
// and appends its entries to `entries`. `problems` gets all errors in it: unknown keys, wrong
// types, bad patterns. If there are none, it gets contradictions among the entries: an op that is
// added to two lists, or added to and removed from one. Returns an error if the text is not a JSON
// object.
tensorflow::Status ReadMixlist(const std::string& file, const std::string& text,
                               const IrNames& ir_names, std::vector<MixlistEntry>* entries,
                               std::vector<MixlistProblem>* problems,
                               JsonPlaces places = JsonPlaces::kLines);

// As ReadMixlist, but returns the first problem as an error.
tensorflow::Status ParseMixlist(const std::string& file, const std::string& text,
                                const IrNames& ir_names, std::vector<MixlistEntry>* entries,
                                JsonPlaces places = JsonPlaces::kLines);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_MIXLIST_H_
