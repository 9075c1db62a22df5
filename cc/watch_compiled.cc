#include "cc/watch_compiled.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/compiled_functions.h"
#include "cc/counted_function.h"
#include "cc/flight_store.h"
#include "cc/watch_counts_op.h"
#include "graph_passes/graph/function_ops.h"
#include "graph_passes/graph/input_names.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Status;

constexpr char kScope[] = "/npu_precision_watch/";

// A CPU beside the device, for ops that count.
std::string CpuBeside(const std::string& device) {
  tensorflow::DeviceNameUtils::ParsedName name;
  if (!tensorflow::DeviceNameUtils::ParseFullName(device, &name) || !name.has_type) return device;
  name.type = tensorflow::DEVICE_CPU;
  name.has_id = true;
  name.id = 0;
  return tensorflow::DeviceNameUtils::ParsedNameToString(name);
}

bool IsMerged(DataType dtype) {
  return dtype != tensorflow::DT_RESOURCE && dtype != tensorflow::DT_VARIANT &&
         dtype != tensorflow::DT_STRING;
}

class Watcher {
 public:
  Watcher(Watch watch, const std::set<std::string>& fetched, const std::set<std::string>& fed,
          GraphDef* graph)
      : watch_(watch),
        fetched_(fetched),
        fed_(fed),
        graph_(*graph),
        library_(tensorflow::OpRegistry::Global(), graph->library()) {
    for (const NodeDef& node : graph->node()) names_.insert(node.name());
  }

  Status Run() {
    const int size = graph_.node_size();
    for (int id = 0; id < size; ++id) {
      if (IsWatchable(graph_.node(id))) TF_RETURN_IF_ERROR(WatchCall(id));
    }
    if (!outputs_.empty()) Reconnect();
    return Status();
  }

 private:
  bool IsWatchable(const NodeDef& node) const {
    if (!IsCall(node.op())) return false;
    if (!CallsCompiled(node) || fed_.count(node.name()) != 0) return false;
    const auto& types = node.attr().at("Tout").list().type();
    return std::all_of(types.begin(), types.end(),
                       [](int type) { return IsMerged(static_cast<DataType>(type)); });
  }

  Status WatchCall(int id) {
    const tensorflow::FunctionDef* function =
        library_.Find(graph_.node(id).attr().at("f").func().name());
    if (function == nullptr) return Status();
    CountedFunction counted;
    const std::string device = graph_.node(id).device();
    TF_RETURN_IF_ERROR(MakeCountedFunction(*function, watch_, device, &counted));
    if (counted.tensors.empty()) return Status();
    for (const auto& each : counted.counting) TF_RETURN_IF_ERROR(AddFunction(each));
    TF_RETURN_IF_ERROR(AddFunction(counted.function));
    const int number = FlightStore::Get().AddGraph(counted.tensors, counted.lowered);
    Choose(id, counted.function.signature().name(), number);
    return Status();
  }

  Status AddFunction(const tensorflow::FunctionDef& function) {
    if (library_.Find(function.signature().name()) != nullptr) return Status();
    *graph_.mutable_library()->add_function() = function;
    return library_.AddFunctionDef(function);
  }

  // Lets each step run one of the two functions.
  void Choose(int id, const std::string& counted, int number) {
    const NodeDef call = graph_.node(id);
    std::vector<std::string> inputs, controls;
    for (const std::string& input : call.input()) {
      (ParseInput(input).is_control ? controls : inputs).push_back(input);
    }
    const auto& types = call.attr().at("Tin").list();
    if (!inputs.empty()) {
      // In a loop, the ops below belong to the same iteration as the call.
      NodeDef* here = Add(call, "here", "Identity", {inputs[0]}, TypeAt(types, 0));
      controls.push_back("^" + here->name());
    }
    NodeDef* records = Add(call, "records", kRecordsOp, controls, tensorflow::DT_INVALID);
    records->set_device(CpuBeside(call.device()));
    (*records->mutable_attr())["graph"].set_i(number);
    const std::string now = records->name();
    NodeDef plain = call;
    plain.clear_input();
    plain.set_name(NameFor(call, "plain"));
    NodeDef watched = plain;
    watched.set_name(NameFor(call, "counted"));
    (*watched.mutable_attr())["f"].mutable_func()->set_name(counted);
    (*watched.mutable_attr())["Tout"].mutable_list()->add_type(tensorflow::DT_INT32);
    watched.mutable_attr()->erase("_output_shapes");
    for (size_t i = 0; i < inputs.size(); ++i) {
      const NodeDef* either =
          Add(call, absl::StrCat("input_", i), "Switch", {inputs[i], now}, TypeAt(types, i));
      plain.add_input(either->name());
      watched.add_input(absl::StrCat(either->name(), ":1"));
    }
    const std::string turn = Add(call, "turn", "Switch", {now, now}, tensorflow::DT_BOOL)->name();
    const std::string not_now =
        Add(call, "not_now", "Identity", {turn}, tensorflow::DT_BOOL)->name();
    const std::string is_now =
        Add(call, "is_now", "Identity", {turn + ":1"}, tensorflow::DT_BOOL)->name();
    plain.add_input("^" + not_now);
    watched.add_input("^" + is_now);
    *graph_.add_node() = plain;
    *graph_.add_node() = watched;
    const std::string done = Merge(call, plain.name(), watched.name(), number, not_now, is_now);
    // Other nodes wait for its name, and TensorFlow keeps it: it must not be one of the two.
    NodeDef* both = graph_.mutable_node(id);
    const bool is_read = fetched_.count(call.name()) != 0 && !outputs_[call.name()].empty();
    both->set_op(is_read ? "IdentityN" : "NoOp");
    both->clear_attr();
    both->clear_input();
    if (is_read) {
      for (const std::string& output : outputs_[call.name()]) both->add_input(output);
      *(*both->mutable_attr())["T"].mutable_list() = call.attr().at("Tout").list();
    }
    both->add_input("^" + done);
  }

