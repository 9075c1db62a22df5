#include "cc/prepare_body.h"

#include "absl/strings/match.h"
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

void Run(tensorflow::grappler::GraphOptimizer* optimizer, Cluster* cluster, GrapplerItem* item) {
  tensorflow::GraphDef optimized;
  // If there is nothing to do, this is an error.
  if (optimizer->Optimize(cluster, *item, &optimized).ok()) item->graph.Swap(&optimized);
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

void PrepareBody(Cluster* cluster, Bodies bodies, GrapplerItem* item) {
  constexpr auto kOn = tensorflow::RewriterConfig::ON;
  tensorflow::grappler::FunctionOptimizer inlining(kOn, bodies == Bodies::kInPlace);
  tensorflow::grappler::CommonSubgraphElimination common_subgraphs(kOn);
  tensorflow::grappler::ConstantFolding constants(/*cpu_device=*/nullptr);
  tensorflow::grappler::ArithmeticOptimizer arithmetic(kOn);
  tensorflow::grappler::ModelPruner pruning;
  Run(&inlining, cluster, item);
  const auto keep_ops = item->keep_ops;
  KeepRandomOps(item);
  Run(&common_subgraphs, cluster, item);
  Run(&constants, cluster, item);
  Run(&arithmetic, cluster, item);
  item->keep_ops = keep_ops;
  Run(&pruning, cluster, item);
  if (bodies == Bodies::kReferred) return;
  // What puts a body in place adds control dependencies, which hide that a value never changes.
  tensorflow::grappler::DependencyOptimizer dependencies(kOn);
  Run(&dependencies, cluster, item);
}
#else
void PrepareBody(Cluster*, Bodies, GrapplerItem*) {}
#endif

}  // namespace npu_precision
