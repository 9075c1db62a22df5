#include "graph_passes/decide/before_magnifiers.h"

#include <string>
#include <unordered_set>
#include <utility>

#include "graph_passes/analysis/close_differences.h"
#include "graph_passes/analysis/differences_of_squares.h"
#include "graph_passes/analysis/error_paths.h"
#include "graph_passes/analysis/product_flops.h"
#include "graph_passes/analysis/whole_products.h"
#include "graph_passes/decide/magnified_inputs.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/types.h"

namespace npu_precision {
namespace {

// A product of so many terms or fewer keeps float32 before a close difference.
constexpr int kFewTerms = 16;
constexpr double kPi = 3.14159265358979;
// A bound on the nodes between a mean and the op that subtracts it.
constexpr size_t kMostMoves = 16;
// A guard of so many of the low type's steps at 1 keeps an error of half a step there below 2 %.
constexpr double kSafeSteps = 32;
// A bound on the nodes between a guard and a difference.
constexpr size_t kMostGuarded = 32;

// All outputs but the first are means or sums over all rows.
bool AccumulatesChannels(const std::string& op) {
  static const auto* names = new std::unordered_set<std::string>{
      "FusedBatchNorm",     "FusedBatchNormV2",     "FusedBatchNormV3",
      "FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"};
  return names->count(op) != 0;
}

// The op yields the same elements in another shape. It rounds nothing.
bool Reshapes(const std::string& op) { return IsElementwise(op) && MovesValues(op); }

// A constant or a fill selects nothing.
bool SelectsElements(const std::string& op) { return SelectsValues(op) && !EndsErrorPath(op); }

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
        inputs_(view, *context.magnifiers),
        scales_(view, Scales),
        accumulates_(view, AveragesErrors),
        accumulates_channels_(view, AccumulatesChannels),
        moves_values_(view, MovesValues),
        reshapes_(view, Reshapes),
        products_(view, IsMatrixOrConvolution),
        divides_(view, Divides),
        sums_(view, "Sum"),
        means_(view, "Mean"),
        constants_(view, "Const"),
        differences_(view, IsDifference),
        selects_(view, SelectsElements),
        ends_(view, context.fed, ends_path),
        layers_(view),
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
    // A walk ends where an earlier one was, so those that pass the largest products go first.
    for (int terms : inputs_.terms()) {
      if (terms == 0) KeepCloseDifferences();
      few_terms_ = terms;
      for (int magnifier : inputs_.nodes()) KeepBefore(magnifier, &Walk::Magnifies);
    }
    // Later, so that what always magnifies is the cause where both are.
    for (int magnifier : inputs_.nodes()) KeepBefore(magnifier, &Walk::MagnifiesGuarded);
    for (int magnifier : inputs_.nodes()) KeepWhole(magnifier);
    for (const DifferenceOfSquares& difference : DifferencesOfSquares(view_)) {
      for (int node : difference.nodes) KeepNode(node, difference.difference);
      KeepBehind(difference.nodes, difference.difference);
    }
    for (int mean : InOrderOfNames(view_, means_.Ids())) KeepCentre(mean);
    for (int product : InOrderOfNames(view_, accumulators_)) KeepFactors(product);
    for (int difference : InOrderOfNames(view_, differences_.Ids())) KeepTermsBefore(difference);
    return keeps_;
  }

 private:
  // Keeps what is before the inputs whose `terms` are few_terms_ and for which `magnifies` is true.
  void KeepBefore(int magnifier, bool (Walk::*magnifies)(int, const MagnifiedInput&) const) {
    if (ends_path_[magnifier]) return;
    std::vector<int> nodes;
    for (const MagnifiedInput& input : inputs_.Of(magnifier)) {
      if (input.terms != few_terms_) continue;
      if (input.index >= view_.num_inputs(magnifier) || !(this->*magnifies)(magnifier, input)) {
        continue;
      }
      const int group = view_.GroupOf(InputPort{magnifier, input.index});
      if (group != kNoGroup) keeps_.push_back({group, Reason::kMagnifies});
      if (input.unless == Unless::kDivisorAwayFromZero && DividesByScale(magnifier)) continue;
      Push(view_.fanin(magnifier)[input.index], magnifier, &nodes);
    }
    KeepBehind(std::move(nodes), magnifier);
  }

  void KeepCloseDifferences() {
    few_terms_ = kFewTerms;
    is_in_difference_ = true;
    const bool takes_arguments = !IsIterated(context_.body_role);
    for (const CloseDifference& close : CloseDifferences(view_, ranges_, takes_arguments)) {
      KeepClose(close);
    }
    is_in_difference_ = false;
  }

  // The difference itself rounds what the caller gave, if something of a side was computed.
  void KeepClose(const CloseDifference& close) {
    if (ends_path_[close.difference]) return;
    if (close.product >= 0 && IsLargeProduct({close.product, 0})) return;
    std::vector<int> nodes;
    bool is_computed = false;
    for (const OutputPort& side : close.sides) {
      Push(side, close.difference, &nodes);
      const OutputPort from = view_.LookThroughInserted(side);
      const int group = view_.GroupOf(from);
      is_computed |= (group != kNoGroup && kept_[group]) || IsLargeProduct(from);
    }
    KeepBehind(std::move(nodes), close.difference);
    if (is_computed) KeepNode(close.difference, close.difference);
  }

