#include "cc/fuse_ops.h"

#include "tensorflow/core/grappler/optimizers/remapper.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"

namespace npu_precision {

void FuseOps(tensorflow::grappler::Cluster* cluster, const tensorflow::grappler::GrapplerItem& item,
             tensorflow::GraphDef* fused) {
  tensorflow::grappler::Remapper remapper(tensorflow::RewriterConfig::ON);
  tensorflow::GraphDef graph;
  if (remapper.Optimize(cluster, item, &graph).ok()) fused->Swap(&graph);
}

}  // namespace npu_precision
