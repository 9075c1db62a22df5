#include "graph_passes/rewrite/call_boundaries.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/graph_body.h"
#include "graph_passes/rewrite/changed_graph.h"
#include "graph_passes/rewrite/constants_into_loops.h"
#include "graph_passes/rewrite/loop_lists.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace npu_precision {
namespace {

using tensorflow::AttrValue;
using tensorflow::DataType;
using tensorflow::FunctionDef;
using tensorflow::NodeDef;

constexpr DataType kNone = tensorflow::DT_INVALID;
constexpr DataType kFloat = tensorflow::DT_FLOAT;

// The output argument of each op that calls functions.
constexpr char kOfCall[] = "output";

const AttrValue* Find(const NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? nullptr : &found->second;
}

// A node that calls functions. Input `first_input + i` is argument i of each function, and output j
// is result j.
struct Call {
  std::vector<const char*> functions;  // the attributes with the functions' names
  int first_input;
  const char* arguments;  // the attribute with the dtypes of the arguments
  const char* results;    // the attribute with the dtypes of the results
  bool is_loop;           // functions are {body, cond}; arguments are also the results of the first
};

const Call* CallOf(const NodeDef& node) {
  static const auto* calls = new std::unordered_map<std::string, Call>{
      {"PartitionedCall", {{"f"}, 0, "Tin", "Tout", false}},
      {"StatefulPartitionedCall", {{"f"}, 0, "Tin", "Tout", false}},
      {"If", {{"then_branch", "else_branch"}, 1, "Tin", "Tout", false}},
      {"StatelessIf", {{"then_branch", "else_branch"}, 1, "Tin", "Tout", false}},
      {"Case", {{"branches"}, 1, "Tin", "Tout", false}},
      {"StatelessCase", {{"branches"}, 1, "Tin", "Tout", false}},
      {"While", {{"body", "cond"}, 0, "T", "T", true}},
      {"StatelessWhile", {{"body", "cond"}, 0, "T", "T", true}},
  };
  const auto found = calls->find(node.op());
  return found == calls->end() ? nullptr : &found->second;
}

// Clears a field that older TensorFlows do not have.
void ForgetField(const char* name, google::protobuf::Message* message) {
  const auto* field = message->GetDescriptor()->FindFieldByName(name);
  if (field != nullptr) message->GetReflection()->ClearField(message, field);
}

template <typename Visit>
void VisitNamesInAttributes(const NodeDef& node, const Visit& visit) {
  for (const auto& attr : node.attr()) {
    if (attr.second.has_func()) visit(attr.second.func().name());
    for (const auto& function : attr.second.list().func()) visit(function.name());
  }
}

class BoundaryMover {
 public:
  BoundaryMover(const std::set<std::string>& known, const MovableCasts::Kept& kept,
                bool copies_constants, tensorflow::GraphDef* graph)
      : casts_(kept), copies_constants_(copies_constants) {
    bodies_.emplace_back(new GraphBody(graph));
    for (FunctionDef& function : *graph->mutable_library()->mutable_function()) {
      bodies_.emplace_back(new GraphBody(&function));
      body_of_[function.signature().name()] = bodies_.back().get();
    }
    CountReferences(known, *graph);
  }

  std::vector<std::pair<std::string, RewriteEntry>> Run() {
    for (const auto& body : bodies_) Visit(body.get());
    for (const auto& body : bodies_) body->End();
    return std::move(rewrites_);
  }

 private:
  void CountReferences(const std::set<std::string>& known, const tensorflow::GraphDef& graph) {
    for (const std::string& name : known) references_[name] = 2;
    for (const auto& gradient : graph.library().gradient()) {
      references_[gradient.function_name()] = references_[gradient.gradient_func()] = 2;
    }
    for (const auto& body : bodies_) {
      for (const NodeDef* node : body->Nodes()) {
        if (body_of_.count(node->op()) != 0) references_[node->op()] = 2;
        VisitNamesInAttributes(*node, [this](const std::string& name) { ++references_[name]; });
      }
      if (body->function() == nullptr) continue;
      for (const auto& attr : body->function()->attr()) {
        // A forward function names its backward function, and the reverse.
        if (body_of_.count(attr.second.s()) != 0) {
          references_[attr.second.s()] = references_[body->name()] = 2;
        }
        // TensorFlow may replace the function by another with the same signature.
        if (attr.first == "api_implements") references_[body->name()] = 2;
      }
    }
  }

  // Callees first: a Cast that leaves them may leave the caller as well.
  void Visit(GraphBody* body) {
    if (!visited_.insert(body).second) return;
    std::vector<NodeDef*> calls;
    for (NodeDef* node : body->Nodes()) {
      VisitNamesInAttributes(*node, [this](const std::string& name) {
        const auto callee = body_of_.find(name);
        if (callee != body_of_.end()) Visit(callee->second);
      });
      if (CallOf(*node) != nullptr) calls.push_back(node);
    }
    for (NodeDef* node : calls) {
      if (!casts_.IsKept(*body, *node)) Cross(body, node, *CallOf(*node));
    }
  }

