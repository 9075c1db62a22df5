#include "cc/counted_function.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/input_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/registered_ops.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::FunctionDef;
using tensorflow::NodeDef;
using tensorflow::Status;

constexpr char kResult[] = "npu_precision_counts";

// The inputs of a function's nodes are "argument", or "node:output:number".
std::string ProducerOf(const std::string& input) {
  return std::string(input.substr(0, input.find(':')));
}

DataType TypeAttr(const NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? tensorflow::DT_INVALID : found->second.type();
}

// The largest magnitude that a low type does not round to infinity, and the smallest that is
// normal in it.
float LastThatFits(DataType low_type) {
  if (low_type == tensorflow::DT_HALF) return std::nextafter(65520.0f, 0.0f);
  if (low_type == tensorflow::DT_BFLOAT16) {
    return std::ldexp(511.0f / 512 - std::numeric_limits<float>::epsilon() / 2, 128);
  }
  return std::numeric_limits<float>::infinity();
}

float FirstNormal(DataType low_type) {
  return low_type == tensorflow::DT_HALF ? std::ldexp(1.0f, -14)
                                         : std::numeric_limits<float>::min();
}

// Builds a function that counts what is in a tensor.
class Counting {
 public:
  Counting(DataType dtype, DataType low_type) {
    auto* signature = function_.mutable_signature();
    signature->set_name(NameOf(dtype, low_type));
    auto* argument = signature->add_input_arg();
    argument->set_name("x");
    argument->set_type(dtype);
    auto* result = signature->add_output_arg();
    result->set_name("counts");
    result->set_type(tensorflow::DT_INT32);
    Build(dtype, low_type);
  }

  static std::string NameOf(DataType dtype, DataType low_type) {
    return absl::StrCat("npu_precision_count_", DtypeName(dtype), "_as_", DtypeName(low_type));
  }

  FunctionDef Take() { return std::move(function_); }

 private:
  void Build(DataType dtype, DataType low_type) {
    const std::string shape = Constant("shape", tensorflow::DT_INT32, {-1});
    NodeDef* flattened = Add("flat", "Reshape", {"x", shape}, dtype);
    Set(flattened, "Tshape", tensorflow::DT_INT32);
    std::string values = "flat:output:0";
    if (dtype != tensorflow::DT_FLOAT) values = Cast("values", values, dtype, tensorflow::DT_FLOAT);
    Add("sizes", "Abs", {values}, tensorflow::DT_FLOAT);
    const std::string sizes = "sizes:y:0";
    const std::string zero = Constant("zero", tensorflow::DT_FLOAT, {0}, true);
    Add("is_zero", "Equal", {sizes, zero}, tensorflow::DT_FLOAT);
    const std::string normal =
        Constant("normal", tensorflow::DT_FLOAT, {FirstNormal(low_type)}, true);
    Add("is_small", "Less", {sizes, normal}, tensorflow::DT_FLOAT);
    for (const char* kind : {"Inf", "Nan", "Finite"}) {
      Add(absl::StrCat("is_", kind), absl::StrCat("Is", kind), {values}, tensorflow::DT_FLOAT);
    }
    const std::string fits = Constant("fits", tensorflow::DT_FLOAT, {LastThatFits(low_type)}, true);
    Add("is_larger", "Greater", {sizes, fits}, tensorflow::DT_FLOAT);
    Add("is_over", "LogicalAnd", {"is_larger:z:0", "is_Finite:y:0"}, tensorflow::DT_INVALID);
    Add("finite", "SelectV2", {"is_Finite:y:0", sizes, zero}, tensorflow::DT_FLOAT);
    Reduce("most", "Max", "finite:output:0", tensorflow::DT_FLOAT);
    // The maximum of no values is minus infinity.
    Add("largest", "Maximum", {"most:output:0", zero}, tensorflow::DT_FLOAT);
    NodeDef* bits = Add("bits", "Bitcast", {"largest:z:0"}, tensorflow::DT_FLOAT);
    Set(bits, "type", tensorflow::DT_INT32);
    NodeDef* elements = Add("elements", "Size", {"x"}, dtype);
    Set(elements, "out_type", tensorflow::DT_INT32);
    std::vector<std::string> columns(kCounts);
    columns[kElements] = "elements:output:0";
    columns[kZeros] = Sum("zeros", "is_zero:z:0");
    columns[kSmall] = Sum("small", "is_small:z:0");
    columns[kInfinities] = Sum("infinities", "is_Inf:y:0");
    columns[kNans] = Sum("nans", "is_Nan:y:0");
    columns[kOver] = Sum("over", "is_over:z:0");
    columns[kLargestBits] = "bits:output:0";
    NodeDef* pack = Add("counts", "Pack", columns, tensorflow::DT_INT32);
    (*pack->mutable_attr())["N"].set_i(kCounts);
    (*pack->mutable_attr())["axis"].set_i(0);
    (*function_.mutable_ret())["counts"] = "counts:output:0";
  }

