// Warnings about mixlist entries that have no effect: unknown names, and names that match nothing.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_MIXLIST_WARNINGS_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_MIXLIST_WARNINGS_H_

#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/lists/custom_dtypes.h"
#include "graph_passes/lists/op_lists.h"

namespace npu_precision {

// A warning about one entry.
struct EntryWarning {
  const MixlistEntry* entry;
  std::string text;
  // The known name, if the unknown one differs from it by a letter or in case. Empty otherwise, and
  // also if the names differ in a number, which may be a version or a number of dimensions.
  std::string meant;

  // "FILE:LINE:COLUMN: 'Relo' is ...".
  std::string Line() const;
};

// Warns about entries that name no op type of TensorFlow or Ascend, each with a did-you-mean. An op
// type of Ascend that TensorFlow lacks gets no warning: the list may be for an NPU too.
std::vector<EntryWarning> UnknownOpWarnings(const std::vector<MixlistEntry>& entries,
                                            const IrNames& ir_names);

// Whether entries should match nodes of the graph: a node was lowered, or an op multiplies matrices
// or convolves. Nobody writes a list for an initializer or a small function without these.
bool IsWhatListsAreFor(const GraphView& view, int lowered);

// `unmatched`: the warnings about entries, with a known op type or a pattern, that match no node of
// the graph. `matched`: the lines that the warnings about the others would have. With these, a
// program knows that an entry matched in another of its graphs.
struct EntryMatches {
  std::vector<EntryWarning> unmatched;
  std::vector<std::string> matched;
};
EntryMatches MatchEntries(const OpLists& lists, const GraphView& view);
// The same for the lines of customize_dtypes.
std::vector<std::string> UnmatchedLines(const CustomDtypesFile& file, const GraphView& view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_MIXLIST_WARNINGS_H_
