#include "graph_passes/fuse/low_sums.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph_passes/analysis/fused_later.h"
#include "graph_passes/fuse/flat_nodes.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/drop_unused.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/node_attributes.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/private_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

constexpr char kPass[] = "low_sums";
// A sum of more nodes is left in parts: all terms stay in memory until they are added, and each
// level takes space on the stack.
constexpr int kMostLevels = 16;

bool AddsTerms(const std::string& op) { return op == "AddV2" || op == "AddN" || op == "Add"; }

bool AddsRows(const std::string& op) { return op == "BiasAddGrad" || op == "Sum"; }

bool AddsSegments(const std::string& op) { return op == "UnsortedSegmentSum"; }

bool Adds(const std::string& op) {
  return AddsTerms(op) || AddsRows(op) || AddsSegments(op) || op == "BiasAdd" || op == "Cast";
}

// Whether both are alike as far as they are known, in the dimensions that both have.
bool MayAddInPlace(const PartialTensorShape& a, const PartialTensorShape& b) {
  if (a.dims() < 0 || b.dims() < 0) return false;
  for (int dim = 1; dim <= std::min(a.dims(), b.dims()); ++dim) {
    if (a.dim_size(a.dims() - dim) != b.dim_size(b.dims() - dim)) return false;
  }
  return true;
}

class Writer {
 public:
  explicit Writer(PassState* state)
      : state_(state),
        view_(state->view()),
        site_(*state),
        adds_(view_, Adds),
        fused_(FusedLater(view_, state->preserved)) {}

  void Run() {
    for (int id : adds_.Ids()) {
      if (MakesSum(id) && !HasTaker(id)) roots_.push_back(id);
      if (AddsRows(view_.node(id).op())) WriteRows(id);
      if (AddsSegments(view_.node(id).op())) WriteSegments(id);
    }
    for (size_t k = 0; k < roots_.size(); ++k) WriteSum(roots_[k]);  // which may add roots
    if (changed_.empty()) return;
    tensorflow::GraphDef* graph = state_->Editable();
    for (const auto& each : changed_) *graph->mutable_node(each.first) = each.second;
    DropUnused(state_->preserved, graph);
  }

 private:
  bool IsFloat32(const OutputPort& tensor) const {
    return view_.dtype(tensor) == tensorflow::DT_FLOAT;
  }

  bool MayWrite(int id) const {
    return view_.num_outputs(id) == 1 && IsFloat32({id, 0}) && site_.MayChange(id) &&
           state_->context.support->HasOwnOps(view_.node(id));
  }

  // Whether the node adds tensors up in float32.
  bool IsSum(int id) const {
    const std::string& op = view_.node(id).op();
    if (!AddsTerms(op) && op != "BiasAdd") return false;
    return ReadsSums(id) && MayWrite(id) && !fused_[id] && HasChannelsLast(view_.node(id)) &&
           HasLikeTerms(id);
  }

  // Whether an input may bring terms of the low type. To ask for shapes is slow.
  bool ReadsSums(int id) const {
    const auto inputs = view_.fanin(id);
    return std::any_of(inputs.begin(), inputs.end(),
                       [this](const OutputPort& input) { return adds_.Has(input.node); });
  }

  bool HasLikeTerms(int id) const {
    if (view_.num_fanin(id) < 2) return false;
    const std::string& op = view_.node(id).op();
    if (op == "AddN") return true;
    const PartialTensorShape a = site_.Shape(view_.fanin(id)[0]);
    const PartialTensorShape b = site_.Shape(view_.fanin(id)[1]);
    if (!MayAddInPlace(a, b)) return false;
    // Our op broadcasts what BiasAdd refuses.
    return op != "BiasAdd" || (a.dims() >= 2 && b.dims() == 1 && b.dim_size(0) >= 0);
  }

  // Whether it is an error if the terms do not have one shape, and not known yet that they do.
  bool MustCompareShapes(int id) const {
    if (view_.node(id).op() != "AddN") return false;
    const auto terms = view_.fanin(id);
    const PartialTensorShape first = site_.Shape(terms[0]);
    return !first.IsFullyDefined() ||
           std::any_of(terms.begin(), terms.end(), [&](const OutputPort& term) {
             return !site_.Shape(term).IsIdenticalTo(first);
           });
  }

