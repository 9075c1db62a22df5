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
  // For an unknown name that differs from a known one by a letter or in case: the known one. Else
  // empty, also where the names differ in a number, which may be a version or a number of
  // dimensions.
  std::string meant;

  // "FILE:LINE:COLUMN: 'Relo' is ...".
  std::string Line() const;
};

// Warns about entries that name no op type of TensorFlow or Ascend, each with a did-you-mean. An op
// type of Ascend that TensorFlow lacks is none of them: the list may be for an NPU too.
std::vector<EntryWarning> UnknownOpWarnings(const std::vector<MixlistEntry>& entries,
                                            const IrNames& ir_names);

// Whether entries should match nodes of the graph: some node was lowered, or some op multiplies
// matrices or convolves. Nobody writes a list for an initializer or a small function without these.
bool IsWhatListsAreFor(const GraphView& view, int lowered);

// Of the entries with a known op type or a pattern, the warnings about those that match no node of
// the graph; and the lines that the warnings about the others would have, by which a program knows
// that they matched in another of its graphs.
struct EntryMatches {
  std::vector<EntryWarning> unmatched;
  std::vector<std::string> matched;
};
EntryMatches MatchEntries(const OpLists& lists, const GraphView& view);
// The same of the lines of customize_dtypes, a line of text each.
std::vector<std::string> UnmatchedLines(const CustomDtypesFile& file, const GraphView& view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_MIXLIST_WARNINGS_H_
