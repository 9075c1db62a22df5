#include "cc/function_stubs.h"

#include <utility>

#include "graph_passes/fuse/inline_convolutions.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

using tensorflow::FunctionDef;
using tensorflow::FunctionDefLibrary;
using tensorflow::grappler::GrapplerItem;

FunctionDefLibrary WithStubs(const FunctionDefLibrary& library) {
  FunctionDefLibrary stubs;
  for (const FunctionDef& function : library.function()) {
    FunctionDef* stub = stubs.add_function();
    if (IsCompiledConvolution(function)) {
      *stub = function;
      continue;
    }
    *stub->mutable_signature() = function.signature();
    *stub->mutable_attr() = function.attr();
    *stub->mutable_arg_attr() = function.arg_attr();
  }
  return stubs;
}

GrapplerItem WithStubs(const GrapplerItem& item) {
  tensorflow::GraphDef graph;
  *graph.mutable_node() = item.graph.node();
  *graph.mutable_versions() = item.graph.versions();
  *graph.mutable_library() = WithStubs(item.graph.library());
  return item.WithGraph(std::move(graph));
}

}  // namespace npu_precision
