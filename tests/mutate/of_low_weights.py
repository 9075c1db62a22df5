"""Mutations of what keeps weights in the low type."""

from __future__ import annotations

from mutate.mutation import mutations_of

_WEIGHTS = "passes/test_low_weights.py"
_FILTERS = "passes/test_kept_filters.py"
_OP = "session/test_kept_cast_op.py"

_kept = mutations_of("cc/kept_casts.cc")
_op = mutations_of("cc/kept_cast_op.cc")
_weights = mutations_of("graph_passes/fuse/low_weights.cc")
_update = mutations_of("cc/update_op.cc")
_fold = mutations_of("graph_passes/fuse/fold_scales.cc")
_buffers = mutations_of("graph_passes/analysis/variable_buffers.cc")

MUTATIONS = (
    _kept(
        "buffer",
        "a.SharesBufferWith(b) &&\n         AddressOf(a) == AddressOf(b)",
        "true",
        "A weight that was assigned is not cast anew.",
        f"{_WEIGHTS}::test_no_change_is_missed",
    ),
    _kept(
        "scale",
        "|| !HasBitsOf(scale, scale_)",
        "",
        "A filter keeps an old scale.",
        f"{_FILTERS}::test_a_folded_filter_follows_all_that_it_comes_of",
    ),
    _kept(
        "reader",
        "if (IsOnlyReader(low_) && !low",
        "if (!low",
        "A copy that was handed out changes.",
        f"{_WEIGHTS}::test_what_was_handed_out_does_not_change",
    ),
    _kept(
        "shape",
        "return low == nullptr || low->CopyFrom(low_, value.shape());",
        "if (low != nullptr) *low = low_;\n  return true;",
        "A copy has the shape of another reader.",
        f"{_WEIGHTS}::test_functions_share_a_copy",
    ),
    _op(
        "in_vain",
        "++in_vain_;",
        "",
        "A variable that is written all the time is copied for each write.",
        f"{_WEIGHTS}::test_a_variable_that_something_else_writes_all_the_time_is_not_kept",
    ),
    _op(
        "scale",
        "tensorflow::tensor::DeepCopy(scale)",
        "scale",
        "A scale that is written in place is compared with itself.",
        f"{_FILTERS}::test_a_scale_may_be_written_in_place",
    ),
    _kept(
        "unused",
        "if (value_.NumElements() == 0 || !IsOnlyReader(value_)) return;",
        "return;",
        "What no variable has any more is held.",
        f"{_WEIGHTS}::test_a_copy_of_what_no_variable_has_any_more_is_let_go",
    ),
    _weights(
        "in_place",
        "if (has_reads && OpSet(view, WritesItsInput).IsEmpty())",
        "if (has_reads)",
        "A copy is kept of what an op writes in place.",
        f"{_WEIGHTS}::test_what_is_written_in_place_by_an_op_is_not_kept",
    ),
    _op(
        "shared",
        "ShareCast(kept_);",
        "",
        "Each function has a copy of its own.",
        f"{_WEIGHTS}::test_functions_share_a_copy",
    ),
    _op(
        "phase",
        "const int64_t phase = at % period;",
        "const int64_t phase = (at - begin) % period;",
        "A thread begins with the wrong element of the scale.",
        f"{_OP}::test_a_scale_multiplies_the_last_dimensions_in_float32",
    ),
    _op(
        "dimensions",
        "if (scale.dim_size(dim) != x.dim_size(skipped + dim)) return false;",
        "",
        "A scale that does not fit is taken.",
        f"{_OP}::test_a_scale_that_does_not_fit_is_an_error",
    ),
    _update(
        "renew",
        "copy.kept->Renew(value, copy.low);",
        "",
        "The step after an update casts its weights again.",
        f"{_WEIGHTS}::test_an_update_of_ours_writes_the_copy",
    ),
    _fold(
        "kept",
        "KeepsScaled(chain.root.node) || IsOfConstants",
        "IsOfConstants",
        "A filter with many weights is not folded.",
        f"{_FILTERS}::test_a_filter_of_more_weights_than_the_result_has_elements_is_folded_too",
    ),
    _buffers(
        "reshape",
        '|| op == "Reshape"',
        "",
        "The weights of attention are cast in each call.",
        f"{_WEIGHTS}::test_what_is_replaced_is_in_the_ledger",
    ),
)
