#include "cc/bodies_in_place.h"

#include "cc/function_stubs.h"
#include "cc/prepare_body.h"
#include "cc/tf_compat.h"
#include "graph_passes/graph/function_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/function.h"
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

}  // namespace

BodiesInPlace::BodiesInPlace(tensorflow::grappler::Cluster* cluster, const NamesOfKept& kept,
                             int producer, PreparedBodies* bodies)
    : cluster_(cluster), kept_(kept), producer_(producer), bodies_(bodies) {}

void BodiesInPlace::Decide(const std::string& function) {
  std::vector<Origin> kept;
  const Status status = Kept(function, &kept);
  if (!status.ok())
    VLOG(1) << "npu_precision: bodies of " << function << ": " << StatusText(status);
  for (const Origin& each : kept) nodes_[each.function].insert(each.node);
}

Status BodiesInPlace::AddMarked(const std::string& function, std::set<std::string>* seen,
                                FunctionDefLibrary* marked) const {
  const FunctionDef* found = bodies_->Function(function);
  if (found == nullptr || !seen->insert(function).second) return Status();
  const tensorflow::grappler::GrapplerFunctionItem* body;
  TF_RETURN_IF_ERROR(bodies_->Body(*found, &body));
  FunctionDef prepared;
  TF_RETURN_IF_ERROR(bodies_->WithBody(*found, *body, &prepared));
  for (NodeDef& node : *prepared.mutable_node_def()) {
    MarkOrigin({function, node.name()}, &node);
    if (HasBody(node)) (*node.mutable_attr())[kLower].set_b(true);
    TF_RETURN_IF_ERROR(AddMarked(node.op(), seen, marked));
    for (const std::string& each : NamedFunctions(node)) {
      TF_RETURN_IF_ERROR(AddMarked(each, seen, marked));
    }
  }
  marked->add_function()->Swap(&prepared);
  return Status();
}

Status BodiesInPlace::Kept(const std::string& function, std::vector<Origin>* kept) const {
  FunctionDefLibrary marked;
  std::set<std::string> seen;
  TF_RETURN_IF_ERROR(AddMarked(function, &seen, &marked));
  const tensorflow::FunctionLibraryDefinition library(tensorflow::OpRegistry::Global(), marked);
  tensorflow::grappler::GrapplerFunctionItem item;
  TF_RETURN_IF_ERROR(tensorflow::grappler::MakeGrapplerFunctionItem(*library.Find(function),
                                                                    library, producer_, &item));
  PutBodiesInPlace(cluster_, &item);
  std::vector<std::string> names;
  TF_RETURN_IF_ERROR(kept_(WithStubs(item), &names));
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
