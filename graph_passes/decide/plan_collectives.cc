#include "graph_passes/decide/plan_collectives.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph_passes/analysis/gradient_values.h"
#include "graph_passes/graph/int_values.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/op_set.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::NodeDef;

// 4 KiB in float32: sending half the bytes takes as long.
constexpr int64_t kFewElements = 1024;

// The reciprocal of this number is still a normal number in float16.
constexpr int64_t kMostWorkers = 1 << 14;

bool Reduces(const std::string& op) {
  return op == "CollectiveReduce" || op == "CollectiveReduceV2" || op == "CollectiveReduceV3";
}

const std::string& Text(const NodeDef& node, const char* attr) {
  static const auto* none = new std::string;
  const auto found = node.attr().find(attr);
  return found == node.attr().end() ? *none : found->second.s();
}

class Planner {
 public:
  Planner(const GraphView& view, const ConstantValues& values, const DecideContext& context)
      : view_(view),
        values_(values),
        context_(context),
        casts_(view, "Cast"),
        concats_(view, "ConcatV2"),
        splits_(view, "SplitV"),
        communicators_(view, "CollectiveInitializeCommunicator") {}

  CollectivePlan Plan(int id) {
    CollectivePlan plan;
    plan.id = id;
    plan.group_size = GroupSize(id);
    const OutputPort input = view_.fanin(id)[0];
    if (concats_.Has(input.node)) {
      plan.concat = input.node;
      const int inputs = view_.num_fanin(plan.concat) - 1;  // the last is the axis
      for (int k = 0; k < inputs; ++k) plan.parts.push_back(PartOf(view_.fanin(plan.concat)[k]));
      plan.split = SplitOf(plan);
    } else {
      plan.parts.push_back(PartOf(input));
    }
    plan.low_type = LowTypeOf(plan);
    // Sums of float16 may overflow that were finite on each worker, behind the back of loss
    // scaling.
    plan.divides = plan.low_type == tensorflow::DT_HALF;
    for (CollectivePart& part : plan.parts) {
      if (part.reason != CollectiveReason::kLowered) continue;
      // One collective has one dtype.
      const bool is_of_it = view_.outputs(part.low.node)[part.low.port].dtype == plan.low_type;
      if (!is_of_it) part.reason = CollectiveReason::kNoLowCast;
    }
    const CollectiveReason whole = WhyNotAtAll(plan);
    for (CollectivePart& part : plan.parts) {
      if (part.reason == CollectiveReason::kLowered) part.reason = whole;
    }
    return plan;
  }

 private:
  CollectivePart PartOf(const OutputPort& tensor) const {
    CollectivePart part;
    if (context_.elements) {
      // Casts that this run inserted are not known there. They have as many elements as their
      // inputs.
      const OutputPort known = view_.LookThroughInserted(tensor);
      part.elements = context_.elements(view_.node(known.node).name(), known.port);
    }
    if (!IsWidened(tensor.node) || IsFixed(tensor.node)) return part;
    part.low = view_.fanin(tensor.node)[0];
    part.reason = WhyNot(part);
    return part;
  }

  // A Cast from a low type.
  bool IsWidened(int id) const {
    return casts_.Has(id) && IsLowType(view_.inputs(id)[0].dtype) &&
           view_.outputs(id)[0].dtype == tensorflow::DT_FLOAT;
  }

  CollectiveReason WhyNot(const CollectivePart& part) const {
    if (!IsGradient(view_, part.low)) return CollectiveReason::kNotAGradient;
    if (part.elements == kUnknownElements) return CollectiveReason::kUnknownSize;
    if (part.elements < kFewElements) return CollectiveReason::kFewElements;
    return CollectiveReason::kLowered;
  }

  // The low type of the first part that can be lowered.
  DataType LowTypeOf(const CollectivePlan& plan) const {
    for (const CollectivePart& part : plan.parts) {
      if (part.reason == CollectiveReason::kLowered) {
        return view_.outputs(part.low.node)[part.low.port].dtype;
      }
    }
    return tensorflow::DT_INVALID;
  }

