"""Mutations of what finds values that only move beside those of products."""

from __future__ import annotations

from mutate.mutation import mutations_of

_TESTS = "passes/test_carried_values.py"
_RESULTS = f"{_TESTS}::test_what_only_moves_to_a_result_is_not_rounded"
_ELSEWHERE = f"{_TESTS}::test_elsewhere_a_join_follows_its_predecessors"

_carried = mutations_of("graph_passes/decide/carried_values.cc")

MUTATIONS = (
    _carried(
        "numbers",
        "if (is_given || IsWholeNumber(id)) known.push_back(id);",
        "if (is_given) known.push_back(id);",
        "Class ids beside boxes are rounded.",
        _RESULTS,
    ),
    _carried(
        "masks",
        " && from != tensorflow::DT_BOOL;",
        ";",
        "A mask keeps what is beside it in float32.",
        _ELSEWHERE,
    ),
    _carried(
        "weights",
        "!weights.Has(id) && !is_loops[id]",
        "!is_loops[id]",
        "Weights keep what is beside them in float32.",
        _ELSEWHERE,
    ),
    _carried(
        "leaves",
        "const bool carries = leaves_[use.node] && ",
        "const bool carries = carries_.Has(use.node) && ",
        "What a product reads next keeps float32.",
        _ELSEWHERE,
    ),
    _carried(
        "ends",
        "if (leaves[id] || !Passes(id) || ends_path_[id]) return;",
        "if (leaves[id] || !Passes(id)) return;",
        "A path goes on behind what the user lowers.",
        f"{_TESTS}::test_a_path_ends_where_the_user_lowers",
    ),
    _carried(
        "scales",
        "if (scales_.Has(use.node) && !from_products_[open[i]]) return;",
        "",
        "The sum of a product and a time is computed in float32.",
        _ELSEWHERE,
    ),
    _carried(
        "squares",
        "return std::count_if(fanin.begin(), fanin.end(), made) < 2;",
        "return true;",
        "The square of what a product made is computed in float32.",
        _ELSEWHERE,
    ),
    _carried(
        "loops",
        "is_loops[argument] = true;",
        "is_loops[argument] = false;",
        "A loop's variable counts as a value that the caller gave.",
        f"{_TESTS}::test_a_variable_of_a_loop_is_no_such_value",
    ),
)
