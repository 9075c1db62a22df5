"""Mutations of what compares the dumps of two runs."""

from __future__ import annotations

from mutate.mutation import mutations_of

_TESTS = "dumps/test_compared_dumps.py"
_NAMES = "dumps/test_file_names.py"

_names = mutations_of("npu_precision/dumps/file_names.py")
_folders = mutations_of("npu_precision/dumps/folders.py")
_matching = mutations_of("npu_precision/dumps/matching.py")
_differences = mutations_of("npu_precision/dumps/differences.py")
_reads = mutations_of("npu_precision/dumps/reads.py")
_comparison = mutations_of("npu_precision/dumps/comparison.py")

MUTATIONS = (
    _names(
        "time",
        "time = max(numbers, key=len)",
        "time = numbers[0]",
        "The task's number is taken for the time.",
        _NAMES,
    ),
    _folders(
        "order",
        "key=lambda each: (each.time, each.task)",
        "key=lambda each: each.name",
        "Tensors are in the order of their names.",
        _TESTS,
    ),
    _folders(
        "step",
        "if step is not None and path.name.isdigit() and int(path.name) != step:",
        "if False:",
        "Another step than the one that was asked for is compared.",
        f"{_TESTS}::test_of_several_models_and_steps_those_that_both_have_are_taken",
    ),
    _matching(
        "once",
        "rest.remove(fused)",
        "pass",
        "One op is the counterpart of two.",
        f"{_TESTS}::test_an_op_is_the_counterpart_of_one_op",
    ),
    _matching(
        "unique",
        "return best[0] if len(best) == 1 else None",
        "return best[0] if best else None",
        "Of two ops that may be the same one, either is taken.",
        f"{_TESTS}::test_a_name_that_two_fit_is_not_matched",
    ),
    _matching(
        "cast",
        'is_cast = tensor.name in renamed and tensor.op == "Cast"',
        "is_cast = False",
        "A Cast is taken for the op whose name it took over.",
        f"{_TESTS}::test_a_cast_that_took_over_a_name_is_not_taken_for_the_op",
    ),
    _differences(
        "new",
        "new = ~np.isfinite(a) & np.isfinite(b)",
        "new = ~np.isfinite(a)",
        "What is infinite in both runs counts as wrong.",
        f"{_TESTS}::test_what_is_not_finite_in_the_first_alone_is_an_infinite_error",
    ),
    _differences(
        "bfloat16",
        "and (bits & 0x10000).any()",
        "",
        "A mask counts as bfloat16.",
        f"{_TESTS}::test_a_bfloat16_in_a_float32_is_seen",
    ),
    _reads(
        "infinite",
        "worst = max(worst, error)",
        "worst = error",
        "Without a graph, only the tensor before counts as read.",
        f"{_TESTS}::test_without_a_graph_all_that_ran_before_counts_as_read",
    ),
    _comparison(
        "least",
        "least = min(unit, threshold) or unit",
        "least = unit",
        "A threshold below a rounding finds errors that no mixlist keeps.",
        f"{_TESTS}::test_a_threshold_below_a_rounding_keeps_what_only_rounds",
    ),
    _comparison(
        "given",
        "0.0 if math.isinf(read) else difference.error / max(read, least)",
        "difference.error",
        "The largest error is blamed, not where error enters.",
        f"{_TESTS}::test_an_infinity_is_blamed_on_the_op_that_read_finite_values",
    ),
    _comparison(
        "pattern",
        'replace("_", "[_/. ]")',
        'replace("_", "_")',
        "An entry without a graph does not match the op's name.",
        f"{_TESTS}::test_the_op_at_which_error_enters_is_first_and_what_reads_it_is_not",
    ),
)
