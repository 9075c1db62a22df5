#include "cc/compiled_functions.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/kept_values.h"
#include "cc/prepared_bodies.h"
#include "graph_passes/analysis/body_facts.h"
#include "graph_passes/graph/function_ops.h"
#include "graph_passes/graph/marks.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/grappler/utils/functions.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/hash/hash.h"
#include "tensorflow/core/lib/strings/proto_serialization.h"

namespace npu_precision {
namespace {

using tensorflow::AttrValue;
using tensorflow::FunctionDef;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Status;
using tensorflow::grappler::Cluster;
using tensorflow::grappler::GrapplerFunctionItem;
using tensorflow::grappler::GrapplerItem;

template <typename Attributes>
bool IsTrue(const Attributes& attributes, const char* name) {
  const auto found = attributes.find(name);
  return found != attributes.end() && found->second.b();
}

bool IsCompiled(const FunctionDef& function) { return IsTrue(function.attr(), kMustCompile); }

bool HasCompiled(const GraphDef& graph) {
  const auto& functions = graph.library().function();
  return std::any_of(functions.begin(), functions.end(), IsCompiled) ||
         std::any_of(graph.node().begin(), graph.node().end(), CallsCompiled);
}

class Rewriter {
 public:
  Rewriter(Cluster* cluster, const RewriteBody& rewrite, const NamesOfKept& kept, GraphDef* graph)
      : rewrite_(rewrite),
        graph_(*graph),
        bodies_(cluster, *graph),
        facts_(FindBodyFacts(*graph, /*known=*/{})),
        in_place_(cluster, kept, graph->versions().producer(), &bodies_) {}

  Status Run() {
    bool changed = false;
    for (NodeDef& node : *graph_.mutable_node()) {
      TF_RETURN_IF_ERROR(PointToNew(CallsCompiled(node), {}, &node, &changed));
    }
    for (const std::string& name : bodies_.added()) {
      *graph_.mutable_library()->add_function() = *bodies_.Function(name);
    }
    return Status();
  }

 private:
  // Lets a node refer to rewritten functions: all of its own if it is compiled itself, else those
  // that XLA compiles. `kept` are the arguments that are kept in float32.
  Status PointToNew(bool is_compiled, const std::vector<bool>& kept, NodeDef* node, bool* changed) {
    std::string op = node->op();
    TF_RETURN_IF_ERROR(Rename(is_compiled, kept, &op, changed));
    node->set_op(op);
    for (auto& attribute : *node->mutable_attr()) {
      AttrValue& value = attribute.second;
      if (value.has_func()) {
        TF_RETURN_IF_ERROR(
            Rename(is_compiled, kept, value.mutable_func()->mutable_name(), changed));
      }
      if (!value.has_list()) continue;
      for (auto& function : *value.mutable_list()->mutable_func()) {
        TF_RETURN_IF_ERROR(Rename(is_compiled, kept, function.mutable_name(), changed));
      }
    }
    return Status();
  }

  Status Rename(bool is_compiled, const std::vector<bool>& kept, std::string* name, bool* changed) {
    const FunctionDef* function = bodies_.Function(*name);
    if (function == nullptr) return Status();
    if (!is_compiled && !IsCompiled(*function)) return Status();
    const std::string old_name = *name;
    const auto added = new_names_.insert({{old_name, kept}, old_name});
    // A function that calls itself refers to the one that is not rewritten.
    if (added.second) {
      // Then it is decided for the functions that it calls, too.
      if (depth_ == 0 && FitsInPlace(facts_, old_name)) in_place_.Decide(old_name);
      ++depth_;
      const Status rewritten = Rewrite(*function, kept, &added.first->second);
      --depth_;
      TF_RETURN_IF_ERROR(rewritten);
    }
    *name = added.first->second;
    *changed |= *name != old_name;
    return Status();
  }

  // The arguments that vote "kept". A constant or variable does so too, but for a loop, where it
  // may be only the first of the values: in place of the call, it would pass an Identity, which is
  // kept.
  static std::vector<bool> KeptAt(const std::vector<Kept>& arguments, bool is_loop) {
    std::vector<bool> kept;
    for (Kept each : arguments) {
      kept.push_back(each == Kept::kYes || (!is_loop && each == Kept::kNeutral));
    }
    return kept;
  }