  NodeDef* Add(const std::string& name, const std::string& op,
               const std::vector<std::string>& inputs, DataType type) {
    NodeDef* node = function_.add_node_def();
    node->set_name(name);
    node->set_op(op);
    for (const std::string& input : inputs) node->add_input(input);
    if (type != tensorflow::DT_INVALID) Set(node, "T", type);
    return node;
  }

  static void Set(NodeDef* node, const char* attribute, DataType type) {
    (*node->mutable_attr())[attribute].set_type(type);
  }

  std::string Constant(const std::string& name, DataType dtype, std::vector<float> values,
                       bool is_scalar = false) {
    NodeDef* node = Add(name, "Const", {}, tensorflow::DT_INVALID);
    Set(node, "dtype", dtype);
    auto* tensor = (*node->mutable_attr())["value"].mutable_tensor();
    tensor->set_dtype(dtype);
    if (!is_scalar) tensor->mutable_tensor_shape()->add_dim()->set_size(values.size());
    tensor->mutable_tensor_shape();
    for (float value : values) {
      if (dtype == tensorflow::DT_FLOAT) {
        tensor->add_float_val(value);
      } else {
        tensor->add_int_val(static_cast<int>(value));
      }
    }
    return absl::StrCat(name, ":output:0");
  }

  std::string Cast(const std::string& name, const std::string& input, DataType from, DataType to) {
    NodeDef* node = Add(name, "Cast", {input}, tensorflow::DT_INVALID);
    Set(node, "SrcT", from);
    Set(node, "DstT", to);
    return absl::StrCat(name, ":y:0");
  }

  std::string Reduce(const std::string& name, const char* op, const std::string& input,
                     DataType dtype) {
    const std::string axis = Constant(name + "_axis", tensorflow::DT_INT32, {0});
    Set(Add(name, op, {input, axis}, dtype), "Tidx", tensorflow::DT_INT32);
    return absl::StrCat(name, ":output:0");
  }

  std::string Sum(const std::string& name, const std::string& flags) {
    const std::string ones = Cast(name + "_ones", flags, tensorflow::DT_BOOL, tensorflow::DT_INT32);
    return Reduce(name, "Sum", ones, tensorflow::DT_INT32);
  }

  FunctionDef function_;
};

class Search {
 public:
  Search(const FunctionDef& function, Watch watch, const std::string& device)
      : function_(function), watch_(watch), device_(device) {}

  void Run(CountedFunction* counted, std::vector<std::string>* inputs) {
    for (const NodeDef& node : function_.node_def()) {
      nodes_[node.name()] = &node;
      for (const std::string& input : node.input()) {
        if (!ParseInput(input).is_control) readers_[ProducerOf(input)].push_back(&node);
      }
    }
    for (const auto& argument : function_.signature().input_arg()) {
      Look(argument.name(), "_Arg", argument.name(), 0, argument.type(), counted, inputs);
    }
    for (const NodeDef* node : InOrder()) {
      ++place_;
      DecisionMark mark;
      if (ReadDecisionMark(*node, &mark)) counted->lowered.push_back({node->name(), place_});
      const tensorflow::OpDef* definition = RegisteredOp(node->op());
      if (definition == nullptr || node->op() == "Const") continue;
      tensorflow::DataTypeVector types;
      tensorflow::NameRangeMap ranges;
      if (!tensorflow::OutputTypesForNode(*node, *definition, &types).ok()) continue;
      if (!tensorflow::NameRangesForNode(*node, *definition, nullptr, &ranges).ok()) continue;
      for (const auto& range : ranges) {
        for (int port = range.second.first; port < range.second.second; ++port) {
          const std::string input =
              absl::StrCat(node->name(), ":", range.first, ":", port - range.second.first);
          Look(node->name(), node->op(), input, port, types[port], counted, inputs);
        }
      }
    }
  }

 private:
  // Producers come before consumers.
  std::vector<const NodeDef*> InOrder() {
    std::vector<const NodeDef*> order;
    std::set<std::string> seen;
    // A node, and whether its producers are done.
    std::vector<std::pair<const NodeDef*, bool>> open;
    for (const NodeDef& root : function_.node_def()) {
      open.emplace_back(&root, false);
      while (!open.empty()) {
        const auto last = open.back();
        open.pop_back();
        if (last.second) {
          order.push_back(last.first);
          continue;
        }
        if (!seen.insert(last.first->name()).second) continue;
        open.emplace_back(last.first, true);
        for (const std::string& input : last.first->input()) {
          const auto producer =
              nodes_.find(ProducerOf(ParseInput(input).is_control ? input.substr(1) : input));
          if (producer != nodes_.end()) open.emplace_back(producer->second, false);
        }
      }
    }
    return order;
  }

