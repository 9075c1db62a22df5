#include "graph_passes/decide/before_magnifiers.h"

#include <string>
#include <utility>

#include "graph_passes/analysis/differences_of_squares.h"
#include "graph_passes/analysis/error_paths.h"
#include "graph_passes/analysis/product_flops.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/types.h"

namespace npu_precision {
namespace {

constexpr double kPi = 3.14159265358979;
// A bound on the nodes between a mean and the op that subtracts it.
constexpr size_t kMostMoves = 16;
// A guard of so many of the low type's steps at 1 keeps an error of half a step there below 2 %.
constexpr double kSafeSteps = 32;
// A bound on the nodes between a guard and a difference.
constexpr size_t kMostGuarded = 32;

// The gradients of scale and offset are sums over all rows; the gradient of the input is not.
bool AccumulatesParameters(const std::string& op) {
  return op == "FusedBatchNormGrad" || op == "FusedBatchNormGradV2" || op == "FusedBatchNormGradV3";
}

// The op yields the same elements in another shape. It rounds nothing.
bool Reshapes(const std::string& op) { return IsElementwise(op) && MovesValues(op); }

bool Compares(const std::string& op) { return op == "Sub" || op == "SquaredDifference"; }

bool Scales(const std::string& op) { return Multiplies(op) || Divides(op); }

class Walk {
 public:
  Walk(const GraphView& view, const std::vector<ValueRange>& ranges,
       const std::vector<Accumulator>& accumulators, const DecideContext& context,
       const std::vector<bool>& ends_path)
      : view_(view),
        ranges_(ranges),
        context_(context),
        ends_path_(ends_path),
        chains_(view, "_UnaryOpsComposition"),
        scales_(view, Scales),
        accumulates_(view, AveragesErrors),
        accumulates_parameters_(view, AccumulatesParameters),
        moves_values_(view, MovesValues),
        reshapes_(view, Reshapes),
        products_(view, IsMatrixOrConvolution),
        subtracts_(view, "Sub"),
        divides_(view, Divides),
        sums_(view, "Sum"),
        means_(view, "Mean"),
        compares_(view, Compares),
        ends_walk_(view, EndsErrorPath),
        is_accumulator_(view.size(), false),
        kept_(view.num_groups(), false) {
    for (const Accumulator& each : accumulators) {
      accumulators_.push_back(each.node);
      is_accumulator_[each.node] = true;
    }
  }

  std::vector<KeptGroup> Run() {
    // The first cause of a node stays, so the order of causes must not depend on the order of the
    // nodes.
    for (int magnifier : InOrderOfNames(view_, MagnifyingNodes())) KeepBefore(magnifier);
    for (const DifferenceOfSquares& difference : DifferencesOfSquares(view_)) {
      for (int node : difference.nodes) KeepNode(node, difference.difference);
      KeepBehind(difference.nodes, difference.difference);
    }
    for (int mean : InOrderOfNames(view_, means_.Ids())) KeepCentre(mean);
    for (int product : InOrderOfNames(view_, accumulators_)) KeepFactors(product);
    for (int difference : InOrderOfNames(view_, subtracts_.Ids())) KeepTermsBefore(difference);
    return keeps_;
  }

 private:
  std::vector<int> MagnifyingNodes() const {
    std::vector<int> found;
    for (int id = 0; id < view_.size(); ++id) {
      if (view_.op_def(id) != nullptr && !InputsOf(id).empty()) found.push_back(id);
    }
    return found;
  }

  // For a chain of unary ops, which TensorFlow fuses into one op: the inputs that any of them
  // magnifies. The inputs of all ops but the first have unknown ranges.
  std::vector<MagnifiedInput> InputsOf(int id) const {
    const tensorflow::NodeDef& node = view_.node(id);
    if (!chains_.Has(id)) return InputsOfOp(node.op());
    const auto names = node.attr().find("op_names");
    std::vector<MagnifiedInput> inputs;
    for (int i = 0; names != node.attr().end() && i < names->second.list().s_size(); ++i) {
      for (const MagnifiedInput& input : InputsOfOp(names->second.list().s(i))) {
        inputs.push_back({0, i == 0 ? input.unless : Unless::kNever, input.terms});
      }
    }
    return inputs;
  }

  std::vector<MagnifiedInput> InputsOfOp(const std::string& op) const {
    const auto found = context_.magnifiers->find(op);
    return found == context_.magnifiers->end() ? std::vector<MagnifiedInput>() : found->second;
  }

  void KeepBefore(int magnifier) {
    if (ends_path_[magnifier]) return;
    std::vector<int> nodes;
    for (const MagnifiedInput& input : InputsOf(magnifier)) {
      if (input.index >= view_.num_inputs(magnifier) || !Magnifies(magnifier, input)) continue;
      const int group = view_.GroupOf(InputPort{magnifier, input.index});
      if (group != kNoGroup) keeps_.push_back({group, Reason::kMagnifies});
      if (input.unless == Unless::kDivisorAwayFromZero && DividesByScale(magnifier)) continue;
      few_terms_ = input.terms;
      Push(view_.fanin(magnifier)[input.index], magnifier, &nodes);
    }
    KeepBehind(std::move(nodes), magnifier);
    few_terms_ = 0;
  }

