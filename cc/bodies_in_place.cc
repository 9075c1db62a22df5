#include "cc/bodies_in_place.h"

#include "cc/prepare_body.h"
#include "cc/tf_compat.h"
#include "graph_passes/graph/function_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/grappler/utils/functions.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::FunctionDef;
using tensorflow::FunctionDefLibrary;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Status;

// The attribute of loops and branches that TensorFlow puts in place.
constexpr char kLower[] = "_lower_using_switch_merge";

bool HasBody(const NodeDef& node) { return IsLoop(node.op()) || IsChoice(node.op()); }

FunctionDefLibrary Marked(const FunctionDefLibrary& functions) {
  FunctionDefLibrary marked = functions;
  for (FunctionDef& function : *marked.mutable_function()) {
    for (NodeDef& node : *function.mutable_node_def()) {
      MarkOrigin({function.signature().name(), node.name()}, &node);
      if (HasBody(node)) (*node.mutable_attr())[kLower].set_b(true);
    }
  }
  return marked;
}

}  // namespace

BodiesInPlace::BodiesInPlace(tensorflow::grappler::Cluster* cluster, const NamesOfKept& kept,
                             const GraphDef& graph)
    : cluster_(cluster), kept_(kept), graph_(graph) {}

void BodiesInPlace::Decide(const std::string& function) {
  if (library_ == nullptr) {
    library_.reset(new tensorflow::FunctionLibraryDefinition(tensorflow::OpRegistry::Global(),
                                                             Marked(graph_.library())));
  }
  std::vector<Origin> kept;
  const Status status = Kept(function, &kept);
  if (!status.ok())
    VLOG(1) << "npu_precision: bodies of " << function << ": " << StatusText(status);
  for (const Origin& each : kept) nodes_[each.function].insert(each.node);
}

Status BodiesInPlace::Kept(const std::string& function, std::vector<Origin>* kept) const {
  tensorflow::grappler::GrapplerFunctionItem item;
  TF_RETURN_IF_ERROR(tensorflow::grappler::MakeGrapplerFunctionItem(
      *library_->Find(function), *library_, graph_.versions().producer(), &item));
  PrepareBody(cluster_, Bodies::kInPlace, &item);
  std::vector<std::string> names;
  TF_RETURN_IF_ERROR(kept_(item, &names));
  const std::set<std::string> of_rules(names.begin(), names.end());
  for (const NodeDef& node : item.graph.node()) {
    Origin origin;
    if (of_rules.count(node.name()) != 0 && ReadOrigin(node, &origin)) kept->push_back(origin);
  }
  return Status();
}

void BodiesInPlace::Mark(const std::string& function, GraphDef* body) const {
  const auto kept = nodes_.find(function);
  if (kept == nodes_.end()) return;
  for (NodeDef& node : *body->mutable_node()) {
    if (kept->second.count(node.name()) != 0) MarkKeptInPlace(&node);
  }
}

}  // namespace npu_precision
