// Marks: underscore attributes on nodes that carry decisions with the graph.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_MARKS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_MARKS_H_

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

// The attribute of each mark, by the name of the mark in Python: see npu_precision/_marks.py.
std::map<std::string, std::string> MarkNames();

// Set by keep_dtype_scope(): the node keeps its dtype.
bool HasKeepDtypeMark(const tensorflow::NodeDef& node);
void MarkKeepDtype(tensorflow::NodeDef* node);

// Set by autocast() while a graph is built. DT_HALF or DT_BFLOAT16: a mixed mode of that type
// decides about the node. DT_FLOAT: autocast is switched off, so the node keeps its dtype.
// DT_INVALID: there is no such mark.
tensorflow::DataType AutocastMark(const tensorflow::NodeDef& node);

// Set by the decorators of amp on the nodes of a function: "white", "black" or "gray"; "" if there
// is no such mark.
std::string ListMark(const tensorflow::NodeDef& node);

// Copies the marks of autocast() and of lists from `from` to a node that lacks them.
void InheritMarks(const tensorflow::NodeDef& from, tensorflow::NodeDef* node);
bool HasInheritedMark(const tensorflow::NodeDef& node);

// Set on an op that a pass wrote so that TensorFlow fuses it with others into one kernel. That
// kernel computes in float32 inside. The op's own kernel, which may be why the op is black, does
// not run.
void MarkFused(tensorflow::NodeDef* node);
bool HasFusedMark(const tensorflow::NodeDef& node);

// Set on the product of a loss and its scale, and on nodes that compute the scale for it alone.
bool HasLossScaleMark(const tensorflow::NodeDef& node);

// Set by loss scaling on the node that yields whether all gradients are finite.
bool HasOverflowCheckMark(const tensorflow::NodeDef& node);
void ForgetOverflowCheckMark(tensorflow::NodeDef* node);

// Set by the offline rewrite on nodes of function bodies that yield their dtype under their name.
bool HasPreservedMark(const tensorflow::NodeDef& node);

// Set by the offline rewrite on nodes with state: only one graph is run, so their names may stay.
bool HasNameMark(const tensorflow::NodeDef& node);

// Set by the offline rewrite on inputs and outputs that may get the low type.
bool HasLowerIoMark(const tensorflow::NodeDef& node);

// What calls the function that a node is in: see analysis/body_facts.h. A later one accumulates
// more.
enum class BodyRole : unsigned char {
  kBranch,    // an If or Case that is in no loop and adds up nothing from call to call
  kCalled,    // a call, or it is not known
  kIterated,  // something in a loop, in each iteration
  kLoopBody,  // a While, whose body it is: its results are its next arguments
};
inline bool IsIterated(BodyRole role) {
  return role == BodyRole::kIterated || role == BodyRole::kLoopBody;
}
const char* BodyRoleName(BodyRole role);
// Set on one node of each body, if all callers are known; kCalled if there is no mark.
BodyRole BodyRoleMark(const tensorflow::NodeDef& node);
void MarkBodyRole(BodyRole role, tensorflow::NodeDef* node);

// Set, if all callers are known, on an If or Case: the pairs of an input and an output such that an
// error of the input reaches the output. Returns false, and leaves `paths` as it was, if there is
// no such mark.
bool ReadErrorPaths(const tensorflow::NodeDef& node, std::vector<std::pair<int, int>>* paths);
void MarkErrorPaths(const std::vector<std::pair<int, int>>& paths, tensorflow::NodeDef* node);

// How the condition of a While reads an argument: see analysis/loop_ends.h.
enum class Reading : unsigned char {
  kCondition,   // a bool
  kMagnitude,   // a number that it compares
  kDifference,  // part of a difference that it compares
};
struct ReadByCondition {
  int place;  // of the argument
  Reading as;
};
// Set on one node of the body of a While, if all callers are known. Empty if there is no mark.
std::vector<ReadByCondition> ReadsByCondition(const tensorflow::NodeDef& node);
void MarkReadsByCondition(const std::vector<ReadByCondition>& reads, tensorflow::NodeDef* node);

