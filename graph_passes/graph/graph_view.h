// A read-only index over a GraphDef: dense node ids, ports with their dtypes, fan-in and fan-out.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_VIEW_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_VIEW_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph_passes/graph/node_types.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/lib/core/status.h"
#include "tensorflow/core/lib/gtl/flatmap.h"

namespace npu_precision {

struct OutputPort {
  int node;
  int port;

  bool operator==(const OutputPort& other) const {
    return node == other.node && port == other.port;
  }
  bool operator!=(const OutputPort& other) const { return !(*this == other); }
};

struct InputPort {
  int node;
  int index;
};

constexpr int kNoGroup = -1;  // a port whose dtype no attribute sets, or whose node is opaque

class GraphView {
 public:
  // Indexes `graph`, which must outlive the view. FailedPrecondition: a duplicate name, an input
  // that does not exist, a node whose attributes do not fit its OpDef. Nodes of ops TensorFlow does
  // not know are kept as opaque: no ports, no groups.
  static tensorflow::Status Build(const tensorflow::GraphDef& graph, GraphView* view);

  int size() const { return static_cast<int>(op_of_node_.size()); }
  const tensorflow::NodeDef& node(int id) const { return graph_->node(id); }
  int IndexOf(absl::string_view name) const;  // -1 when absent

  // The ops of nodes are numbered as well: see op_set.h.
  int op(int id) const { return op_of_node_[id]; }
  int num_ops() const { return static_cast<int>(ops_.size()); }
  struct Op {
    std::string name;
    const tensorflow::OpDef* op_def;  // nullptr when opaque
    // Whether the node calls a function of the graph's library by its name.
    bool is_function;
  };
  const Op& op_numbered(int op) const { return ops_[op]; }
  const tensorflow::OpDef* op_def(int id) const { return ops_[op_of_node_[id]].op_def; }
  bool calls_function(int id) const { return ops_[op_of_node_[id]].is_function; }

  // The marks of the node: see marks.h.
  bool IsInserted(int id) const { return inserted_[id] != Inserted::kNo; }
  bool IsTransparent(int id) const { return inserted_[id] >= Inserted::kTransparent; }
  bool IsTransparentCast(int id) const { return inserted_[id] == Inserted::kTransparentCast; }

  // The producers of the data inputs, in order. An opaque node has them too, but no ports.
  absl::Span<const OutputPort> fanin(int id) const { return Slice(fanin_, fanin_begin_, id); }
  int num_fanin(int id) const { return fanin_begin_[id + 1] - fanin_begin_[id]; }
  // The consumers of all outputs: by output, then in the order of the nodes.
  absl::Span<const InputPort> fanout(int id) const { return Slice(fanout_, fanout_begin_, id); }
  absl::Span<const InputPort> fanout(const OutputPort& tensor) const;

  absl::Span<const TypeGroup> groups(int id) const { return Slice(groups_, groups_begin_, id); }
  absl::Span<const Port> inputs(int id) const { return Slice(inputs_, inputs_begin_, id); }
  absl::Span<const Port> outputs(int id) const { return Slice(outputs_, outputs_begin_, id); }
  int num_groups(int id) const { return groups_begin_[id + 1] - groups_begin_[id]; }
  int num_inputs(int id) const { return inputs_begin_[id + 1] - inputs_begin_[id]; }
  int num_outputs(int id) const { return outputs_begin_[id + 1] - outputs_begin_[id]; }

  // Groups of all nodes are numbered in one sequence; this is the number of the first of `id`.
  int first_group(int id) const { return groups_begin_[id]; }
  int num_groups() const { return static_cast<int>(groups_.size()); }
  int node_of_group(int group) const { return node_of_group_[group]; }
  const TypeGroup& group_numbered(int group) const { return groups_[group]; }
  // The number of the group that a port is bound to, or kNoGroup.
  int GroupOf(const InputPort& input) const;
  int GroupOf(const OutputPort& tensor) const;

  // Calls visit(k) for each output k of its node that is bound to a group.
  template <typename Visit>
  void VisitOutputs(int group, const Visit& visit) const;
  // Calls visit(OutputPort) for each tensor that is read by an input bound to the group.
  template <typename Visit>
  void VisitProducers(int group, const Visit& visit) const;
  // Calls visit(InputPort) for each input that reads an output bound to the group.
  template <typename Visit>
  void VisitConsumers(int group, const Visit& visit) const;

  // The dtype of a port; DT_INVALID if its node is opaque.
  tensorflow::DataType dtype(const OutputPort& tensor) const;
  tensorflow::DataType dtype(const InputPort& input) const;