  void Cross(GraphBody* body, NodeDef* node, const Call& call) {
    std::vector<GraphBody*> callees;
    if (!OnlyCallees(*node, call, &callees)) return;
    std::vector<std::string> crossed;
    if (call.is_loop) {
      for (int i = 0; i < callees[0]->function()->signature().input_arg_size(); ++i) {
        DataType low = CarryLow(body, node, i, callees);
        if (low == kNone) {
          low = LowerListOfLoop(body, *node, i, callees[0], callees[1], &casts_);
        }
        if (low != kNone) crossed.push_back(absl::StrCat("variable ", i, " ", DtypeName(low)));
      }
      // Skips constants that were just cast: they get smaller when their Casts are folded.
      CopyConstants(body, *node, callees[0]);
    } else {
      for (int i = 0; i < callees[0]->function()->signature().input_arg_size(); ++i) {
        const DataType low = GiveLow(body, node, i, call, callees);
        if (low != kNone) crossed.push_back(absl::StrCat("argument ", i, " ", DtypeName(low)));
      }
      for (int j = 0; j < callees[0]->function()->signature().output_arg_size(); ++j) {
        const DataType low = TakeLow(body, node, j, call, callees);
        if (low != kNone) crossed.push_back(absl::StrCat("result ", j, " ", DtypeName(low)));
      }
    }
    if (crossed.empty()) return;
    ForgetFullType(node);
    std::string after;
    for (const std::string& each : crossed)
      absl::StrAppend(&after, after.empty() ? "" : ", ", each);
    rewrites_.emplace_back(body->name(),
                           RewriteEntry{"call_boundaries", node->name(), "float32", after});
  }

  void CopyConstants(GraphBody* caller, const NodeDef& loop, GraphBody* body) {
    if (!copies_constants_) return;
    const auto& signature = body->function()->signature();
    for (int i = 0; i < signature.input_arg_size(); ++i) {
      const NodeDef* given = caller->Producer(caller->Input(loop, i));
      if (given == nullptr || casts_.IsKept(*caller, *given)) continue;
      const std::string& argument = signature.input_arg(i).name();
      const std::string returned = body->Result(signature.output_arg(i).name());
      const NodeDef* copy = CopyThatIsReturned(*body, argument, returned);
      const bool is_invariant = copy != nullptr || returned == argument;
      if (!is_invariant || !CopyConstantIntoLoop(*given, argument, copy, body)) continue;
      rewrites_.emplace_back(
          caller->name(),
          RewriteEntry{"loop_constants", loop.name(), absl::StrCat("variable ", i), "constant"});
    }
  }

  // Finds the functions, if no other node calls any of them, and all have equally many arguments
  // and results.
  bool OnlyCallees(const NodeDef& node, const Call& call, std::vector<GraphBody*>* callees) const {
    for (const char* attr : call.functions) {
      const AttrValue* value = Find(node, attr);
      if (value == nullptr) return false;
      std::vector<std::string> names;
      if (value->has_func()) names.push_back(value->func().name());
      for (const auto& function : value->list().func()) names.push_back(function.name());
      for (const std::string& name : names) {
        const auto callee = body_of_.find(name);
        if (callee == body_of_.end() || references_.at(name) > 1) return false;
        callees->push_back(callee->second);
      }
    }
    if (callees->empty()) return false;
    const auto& signature = callees->front()->function()->signature();
    if (node.input_size() < call.first_input + signature.input_arg_size()) return false;
    return std::all_of(callees->begin(), callees->end(), [&](const GraphBody* callee) {
      const auto& other = callee->function()->signature();
      const bool is_condition = call.is_loop && callee == callees->back();
      return other.input_arg_size() == signature.input_arg_size() &&
             (is_condition ||
              other.output_arg_size() ==
                  (call.is_loop ? signature.input_arg_size() : signature.output_arg_size()));
    });
  }

  // Lowers loop variable i if all its readers are Casts, and the body returns the variable itself
  // or a Cast to float32.
  DataType CarryLow(GraphBody* caller, NodeDef* node, int i,
                    const std::vector<GraphBody*>& callees) {
    GraphBody& body = *callees[0];
    const auto& signature = body.function()->signature();
    if (signature.input_arg(i).type() != kFloat || signature.output_arg(i).type() != kFloat) {
      return kNone;
    }
    const std::string& argument = signature.input_arg(i).name();
    const std::string returned = body.Result(signature.output_arg(i).name());
    NodeDef* const copy = CopyThatIsReturned(body, argument, returned);
    const bool is_invariant = copy != nullptr || returned == argument;
    // The body may also return the value as another variable, which may have to keep its dtype.
    if (!body.IsReturnedOnce(returned)) return kNone;
    DataType low = kNone;
    if (!casts_.OnlyCasts(body, argument, &low, copy, returned == argument) ||
        !casts_.OnlyCasts(*callees[1], callees[1]->function()->signature().input_arg(i).name(),
                          &low) ||
        low == kNone) {
      return kNone;
    }
    if (!is_invariant && casts_.CastFrom(body, returned) != low) return kNone;
    const std::string source = caller->Input(*node, i);
    ReadLow(callees[0], i, low, copy);
    ReadLow(callees[1], i, low);
    if (is_invariant) {
      if (copy != nullptr) (*copy->mutable_attr())["T"].set_type(low);
      body.function()->mutable_signature()->mutable_output_arg(i)->set_type(low);
      caller->MoveReaders(caller->OutputOf(*node, kOfCall, i), source);
    } else {
      ReturnLow(callees[0], i, low);
      casts_.CastOutput(caller, *node, caller->OutputOf(*node, kOfCall, i), low);
    }
    casts_.CastInput(caller, node, i, low);
    SetType(node, "T", i, low);
    return low;
  }

