// Runs TensorFlow's remapper, which fuses ops.
#ifndef NPU_PRECISION_CC_FUSE_OPS_H_
#define NPU_PRECISION_CC_FUSE_OPS_H_

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace npu_precision {

// Writes the graph of the item to `fused`, with ops fused where TensorFlow can. If it fails, as it
// does if there is nothing to do, `fused` stays as it is.
void FuseOps(tensorflow::grappler::Cluster* cluster, const tensorflow::grappler::GrapplerItem& item,
             tensorflow::GraphDef* fused);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_FUSE_OPS_H_