  void KeepWhole(int magnifier) {
    if (ends_path_[magnifier]) return;
    for (const MagnifiedInput& input : inputs_.Of(magnifier)) {
      const bool may_be_whole = input.whole && input.index < view_.num_inputs(magnifier);
      if (!may_be_whole || !Magnifies(magnifier, input)) continue;
      const OutputPort& whole = view_.fanin(magnifier)[input.index];
      for (int node : WholeProducts(view_, ranges_, ends_path_, whole)) KeepNode(node, magnifier);
    }
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
        if (differences_.Has(id) && Moved(view_.fanin(id)[1 - use.index]) == of) {
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
      const OutputPort& other = view_.fanin(difference)[1 - side];
      if (ranges_[number].IsPoint() && IsNumber({number, 0})) KeepTerms(other, difference);
      if (side == 0 && IsOneOrIdentity(number)) KeepProduct(other, difference);
    }
  }

  // A constant of zeros and ones, from which a product is subtracted, is an identity matrix.
  bool IsOneOrIdentity(int id) const {
    const ValueRange& range = ranges_[id];
    return constants_.Has(id) && range.high == 1 && (range.low == 1 || range.low == 0);
  }

  // One minus a product: a distance of unit vectors, or what an update of a Kalman filter leaves.
  void KeepProduct(const OutputPort& tensor, int difference) {
    const auto passes = [this](int id) { return view_.IsTransparent(id) || moves_values_.Has(id); };
    const int product = view_.LookThrough(tensor, passes).node;
    if (!products_.Has(product) || ends_path_[product]) return;
    KeepNode(product, difference);
    // A gain is a product of few terms itself.
    few_terms_ = kFewTerms;
    KeepBehind({product}, difference);
    few_terms_ = 0;
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
    return ends_.Has(from) || IsLargeProduct(from) ||
           (accumulates_.Has(from.node) && !AccumulatesComplements(from.node)) ||
           (accumulates_channels_.Has(from.node) && from.port > 0);
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
    if (is_in_difference_) {
      if (!layers_.ReadsNone(product)) return true;
      if (HasOneColumn(product)) return false;
    }
    const double terms = ProductTerms(view_, context_.shapes, product);
    return terms < 0 || terms > few_terms_;
  }

  // A product of a matrix and a vector reads each element once: no low type makes it faster.
  bool HasOneColumn(int product) const {
    const auto shape = context_.shapes(view_.node(product).name(), 0);
    return shape.dims() >= 2 && shape.dim_size(shape.dims() - 1) == 1;
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
        return MayBeNearZero(range);
      case Unless::kDivisorAwayFromZero:
        return MayBeNearZero(ranges_[view_.LookThroughInserted(view_.fanin(id)[1]).node]);
      case Unless::kSmallPower:
        return !IsSmallPower(view_.LookThroughInserted(view_.fanin(id)[1]).node);
      case Unless::kOneTurn:
        return range.Magnitude() > kPi;
      case Unless::kBeyondOne:
        return range.Magnitude() <= 1;
      case Unless::kYieldsNoInteger:
        return tensorflow::DataTypeIsInteger(view_.outputs(id)[0].dtype);
      case Unless::kOneSelects:
        return Selected(id, 0) != Selected(id, 1) && !IsZero(id, 0) && !IsZero(id, 1);
    }
    return true;
  }

  // A small number that is added to |x - y| keeps a root or quotient finite. Near zero the
  // difference is as wrong as x and y are, and that may be more than the small number.
  bool MagnifiesGuarded(int id, const MagnifiedInput& input) const {
    const int from = view_.LookThroughInserted(view_.fanin(id)[input.index]).node;
    return input.unless == Unless::kAwayFromZero && !MayBeNearZero(ranges_[from]) &&
           GuardsDifference(from);
  }

  // The node whose elements an input selects, as a Max and its gradient do.
  int Selected(int id, int index) const {
    const auto selects = [this](int passed) {
      return view_.IsTransparent(passed) || selects_.Has(passed);
    };
    return view_.LookThrough(view_.fanin(id)[index], selects).node;
  }

  bool IsZero(int id, int index) const {
    const ValueRange& range = ranges_[view_.LookThroughInserted(view_.fanin(id)[index]).node];
    return range.low == 0 && range.high == 0;
  }

  bool MayBeNearZero(const ValueRange& range) const {
    return range.low < SmallestNormalOf(context_.NewDtype());
  }

  // Whether elementwise ops compute the node from a difference, and what guards it is small.
  bool GuardsDifference(int guard) const {
    if (ranges_[guard].low >= kSafeSteps * SpacingAt(context_.NewDtype(), 1)) return false;
    std::vector<int> behind = {guard};
    for (size_t i = 0; i < behind.size() && behind.size() < kMostGuarded; ++i) {
      if (differences_.Has(behind[i])) return true;
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
  const MagnifiedInputs inputs_;
  const OpSet scales_, accumulates_, accumulates_channels_, moves_values_, reshapes_, products_,
      divides_, sums_, means_, constants_, differences_, selects_;
  const ErrorPathEnds ends_;
  const LayerReads layers_;
  int few_terms_ = 0;                 // MagnifiedInput::terms of where walks now begin
  bool is_in_difference_ = false;     // whether they begin at a close difference
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
