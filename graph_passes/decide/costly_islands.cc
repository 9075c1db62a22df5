#include "graph_passes/decide/costly_islands.h"

#include <map>
#include <set>
#include <utility>

#include "graph_passes/analysis/product_flops.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/union_find.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

// What a Cast costs, in operations of a product, halved.
struct CastCosts {
  double per_element;
  double per_launch;  // whatever the size of the tensor
};
// Measured on the machine of `make bench`.
constexpr CastCosts kOnCpus = {60, 0};
// Not measured, but from the data sheet of an H100: 6 bytes of 3.35 TB/s, and 2 us, beside products
// of which float16 computes 989 T operations a second, and TF32 495 T.
constexpr CastCosts kOnGpus = {900, 1e9};
// If values are moved or computed element by element, half the bytes save about half a Cast.
constexpr double kCastsSavedPerElement = 0.5;

class Islands {
 public:
  Islands(const GraphView& view, const DecideContext& context, const NodeClasses& classes,
          const std::vector<int>& leader, const std::vector<GroupState>& groups)
      : view_(view), context_(context), classes_(classes), leader_(leader), groups_(groups) {}

  std::vector<int> Costly() {
    std::vector<int> costly;
    if (!context_.shapes) return costly;
    std::map<int, std::vector<int>> islands;
    const std::vector<int> island = Join();
    for (int group = 0; group < view_.num_groups(); ++group) {
      if (IsLowered(group)) islands[island[group]].push_back(group);
    }
    for (const auto& each : islands) {
      if (IsCostly(each.second))
        costly.insert(costly.end(), each.second.begin(), each.second.end());
    }
    return costly;
  }

 private:
  bool IsLowered(int group) const {
    return group != kNoGroup && classes_.can_change[group] && groups_[group].vote == Vote::kLowered;
  }

  // By group: the number of its island.
  std::vector<int> Join() const {
    UnionFind islands(view_.num_groups());
    for (int group = 0; group < view_.num_groups(); ++group) {
      if (!IsLowered(group)) continue;
      islands.Join(group, leader_[group]);
      view_.VisitProducers(group, [&](const OutputPort& from) {
        if (IsLowered(view_.GroupOf(from))) islands.Join(group, view_.GroupOf(from));
      });
    }
    return islands.Leaders();
  }

  DeviceKind DeviceOf(int group) const {
    return context_.support->KindOf(view_.node(view_.node_of_group(group)));
  }

  // Whether only the rules of the mode lower the group, and no earlier run changed the graph.
  bool MayKeep(int group) const {
    const NodeClass& node = classes_.nodes[view_.node_of_group(group)];
    bool may = node.listing.edited == Edited::kNo && node.custom == nullptr;
    view_.VisitProducers(group,
                         [&](const OutputPort& from) { may &= !view_.IsTransparent(from.node); });
    view_.VisitConsumers(group,
                         [&](const InputPort& use) { may &= !view_.IsTransparent(use.node); });
    return may;
  }

  bool IsCostly(const std::vector<int>& island) const {
    const DeviceKind device = DeviceOf(island.front());
    for (int group : island) {
      if (!MayKeep(group) || DeviceOf(group) != device) return false;
    }
    const CastCosts& costs = device == DeviceKind::kGpu ? kOnGpus : kOnCpus;
    double gained = 0, cast = 0;
    const auto add = [](double cost, double weight, double* sum) {
      *sum = cost < 0 || *sum < 0 ? kUnknownCost : *sum + weight * cost;
    };
    std::set<std::pair<int, int>> casts;  // of tensors, by node and port
    for (int group : island) {
      const int id = view_.node_of_group(group);
      if (IsMatrixOrConvolution(view_.node(id).op())) {
        add(ProductFlops(view_, context_.shapes, id), 1, &gained);
      } else {
        view_.VisitOutputs(group, [&](int port) {
          add(Elements({id, port}), costs.per_element * kCastsSavedPerElement, &gained);
        });
      }
      view_.VisitProducers(group, [&](const OutputPort& from) {
        if (!IsLowered(view_.GroupOf(from)) && !IsConstant(from.node)) {
          casts.insert({from.node, from.port});
        }
      });
      view_.VisitOutputs(group, [&](int port) {
        if (IsReadInFloat32({id, port})) casts.insert({id, port});
      });
    }
    for (const auto& each : casts) {
      const OutputPort tensor{each.first, each.second};
      add(Elements(tensor), costs.per_element, &cast);
      // Costs are those of a sample where the size of the batch is not known, and a launch is not.
      if (!HasUnknownBatch(tensor)) add(1, costs.per_launch, &cast);
    }
    return gained >= 0 && cast >= 0 && gained < cast;
  }

  tensorflow::PartialTensorShape Shape(const OutputPort& tensor) const {
    return context_.shapes(view_.node(tensor.node).name(), tensor.port);
  }
  double Elements(const OutputPort& tensor) const { return ElementsOfSample(Shape(tensor)); }
  bool HasUnknownBatch(const OutputPort& tensor) const {
    const tensorflow::PartialTensorShape shape = Shape(tensor);
    return shape.dims() > 0 && shape.dim_size(0) < 0;
  }

  // Casts of constants do not count: TensorFlow casts each constant once.
  bool IsConstant(int id) const {
    while (view_.node(id).op() == "Identity" && view_.num_fanin(id) == 1) {
      id = view_.fanin(id)[0].node;
    }
    return view_.node(id).op() == "Const" && context_.fed.count(view_.node(id).name()) == 0;
  }

  bool IsReadInFloat32(const OutputPort& tensor) const {
    if (context_.preserved.count(view_.node(tensor.node).name()) != 0) return true;
    bool is_read = false;
    for (const InputPort& use : view_.fanout(tensor)) is_read |= !IsLowered(view_.GroupOf(use));
    return is_read;
  }

  const GraphView& view_;
  const DecideContext& context_;
  const NodeClasses& classes_;
  const std::vector<int>& leader_;
  const std::vector<GroupState>& groups_;
};

}  // namespace

std::vector<int> CostlyIslands(const GraphView& view, const DecideContext& context,
                               const NodeClasses& classes, const std::vector<int>& leader,
                               const std::vector<GroupState>& groups) {
  return Islands(view, context, classes, leader, groups).Costly();
}

}  // namespace npu_precision
