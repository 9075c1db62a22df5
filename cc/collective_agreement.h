// Whether the workers of a cluster have agreed to add up gradients in a low type. One that did it
// alone would wait for ever for the others, or get sums that mean nothing.
#ifndef NPU_PRECISION_CC_COLLECTIVE_AGREEMENT_H_
#define NPU_PRECISION_CC_COLLECTIVE_AGREEMENT_H_

#include <string>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

enum class CollectiveAgreement {
  kNone,   // nobody has asked the others
  kLower,  // all lower
  kKeep,   // one cannot, so that none does
};

// Why `lower_collectives` has no effect on a graph that runs in this process; "" if it has.
std::string WhyCollectivesStay(const tensorflow::GraphDef& graph);

// Whether kernels here reduce tensors of that dtype.
bool CanReduce(tensorflow::DataType dtype, bool has_gpu);

// Of this process. Python, which can ask, sets it: see npu_precision/distribute/agreement.py.
void SetCollectiveAgreement(CollectiveAgreement agreement);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_COLLECTIVE_AGREEMENT_H_