  // Watches a tensor, which nodes name by `input`, if it is to be watched.
  void Look(const std::string& node, const std::string& op, const std::string& input, int port,
            DataType dtype, CountedFunction* counted, std::vector<std::string>* inputs) {
    const std::vector<const NodeDef*> rounding = Rounding(node, input, dtype);
    if (rounding.empty() && !IsWatched(watch_, op, dtype)) return;
    WatchedTensor tensor;
    tensor.node = node;
    tensor.op = op;
    tensor.port = port;
    tensor.device = device_;
    tensor.dtype = dtype;
    tensor.low_type = rounding.empty() ? dtype : TypeAttr(*rounding.front(), "DstT");
    tensor.place = place_;
    tensor.readers = Readers(rounding);
    counted->tensors.push_back(std::move(tensor));
    inputs->push_back(input);
  }

  // The readers that round the tensor to a low type.
  std::vector<const NodeDef*> Rounding(const std::string& node, const std::string& input,
                                       DataType dtype) const {
    std::vector<const NodeDef*> found;
    const auto readers = readers_.find(node);
    if (readers == readers_.end()) return found;
    for (const NodeDef* reader : readers->second) {
      if (reader->input(0) != input) continue;
      if (Rounds(reader->op(), dtype, TypeAttr(*reader, "DstT"))) found.push_back(reader);
    }
    return found;
  }

  // The nodes that compute from what these Casts yield.
  std::vector<std::string> Readers(std::vector<const NodeDef*> passing) const {
    std::set<std::string> names;
    std::set<const NodeDef*> seen(passing.begin(), passing.end());
    for (size_t i = 0; i < passing.size(); ++i) {
      const auto readers = readers_.find(passing[i]->name());
      if (readers == readers_.end()) continue;
      for (const NodeDef* reader : readers->second) {
        if (!seen.insert(reader).second) continue;
        if (PassesValues(reader->op())) {
          passing.push_back(reader);
        } else {
          names.insert(reader->name());
        }
      }
    }
    return {names.begin(), names.end()};
  }

  const FunctionDef& function_;
  const Watch watch_;
  const std::string device_;
  std::unordered_map<std::string, const NodeDef*> nodes_;
  std::unordered_map<std::string, std::vector<const NodeDef*>> readers_;
  int place_ = 0;
};

}  // namespace

Status MakeCountedFunction(const FunctionDef& function, Watch watch, const std::string& device,
                           CountedFunction* counted) {
  std::vector<std::string> inputs;
  Search(function, watch, device).Run(counted, &inputs);
  if (inputs.empty()) return Status();
  FunctionDef& result = counted->function;
  result = function;
  result.mutable_signature()->set_name(absl::StrCat(function.signature().name(), "_counted"));
  std::set<std::string> made;
  std::vector<std::string> counts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const WatchedTensor& tensor = counted->tensors[i];
    const std::string name = Counting::NameOf(tensor.dtype, tensor.low_type);
    if (made.insert(name).second) {
      counted->counting.push_back(Counting(tensor.dtype, tensor.low_type).Take());
    }
    NodeDef* call = result.add_node_def();
    call->set_name(absl::StrCat(kResult, "_", i));
    call->set_op("PartitionedCall");
    call->add_input(inputs[i]);
    (*call->mutable_attr())["f"].mutable_func()->set_name(name);
    (*call->mutable_attr())["Tin"].mutable_list()->add_type(tensor.dtype);
    (*call->mutable_attr())["Tout"].mutable_list()->add_type(tensorflow::DT_INT32);
    counts.push_back(absl::StrCat(call->name(), ":output:0"));
  }
  NodeDef* pack = result.add_node_def();
  pack->set_name(kResult);
  pack->set_op("Pack");
  for (const std::string& each : counts) pack->add_input(each);
  // The counts are taken after all effects, as any other result is.
  for (const auto& each : function.control_ret()) pack->add_input("^" + each.second);
  (*pack->mutable_attr())["N"].set_i(counts.size());
  (*pack->mutable_attr())["T"].set_type(tensorflow::DT_INT32);
  (*pack->mutable_attr())["axis"].set_i(0);
  auto* output = result.mutable_signature()->add_output_arg();
  output->set_name(kResult);
  output->set_type(tensorflow::DT_INT32);
  (*result.mutable_ret())[kResult] = absl::StrCat(kResult, ":output:0");
  return Status();
}

}  // namespace npu_precision
