"""Mutations of what finds products that cancel, and products before a linear solver."""

from __future__ import annotations

from mutate.mutation import mutations_of

_CANCELLING = "passes/test_cancelling_products.py"
_RANGES = "passes/test_value_ranges.py"
_SOLVERS = "passes/test_before_solvers.py"
_WEIGHTS = "passes/test_zero_sum_weights.py"

_before_solvers = mutations_of("graph_passes/decide/before_solvers.cc")
_cancelling_products = mutations_of("graph_passes/decide/cancelling_products.cc")
_cancelling_terms = mutations_of("graph_passes/analysis/cancelling_terms.cc")
_graph_view = mutations_of("graph_passes/graph/graph_view.h")
_linear_paths = mutations_of("graph_passes/analysis/linear_paths.cc")
_op_ranges = mutations_of("graph_passes/analysis/op_ranges.cc")
_value_ranges = mutations_of("graph_passes/analysis/value_ranges.cc")
_zero_sum_weights = mutations_of("graph_passes/analysis/zero_sum_weights.cc")

MUTATIONS = (
    _cancelling_terms(
        "signs",
        "return a.sign != b.sign && (",
        "return (",
        "The residual sum of a network counts as a difference.",
        f"{_CANCELLING}::test_other_sums_of_products_are_lowered",
    ),
    _cancelling_terms(
        "measured",
        "return sources_.Has(tensor.node) && !weights_.Has(tensor.node) &&",
        "return",
        "A difference of two maps of a hidden layer counts, as does one weight for two inputs.",
        f"{_CANCELLING}::test_other_sums_of_products_are_lowered",
    ),
    _cancelling_terms(
        "itself",
        "if (a.tensor == b.tensor && !a.is_part && !b.is_part) return false;",
        "",
        "A product less a multiple of itself, as in a moving average, counts.",
        f"{_CANCELLING}::test_other_sums_of_products_are_lowered",
    ),
    _cancelling_terms(
        "part",
        "term.is_part |= moved != term.tensor;",
        "",
        "The difference of two parts of a product does not count.",
        f"{_CANCELLING}::test_two_linear_maps_of_what_was_measured_keep_float32",
    ),
    _cancelling_terms(
        "bytes",
        "return !tensorflow::DataTypeIsFloating(view_.dtype(view_.fanin(tensor.node)[0]));",
        "return false;",
        "What a Cast makes of integers counts as no measurement.",
        f"{_CANCELLING}::test_two_linear_maps_of_what_was_measured_keep_float32",
    ),
    _cancelling_terms(
        "same_square",
        "if (paths_.Base(factor) != x) continue;",
        "",
        "Squares of another tensor than the product's count.",
        f"{_CANCELLING}::test_other_sums_of_products_are_lowered",
    ),
    _graph_view(
        "port",
        "return node == other.node && port == other.port;",
        "return node == other.node;",
        "Two outputs of a Split count as one tensor.",
        f"{_CANCELLING}::test_two_parts_of_a_tensor_are_not_one",
    ),
    _cancelling_terms(
        "same_means",
        "if (!same && !(x == averaged[1] && y == averaged[0])) return false;",
        "",
        "Means of other tensors than the product's count.",
        f"{_CANCELLING}::test_other_sums_of_products_are_lowered",
    ),
    _cancelling_terms(
        "offsets",
        """      nodes->insert(nodes->end(), squared.begin(), squared.end());
      paths_.AddOffsets(factor, nodes);""",
        "      nodes->insert(nodes->end(), squared.begin(), squared.end());",
        "An offset before the squares is added in the low type.",
        f"{_CANCELLING}::test_an_offset_before_the_squares_is_added_in_float32",
    ),
    _cancelling_terms(
        "diagonal",
        "return SquaredBy(nodes->back());",
        "return {-1, 0};",
        "Squares from the diagonal of a Gram matrix do not count.",
        f"{_CANCELLING}::test_squares_are_known_however_they_are_written",
    ),
    _linear_paths(
        "loops",
        "if (fanin.empty() || view_.num_outputs(id) != 1 || ends_path_[id]) return -1;",
        "if (fanin.empty() || ends_path_[id]) return -1;",
        "The state of a loop counts as what it begins with.",
        f"{_CANCELLING}::test_the_state_of_a_loop_is_no_measurement",
    ),
    _linear_paths(
        "divides",
        "if (number == 0 && (divides_.Has(id) || !IsNumber(fanin[0]))) return -1;",
        "if (number == 0 && !IsNumber(fanin[0])) return -1;\n  if (divides_.Has(id)) return -1;",
        "A path ends at a division by a number.",
        f"{_CANCELLING}::test_a_product_less_the_product_of_the_means_keeps_both",
    ),
    _linear_paths(
        "sign",
        "if (IsNegative(fanin[number])) *sign = -*sign;",
        "*sign = -*sign;",
        "Each factor turns the sign.",
        f"{_CANCELLING}::test_two_linear_maps_of_what_was_measured_keep_float32",
    ),
    _zero_sum_weights(
        "rounding",
        "constexpr double kRounding = 1e-6;",
        "constexpr double kRounding = 1e-2;",
        "Weights whose sum is small count as weights that sum to zero.",
        f"{_WEIGHTS}::test_other_filters_are_lowered",
    ),
    _zero_sum_weights(
        "different",
        "return nonzero <= kFewWeights || 2 * different <= nonzero + 1;",
        "return true;",
        "Standardized weights of a trained layer count.",
        f"{_WEIGHTS}::test_other_filters_are_lowered",
    ),
    _zero_sum_weights(
        "few",
        "kFewWeights = 4,",
        "kFewWeights = 2,",
        "An upwind difference of three weights does not count.",
        f"{_WEIGHTS}::test_a_convolution_by_a_derivative_keeps_float32",
    ),
    _zero_sum_weights(
        "banks",
        "kSeenOutputs = 8;",
        "kSeenOutputs = 1;",
        "A derivative beside a blur is rounded.",
        f"{_WEIGHTS}::test_a_convolution_by_a_derivative_keeps_float32",
    ),
    _zero_sum_weights(
        "zeros",
        "SumToZero(all, weights, &is_zero) && !is_zero",
        "SumToZero(all, weights, &is_zero)",
        "Weights of zeros count.",
        f"{_WEIGHTS}::test_other_filters_are_lowered",
    ),
    _zero_sum_weights(
        "axis",
        "const bool outputs_are_last = (k == 0) == IsTransposed(node, k);",
        "const bool outputs_are_last = k != 0;",
        "The outputs of a turned matrix are looked for in the other dimension.",
        f"{_WEIGHTS}::test_so_does_a_product_by_a_matrix_of_differences",
    ),
    _zero_sum_weights(
        "depthwise",
        'if (node.op() == "DepthwiseConv2dNative") outputs *= shape.dim_size(dims - 2);',
        "",
        "The channels of a depthwise filter count as one output.",
        f"{_WEIGHTS}::test_each_channel_of_a_depthwise_convolution_has_an_output_of_its_own",
    ),
    _zero_sum_weights(
        "laplacian",
        "return summed == a;",
        "return false;",
        "A Laplacian that the graph computes does not count.",
        f"{_WEIGHTS}::test_so_does_a_product_by_a_laplacian_that_the_graph_computes",
    ),
    _cancelling_products(
        "fed",
        "if (is_fed || ends_path[found.product]) continue;",
        "",
        "A constant whose value the caller replaces counts.",
        f"{_WEIGHTS}::test_a_constant_that_is_fed_says_nothing",
    ),
    _before_solvers(
        "layer",
        "if (weights_.Has(paths_.Base(factor).node)) return;",
        "",
        "The layers before a solver keep float32.",
        f"{_SOLVERS}::test_so_do_products_of_products_but_not_a_layer",
    ),
    _before_solvers(
        "products",
        "if (!products_.Has(from.node)) continue;",
        "continue;",
        "A product that another product before a solver reads is lowered.",
        f"{_SOLVERS}::test_so_do_products_of_products_but_not_a_layer",
    ),
    _before_solvers(
        "solution",
        "if (Keep(view_.GroupOf(use), solver) && moves) moved.push_back(use.node);",
        "",
        "What multiplies a solution is lowered.",
        f"{_SOLVERS}::test_what_multiplies_a_solution_keeps_float32_but_not_what_multiplies_an_"
        "inverse",
    ),
    _op_ranges(
        "case",
        '{"_SwitchN", Same<0>},',
        "",
        "A probability that a Case chooses may have any value.",
        "passes/test_error_path_ends.py::test_what_a_case_chooses_has_the_range_of_its_input",
    ),
    _op_ranges(
        "product_by_itself",
        "const ValueRange term = Times(Input(in, 0), Input(in, 1));",
        "const ValueRange term = SquareOf(Input(in, 0));",
        "A matrix product of a tensor by itself counts as its squares.",
        f"{_RANGES}::test_a_product_of_a_tensor_by_itself_is_no_square",
    ),
    _value_ranges(
        "products",
        "sums_.Has(id) ? NumTerms(id) : products_.Has(id) ? NumProducts(id) : 1;",
        "sums_.Has(id) ? NumTerms(id) : 1;",
        "A product counts as one term.",
        f"{_RANGES}::test_a_product_of_known_size_has_the_range_of_its_terms",
    ),
)
