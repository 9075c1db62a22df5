#include "graph_passes/analysis/body_facts.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "graph_passes/analysis/cycles.h"
#include "graph_passes/analysis/error_paths.h"
#include "graph_passes/analysis/loop_ends.h"
#include "graph_passes/graph/function_ops.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/registered_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::FunctionDef;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::OpDef;
using tensorflow::Status;

using NodeDefs = google::protobuf::RepeatedPtrField<NodeDef>;

// Largest graph with its bodies in place, in nodes.
constexpr double kMostInPlace = 100000;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Paths = std::vector<std::pair<int, int>>;

// The graph itself, or the body of a function as a graph with arguments and results.
struct Body {
  GraphDef graph;
  GraphView view;
  bool is_read = false;
};

class Finder {
 public:
  Finder(const GraphDef& graph, const std::set<std::string>& known) : graph_(graph), known_(known) {
    for (const FunctionDef& function : graph.library().function()) {
      functions_[function.signature().name()] = &function;
    }
    Body& main = bodies_[""];
    main.is_read = GraphView::Build(graph, &main.view).ok();
    for (const auto& function : functions_) {
      Body& body = bodies_[function.first];
      body.is_read = Instantiate(*function.second, &body.graph).ok() &&
                     GraphView::Build(body.graph, &body.view).ok();
    }
    for (const auto& gradient : graph.library().gradient()) {
      known_.insert({gradient.function_name(), gradient.gradient_func()});
    }
  }

  BodyFacts Run() {
    FindRoles();
    for (const auto& body : bodies_) FindInPlace(body.first);
    for (const auto& body : bodies_) {
      if (!body.second.is_read) continue;
      const GraphView& view = body.second.view;
      for (int id = 0; id < view.size(); ++id) {
        if (IsLoop(view.node(id).op())) FindReadByCondition(view.node(id));
        Paths paths;
        if (IsChoice(view.node(id).op()) && PathsThrough(view.node(id), &paths)) {
          facts_.choices.push_back({body.first, view.node(id).name(), paths});
        }
      }
    }
    return std::move(facts_);
  }

 private:
  // Writes the body as a graph. A function that depends on attributes of its callers has no single
  // body, and is an error.
  Status Instantiate(const FunctionDef& function, GraphDef* graph) const {
    const auto signature_of = [this](const std::string& op, const OpDef** signature) {
      *signature = RegisteredOp(op);
      const auto found = functions_.find(op);
      if (*signature == nullptr && found != functions_.end()) {
        *signature = &found->second->signature();
      }
      return *signature != nullptr ? Status() : tensorflow::errors::NotFound(op);
    };
    tensorflow::InstantiationResult result;
    TF_RETURN_IF_ERROR(tensorflow::InstantiateFunction(
        function, tensorflow::AttrSlice(&function.attr()), signature_of, &result));
    std::unordered_set<std::string> copied;
    for (NodeDef& node : result.nodes) {
      const auto called = functions_.find(node.op());
      if (called != functions_.end() && copied.insert(node.op()).second) {
        *graph->mutable_library()->add_function()->mutable_signature() =
            called->second->signature();
      }
      graph->add_node()->Swap(&node);
    }
    return Status();
  }

  // --- Roles.

  void FindRoles() {
    std::set<std::string> uncalled = known_;
    std::unordered_set<std::string> named;
    for (const auto& body : bodies_) {
      if (!body.second.is_read) continue;
      for (int id = 0; id < body.second.view.size(); ++id) {
        const NodeDef& node = body.second.view.node(id);
        named.insert(node.op());
        for (const std::string& name : NamedFunctions(node)) named.insert(name);
      }
    }
    for (const auto& function : functions_) {
      if (named.count(function.first) == 0) uncalled.insert(function.first);
    }
    for (const std::string& name : uncalled) Call(name, BodyRole::kCalled);
    // The graph itself has no arguments and results.
    Visit("", BodyRole::kBranch);
    while (!open_.empty()) {
      const std::string name = open_.back();
      open_.pop_back();
      Visit(name, facts_.roles[name]);
    }
  }

