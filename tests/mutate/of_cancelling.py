"""Mutations of what finds products that cancel, and products before a linear solver."""

from __future__ import annotations

from mutate.mutation import mutations_of

_CANCELLING = "passes/test_cancelling_products.py"
_RANGES = "passes/test_value_ranges.py"

_cancelling_terms = mutations_of("graph_passes/analysis/cancelling_terms.cc")
_linear_paths = mutations_of("graph_passes/analysis/linear_paths.cc")
_op_ranges = mutations_of("graph_passes/analysis/op_ranges.cc")
_value_ranges = mutations_of("graph_passes/analysis/value_ranges.cc")

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
        "bytes",
        "return !tensorflow::DataTypeIsFloating(view_.dtype(view_.fanin(tensor.node)[0]));",
        "return false;",
        "What a Cast makes of integers counts as no measurement.",
        f"{_CANCELLING}::test_two_linear_maps_of_what_was_measured_keep_float32",
    ),
    _cancelling_terms(
        "same_square",
        "if (!AreOne(paths_.Base(factor), x)) continue;",
        "",
        "Squares of another tensor than the product's count.",
        f"{_CANCELLING}::test_other_sums_of_products_are_lowered",
    ),
    _cancelling_terms(
        "port",
        "return a.node == b.node && a.port == b.port;",
        "return a.node == b.node;",
        "Two outputs of a Split count as one tensor.",
        f"{_CANCELLING}::test_two_parts_of_a_tensor_are_not_one",
    ),
    _cancelling_terms(
        "same_means",
        "if (!same && !(AreOne(x, averaged[1]) && AreOne(y, averaged[0]))) return false;",
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
    _op_ranges(
        "product_by_itself",
        "const ValueRange term = Times(Input(in, 0), Input(in, 1));",
        "const ValueRange term = Multiply(in);",
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