  // Whether the tensor is a sum of the low type that only the node that reads it needs, and the
  // user did not say that it is of this type.
  bool IsLowSum(const OutputPort& tensor) const {
    const NodeDef& node = view_.node(tensor.node);
    return AddsTerms(node.op()) && IsLowType(view_.dtype(tensor)) && !fused_[tensor.node] &&
           !HasKeepDtypeMark(node) && ListMark(node).empty() && IsOwn(tensor) &&
           HasLikeTerms(tensor.node);
  }

  bool IsCast(const OutputPort& tensor) const {
    const int id = tensor.node;
    return view_.node(id).op() == "Cast" && IsFloat32(tensor) && view_.num_fanin(id) == 1 &&
           IsLowType(view_.dtype(view_.fanin(id)[0]));
  }

  bool IsOwnCast(const OutputPort& tensor) const { return IsCast(tensor) && IsOwn(tensor); }

  // Whether only one input reads the node, on the same device, and no name of it counts.
  bool IsOwn(const OutputPort& tensor) const {
    const auto readers = view_.fanout(tensor);
    return site_.MayVanish(tensor.node) && site_.HasOneReader(tensor.node) && readers.size() == 1 &&
           view_.node(tensor.node).device() == view_.node(readers[0].node).device();
  }

  // Whether the node is a sum in float32, or a Cast to float32 of one in the low type.
  bool MakesSum(int id) const {
    if (view_.node(id).op() != "Cast") return IsSum(id);
    return IsCast({id, 0}) && MayWrite(id) && IsLowSum(view_.fanin(id)[0]);
  }

  // Whether the only reader takes the terms of the node, or else makes it a root.
  bool HasTaker(int id) const {
    if (!IsOwn({id, 0})) return false;
    const int reader = view_.fanout(OutputPort{id, 0})[0].node;
    if (IsSum(reader)) return true;
    if (view_.node(id).op() != "Cast") return false;
    const std::string& op = view_.node(reader).op();
    return AddsSegments(op) ? MayWrite(reader) : AddsRows(op) && FindKept(reader) >= 0;
  }

  // The sum that is written in place of a node.
  struct Sum {
    bool compares_shapes;  // else, they broadcast
    bool gains;            // a Cast is dropped
    std::vector<OutputPort> terms;
  };

  bool Takes(const Sum& sum, int id) const {
    return sum.compares_shapes ? view_.node(id).op() == "AddN" : !MustCompareShapes(id);
  }

  // Whether the terms of the node are added in its place. A sum of float32 is taken apart only if
  // it comes first, so that its terms are added in their order; so is one of the low type beside
  // float32, so that small terms do not vanish one by one in a large one.
  bool IsTakenApart(const OutputPort& tensor, bool is_first, bool in_low_sum,
                    const Sum& sum) const {
    if (!(is_first || in_low_sum)) return false;
    const int id = tensor.node;
    const bool is_own =
        IsLowType(view_.dtype(tensor)) ? IsLowSum(tensor) : IsSum(id) && IsOwn(tensor);
    return is_own && Takes(sum, id);
  }

  void AddTermsOf(int id, bool is_first, bool in_low_sum, int level, Sum* sum) {
    for (const OutputPort& term : view_.fanin(id)) {
      AddTerm(term, is_first, in_low_sum, level, sum);
      is_first = false;
    }
  }

  void AddTerm(OutputPort term, bool is_first, bool in_low_sum, int level, Sum* sum) {
    const OutputPort given = term;
    const bool is_cast = IsOwnCast(term);
    if (is_cast) term = view_.fanin(term.node)[0];
    in_low_sum &= !is_cast;
    if (level < kMostLevels && IsTakenApart(term, is_first, in_low_sum, *sum)) {
      sum->gains |= is_cast;
      AddTermsOf(term.node, is_first, IsLowType(view_.dtype(term)), level + 1, sum);
    } else if (is_cast && !IsLowSum(term)) {
      sum->gains = true;
      sum->terms.push_back(term);
    } else {
      sum->terms.push_back(given);
      if (MakesSum(given.node) && HasTaker(given.node)) roots_.push_back(given.node);
    }
  }

