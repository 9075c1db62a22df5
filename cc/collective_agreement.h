// The agreement of a cluster's workers to add up gradients in a low type. A worker that did so
// alone would block forever, or get meaningless sums.
#ifndef NPU_PRECISION_CC_COLLECTIVE_AGREEMENT_H_
#define NPU_PRECISION_CC_COLLECTIVE_AGREEMENT_H_

#include <string>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

enum class CollectiveAgreement {
  kNone,   // the workers have not been asked
  kLower,  // all lower
  kKeep,   // none lowers, because at least one cannot
};

// Why `lower_collectives` has no effect on a graph that runs in this process; "" if it has.
std::string WhyCollectivesStay(const tensorflow::GraphDef& graph);

// Whether kernels here reduce tensors of that dtype.
bool CanReduce(tensorflow::DataType dtype, bool has_gpu);

// Sets the agreement of this process. Python calls it, because it can ask the workers: see
// npu_precision/distribute/agreement.py.
void SetCollectiveAgreement(CollectiveAgreement agreement);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_COLLECTIVE_AGREEMENT_H_