  // Merges the results of the two calls, after the counts were taken. Returns the name of a node
  // that runs when either call is done.
  std::string Merge(const NodeDef& call, const std::string& plain, const std::string& watched,
                    int number, const std::string& not_now, const std::string& is_now) {
    const auto& types = call.attr().at("Tout").list();
    const std::string counts = absl::StrCat(watched, ":", types.type_size());
    NodeDef* count = Add(call, "counts", kWatchCountsOp, {counts}, tensorflow::DT_INVALID);
    count->set_device(CpuBeside(call.device()));
    (*count->mutable_attr())["graph"].set_i(number);
    const std::string after = "^" + count->name();
    std::vector<std::string>& outputs = outputs_[call.name()];
    for (int i = 0; i < types.type_size(); ++i) {
      const DataType dtype = TypeAt(types, i);
      NodeDef* kept = Add(call, absl::StrCat("kept_", i), "Identity",
                          {absl::StrCat(watched, ":", i), after}, dtype);
      outputs.push_back(Merged(call, absl::StrCat("output_", i), absl::StrCat(plain, ":", i),
                               kept->name(), dtype));
    }
    const auto done = [&](const char* name, const std::string& flag, const std::string& by) {
      return Add(call, name, "Identity", {flag, "^" + by}, tensorflow::DT_BOOL)->name();
    };
    const std::string plain_done = done("plain_done", not_now, plain);
    const std::string counted_done = done("counted_done", is_now, count->name());
    return Merged(call, "done", plain_done, counted_done, tensorflow::DT_BOOL);
  }

  std::string Merged(const NodeDef& call, const std::string& end, const std::string& one,
                     const std::string& other, DataType dtype) {
    NodeDef* merge = Add(call, end, "Merge", {one, other}, dtype);
    (*merge->mutable_attr())["N"].set_i(2);
    return merge->name();
  }

  static DataType TypeAt(const tensorflow::AttrValue::ListValue& types, int i) {
    return types.type(i);
  }

  NodeDef* Add(const NodeDef& call, const std::string& end, const char* op,
               const std::vector<std::string>& inputs, DataType type) {
    NodeDef* node = graph_.add_node();
    node->set_name(NameFor(call, end));
    node->set_op(op);
    node->set_device(call.device());
    for (const std::string& input : inputs) node->add_input(input);
    if (type != tensorflow::DT_INVALID) (*node->mutable_attr())["T"].set_type(type);
    return node;
  }

  std::string NameFor(const NodeDef& call, const std::string& end) {
    std::string name = absl::StrCat(call.name(), kScope, end);
    while (!names_.insert(name).second) name += "_";
    return name;
  }

  // Lets all others read the merged results of a call.
  void Reconnect() {
    for (NodeDef& node : *graph_.mutable_node()) {
      for (std::string& name : *node.mutable_input()) {
        const ParsedInput input = ParseInput(name);
        const auto merged = outputs_.find(std::string(input.producer));
        if (merged == outputs_.end() || input.is_control) continue;
        name = std::string(merged->second[input.port]);
      }
    }
  }

  const Watch watch_;
  const std::set<std::string>&fetched_, &fed_;
  GraphDef& graph_;
  tensorflow::FunctionLibraryDefinition library_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::vector<std::string>> outputs_;  // merged, by call
};

}  // namespace

bool IsOfWatchedCall(const std::string& name) { return absl::StrContains(name, kScope); }

Status WatchCompiled(Watch watch, const std::set<std::string>& fetched,
                     const std::set<std::string>& fed, GraphDef* graph) {
  return Watcher(watch, fetched, fed, graph).Run();
}

}  // namespace npu_precision