  // Whether the divisor is one number for all elements that is not computed from the dividend, such
  // as a loss scale. The quotients then have the same relative error as the dividend.
  bool DividesByScale(int quotient) const {
    const auto moves = [this](int passed) {
      return view_.IsTransparent(passed) || (reshapes_.Has(passed) && !ends_path_[passed]);
    };
    const OutputPort divisor = view_.LookThrough(view_.fanin(quotient)[1], moves);
    return IsNumber(divisor);
  }

  bool IsNumber(const OutputPort& tensor) const {
    const tensorflow::NodeDef& node = view_.node(tensor.node);
    return IsNeutralSource(node.op()) && context_.elements != nullptr &&
           context_.elements(node.name(), tensor.port) == 1;
  }

  // A mean that is subtracted from its own values, as in a batch or layer norm. If the mean is
  // large, its rounding error is a large part of the differences. The Sub then follows the mean.
  void KeepCentre(int mean) {
    if (ends_path_[mean] || view_.num_fanin(mean) == 0) return;
    const int of = Moved(view_.fanin(mean)[0]);
    std::vector<int> moved = {mean};
    for (size_t i = 0; i < moved.size(); ++i) {
      for (const InputPort& use : view_.fanout(moved[i])) {
        const int id = use.node;
        if (compares_.Has(id) && Moved(view_.fanin(id)[1 - use.index]) == of) {
          KeepNode(mean, id);
          return;
        }
        const bool passes = view_.IsTransparent(id) || (moves_values_.Has(id) && use.index == 0);
        if (passes && moved.size() < kMostMoves) moved.push_back(id);
      }
    }
  }

  int Moved(const OutputPort& tensor) const {
    const auto moves = [this](int id) { return view_.IsTransparent(id) || moves_values_.Has(id); };
    return view_.LookThrough(tensor, moves).node;
  }

  // A value that is multiplied by a factor n times has n times the relative error of the factor.
  void KeepFactors(int product) {
    if (!scales_.Has(product) || ends_path_[product]) return;
    std::vector<int> nodes;
    for (const OutputPort& factor : view_.fanin(product)) {
      const int from = view_.LookThroughInserted(factor).node;
      if (!is_accumulator_[from]) Push(factor, product, &nodes);
    }
    KeepBehind(std::move(nodes), product);
  }

  // One constant number minus a sum of products, such as 1 - cos(x, y) or a Dice loss, which may be
  // divided, or the sum minus the number, such as a soft argmax from the centre: near zero, it has
  // only the digits in which the sum differs from the number. A tensor of equal elements does not
  // count: the gradient of a Softmax may subtract a sum from such a tensor.
  void KeepTermsBefore(int difference) {
    if (ends_path_[difference] || view_.num_fanin(difference) != 2) return;
    for (int side : {0, 1}) {
      const int number = view_.LookThroughInserted(view_.fanin(difference)[side]).node;
      if (ranges_[number].IsPoint() && IsNumber({number, 0})) {
        KeepTerms(view_.fanin(difference)[1 - side], difference);
      }
    }
  }

  void KeepTerms(const OutputPort& tensor, int difference) {
    const auto passes = [this](int id) {
      return view_.IsTransparent(id) || moves_values_.Has(id) || divides_.Has(id);
    };
    const int sum = view_.LookThrough(tensor, passes).node;
    if (!sums_.Has(sum) || ends_path_[sum]) return;
    const OutputPort term = view_.LookThroughInserted(view_.fanin(sum)[0]);
    if (!scales_.Has(term.node)) return;
    std::vector<int> nodes;
    Push(term, difference, &nodes);
    KeepBehind(std::move(nodes), difference);
  }

  // Walks breadth first, and visits each tensor once, for the first magnifier that reaches it.
  void KeepBehind(std::vector<int> nodes, int magnifier) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (int k = 0; k < view_.num_inputs(nodes[i]); ++k) {
        if (view_.GroupOf(InputPort{nodes[i], k}) == kNoGroup) continue;
        Push(view_.fanin(nodes[i])[k], magnifier, &nodes);
      }
    }
  }

  // Whether no error of the tensor comes through elementwise ops.
  bool Ends(const OutputPort& from) const {
    return view_.op_def(from.node) == nullptr || view_.calls_function(from.node) ||
           view_.GroupOf(from) == kNoGroup || !HasErrors(view_.dtype(from)) ||
           ends_walk_.Has(from.node) || ends_path_[from.node] || IsLargeProduct(from) ||
           (accumulates_.Has(from.node) && !AccumulatesComplements(from.node)) ||
           (accumulates_parameters_.Has(from.node) && from.port > 0) ||
           context_.fed.count(view_.node(from.node).name()) != 0;
  }