  void WriteSum(int id) {
    const bool is_cast = view_.node(id).op() == "Cast";
    const int adds = is_cast ? view_.fanin(id)[0].node : id;
    Sum sum = {MustCompareShapes(adds), is_cast, {}};
    AddTermsOf(adds, true, is_cast, 0, &sum);
    if (!sum.gains) return;
    std::vector<std::string> inputs;
    tensorflow::AttrValue dtypes;
    for (const OutputPort& term : sum.terms) {
      inputs.push_back(TensorName(view_, term));
      dtypes.mutable_list()->add_type(view_.dtype(term));
    }
    NodeDef* node = Write(id, kSumOp, inputs);
    (*node->mutable_attr())["T"] = dtypes;
    (*node->mutable_attr())["broadcasts"].set_b(!sum.compares_shapes);
  }

  // The number of last dimensions that a sum over all first ones keeps; -1 if it is no such sum.
  int FindKept(int id) const {
    const NodeDef& node = view_.node(id);
    if (!MayWrite(id) || view_.num_fanin(id) == 0) return -1;
    if (node.op() == "BiasAddGrad") return HasChannelsLast(node) ? 1 : -1;
    const auto keeps = node.attr().find("keep_dims");
    if (keeps != node.attr().end() && keeps->second.b()) return -1;
    std::vector<int64_t> axes;
    const int rank = site_.Shape(view_.fanin(id)[0]).dims();
    if (rank < 0 || view_.num_fanin(id) != 2 || !site_.Integers(view_.fanin(id)[1], &axes)) {
      return -1;
    }
    std::set<int64_t> summed;
    for (int64_t axis : axes) summed.insert(axis < 0 ? axis + rank : axis);
    int64_t next = 0;
    for (int64_t axis : summed) {
      if (axis != next++) return -1;
    }
    if (summed.size() != axes.size()) return -1;  // an error
    return summed.empty() ? -1 : rank - static_cast<int>(summed.size());
  }

  void WriteRows(int id) {
    if (view_.num_fanin(id) == 0 || !IsOwnCast(view_.fanin(id)[0])) return;
    const int kept = FindKept(id);
    if (kept < 0) return;
    const OutputPort low = view_.fanin(view_.fanin(id)[0].node)[0];
    NodeDef* node = Write(id, kSumRowsOp, {TensorName(view_, low)});
    (*node->mutable_attr())["T"].set_type(view_.dtype(low));
    (*node->mutable_attr())["kept"].set_i(kept);
  }

  void WriteSegments(int id) {
    if (view_.num_fanin(id) != 3 || !MayWrite(id) || !IsOwnCast(view_.fanin(id)[0])) return;
    const auto inputs = view_.fanin(id);
    const OutputPort low = view_.fanin(inputs[0].node)[0];
    NodeDef* node =
        Write(id, kSumSegmentsOp,
              {TensorName(view_, low), TensorName(view_, inputs[1]), TensorName(view_, inputs[2])});
    (*node->mutable_attr())["T"].set_type(view_.dtype(low));
    (*node->mutable_attr())["Tindices"].set_type(view_.dtype(inputs[1]));
    (*node->mutable_attr())["Tnumsegments"].set_type(view_.dtype(inputs[2]));
  }

  NodeDef* Write(int id, const char* op, const std::vector<std::string>& inputs) {
    NodeDef* node = &changed_[id];
    *node = view_.node(id);
    ReplaceOp(site_, id, op, inputs, node);
    state_->rewrites.push_back({kPass, node->name(), view_.node(id).op(), op});
    return node;
  }

  PassState* const state_;
  const GraphView& view_;
  const FusionSite site_;
  const OpSet adds_;
  const std::vector<bool> fused_;   // by node id
  std::map<int, NodeDef> changed_;  // by node id
  std::vector<int> roots_;          // nodes to write as sums, if that drops a Cast
};

}  // namespace

tensorflow::Status AddLowTerms(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  if (!OpSet(state->view(), "Cast").IsEmpty()) Writer(state).Run();
  *changed = state->rewrites.size() != rewrites;
  return tensorflow::Status();
}

}  // namespace npu_precision
