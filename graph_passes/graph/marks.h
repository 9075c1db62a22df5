// The underscore attributes that let decisions travel with the graph.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_MARKS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_MARKS_H_

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

// The attribute of each mark, by what the mark is called in Python: see npu_precision/_marks.py.
std::map<std::string, std::string> MarkNames();

// Set by keep_dtype_scope(): the node keeps its dtype.
bool HasKeepDtypeMark(const tensorflow::NodeDef& node);
void MarkKeepDtype(tensorflow::NodeDef* node);

// Set by autocast() while a graph is built: DT_HALF or DT_BFLOAT16 where a mixed mode of that type
// is to decide about the node; DT_FLOAT, where autocast is switched off, so that it keeps its
// dtype; DT_INVALID where there is no such mark.
tensorflow::DataType AutocastMark(const tensorflow::NodeDef& node);

// Set by the decorators of amp on what a function computes: "white", "black" or "gray"; "" where
// there is no such mark.
std::string ListMark(const tensorflow::NodeDef& node);

// Gives a node the marks of autocast() and of lists that it has not, if `from` has them.
void InheritMarks(const tensorflow::NodeDef& from, tensorflow::NodeDef* node);
bool HasInheritedMark(const tensorflow::NodeDef& node);

// Set on an op that a pass wrote for TensorFlow to fuse it, with others, into one kernel, which
// computes in float32 inside: its own kernel, which may be why it is black, does not run.
void MarkFused(tensorflow::NodeDef* node);
bool HasFusedMark(const tensorflow::NodeDef& node);

// Set on the product of a loss and its scale, and on what yields the scale for it alone.
bool HasLossScaleMark(const tensorflow::NodeDef& node);

// Set by loss scaling on what yields whether all gradients are finite.
bool HasOverflowCheckMark(const tensorflow::NodeDef& node);
void ForgetOverflowCheckMark(tensorflow::NodeDef* node);

// Set by the offline rewrite on nodes of function bodies that yield their dtype under their name.
bool HasPreservedMark(const tensorflow::NodeDef& node);

// Set by the offline rewrite on nodes with state: only one graph is run, so their names may stay.
bool HasNameMark(const tensorflow::NodeDef& node);

// Set by the offline rewrite on inputs and outputs that may become of the low type.
bool HasLowerIoMark(const tensorflow::NodeDef& node);

// The nodes that `node` is colocated with: what its _class says, or the copy of _class that the
// offline rewrite makes, because TensorFlow erases the attribute there.
std::vector<std::string> ColocatedWith(const tensorflow::NodeDef& node);
// Writes new names, by their old ones, there.
void ColocateWithRenamed(const std::unordered_map<std::string, std::string>& new_names,
                         tensorflow::NodeDef* node);

// On Casts that this optimizer inserted, on what carries their results into a loop (Enter, Switch,
// Identity), and on what collects control inputs for them (NoOp).
void MarkInserted(tensorflow::NodeDef* node);
bool IsOpOfInserted(const std::string& op);
bool IsInserted(const tensorflow::NodeDef& node);
bool IsInsertedCast(const tensorflow::NodeDef& node);

// Whether decisions and consumers look through an inserted node to what it reads, so that a second
// run decides what the first one did. Not through a Cast with control inputs: a consumer that reads
// past it would lose these.
bool IsTransparent(const tensorflow::NodeDef& node);

// Takes the mark off what the caller feeds, which is not to be looked through.
void UnmarkInserted(const std::set<std::string>& fed, tensorflow::GraphDef* graph);

// On nodes that it changed: "DECISION LIST REASON BEFORE CAUSE", in the ledger's words. BEFORE is
// what the type groups were that changed: "T=float32,DstT=float32", "" when none did.
struct DecisionMark {
  std::string decision;
  std::string list;
  std::string reason;
  std::map<std::string, std::string> before;
  std::string cause;
};
// On Casts that round a tensor between nodes that compute in float32 in the place of float16. They
// are inserted nodes as well.
void MarkRounding(tensorflow::NodeDef* node);
bool IsRounding(const tensorflow::NodeDef& node);

// On nodes of which type groups, by their names, are float32 in the place of float16.
void MarkInFloat32(const std::set<std::string>& groups, tensorflow::NodeDef* node);
// Empty where there is no such mark.
std::set<std::string> GroupsInFloat32(const tensorflow::NodeDef& node);
// Takes both marks off.
void ForgetRounding(tensorflow::NodeDef* node);

// Takes off what says that a node was inserted or changed. False where nothing said so.
bool ForgetMarks(tensorflow::NodeDef* node);
// What `before` an earlier mark has of other groups is kept.
void MarkDecision(const DecisionMark& mark, tensorflow::NodeDef* node);
bool ReadDecisionMark(const tensorflow::NodeDef& node, DecisionMark* mark);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_MARKS_H_
