// Adds the ops that watch tensors for a flight recorder. It runs after Grappler and all other
// passes of TensorFlow, so it changes neither their fusions nor any result.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/flight_store.h"
#include "cc/tf_compat.h"
#include "cc/watch_compiled.h"
#include "cc/watch_op.h"
#include "graph_passes/analysis/watched_tensors.h"
#include "graph_passes/graph/marks.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/control_flow.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace npu_precision {
namespace {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::Status;

bool CanWatch(const std::string& device) {
  tensorflow::DeviceNameUtils::ParsedName parsed;
  return tensorflow::DeviceNameUtils::ParseFullName(device, &parsed) &&
         (parsed.type == "CPU" || parsed.type == "GPU");
}

// The watched tensors of a graph, the node of each, and the nodes that the mode lowered.
struct Watched {
  std::vector<WatchedTensor> tensors;
  std::vector<Node*> nodes;
  std::vector<LoweredNode> lowered;
};

class Search {
 public:
  explicit Search(Watch watch) : watch_(watch) {}

  Status Run(const Graph& graph, Watched* watched) {
    std::vector<tensorflow::ControlFlowInfo> loops;
    TF_RETURN_IF_ERROR(tensorflow::BuildControlFlowInfo(&graph, &loops));
    std::vector<Node*> order;
    // The next iteration of a loop comes after everything in this one.
    tensorflow::GetReversePostOrder(
        graph, &order, tensorflow::NodeComparatorName(),
        [](const tensorflow::Edge& edge) { return !edge.src()->IsNextIteration(); });
    std::map<const Node*, int> places;
    for (Node* node : order) places.emplace(node, static_cast<int>(places.size()));
    for (Node* node : order) {
      Look(node, places, loops, watched);
      DecisionMark mark;
      if (!ReadDecisionMark(node->def(), &mark)) continue;
      watched->lowered.push_back({node->name(), places.at(node)});
    }
    return Status();
  }

 private:
  void Look(Node* node, const std::map<const Node*, int>& places,
            const std::vector<tensorflow::ControlFlowInfo>& loops, Watched* watched) {
    if (!node->IsOp() || IsOfWatchedCall(node->name())) return;
    for (int port = 0; port < node->num_outputs(); ++port) {
      const tensorflow::DataType dtype = node->output_type(port);
      const std::vector<const Node*> rounding = Rounding(*node, port);
      const bool is_rounded = !rounding.empty();
      if (!is_rounded && !IsWatched(watch_, node->type_string(), dtype)) continue;
      WatchedTensor tensor;
      tensor.node = node->name();
      tensor.op = node->type_string();
      tensor.port = port;
      tensor.device = node->assigned_device_name();
      tensor.dtype = dtype;
      tensor.low_type = is_rounded ? rounding.front()->output_type(0) : dtype;
      AddReaders(rounding, &tensor.readers);
      tensor.place = places.at(node);
      const std::string& loop = loops[node->id()].frame_name;
      if (!loop.empty()) tensor.loop = loops_.emplace(loop, tensor.place).first->second;
      watched->tensors.push_back(std::move(tensor));
      watched->nodes.push_back(node);
    }
  }

  // The readers that round the output to a low type.
  static std::vector<const Node*> Rounding(const Node& node, int port) {
    std::vector<const Node*> found;
    if (node.IsConstant()) return found;
    for (const tensorflow::Edge* edge : node.out_edges()) {
      const Node* reader = edge->dst();
      if (edge->IsControlEdge() || edge->src_output() != port || !reader->IsOp()) continue;
      if (reader->num_outputs() != 1) continue;
      const tensorflow::DataType from = node.output_type(port), to = reader->output_type(0);
      if (Rounds(reader->type_string(), from, to)) found.push_back(reader);
    }
    return found;
  }

  // Adds the nodes that compute from what these Casts yield. What passes values, such as a Reshape
  // before the MatMul or the second Cast of emulation, overflows nothing by itself.
  static void AddReaders(std::vector<const Node*> passing, std::vector<std::string>* readers) {
    std::set<const Node*> seen(passing.begin(), passing.end());
    for (size_t i = 0; i < passing.size(); ++i) {
      for (const tensorflow::Edge* edge : passing[i]->out_edges()) {
        const Node* reader = edge->dst();
        if (edge->IsControlEdge() || !reader->IsOp() || !seen.insert(reader).second) continue;
        if (PassesValues(reader->type_string())) {
          passing.push_back(reader);
        } else {
          readers->push_back(reader->name());
        }
      }
    }
    std::sort(readers->begin(), readers->end());
  }

  const Watch watch_;
  std::map<std::string, int> loops_;
};

// Whether the graph computes anything. TensorFlow also makes graphs of one op that yields its
// argument.
bool Computes(const Watched& watched) {
  return std::any_of(watched.tensors.begin(), watched.tensors.end(), [](const WatchedTensor& each) {
    return !IsRead(each.op) || each.low_type != each.dtype;
  });
}

// Where a step stops, no reader has computed a fault of its own. No Merge of a loop reads a watched
// tensor, for which its first iteration would wait.
void LetReadersWait(const Node& node, int port, Node* watch, Graph* graph) {
  std::set<Node*> readers;
  for (const tensorflow::Edge* edge : node.out_edges()) {
    if (!edge->IsControlEdge() && edge->src_output() == port) readers.insert(edge->dst());
  }
  for (Node* reader : readers) {
    if (reader->IsOp() && reader->type_string() != kWatchOp) {
      graph->AddControlEdge(watch, reader);
    }
  }
}

Status AddWatch(int graph_number, int tensor_number, const WatchedTensor& tensor, Node* node,
                Graph* graph) {
  tensorflow::NodeDef def;
  def.set_name(graph->NewName("npu_precision_watch"));
  def.set_op(kWatchOp);
  def.set_device(tensor.device);
  def.add_input(tensor.node);
  (*def.mutable_attr())["T"].set_type(tensor.dtype);
  (*def.mutable_attr())["low_type"].set_type(tensor.low_type);
  (*def.mutable_attr())["graph"].set_i(graph_number);
  (*def.mutable_attr())["tensor"].set_i(tensor_number);
  Status status;
  Node* watch = graph->AddNode(std::move(def), &status);
  TF_RETURN_IF_ERROR(status);
  watch->set_assigned_device_name(tensor.device);
  if (FlightStore::Get().selection()->stops) LetReadersWait(*node, tensor.port, watch, graph);
  graph->AddEdge(node, tensor.port, watch, 0);
  graph->AddControlEdge(watch, graph->sink_node());
  return Status();
}

class WatchPass : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    const Watch watch = FlightStore::Get().watch();
    if (watch == Watch::kNothing || options.partition_graphs == nullptr) return Status();
    for (auto& partition : *options.partition_graphs) {
      if (!CanWatch(partition.first)) continue;
      Graph* graph = partition.second.get();
      Watched watched;
      TF_RETURN_IF_ERROR(Search(watch).Run(*graph, &watched));
      if (!Computes(watched)) continue;
      const int number = FlightStore::Get().AddGraph(watched.tensors, watched.lowered);
      for (size_t i = 0; i < watched.nodes.size(); ++i) {
        TF_RETURN_IF_ERROR(
            AddWatch(number, static_cast<int>(i), watched.tensors[i], watched.nodes[i], graph));
      }
    }
    return Status();
  }
};

// TensorFlow's own passes are in the groups up to 99; MklLayoutRewritePass, which replaces ops by
// oneDNN's, is in the first group.
REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_PARTITIONING, 1000, WatchPass);

}  // namespace
}  // namespace npu_precision
