"""Mutations of sums in float32 of low tensors, of lists of their own, and of sizes."""

from __future__ import annotations

from mutate.mutation import mutations_of

_SUMS = "passes/test_low_sums.py"
_LISTS = "passes/test_separate_lists.py"
_SIZES = "passes/test_tensor_sizes.py"
_OP = "session/test_sum_op.py"
_SEGMENTS = "session/test_segment_sum_op.py"

_sums = mutations_of("graph_passes/fuse/low_sums.cc")
_lists = mutations_of("graph_passes/fuse/separate_lists.cc")
_sizes = mutations_of("graph_passes/analysis/tensor_sizes.cc")
_op = mutations_of("cc/sum_op.cc")
_segments = mutations_of("cc/segment_sum_op.cc")
_blocks = mutations_of("cc/sum_blocks.cc")

MUTATIONS = (
    _sums(
        "format",
        'if (node.op() == "BiasAddGrad") return HasChannelsLast(node) ? 1 : -1;',
        'if (node.op() == "BiasAddGrad") return 1;',
        "The gradient of a bias of channels that come first is that of the last dimension.",
        f"{_SUMS}::test_others_stay",
    ),
    _sums(
        "broadcast",
        "if (a.dim_size(a.dims() - dim) != b.dim_size(b.dims() - dim)) return false;",
        "",
        "A term is copied to the shape of the sum, which is slow.",
        f"{_SUMS}::test_others_stay",
    ),
    _sums(
        "first",
        "if (!(is_first || in_low_sum)) return false;",
        "",
        "Float32 terms are added in another order, and small ones vanish in a large one.",
        f"{_SUMS}::test_a_sum_that_is_not_the_first_term_stays_one",
        f"{_SUMS}::test_small_terms_of_a_low_sum_do_not_vanish_in_a_large_one",
    ),
    _sums(
        "scope",
        "!HasKeepDtypeMark(node) &&",
        "",
        "A sum that the user keeps in the low type is one of float32.",
        f"{_SUMS}::test_a_sum_in_a_keep_dtype_scope_keeps_the_low_type",
    ),
    _sums(
        "segments taken",
        "return AddsSegments(op) ? MayWrite(reader) :",
        "return AddsSegments(op) ? false :",
        "A sum of the low type is added up in float32, and its rows are no more read low.",
        f"{_SUMS}::test_rows_of_a_low_sum_are_added_up_by_segment",
    ),
    _segments(
        "row",
        "if (id >= 0) sorted.rows[next[id]++] = row;",
        "if (id >= 0) sorted.rows[next[id]++] = row > 0 ? row - 1 : 0;",
        "A segment is the sum of the rows before its own.",
        f"{_SEGMENTS}::test_rows_with_a_negative_number_are_left_out",
    ),
    _segments(
        "range",
        "if (id < segments) continue;",
        "if (id <= segments) continue;",
        "A number that is out of range writes beyond the result.",
        f"{_SEGMENTS}::test_what_does_not_fit_is_an_error",
    ),
    _segments(
        "zeros",
        "std::fill(to + begin * columns, to + end * columns, 0.0f);",
        "",
        "Sums begin with what was in memory.",
        f"{_SEGMENTS}::test_sums_are_those_of_float32_to_the_bit",
    ),
    _sums(
        "levels",
        "if (MakesSum(given.node) && HasTaker(given.node)) roots_.push_back(given.node);",
        "",
        "The rest of a sum of many parts keeps its Casts.",
        f"{_SUMS}::test_more_sums_than_are_added_at_once_are_added_in_parts",
    ),
    _sums(
        "twice",
        "if (summed.size() != axes.size()) return -1;",
        "",
        "What TensorFlow refuses has a result.",
        f"{_SUMS}::test_what_is_an_error_stays_one",
    ),
    _sums(
        "compared",
        "set_b(!sum.compares_shapes)",
        "set_b(true)",
        "What TensorFlow refuses has a result.",
        f"{_SUMS}::test_what_is_an_error_stays_one",
    ),
    _sums(
        "axes",
        "if (axis != next++) return -1;",
        "",
        "A sum of columns is one of rows.",
        f"{_SUMS}::test_others_stay",
    ),
    _lists(
        "dtype",
        "!HasElementsOfFloat32(view.node(id)) ||",
        "",
        "Lists of whole numbers are copied for nothing.",
        f"{_LISTS}::test_others_stay",
    ),
    _sizes(
        "parts",
        "if (DividesTensor(op)) return OfPart(id);",
        "",
        "A part of a popped tensor has no size.",
        f"{_SIZES}::test_a_size_is_found",
    ),
    _sizes(
        "popped",
        "if (largest.node < 0) return shape;",
        "return shape;",
        "A product with weights that were popped has no size.",
        f"{_SIZES}::test_a_size_is_found",
    ),
    _op(
        "shape",
        "status = broadcasts",
        "status = false",
        "A shape that may broadcast is taken for that of the terms.",
        f"{_OP}::test_a_shape_is_known_only_as_far_as_it_is_certain",
        f"{_OP}::test_two_unknown_sizes_are_not_taken_for_one",
    ),
    _op(
        "repeats",
        "if (term.dim_size(dim) != sum.dim_size(skipped + dim)) return false;",
        "",
        "A matrix of one column repeats itself as a vector does.",
        f"{_OP}::test_shapes_broadcast",
    ),
    _op(
        "rest",
        "AddRows(rest, rows / joined * joined, rows, 0, columns, to);",
        "",
        "The last of narrow rows are left out.",
        f"{_OP}::test_rows_are_added_up",
    ),
    _blocks(
        "in_place",
        "Take(terms[k], at, size, k == 0, block);\n    std::copy_n(block, size, to + at);",
        "Take(terms[k], at, size, k == 0, to + at);",
        "A term that is overwritten is added after it was.",
        f"{_OP}::test_a_term_may_be_overwritten",
    ),
    _blocks(
        "phase",
        "const int64_t phase = at % term.period;",
        "const int64_t phase = 0;",
        "Each block begins with the first element of a term.",
        f"{_OP}::test_terms_of_all_dtypes_are_added_in_their_order",
    ),
)
