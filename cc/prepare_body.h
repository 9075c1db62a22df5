// Prepares the body of a function that Grappler leaves out as Grappler would.
#ifndef NPU_PRECISION_CC_PREPARE_BODY_H_
#define NPU_PRECISION_CC_PREPARE_BODY_H_

#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace npu_precision {

// Runs those of Grappler's optimizers that run before ours: decisions look for the constants and
// the forms that they make. This inlines calls, whose specialized functions may be new in the
// library of the graph. An optimizer that fails is left out.
void PrepareBody(tensorflow::grappler::Cluster* cluster, tensorflow::grappler::GrapplerItem* item);

// Replaces the loops and branches that ask for it by their bodies, as TensorFlow 1 has them.
void PutBodiesInPlace(tensorflow::grappler::Cluster* cluster,
                      tensorflow::grappler::GrapplerItem* item);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_PREPARE_BODY_H_