  void Call(const std::string& name, BodyRole role) {
    if (functions_.count(name) == 0) return;
    const auto added = facts_.roles.insert({name, role});
    if (!added.second) {
      // Of several roles, the one that accumulates more counts.
      if (role <= added.first->second) return;
      added.first->second = role;
    }
    open_.push_back(name);
  }

  void Visit(const std::string& name, BodyRole role) {
    const Body& body = bodies_[name];
    if (!body.is_read) {
      if (name.empty()) return;
      for (const NodeDef& node : functions_[name]->node_def()) {
        for (const std::string& callee : NamedFunctions(node)) Call(callee, BodyRole::kCalled);
      }
      return;
    }
    const GraphView& view = body.view;
    std::vector<int> calls;
    for (int id = 0; id < view.size(); ++id) {
      if (view.calls_function(id) || !NamedFunctions(view.node(id)).empty()) calls.push_back(id);
    }
    if (calls.empty()) return;
    const std::vector<bool> iterated = OnCycles(view), returned = OnPathsToResults(view);
    for (int id : calls) {
      const std::string& op = view.node(id).op();
      BodyRole callee = BodyRole::kCalled;
      if (IsLoop(op) || iterated[id]) {
        callee = BodyRole::kIterated;
      } else if (IsChoice(op) && !returned[id]) {
        callee = BodyRole::kBranch;
      } else if (IsIterated(role)) {
        callee = BodyRole::kIterated;
      } else if (IsChoice(op)) {
        callee = role;
      }
      if (IsLoop(op)) Call(view.node(id).attr().at("body").func().name(), BodyRole::kLoopBody);
      Call(op, callee);
      for (const std::string& named : NamedFunctions(view.node(id))) Call(named, callee);
    }
  }

  // Whether the node yields floats that it computes from floats other than by a matrix product.
  static bool Passes(const GraphView& view, int id) {
    const std::string& op = view.node(id).op();
    return view.op_def(id) != nullptr && !IsMatrixOrConvolution(op) && !ReadsShapesOnly(op);
  }

  // By node id: on a cycle of such nodes, which is a TensorFlow 1 loop.
  static std::vector<bool> OnCycles(const GraphView& view) {
    std::vector<bool> on_cycle(view.size(), false);
    const std::vector<int> component = StronglyConnected(
        view.size(), [&view](int id, const auto& visit) { VisitReaders(view, id, visit); });
    std::vector<bool> is_loop(view.size(), false);
    for (int id = 0; id < view.size(); ++id) {
      if (view.node(id).op() == "NextIteration") is_loop[component[id]] = true;
    }
    for (int id = 0; id < view.size(); ++id) on_cycle[id] = is_loop[component[id]];
    return on_cycle;
  }

  static std::vector<bool> OnPathsToResults(const GraphView& view) {
    std::vector<int> arguments, results;
    for (int id = 0; id < view.size(); ++id) {
      if (IsArgument(view.node(id).op())) arguments.push_back(id);
      if (IsResult(view.node(id).op())) results.push_back(id);
    }
    std::vector<bool> on_path = Reached(view, arguments, VisitReaders);
    const std::vector<bool> backward = Reached(view, results, VisitProducers);
    for (int id = 0; id < view.size(); ++id) on_path[id] = on_path[id] && backward[id];
    return on_path;
  }

  using Visitor = std::function<void(int)>;

  static void VisitReaders(const GraphView& view, int id, const Visitor& visit) {
    for (const InputPort& use : view.fanout(id)) {
      if (HasErrors(view.dtype(use)) && Passes(view, use.node)) visit(use.node);
    }
  }