  CollectiveReason WhyNotAtAll(const CollectivePlan& plan) const {
    if (plan.low_type == tensorflow::DT_INVALID) return CollectiveReason::kNoLowCast;
    if (IsFetchedOrFed(plan.id)) return CollectiveReason::kFixed;
    if (!IsSum(view_.node(plan.id))) return CollectiveReason::kNotASum;
    if (plan.concat >= 0 && plan.split < 0) return CollectiveReason::kSplitElsewhere;
    if (!plan.is_lowered_whole() && HasNoKey(view_.node(plan.id)))
      return CollectiveReason::kMixedPack;
    if (plan.divides && !CanDivide(plan)) return CollectiveReason::kUnknownSize;
    NodeDef changed = view_.node(plan.id);
    (*changed.mutable_attr())["T"].set_type(plan.low_type);
    if (!context_.support->CanRun(view_.node(plan.id), changed)) return CollectiveReason::kNoKernel;
    return CollectiveReason::kLowered;
  }

  // Version 3 has no instance key: collectives are matched by their order.
  static bool HasNoKey(const NodeDef& node) { return node.op() == "CollectiveReduceV3"; }

  static bool CanDivide(const CollectivePlan& plan) {
    return plan.group_size > 0 && plan.group_size <= kMostWorkers;
  }

  static bool IsSum(const NodeDef& node) {
    return Text(node, node.op() == "CollectiveReduceV3" ? "reduction" : "merge_op") == "Add";
  }

  // TensorFlow preserves every collective of a function so that it runs, not for its outputs.
  bool IsFetchedOrFed(int id) const {
    const std::string& name = view_.node(id).name();
    return context_.fetched.count(name) != 0 || context_.fed.count(name) != 0;
  }

  bool IsFixed(int id) const { return context_.IsFixed(view_.node(id).name()); }

  // The SplitV that splits the sum of a pack into tensors as large as its parts, or -1.
  int SplitOf(const CollectivePlan& plan) const {
    const absl::Span<const InputPort> readers = view_.fanout(plan.id);
    if (view_.fanout(plan.concat).size() != 1 || IsFixed(plan.concat)) return -1;
    if (readers.size() != 1 || readers[0].index != 0) return -1;
    const int split = readers[0].node;
    if (!splits_.Has(split) || IsFixed(split)) return -1;
    const OutputPort axis = view_.fanin(plan.concat)[plan.parts.size()];
    if (Ints(axis) != std::vector<int64_t>{0}) return -1;
    if (Ints(view_.fanin(split)[2]) != std::vector<int64_t>{0}) return -1;
    const std::vector<int64_t> sizes = Ints(view_.fanin(split)[1]);
    const bool same =
        std::equal(sizes.begin(), sizes.end(), plan.parts.begin(), plan.parts.end(),
                   [](int64_t size, const CollectivePart& part) { return size == part.elements; });
    return same ? split : -1;
  }

  int64_t GroupSize(int id) const {
    const NodeDef& node = view_.node(id);
    if (node.op() == "CollectiveReduce") return node.attr().at("group_size").i();
    OutputPort given = view_.fanin(id)[1];
    if (node.op() == "CollectiveReduceV3") {
      if (!communicators_.Has(given.node)) return 0;
      given = view_.fanin(given.node)[2];
    }
    const std::vector<int64_t> size = Ints(given);
    return size.size() == 1 ? size[0] : 0;
  }