  // The tensor itself or, while `passes(id)` holds for its producer, the producer's first input.
  template <typename Passes>
  OutputPort LookThrough(OutputPort tensor, const Passes& passes) const;
  OutputPort LookThroughInserted(OutputPort tensor) const;
  // Calls visit(InputPort) for each of `uses`. If the node of a use is transparent, it visits the
  // consumers of that node instead, and so on.
  template <typename Visit>
  void VisitThroughInserted(absl::Span<const InputPort> uses, const Visit& visit) const;

 private:
  template <typename T>
  static absl::Span<const T> Slice(const std::vector<T>& all, const std::vector<int>& begin,
                                   int id) {
    return absl::Span<const T>(all.data() + begin[id], begin[id + 1] - begin[id]);
  }
  template <typename Visit>
  static void VisitPorts(absl::Span<const Port> ports, int group, const Visit& visit);
  struct Hasher {
    size_t operator()(absl::string_view text) const;
  };
  enum class Inserted : char { kNo, kYes, kTransparent, kTransparentCast };

  tensorflow::Status IndexNames();
  void NumberOps();
  tensorflow::Status DescribeNodes();
  tensorflow::Status ConnectInputs();
  void ConnectOutputs();

  const tensorflow::GraphDef* graph_ = nullptr;
  tensorflow::gtl::FlatMap<absl::string_view, int, Hasher> ids_;
  std::vector<Op> ops_;
  std::vector<int> op_of_node_;
  std::vector<Inserted> inserted_;
  std::vector<OutputPort> fanin_;
  std::vector<InputPort> fanout_;
  std::vector<TypeGroup> groups_;
  std::vector<int> node_of_group_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<int> fanin_begin_, fanout_begin_, groups_begin_, inputs_begin_, outputs_begin_;
};

// Sorts ids by name, for results that depend on the order of nodes but must not depend on the order
// in the GraphDef.
std::vector<int> InOrderOfNames(const GraphView& view, std::vector<int> ids);

// The ports of one argument are bound to one group or, one by one, to consecutive groups. A node
// has few arguments, and may have thousands of ports.
template <typename Visit>
void GraphView::VisitPorts(absl::Span<const Port> ports, int group, const Visit& visit) {
  const auto before = [](short argument, const Port& port) { return argument < port.argument; };
  const int size = static_cast<int>(ports.size());
  for (int begin = 0, end; begin < size; begin = end) {
    const Port* const next =
        std::upper_bound(ports.begin() + begin, ports.end(), ports[begin].argument, before);
    end = static_cast<int>(next - ports.begin());
    const int first = ports[begin].group;
    if (first == kFixedDtype) continue;
    if (end - begin > 1 && ports[begin + 1].group != first) {
      if (group >= first && group - first < end - begin) visit(begin + group - first);
    } else if (group == first) {
      for (int k = begin; k < end; ++k) visit(k);
    }
  }
}

template <typename Visit>
void GraphView::VisitOutputs(int group, const Visit& visit) const {
  const int id = node_of_group(group);
  VisitPorts(outputs(id), group - first_group(id), visit);
}

template <typename Visit>
void GraphView::VisitProducers(int group, const Visit& visit) const {
  const int id = node_of_group(group);
  VisitPorts(inputs(id), group - first_group(id), [&](int k) { visit(fanin(id)[k]); });
}

template <typename Visit>
void GraphView::VisitConsumers(int group, const Visit& visit) const {
  const int id = node_of_group(group);
  VisitOutputs(group, [&](int port) {
    for (const InputPort& use : fanout({id, port})) visit(use);
  });
}

// The bounds end the walks on a damaged graph, where the nodes passed may form a cycle. With this
// one, many walks over one long chain take no time that grows with the square of its length.
template <typename Passes>
OutputPort GraphView::LookThrough(OutputPort tensor, const Passes& passes) const {
  constexpr int kMostHops = 1000;
  for (int hops = 0; hops < kMostHops && passes(tensor.node); ++hops) {
    tensor = fanin(tensor.node)[0];
  }
  return tensor;
}

inline OutputPort GraphView::LookThroughInserted(OutputPort tensor) const {
  return LookThrough(tensor, [this](int id) { return IsTransparent(id); });
}

template <typename Visit>
void GraphView::VisitThroughInserted(absl::Span<const InputPort> uses, const Visit& visit) const {
  std::vector<int> passed;
  const auto visit_or_pass = [&](absl::Span<const InputPort> some) {
    for (const InputPort& use : some) {
      if (IsTransparent(use.node)) {
        passed.push_back(use.node);
      } else {
        visit(use);
      }
    }
  };
  visit_or_pass(uses);
  for (int i = 0; i < static_cast<int>(passed.size()) && i < size(); ++i) {
    visit_or_pass(fanout(passed[i]));
  }
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_VIEW_H_