  static void VisitProducers(const GraphView& view, int id, const Visitor& visit) {
    for (int k = 0; k < view.num_inputs(id); ++k) {
      const OutputPort from = view.fanin(id)[k];
      if (HasErrors(view.dtype(from)) && Passes(view, from.node)) visit(from.node);
    }
  }

  template <typename Neighbours>
  static std::vector<bool> Reached(const GraphView& view, std::vector<int> nodes,
                                   const Neighbours& neighbours) {
    std::vector<bool> reached(view.size(), false);
    for (int id : nodes) reached[id] = true;
    for (size_t i = 0; i < nodes.size(); ++i) {
      neighbours(view, nodes[i], [&](int id) {
        if (reached[id]) return;
        reached[id] = true;
        nodes.push_back(id);
      });
    }
    return reached;
  }

  // --- Bodies in place.

  const NodeDefs& NodesOf(const std::string& name) const {
    return name.empty() ? graph_.node() : functions_.at(name)->node_def();
  }

  // Without recursion, because calls may be nested deeper than the stack is.
  void FindInPlace(const std::string& name) {
    std::vector<std::string> open = {name};
    while (!open.empty()) {
      const std::string current = open.back();
      const bool is_new = facts_.in_place.insert({current, {false, kInfinity}}).second;
      if (is_new) {
        for (const NodeDef& node : NodesOf(current)) {
          for (const std::string& callee : CalledBy(node)) {
            if (facts_.in_place.count(callee) == 0) open.push_back(callee);
          }
        }
        continue;
      }
      open.pop_back();
      if (!counted_.insert(current).second) continue;
      BodyFacts::InPlace found;
      for (const NodeDef& node : NodesOf(current)) {
        found.nodes += 1;
        found.has_bodies |= IsLoop(node.op()) || IsChoice(node.op());
        for (const std::string& callee : CalledBy(node)) {
          found.nodes += facts_.in_place.at(callee).nodes;
          found.has_bodies |= facts_.in_place.at(callee).has_bodies;
        }
      }
      facts_.in_place[current] = found;
    }
  }

  std::vector<std::string> CalledBy(const NodeDef& node) const {
    std::vector<std::string> called;
    if (functions_.count(node.op()) != 0) called.push_back(node.op());
    for (const std::string& name : NamedFunctions(node)) {
      if (functions_.count(name) != 0) called.push_back(name);
    }
    return called;
  }

  // --- Conditions.

  void FindReadByCondition(const NodeDef& loop) {
    const auto condition = bodies_.find(loop.attr().at("cond").func().name());
    if (condition == bodies_.end() || !condition->second.is_read) return;
    const GraphView& view = condition->second.view;
    const LoopEnds ends = FindLoopEnds(view, {}, std::vector<bool>(view.size(), false), {});
    std::vector<ReadByCondition>& read = facts_.read[loop.attr().at("body").func().name()];
    read.insert(read.end(), ends.arguments.begin(), ends.arguments.end());
  }

  // --- Paths of errors.

  // The pairs of an argument and a result of the function.
  struct OfFunction {
    bool is_known = false;
    Paths paths;
  };

  // Fills `paths` with those from an input of an If or Case to an output. Returns false if a branch
  // cannot be read, or calls itself.
  bool PathsThrough(const NodeDef& node, Paths* paths) {
    std::set<std::pair<int, int>> found;
    for (const std::string& name : NamedFunctions(node)) {
      const OfFunction& branch = PathsIn(name);
      if (!branch.is_known) return false;
      // Input 0 chooses the branch.
      for (const auto& path : branch.paths) found.insert({path.first + 1, path.second});
    }
    paths->assign(found.begin(), found.end());
    return true;
  }

