#include "graph_passes/rewrite/lower_collectives.h"

#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/plan_collectives.h"
#include "graph_passes/graph/drop_unused.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/input_names.h"
#include "graph_passes/rewrite/cast_nodes.h"
#include "graph_passes/rewrite/changed_graph.h"
#include "graph_passes/rewrite/unique_names.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::TensorProto;

// The instance key of the second collective is the key of the first plus this number. TensorFlow
// counts keys from 100 on.
constexpr int kKeyDistance = 1 << 30;

// The exponent of the smallest power of two that is at least `size`.
int ExponentOf(int64_t size) {
  int exponent = 0;
  while ((int64_t{1} << exponent) < size) ++exponent;
  return exponent;
}

TensorProto OfDtype(DataType dtype) {
  TensorProto tensor;
  tensor.set_dtype(dtype);
  tensor.mutable_tensor_shape();
  return tensor;
}

// 2 to the power of -exponent. Both low types write values of 16 bits as integers.
TensorProto NegativePower(DataType low, int exponent) {
  TensorProto tensor = OfDtype(low);
  tensor.add_half_val(low == tensorflow::DT_HALF ? (15 - exponent) << 10 : (127 - exponent) << 7);
  return tensor;
}

TensorProto Scalar(float value) {
  TensorProto tensor = OfDtype(tensorflow::DT_FLOAT);
  tensor.add_float_val(value);
  return tensor;
}

TensorProto Scalar(int value) {
  TensorProto tensor = OfDtype(tensorflow::DT_INT32);
  tensor.add_int_val(value);
  return tensor;
}

TensorProto Vector(DataType dtype, const std::vector<int64_t>& values) {
  TensorProto tensor = OfDtype(dtype);
  tensor.mutable_tensor_shape()->add_dim()->set_size(values.size());
  for (int64_t value : values) {
    if (dtype == tensorflow::DT_INT32) {
      tensor.add_int_val(value);
    } else {
      tensor.add_int64_val(value);
    }
  }
  return tensor;
}

class Lowerer {
 public:
  explicit Lowerer(PassState* state)
      : view_(state->view()),
        rewrites_(state->rewrites),
        graph_(*state->Editable()),
        preserved_(state->preserved),
        names_(view_) {
    for (int id = 0; id < view_.size(); ++id) {
      for (const std::string& input : view_.node(id).input()) {
        if (input[0] == '^') dependents_[input].push_back(id);
      }
    }
  }

  void Lower(const CollectivePlan& plan) {
    if (plan.num_lowered() == 0) return;
    plan_ = &plan;
    // A copy, because the node may lose its name.
    const std::string name = view_.node(plan.id).name();
    if (plan.concat < 0) {
      LowerAlone();
    } else if (plan.is_lowered_whole()) {
      LowerPack();
    } else {
      DividePack();
    }
    rewrites_.push_back({"lower_collectives", name, "float32",
                         plan.is_lowered_whole()
                             ? DtypeName(plan.low_type)
                             : absl::StrCat(DtypeName(plan.low_type), " and float32")});
  }

 private:
  void LowerAlone() {
    NodeDef* reduce = graph_.mutable_node(plan_->id);
    const std::string sum = Reduced(Name(plan_->parts[0].low), reduce);
    for (const InputPort& use : view_.fanout(plan_->id)) {
      graph_.mutable_node(use.node)->set_input(use.index, sum);
    }
  }

  void LowerPack() {
    NodeDef* concat = graph_.mutable_node(plan_->concat);
    for (size_t k = 0; k < plan_->parts.size(); ++k) {
      concat->set_input(k, Name(plan_->parts[k].low));
    }
    SetType(concat);
    NodeDef* reduce = graph_.mutable_node(plan_->id);
    const std::string sum = Reduced(concat->name(), reduce);
    graph_.mutable_node(plan_->split)->set_input(0, sum);
  }

