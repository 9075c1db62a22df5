"""Mutations of what finds whole numbers from products, and of the order of magnifiers."""

from __future__ import annotations

from mutate.mutation import mutations_of

_TESTS = "passes/test_whole_numbers.py"

_before = mutations_of("graph_passes/decide/before_magnifiers.cc")
_magnified_inputs = mutations_of("graph_passes/decide/magnified_inputs.cc")
_whole_products = mutations_of("graph_passes/analysis/whole_products.cc")

MUTATIONS = (
    _before(
        "order",
        "for (int terms : inputs_.terms()) {",
        "for (int terms : std::set<int>(inputs_.terms().begin(), inputs_.terms().end())) {",
        "A Log hides from a Floor with a later name what leads to both.",
        f"{_TESTS}::test_the_order_of_the_magnifiers_by_name_does_not_matter",
    ),
    _magnified_inputs(
        "terms",
        "for (const MagnifiedInput& input : inputs) terms_.insert(input.terms);",
        "",
        "Before an angle nothing is kept.",
        f"{_TESTS}::test_the_order_of_the_magnifiers_by_name_does_not_matter",
    ),
    _before(
        "whole",
        "input.whole && input.index",
        "input.index",
        "Before a Floor each product keeps float32.",
        f"{_TESTS}::test_a_product_that_is_read_as_whole_numbers_keeps_float32",
    ),
    _before(
        "not_whole",
        "if (!may_be_whole || !Magnifies(magnifier, input)) continue;",
        "if (!may_be_whole) continue;",
        "A Cast to float64 keeps the product before it.",
        f"{_TESTS}::test_a_product_that_is_read_as_whole_numbers_keeps_float32",
    ),
    _before(
        "selected",
        "return Selected(id, 0) != Selected(id, 1) && ",
        "return ",
        "The gradient of a Max keeps what the Max reads.",
        f"{_TESTS}::test_a_comparison_that_the_low_type_gets_right_keeps_nothing",
    ),
    _before(
        "zeros",
        " && !IsZero(id, 0) && !IsZero(id, 1);",
        ";",
        "A mask of what is not zero keeps what leads to it.",
        f"{_TESTS}::test_a_comparison_that_the_low_type_gets_right_keeps_nothing",
    ),
    _whole_products(
        "multiples",
        "range.low != 0 && range.low == std::floor(range.low)",
        "range.low != 0",
        "A scaled product counts as whole.",
        f"{_TESTS}::test_a_product_that_is_read_as_whole_numbers_keeps_float32",
    ),
    _whole_products(
        "factors",
        "if (!is_product || IsProduct(from)) Push(from);",
        "Push(from);",
        "What leads to a factor of a count is kept.",
        f"{_TESTS}::test_what_else_it_multiplies_follows_its_producers",
    ),
    _whole_products(
        "products",
        "if (!is_product || IsProduct(from)) Push(from);",
        "if (!is_product) Push(from);",
        "A product of products counts in the low type.",
        f"{_TESTS}::test_so_do_the_products_that_it_multiplies",
    ),
)