  const OfFunction& PathsIn(const std::string& name) {
    const auto added = of_function_.insert({name, OfFunction()});
    OfFunction& function = added.first->second;
    const auto body = bodies_.find(name);
    if (!added.second || body == bodies_.end() || !body->second.is_read) return function;
    const GraphView& view = body->second.view;
    Paths paths;
    for (int id = 0; id < view.size(); ++id) {
      if (!IsResult(view.node(id).op())) continue;
      for (int argument : ArgumentsBehind(view, view.fanin(id)[0])) {
        paths.emplace_back(IndexOf(view.node(argument)), IndexOf(view.node(id)));
      }
    }
    function.paths = std::move(paths);
    function.is_known = true;
    return function;
  }

  static int IndexOf(const NodeDef& node) { return static_cast<int>(node.attr().at("index").i()); }

  // The arguments whose errors reach the tensor.
  std::vector<int> ArgumentsBehind(const GraphView& view, const OutputPort& result) {
    std::vector<int> arguments;
    std::vector<OutputPort> tensors;
    std::set<std::pair<int, int>> seen;
    const auto push = [&](const OutputPort& tensor) {
      if (seen.insert({tensor.node, tensor.port}).second) tensors.push_back(tensor);
    };
    push(result);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int id = tensors[i].node;
      const std::string& op = view.node(id).op();
      if (!HasErrors(view.dtype(tensors[i]))) continue;
      if (IsArgument(op)) arguments.push_back(id);
      if (EndsErrorPath(op) || IsMatrixOrConvolution(op) || view.calls_function(id)) continue;
      if (AveragesErrors(op) && !SumsComplements(view, id)) continue;
      Paths paths;
      const bool chooses = IsChoice(op) && PathsThrough(view.node(id), &paths);
      for (int k = 0; k < view.num_inputs(id); ++k) {
        const bool reaches =
            std::count(paths.begin(), paths.end(), std::make_pair(k, tensors[i].port)) != 0;
        if (!chooses || reaches) push(view.fanin(id)[k]);
      }
    }
    return arguments;
  }

  // Whether the terms may be complements such as 1 - p, of which a sum restores no digits.
  static bool SumsComplements(const GraphView& view, int sum) {
    const OutputPort term = view.LookThrough(view.fanin(sum)[0], [&view](int id) {
      return view.IsTransparent(id) || MovesValues(view.node(id).op());
    });
    return view.node(term.node).op() == "Sub";
  }

  const GraphDef& graph_;
  std::set<std::string> known_;
  std::map<std::string, const FunctionDef*> functions_;
  std::map<std::string, Body> bodies_;  // by function, "" for the graph itself
  std::map<std::string, OfFunction> of_function_;
  std::vector<std::string> open_;
  std::set<std::string> counted_;  // whose facts in place are known
  BodyFacts facts_;
};

}  // namespace

BodyFacts FindBodyFacts(const GraphDef& graph, const std::set<std::string>& known) {
  if (graph.library().function_size() == 0) return BodyFacts();
  return Finder(graph, known).Run();
}

bool FitsInPlace(const BodyFacts& facts, const std::string& function) {
  const auto found = facts.in_place.find(function);
  if (found == facts.in_place.end()) return false;
  return found->second.has_bodies && found->second.nodes <= kMostInPlace;
}

void MarkBody(const BodyFacts& facts, const std::string& function, GraphDef* body) {
  if (body->node_size() == 0) return;
  const auto role = facts.roles.find(function);
  if (role != facts.roles.end()) MarkBodyRole(role->second, body->mutable_node(0));
  const auto read = facts.read.find(function);
  if (read != facts.read.end()) MarkReadsByCondition(read->second, body->mutable_node(0));
  std::unordered_map<std::string, const BodyFacts::Choice*> choices;
  for (const BodyFacts::Choice& choice : facts.choices) {
    if (choice.body == function) choices[choice.node] = &choice;
  }
  for (NodeDef& node : *body->mutable_node()) {
    const auto choice = choices.find(node.name());
    if (choice != choices.end()) MarkErrorPaths(choice->second->paths, &node);
  }
}

}  // namespace npu_precision