  // Lowers argument i if all functions only cast it, or if the argument is a Cast already and some
  // functions do not read it.
  DataType GiveLow(GraphBody* caller, NodeDef* node, int i, const Call& call,
                   const std::vector<GraphBody*>& callees) {
    DataType low = kNone;
    bool all_cast = true;
    for (const GraphBody* callee : callees) {
      const auto& argument = callee->function()->signature().input_arg(i);
      if (argument.type() != kFloat) return kNone;
      if (!casts_.OnlyCasts(*callee, argument.name(), &low)) return kNone;
      all_cast &= casts_.IsRead(*callee, argument.name());
    }
    if (low == kNone) return kNone;
    const int k = call.first_input + i;
    // A Cast before a branch runs whichever branch is taken.
    if (!all_cast && casts_.CastFrom(*caller, caller->Input(*node, k)) != low) return kNone;
    for (GraphBody* callee : callees) ReadLow(callee, i, low);
    casts_.CastInput(caller, node, k, low);
    SetType(node, call.arguments, i, low);
    return low;
  }

  DataType TakeLow(GraphBody* caller, NodeDef* node, int j, const Call& call,
                   const std::vector<GraphBody*>& callees) {
    DataType low = kNone;
    for (const GraphBody* callee : callees) {
      const auto& result = callee->function()->signature().output_arg(j);
      const DataType from = casts_.CastFrom(*callee, callee->Result(result.name()));
      if (result.type() != kFloat || from == kNone || (low != kNone && low != from)) return kNone;
      low = from;
    }
    for (GraphBody* callee : callees) ReturnLow(callee, j, low);
    casts_.CastOutput(caller, *node, caller->OutputOf(*node, kOfCall, j), low);
    SetType(node, call.results, j, low);
    return low;
  }

  // The Identity that only returns the argument, or nullptr.
  NodeDef* CopyThatIsReturned(const GraphBody& body, const std::string& argument,
                              const std::string& returned) const {
    NodeDef* copy = body.Producer(returned);
    const bool is_copy = copy != nullptr && copy->op() == "Identity" && copy->input_size() == 1 &&
                         copy->input(0) == argument && !casts_.IsRead(body, returned) &&
                         !body.IsControlProducer(copy->name());
    return is_copy && !casts_.IsKept(body, *copy) ? copy : nullptr;
  }

  void ReadLow(GraphBody* callee, int i, DataType low, const NodeDef* copy = nullptr) {
    auto* argument = callee->function()->mutable_signature()->mutable_input_arg(i);
    SetArgument(argument, low);
    casts_.DropReadingCasts(callee, argument->name(), low, copy);
  }

  void ReturnLow(GraphBody* callee, int j, DataType low) {
    auto* result = callee->function()->mutable_signature()->mutable_output_arg(j);
    SetArgument(result, low);
    casts_.SkipCastOfResult(callee, result->name());
  }

  static void SetArgument(tensorflow::OpDef::ArgDef* argument, DataType low) {
    argument->set_type(low);
    ForgetField("experimental_full_type", argument);
  }

  static void SetType(NodeDef* node, const char* attr, int i, DataType low) {
    (*node->mutable_attr())[attr].mutable_list()->set_type(i, low);
  }

  MovableCasts casts_;
  const bool copies_constants_;
  std::vector<std::unique_ptr<GraphBody>> bodies_;  // of the graph, then of its functions
  std::unordered_map<std::string, GraphBody*> body_of_;
  std::unordered_map<std::string, int> references_;  // by function; 2 or more prevent a change
  std::unordered_set<const GraphBody*> visited_;
  std::vector<std::pair<std::string, RewriteEntry>> rewrites_;
};

}  // namespace

std::vector<std::pair<std::string, RewriteEntry>> MoveCastsOutOfCalls(
    const std::set<std::string>& known, const MovableCasts::Kept& kept, bool copies_constants,
    tensorflow::GraphDef* graph) {
  return BoundaryMover(known, kept, copies_constants, graph).Run();
}

}  // namespace npu_precision
