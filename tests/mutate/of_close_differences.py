"""Mutations of what finds differences of values that may be almost equal."""

from __future__ import annotations

from mutate.mutation import mutations_of

_TESTS = "passes/test_close_differences.py"
_GIVEN = f"{_TESTS}::test_a_difference_with_a_measurement_is_computed_in_float32"
_SUMS = f"{_TESTS}::test_a_sum_with_what_is_given_is_kept_where_only_its_differences_count"
_PRODUCTS = f"{_TESTS}::test_a_product_of_few_terms_or_one_column_is_kept"

_before = mutations_of("graph_passes/decide/before_magnifiers.cc")
_differences = mutations_of("graph_passes/analysis/close_differences.cc")

MUTATIONS = (
    _differences(
        "variables",
        "!constants_.Has(from) && !reads_variable_.Has(from) &&",
        "!constants_.Has(from) &&",
        "A difference with a weight keeps float32.",
        _GIVEN,
    ),
    _differences(
        "numbers",
        "range.IsPoint() && range.Magnitude() >= kLargeOffset;",
        "range.IsPoint();",
        "One minus a gate keeps float32.",
        _GIVEN,
    ),
    _differences(
        "labels",
        "if (casts_.Has(from)) from = Picked(view_.fanin(from)[0]).node;",
        "",
        "A difference with whole numbers as labels is computed in the low type.",
        f"{_TESTS}::test_labels_may_be_whole_numbers",
    ),
    _differences(
        "steps",
        "if (products_.Has(use.node)) return true;",
        "",
        "A step of given weights keeps the gradient in float32.",
        "passes/test_value_updates.py::test_a_step_of_a_factor_is_taken_in_float32",
    ),
    _differences(
        "norms",
        "IsSumWithGiven(root) && !is_norm",
        "IsSumWithGiven(root)",
        "A norm of a residual sum keeps that in float32.",
        _SUMS,
    ),
    _differences(
        "sums",
        "if (is_first || is_second) return is_first != is_second;",
        "if (is_first || is_second) return false;",
        "What is added to a given value is lost beside it.",
        _SUMS,
    ),
    _differences(
        "determinants",
        "if (depth > 0) return tensor;",
        "if (depth >= 0) return tensor;",
        "An area by corners is computed in the low type.",
        _PRODUCTS,
    ),
    _differences(
        "layers",
        "if (!is_linear_.Has(from)) return false;",
        "if (!is_linear_.Has(from)) continue;",
        "The last layer of a small network is kept.",
        f"{_TESTS}::test_but_not_one_that_reads_a_hidden_layer",
    ),
    _differences(
        "attention",
        ' || op == "Softmax";',
        ";",
        "A mean day is computed in the low type.",
        f"{_TESTS}::test_weights_of_a_mean_are_no_hidden_layer",
    ),
    _before(
        "columns",
        "if (HasOneColumn(product)) return false;",
        "",
        "A product of one column is computed in the low type.",
        _PRODUCTS,
    ),
    _before(
        "large_products",
        "if (close.product >= 0 && IsLargeProduct({close.product, 0})) return;",
        "",
        "A difference of rows that a layer yields keeps float32.",
        "passes/test_cancelling_sums.py::"
        "test_a_difference_of_two_products_of_different_values_follows_its_predecessors",
    ),
    _before(
        "difference",
        "if (is_computed) KeepNode(close.difference, close.difference);",
        "",
        "What is subtracted from a measurement rounds it.",
        f"{_TESTS}::test_but_not_one_that_reads_a_hidden_layer",
    ),
)
