#include "cc/prepared_bodies.h"

#include <utility>

#include "cc/function_stubs.h"
#include "cc/prepare_body.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {

using tensorflow::FunctionDef;
using tensorflow::Status;
using tensorflow::grappler::GrapplerFunctionItem;

PreparedBodies::PreparedBodies(tensorflow::grappler::Cluster* cluster,
                               const tensorflow::GraphDef& graph)
    : cluster_(cluster),
      producer_(graph.versions().producer()),
      library_(tensorflow::OpRegistry::Global(), graph.library()) {}

const FunctionDef* PreparedBodies::Function(const std::string& name) const {
  return library_.Find(name);
}

Status PreparedBodies::Body(const FunctionDef& function, const GrapplerFunctionItem** body) {
  std::unique_ptr<const GrapplerFunctionItem>& prepared = bodies_[function.signature().name()];
  if (prepared == nullptr) {
    std::unique_ptr<GrapplerFunctionItem> item(new GrapplerFunctionItem);
    TF_RETURN_IF_ERROR(
        tensorflow::grappler::MakeGrapplerFunctionItem(function, library_, producer_, item.get()));
    PrepareBody(cluster_, item.get());
    for (const FunctionDef& each : item->graph.library().function()) TF_RETURN_IF_ERROR(Add(each));
    *item->graph.mutable_library() = WithStubs(item->graph.library());
    prepared = std::move(item);
  }
  *body = prepared.get();
  return Status();
}

Status PreparedBodies::WithBody(const FunctionDef& function, const GrapplerFunctionItem& body,
                                FunctionDef* out) const {
  FunctionDef made;
  TF_RETURN_IF_ERROR(tensorflow::grappler::MakeFunctionDef(body, library_, &made));
  *out = function;
  out->mutable_node_def()->Swap(made.mutable_node_def());
  out->mutable_ret()->swap(*made.mutable_ret());
  out->mutable_control_ret()->swap(*made.mutable_control_ret());
  return Status();
}

Status PreparedBodies::Add(const FunctionDef& function) {
  const std::string& name = function.signature().name();
  if (library_.Find(name) != nullptr) return Status();
  added_.push_back(name);
  return library_.AddFunctionDef(function);
}

}  // namespace npu_precision
