#include "cc/collective_agreement.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/match.h"
#include "cc/kernel_support.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

std::atomic<CollectiveAgreement> agreed{CollectiveAgreement::kNone};

}  // namespace

void SetCollectiveAgreement(CollectiveAgreement agreement) { agreed = agreement; }

std::string WhyCollectivesStay(const tensorflow::GraphDef& graph) {
  const bool has_any =
      std::any_of(graph.node().begin(), graph.node().end(), [](const tensorflow::NodeDef& node) {
        return absl::StartsWith(node.op(), "CollectiveReduce");
      });
  if (!has_any || agreed == CollectiveAgreement::kLower) return "";
  if (agreed == CollectiveAgreement::kKeep) {
    return "lower_collectives: gradients are added up in float32, because a worker has no kernel "
           "that does so in the low type";
  }
  return "lower_collectives: gradients are added up in float32, because the workers were not asked "
         "whether all of them do otherwise; tf.functions ask under a strategy of tf.distribute, "
         "from TensorFlow 2.15 on";
}

bool CanReduce(tensorflow::DataType dtype, bool has_gpu) {
  tensorflow::NodeDef node;
  node.set_op("CollectiveReduceV2");
  (*node.mutable_attr())["T"].set_type(dtype);
  return KernelSupport(has_gpu, true, true, false, false).CanRun(node, node);
}

}  // namespace npu_precision
