#include "cc/prepare_body.h"

#include "absl/strings/match.h"
#include "cc/function_stubs.h"
#include "cc/tf_compat.h"

#if NPU_PRECISION_LEAVES_OUT_COMPILED
#include "tensorflow/core/grappler/optimizers/arithmetic_optimizer.h"
#include "tensorflow/core/grappler/optimizers/common_subgraph_elimination.h"
#include "tensorflow/core/grappler/optimizers/constant_folding.h"
#include "tensorflow/core/grappler/optimizers/dependency_optimizer.h"
#include "tensorflow/core/grappler/optimizers/function_optimizer.h"
#include "tensorflow/core/grappler/optimizers/model_pruner.h"
#endif

namespace npu_precision {

using tensorflow::grappler::Cluster;
using tensorflow::grappler::GrapplerItem;

#if NPU_PRECISION_LEAVES_OUT_COMPILED
namespace {

constexpr auto kOn = tensorflow::RewriterConfig::ON;

void Run(tensorflow::grappler::GraphOptimizer* optimizer, Cluster* cluster, GrapplerItem* item) {
  tensorflow::GraphDef optimized;
  // If there is nothing to do, this is an error.
  if (optimizer->Optimize(cluster, *item, &optimized).ok()) item->graph.Swap(&optimized);
}

// Grappler inlines no function that has another implementation for GPUs, such as that of a Keras
// LSTM: it may still choose that one. Nothing chooses it in what XLA compiles.
void ForgetImplementations(GrapplerItem* item) {
  for (tensorflow::FunctionDef& function : *item->graph.mutable_library()->mutable_function()) {
    function.mutable_attr()->erase("api_implements");
  }
}

// XLA draws other numbers than kernels do from the same seed, so they must not be drawn here.
void KeepRandomOps(GrapplerItem* item) {
  for (const tensorflow::NodeDef& node : item->graph.node()) {
    if (absl::StartsWith(node.op(), "StatelessRandom") ||
        absl::StartsWith(node.op(), "StatelessTruncated") ||
        absl::StartsWith(node.op(), "StatelessParameterized") ||
        node.op() == "StatelessMultinomial" || node.op() == "StatelessShuffle") {
      item->keep_ops.push_back(node.name());
    }
  }
}

}  // namespace

void PrepareBody(Cluster* cluster, GrapplerItem* item) {
  tensorflow::grappler::FunctionOptimizer inlining(kOn, /*lower_control_flow=*/false);
  tensorflow::grappler::CommonSubgraphElimination common_subgraphs(kOn);
  tensorflow::grappler::ConstantFolding constants(/*cpu_device=*/nullptr);
  tensorflow::grappler::ArithmeticOptimizer arithmetic(kOn);
  tensorflow::grappler::ModelPruner pruning;
  ForgetImplementations(item);
  Run(&inlining, cluster, item);
  // The others need no bodies, and each would copy them.
  auto library = WithStubs(item->graph.library());
  item->graph.mutable_library()->Swap(&library);
  const auto keep_ops = item->keep_ops;
  KeepRandomOps(item);
  Run(&common_subgraphs, cluster, item);
  Run(&constants, cluster, item);
  Run(&arithmetic, cluster, item);
  item->keep_ops = keep_ops;
  Run(&pruning, cluster, item);
  item->graph.mutable_library()->Swap(&library);
}

void PutBodiesInPlace(Cluster* cluster, GrapplerItem* item) {
  tensorflow::grappler::FunctionOptimizer in_place(kOn, /*lower_control_flow=*/true);
  Run(&in_place, cluster, item);
  // That adds control dependencies, which hide that a value never changes.
  tensorflow::grappler::DependencyOptimizer dependencies(kOn);
  Run(&dependencies, cluster, item);
}
#else
void PrepareBody(Cluster*, GrapplerItem*) {}
void PutBodiesInPlace(Cluster*, GrapplerItem*) {}
#endif

}  // namespace npu_precision