  // The nodes of the pack keep the parts that stay float32; copies of them get the others.
  void DividePack() {
    NodeDef low_concat = view_.node(plan_->concat);
    NodeDef low_reduce = view_.node(plan_->id);
    NodeDef low_split = view_.node(plan_->split);
    for (NodeDef* node : {&low_concat, &low_reduce, &low_split}) {
      node->set_name(names_.Take(absl::StrCat(node->name(), "/npu_low")));
    }
    const NodeDef packed = low_concat;
    KeepParts(false, packed, graph_.mutable_node(plan_->concat), graph_.mutable_node(plan_->split));
    KeepParts(true, packed, &low_concat, &low_split);
    SetType(&low_concat);
    GiveOwnKey(&low_reduce);
    // The control input makes all workers start the two in this order.
    low_reduce.add_input(absl::StrCat("^", view_.node(plan_->id).name()));
    for (int id : dependents_[low_reduce.input(low_reduce.input_size() - 1)]) {
      graph_.mutable_node(id)->add_input(absl::StrCat("^", low_reduce.name()));
    }
    const std::string sum = Reduced(low_concat.name(), &low_reduce);
    low_split.set_input(0, sum);
    RedirectReaders(low_split.name());
    for (NodeDef* node : {&low_concat, &low_reduce, &low_split}) graph_.add_node()->Swap(node);
  }

  // Leaves only the lowered parts, or only the others, in the two ends of a pack. `packed` has all
  // inputs.
  void KeepParts(bool lowered, const NodeDef& packed, NodeDef* concat, NodeDef* split) {
    const int number = plan_->parts.size();
    std::vector<int64_t> sizes;
    concat->clear_input();
    for (int k = 0; k < number; ++k) {
      const CollectivePart& part = plan_->parts[k];
      if (IsLowered(part) != lowered) continue;
      concat->add_input(lowered ? Name(part.low) : packed.input(k));
      sizes.push_back(part.elements);
    }
    const bool is_one = sizes.size() == 1;
    for (int k = is_one ? number + 1 : number; k < packed.input_size(); ++k) {
      concat->add_input(packed.input(k));
    }
    (*concat->mutable_attr())["N"].set_i(sizes.size());
    if (is_one) {  // ConcatV2 refuses a single input
      concat->set_op("Identity");
      concat->mutable_attr()->erase("N");
      concat->mutable_attr()->erase("Tidx");
    }
    (*split->mutable_attr())["num_split"].set_i(sizes.size());
    const DataType dtype = view_.inputs(plan_->split)[1].dtype;
    split->set_input(1, AddConstant(absl::StrCat(split->name(), "/npu_sizes"), Vector(dtype, sizes),
                                    concat->input(0), concat->device()));
    for (NodeDef* node : {concat, split}) node->mutable_attr()->erase("_output_shapes");
  }

  void RedirectReaders(const std::string& low_split) {
    const std::string& split = view_.node(plan_->split).name();
    int of_low = 0, of_others = 0;
    for (size_t k = 0; k < plan_->parts.size(); ++k) {
      const bool lowered = IsLowered(plan_->parts[k]);
      const std::string input =
          InputName(lowered ? low_split : split, lowered ? of_low++ : of_others++);
      for (const InputPort& use : view_.fanout({plan_->split, static_cast<int>(k)})) {
        graph_.mutable_node(use.node)->set_input(use.index, input);
      }
    }
  }

  // Makes `reduce` add up the low tensor; returns the sum in float32.
  std::string Reduced(const std::string& low, NodeDef* reduce) {
    const int exponent = plan_->divides ? ExponentOf(plan_->group_size) : 0;
    const std::string& device = reduce->device();
    // If the name is preserved, the last node takes it, and so yields float32 under it.
    const std::string own = reduce->name();
    const bool gives_name = preserved_.count(own) != 0;
    if (gives_name) reduce->set_name(names_.Take(absl::StrCat(own, kRenamedSuffix)));
    SetType(reduce);
    reduce->set_input(0, low);
    if (exponent > 0) {
      const std::string name = names_.Take(absl::StrCat(reduce->name(), "/npu_divide"));
      const std::string by =
          AddConstant(name + "/by", NegativePower(plan_->low_type, exponent), low, device);
      AddProduct(name, low, by, plan_->low_type, device);
      reduce->set_input(0, name);
    }
    // The Cast has no mark of inserted nodes, because passes look through nodes with that mark: for
    // a second run, too, the sum is float32.
    const std::string sum = gives_name && exponent == 0
                                ? own
                                : names_.Take(absl::StrCat(reduce->name(), "/npu_cast_0_float32"));
    AddCast(sum, reduce->name(), plan_->low_type, tensorflow::DT_FLOAT, device, &graph_);
    if (exponent == 0) return sum;
    const std::string product =
        gives_name ? own : names_.Take(absl::StrCat(reduce->name(), "/npu_multiply"));
    const std::string by =
        AddConstant(product + "/by", Scalar(static_cast<float>(1 << exponent)), sum, device);
    AddProduct(product, sum, by, tensorflow::DT_FLOAT, device);
    return product;
  }

