"""Mutations of what finds products that cancel, and products before a linear solver."""

from __future__ import annotations

from mutate.mutation import mutations_of

_RANGES = "passes/test_value_ranges.py"

_op_ranges = mutations_of("graph_passes/analysis/op_ranges.cc")
_value_ranges = mutations_of("graph_passes/analysis/value_ranges.cc")

MUTATIONS = (
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