  void Push(const OutputPort& tensor, int magnifier, std::vector<int>* nodes) {
    const OutputPort from = view_.LookThroughInserted(tensor);
    if (Ends(from) || !Keep(view_.GroupOf(from), magnifier)) return;
    std::vector<std::pair<int, int>> paths;
    if (!ReadErrorPaths(view_.node(from.node), &paths)) {
      nodes->push_back(from.node);
      return;
    }
    for (const auto& path : paths) {
      const bool is_input = path.first >= 0 && path.first < view_.num_fanin(from.node);
      if (is_input && path.second == from.port) {
        Push(view_.fanin(from.node)[path.first], magnifier, nodes);
      }
    }
  }

  // A reshaped product counts too. It has the dtype of the product: a Cast before the Reshape would
  // restore no digit.
  bool IsLargeProduct(const OutputPort& tensor) const {
    const auto moves = [this](int passed) {
      return view_.IsTransparent(passed) || (reshapes_.Has(passed) && !ends_path_[passed]);
    };
    const int product = view_.LookThrough(tensor, moves).node;
    if (!products_.Has(product)) return false;
    if (few_terms_ == 0 || !context_.shapes) return true;
    const double terms = ProductTerms(view_, context_.shapes, product);
    return terms < 0 || terms > few_terms_;
  }

  // If a rounded p near 1 has lost all digits of 1 - p, no sum restores them.
  bool AccumulatesComplements(int id) const {
    const int term = Moved(view_.fanin(id)[0]);
    return view_.node(term).op() == "Sub" && ranges_[term].low >= 0 && MayBeNearZero(ranges_[term]);
  }

  // Whether the group was not kept before.
  bool Keep(int group, int magnifier) {
    if (kept_[group]) return false;
    kept_[group] = true;
    keeps_.push_back({group, Reason::kBeforeMagnifier, magnifier});
    return true;
  }

  void KeepNode(int id, int magnifier) {
    for (int g = 0; g < view_.num_groups(id); ++g) Keep(view_.first_group(id) + g, magnifier);
  }

  bool Magnifies(int id, const MagnifiedInput& input) const {
    const int from = view_.LookThroughInserted(view_.fanin(id)[input.index]).node;
    const ValueRange& range = ranges_[from];
    switch (input.unless) {
      case Unless::kNever:
        return true;
      case Unless::kAwayFromZero:
        return MayBeNearZero(range) || GuardsDifference(from);
      case Unless::kDivisorAwayFromZero:
        return MayBeNearZero(ranges_[view_.LookThroughInserted(view_.fanin(id)[1]).node]);
      case Unless::kSmallPower:
        return !IsSmallPower(view_.LookThroughInserted(view_.fanin(id)[1]).node);
      case Unless::kOneTurn:
        return range.Magnitude() > kPi;
      case Unless::kYieldsNoInteger:
        return tensorflow::DataTypeIsInteger(view_.outputs(id)[0].dtype);
    }
    return true;
  }

  bool MayBeNearZero(const ValueRange& range) const {
    return range.low < SmallestNormalOf(context_.NewDtype());
  }

  // A small number that is added to |x - y| keeps a root or quotient finite. Near zero the
  // difference is as wrong as x and y are, and that may be more than the small number.
  bool GuardsDifference(int guard) const {
    if (ranges_[guard].low >= kSafeSteps * SpacingAt(context_.NewDtype(), 1)) return false;
    std::vector<int> behind = {guard};
    for (size_t i = 0; i < behind.size() && behind.size() < kMostGuarded; ++i) {
      if (compares_.Has(behind[i])) return true;
      for (int k = 0; k < view_.num_inputs(behind[i]); ++k) {
        const OutputPort from = view_.LookThroughInserted(view_.fanin(behind[i])[k]);
        if (!Ends(from)) behind.push_back(from.node);
      }
    }
    return false;
  }

  bool IsSmallPower(int exponent) const {
    const ValueRange& range = ranges_[exponent];
    return range.IsPoint() && (range.low == 2 || range.low == 3 || range.low == 4);
  }

  const GraphView& view_;
  const std::vector<ValueRange>& ranges_;
  const DecideContext& context_;
  const std::vector<bool>& ends_path_;
  const OpSet chains_, scales_, accumulates_, accumulates_parameters_, moves_values_, reshapes_,
      products_, subtracts_, divides_, sums_, means_, compares_, ends_walk_;
  int few_terms_ = 0;                 // MagnifiedInput::terms of where the walk began
  std::vector<int> accumulators_;     // node ids
  std::vector<bool> is_accumulator_;  // by node id
  std::vector<bool> kept_;            // by group number
  std::vector<KeptGroup> keeps_;
};

}  // namespace

std::vector<KeptGroup> BeforeMagnifiers(const GraphView& view,
                                        const std::vector<ValueRange>& ranges,
                                        const std::vector<Accumulator>& accumulators,
                                        const DecideContext& context,
                                        const std::vector<bool>& ends_path) {
  return Walk(view, ranges, accumulators, context, ends_path).Run();
}

}  // namespace npu_precision