  void AddProduct(const std::string& name, const std::string& input, const std::string& by,
                  DataType dtype, const std::string& device) {
    NodeDef* product = graph_.add_node();
    product->set_name(name);
    product->set_op("Mul");
    product->set_device(device);
    product->add_input(input);
    product->add_input(by);
    (*product->mutable_attr())["T"].set_type(dtype);
  }

  // The constant is in the loop of the tensor `beside`, if there is one.
  std::string AddConstant(const std::string& name, TensorProto value, const std::string& beside,
                          const std::string& device) {
    NodeDef* constant = graph_.add_node();
    constant->set_name(names_.Take(name));
    constant->set_op("Const");
    constant->set_device(device);
    constant->add_input(absl::StrCat("^", ParseInput(beside).producer));
    (*constant->mutable_attr())["dtype"].set_type(value.dtype());
    (*constant->mutable_attr())["value"].mutable_tensor()->Swap(&value);
    return constant->name();
  }

  void GiveOwnKey(NodeDef* reduce) {
    if (reduce->op() == "CollectiveReduce") {
      auto& key = (*reduce->mutable_attr())["instance_key"];
      key.set_i(key.i() + kKeyDistance);
      return;
    }
    const std::string given = reduce->input(3);
    const std::string name = absl::StrCat(reduce->name(), "/instance_key");
    const std::string by = AddConstant(name + "/by", Scalar(kKeyDistance), given, reduce->device());
    NodeDef* key = graph_.add_node();
    key->set_name(names_.Take(name));
    key->set_op("AddV2");
    key->set_device(reduce->device());
    key->add_input(given);
    key->add_input(by);
    (*key->mutable_attr())["T"].set_type(tensorflow::DT_INT32);
    reduce->set_input(3, key->name());
  }

  void SetType(NodeDef* node) {
    (*node->mutable_attr())["T"].set_type(plan_->low_type);
    node->mutable_attr()->erase("_output_shapes");
  }

  static bool IsLowered(const CollectivePart& part) {
    return part.reason == CollectiveReason::kLowered;
  }

  std::string Name(const OutputPort& tensor) const {
    return InputName(view_.node(tensor.node).name(), tensor.port);
  }

  const GraphView& view_;
  std::vector<RewriteEntry>& rewrites_;
  GraphDef& graph_;
  const std::set<std::string>& preserved_;
  UniqueNames names_;
  std::unordered_map<std::string, std::vector<int>> dependents_;  // by control input
  const CollectivePlan* plan_ = nullptr;
};

std::vector<CollectiveEntry> Entries(const std::vector<CollectivePlan>& plans,
                                     const GraphView& view) {
  std::vector<CollectiveEntry> entries;
  for (const CollectivePlan& plan : plans) {
    CollectiveEntry entry;
    entry.node = view.node(plan.id).name();
    entry.op = view.node(plan.id).op();
    entry.reason = CollectiveReasonName(plan.reason());
    entry.tensors = plan.parts.size();
    entry.lowered = plan.num_lowered();
    for (const CollectivePart& part : plan.parts) {
      if (part.elements == kUnknownElements) {
        entry.bytes_before = entry.bytes_after = kUnknownElements;
        break;
      }
      entry.bytes_before += part.elements * 4;
      entry.bytes_after += part.elements * (part.reason == CollectiveReason::kLowered ? 2 : 4);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

tensorflow::Status LowerCollectives(PassState* state, bool* changed) {
  const std::vector<CollectivePlan> plans =
      PlanCollectives(state->view(), state->values, state->context);
  state->collectives = Entries(plans, state->view());
  const size_t rewrites = state->rewrites.size();
  Lowerer lowerer(state);
  for (const CollectivePlan& plan : plans) lowerer.Lower(plan);
  *changed = state->rewrites.size() != rewrites;
  if (*changed) DropUnused(state->context.preserved, state->Editable());
  return tensorflow::Status();
}

}  // namespace npu_precision