  // The values of a constant; empty for any other tensor.
  std::vector<int64_t> Ints(const OutputPort& tensor) const {
    const NodeDef& node = view_.node(tensor.node);
    std::vector<int64_t> ints;
    if (node.op() != "Const" || IsFixed(tensor.node)) return ints;
    const tensorflow::AttrValue* value = values_.Find(node);
    if (value == nullptr || !ReadInts(value->tensor(), &ints)) ints.clear();
    return ints;
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const DecideContext& context_;
  const OpSet casts_, concats_, splits_, communicators_;
};

// The contents of the collectives of one device, in any order.
using OfDevice = std::multiset<std::vector<std::pair<int64_t, bool>>>;

// "/job:worker/replica:0/task:0/device:GPU:1" without the last number: devices of one kind hold the
// replicas of a graph.
std::string KindOfDevice(const std::string& device) { return device.substr(0, device.rfind(':')); }

// A mixlist may name the nodes of only one replica. Its all-reduce would then have other tensors
// than those of the other replicas.
bool ReplicasDiffer(const GraphView& view, const std::vector<CollectivePlan>& plans) {
  std::map<std::string, std::map<std::string, OfDevice>> kinds;
  for (const CollectivePlan& plan : plans) {
    std::vector<std::pair<int64_t, bool>> carried;
    for (const CollectivePart& part : plan.parts) {
      carried.emplace_back(part.elements, part.reason == CollectiveReason::kLowered);
    }
    const std::string& device = view.node(plan.id).device();
    kinds[KindOfDevice(device)][device].insert(std::move(carried));
  }
  for (const auto& kind : kinds) {
    for (const auto& device : kind.second) {
      if (device.second != kind.second.begin()->second) return true;
    }
  }
  return false;
}

}  // namespace

std::string CollectiveReasonName(CollectiveReason reason) {
  switch (reason) {
    case CollectiveReason::kLowered:
      return "lowered";
    case CollectiveReason::kFixed:
      return "fetched_or_fed";
    case CollectiveReason::kNotASum:
      return "not_a_sum";
    case CollectiveReason::kNoLowCast:
      return "computed_in_float32";
    case CollectiveReason::kNotAGradient:
      return "not_a_gradient";
    case CollectiveReason::kFewElements:
      return "few_elements";
    case CollectiveReason::kUnknownSize:
      return "unknown_size";
    case CollectiveReason::kNoKernel:
      return "no_kernel";
    case CollectiveReason::kSplitElsewhere:
      return "split_elsewhere";
    case CollectiveReason::kMixedPack:
      return "mixed_pack";
    case CollectiveReason::kReplicasDiffer:
      return "replicas_differ";
  }
  return "";
}

int CollectivePlan::num_lowered() const {
  return std::count_if(parts.begin(), parts.end(), [](const CollectivePart& part) {
    return part.reason == CollectiveReason::kLowered;
  });
}

bool CollectivePlan::is_lowered_whole() const {
  return num_lowered() == static_cast<int>(parts.size());
}

CollectiveReason CollectivePlan::reason() const {
  if (num_lowered() > 0) return CollectiveReason::kLowered;
  // The largest part has the most interesting reason for users.
  const auto largest = std::max_element(
      parts.begin(), parts.end(),
      [](const CollectivePart& a, const CollectivePart& b) { return a.elements < b.elements; });
  return largest == parts.end() ? CollectiveReason::kNoLowCast : largest->reason;
}

std::vector<CollectivePlan> PlanCollectives(const GraphView& view, const ConstantValues& values,
                                            const DecideContext& context) {
  std::vector<CollectivePlan> plans;
  Planner planner(view, values, context);
  for (int id : OpSet(view, Reduces).Ids()) {
    if (view.op_def(id) == nullptr || view.inputs(id)[0].dtype != tensorflow::DT_FLOAT) continue;
    plans.push_back(planner.Plan(id));
  }
  if (!ReplicasDiffer(view, plans)) return plans;
  for (CollectivePlan& plan : plans) {
    for (CollectivePart& part : plan.parts) {
      if (part.reason == CollectiveReason::kLowered)
        part.reason = CollectiveReason::kReplicasDiffer;
    }
  }
  return plans;
}

}  // namespace npu_precision