// Set on an argument of a body if its caller keeps the value in float32: it votes, as the value
// would vote if the body were in place of the call.
bool HasKeptArgumentMark(const tensorflow::NodeDef& node);
void MarkKeptArgument(tensorflow::NodeDef* node);

// Set on a node of a body if a rule keeps it once all bodies stand in one graph: see
// cc/bodies_in_place.h.
bool HasKeptInPlaceMark(const tensorflow::NodeDef& node);
void MarkKeptInPlace(tensorflow::NodeDef* node);

// The function that a node was written in, "" for the graph, and its name there. Set before bodies
// are put in place.
struct Origin {
  std::string function, node;
};
void MarkOrigin(const Origin& origin, tensorflow::NodeDef* node);
// Returns false if there is no such mark.
bool ReadOrigin(const tensorflow::NodeDef& node, Origin* origin);

// Removes the marks of bodies.
void ForgetBodyMarks(tensorflow::NodeDef* node);

// Set by the offline rewrite on one node of a function that XLA compiles.
bool HasCompiledMark(const tensorflow::NodeDef& node);

// Set on the only node of a function that calls one that XLA compiles, for the optimizer's sake.
bool HasCallerMark(const tensorflow::NodeDef& node);

// The nodes that `node` is colocated with: the content of _class, or of the copy of _class that the
// offline rewrite makes, because TensorFlow erases the attribute there.
std::vector<std::string> ColocatedWith(const tensorflow::NodeDef& node);
// Replaces names in these attributes by new ones. `new_names` maps old names.
void ColocateWithRenamed(const std::unordered_map<std::string, std::string>& new_names,
                         tensorflow::NodeDef* node);

// Set on Casts that this optimizer inserted, on nodes that carry their results into a loop (Enter,
// Switch, Identity), and on nodes that collect control inputs for them (NoOp).
void MarkInserted(tensorflow::NodeDef* node);
bool IsOpOfInserted(const std::string& op);
bool IsInserted(const tensorflow::NodeDef& node);
bool IsInsertedCast(const tensorflow::NodeDef& node);

// Whether decisions and consumers look through an inserted node to its input, so that a second run
// decides as the first one did. They do not look through a Cast with control inputs: a consumer
// that reads past it would lose these.
bool IsTransparent(const tensorflow::NodeDef& node);

// Removes the mark from nodes that the caller feeds, so that nothing looks through them.
void UnmarkInserted(const std::set<std::string>& fed, tensorflow::GraphDef* graph);

// Set on nodes that were changed: "DECISION LIST REASON BEFORE CAUSE", in the ledger's words.
// BEFORE has the former dtypes of the type groups that changed: "T=float32,DstT=float32", "" if
// none did.
struct DecisionMark {
  std::string decision;
  std::string list;
  std::string reason;
  std::map<std::string, std::string> before;
  std::string cause;
};
// Set on Casts that round a tensor between nodes that compute in float32 instead of float16. They
// are inserted nodes as well.
void MarkRounding(tensorflow::NodeDef* node);
bool IsRounding(const tensorflow::NodeDef& node);

// Records the type groups, by name, that are float32 instead of a low type, and that type.
void MarkInFloat32(const std::map<std::string, tensorflow::DataType>& groups,
                   tensorflow::NodeDef* node);
// The groups of that mark; empty if there is none.
std::map<std::string, tensorflow::DataType> GroupsInFloat32(const tensorflow::NodeDef& node);
// Removes both marks.
void ForgetRounding(tensorflow::NodeDef* node);

// Removes the marks of inserted and changed nodes. Returns false if there was none.
bool ForgetMarks(tensorflow::NodeDef* node);
// Sets the mark. Entries in `before` of an earlier mark about other groups stay.
void MarkDecision(const DecisionMark& mark, tensorflow::NodeDef* node);
bool ReadDecisionMark(const tensorflow::NodeDef& node, DecisionMark* mark);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_MARKS_H_
