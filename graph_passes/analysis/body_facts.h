// Facts about functions that only a graph with its whole library shows. The optimizer decides about
// each body alone, without the library, so these facts come to it as marks (see marks.h). They are
// set where all callers are known: offline, and in functions that XLA compiles.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_BODY_FACTS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_BODY_FACTS_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph_passes/graph/marks.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

struct BodyFacts {
  // By function. A function that is called, or may be called from elsewhere, is kCalled, whatever
  // else calls it. A branch has the role of the body that its If or Case is in, if that is on a
  // path of floats from an argument to a result, without a matrix product in between; and it is
  // kIterated if such a path leads around a TensorFlow 1 loop.
  std::map<std::string, BodyRole> roles;

  // An If or Case, the body that it is in ("" for the graph), and its paths of errors: input i and
  // output j are a pair if a branch computes j from i, and an error of i reaches j. Errors end at
  // integers, shapes, matrix products and sums.
  struct Choice {
    std::string body, node;
    std::vector<std::pair<int, int>> paths;
  };
  std::vector<Choice> choices;

  // A function with the bodies of all that it calls in its place, calls of calls too.
  struct InPlace {
    bool has_bodies = false;  // of loops or branches
    double nodes = 0;         // infinite if a function calls itself
  };
  std::map<std::string, InPlace> in_place;  // by function, "" for the graph

  // By the body of a While: what the condition reads of its results.
  std::map<std::string, std::vector<ReadByCondition>> read;
};

// `known` are names of functions that are called from outside the graph too. A function that cannot
// be read has no role, and the nodes that choose it have no paths.
BodyFacts FindBodyFacts(const tensorflow::GraphDef& graph, const std::set<std::string>& known);

// Whether the function has bodies, and the graph with all of them in place is no larger than graphs
// that are decided about in seconds. Nested calls may make it larger without a limit.
bool FitsInPlace(const BodyFacts& facts, const std::string& function);

// Marks the nodes of a function's body with the facts about it.
void MarkBody(const BodyFacts& facts, const std::string& function, tensorflow::GraphDef* body);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_BODY_FACTS_H_