  // Adds the arguments of a loop whose next values its body keeps, or which it never changes.
  Status KeptInLoop(const NodeDef& loop, const std::vector<Kept>& arguments,
                    std::vector<bool>* kept) {
    const FunctionDef* function = bodies_.Function(loop.attr().at("body").func().name());
    if (function == nullptr) return Status();
    GrapplerFunctionItem item;
    TF_RETURN_IF_ERROR(Prepare(*function, &item));
    for (bool grows = true; grows;) {
      grows = false;
      MarkKept(*kept, &item.graph);
      GraphDef body;
      bool changed = false;
      TF_RETURN_IF_ERROR(rewrite_(item, /*is_trial=*/true, &body, &changed));
      const KeptValues values(body);
      const std::vector<Kept> results = values.Results();
      const std::vector<bool> invariant = values.Invariant();
      for (size_t i = 0; i < std::min(kept->size(), results.size()); ++i) {
        if ((*kept)[i] || arguments[i] == Kept::kNo) continue;
        (*kept)[i] = results[i] == Kept::kYes || invariant[i];
        grows |= (*kept)[i];
      }
    }
    return Status();
  }

  // The prepared body, with the marks of what is known about it.
  Status Prepare(const FunctionDef& function, GrapplerFunctionItem* item) {
    const GrapplerFunctionItem* prepared;
    TF_RETURN_IF_ERROR(bodies_.Body(function, &prepared));
    *item = *prepared;
    MarkBody(facts_, function.signature().name(), &item->graph);
    in_place_.Mark(function.signature().name(), &item->graph);
    return Status();
  }

  Status Rewrite(const FunctionDef& function, const std::vector<bool>& kept,
                 std::string* new_name) {
    GrapplerFunctionItem item;
    TF_RETURN_IF_ERROR(Prepare(function, &item));
    MarkKept(kept, &item.graph);
    GraphDef body;
    bool changed = false;
    TF_RETURN_IF_ERROR(rewrite_(item, /*is_trial=*/false, &body, &changed));
    const KeptValues values(body);
    std::vector<std::vector<Kept>> arguments;
    for (const NodeDef& node : body.node()) arguments.push_back(values.Arguments(node));
    for (int id = 0; id < body.node_size(); ++id) {
      NodeDef* node = body.mutable_node(id);
      ForgetBodyMarks(node);
      const bool is_loop = IsLoop(node->op());
      std::vector<bool> inside = KeptAt(arguments[id], is_loop);
      if (is_loop) TF_RETURN_IF_ERROR(KeptInLoop(*node, arguments[id], &inside));
      TF_RETURN_IF_ERROR(PointToNew(/*is_compiled=*/true, inside, node, &changed));
    }
    if (!changed) return Status();
    item.SwapFunctionBody(std::move(body));
    FunctionDef rewritten;
    TF_RETURN_IF_ERROR(bodies_.WithBody(function, item, &rewritten));
    std::string serialized;
    if (!tensorflow::SerializeToStringDeterministic(rewritten, &serialized)) {
      return tensorflow::errors::Internal("cannot serialize ", function.signature().name());
    }
    const auto hash = absl::Hex(tensorflow::Hash64(serialized), absl::kZeroPad16);
    const std::string name = absl::StrCat(function.signature().name(), "_lowered_", hash);
    rewritten.mutable_signature()->set_name(name);
    *new_name = name;
    return bodies_.Add(rewritten);
  }

  const RewriteBody& rewrite_;
  GraphDef& graph_;
  PreparedBodies bodies_;
  const BodyFacts facts_;
  BodiesInPlace in_place_;
  int depth_ = 0;  // of functions that are being rewritten, each called by the one before
  // By name and kept arguments.
  std::map<std::pair<std::string, std::vector<bool>>, std::string> new_names_;
};

}  // namespace

// XlaLaunch is what TensorFlow makes of tf.xla.experimental.compile(), before Grappler runs.
bool CallsCompiled(const NodeDef& node) {
  return node.op() == "XlaLaunch" || IsTrue(node.attr(), kMustCompile);
}

bool IsOfCompiledFunction(const GrapplerItem& item) {
  const auto* function = dynamic_cast<const tensorflow::grappler::GrapplerFunctionItem*>(&item);
  if (function == nullptr) return false;
  const tensorflow::AttrValue* value = function->func_attr().Find(kMustCompile);
  return value != nullptr && value->b();
}

Status RewriteCompiledFunctions(Cluster* cluster, const RewriteBody& rewrite,
                                const NamesOfKept& kept, GraphDef* graph) {
  if (!HasCompiled(*graph)) return Status();
  return Rewriter(cluster, rewrite, kept, graph).Run();
}

}  // namespace npu_precision
