// What in a mixlist will surprise its author.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_MIXLIST_WARNINGS_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_MIXLIST_WARNINGS_H_

#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/lists/op_lists.h"

namespace npu_precision {

// What is odd about one entry.
struct EntryWarning {
  const MixlistEntry* entry;
  std::string text;
  // Of a name that is unknown but for a letter or its case: the name that was meant. Not where
  // another version of the op, or of another number of dimensions, may have been meant.
  std::string meant;

  // "FILE:LINE:COLUMN: 'Relo' is ...".
  std::string Line() const;
};

// Entries that name no op type of this TensorFlow: unknown names, each with a did-you-mean, and
// Ascend's ops that nothing here corresponds to.
std::vector<EntryWarning> UnknownOpWarnings(const std::vector<MixlistEntry>& entries,
                                            const IrNames& ir_names);

// Whether entries can be expected to match nodes of the graph: a list is not written for an
// initializer or a small function, in which nothing was lowered and no op multiplies matrices or
// convolves.
bool IsWhatListsAreFor(const GraphView& view, int lowered);

// Entries that name an op type or a pattern but match no node of the graph.
std::vector<EntryWarning> UnmatchedWarnings(const OpLists& lists, const GraphView& view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_MIXLIST_WARNINGS_H_
