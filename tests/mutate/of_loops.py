"""Mutations of what finds linear recurrences, and what decides that a loop has converged."""

from __future__ import annotations

from mutate.mutation import mutations_of

_ENDS = "control_flow/test_loop_ends.py"
_RECURRENCES = "control_flow/test_linear_recurrences.py"
_OTHERWISE = f"{_ENDS}::test_a_layer_of_a_loop_that_ends_otherwise_is_lowered"

_accumulators = mutations_of("graph_passes/analysis/accumulators.cc")
_body_facts = mutations_of("graph_passes/analysis/body_facts.cc")
_gains = mutations_of("graph_passes/analysis/gains.cc")
_loop_ends = mutations_of("graph_passes/analysis/loop_ends.cc")

MUTATIONS = (
    _gains(
        "steady_factor",
        "if (varies_[factor]) return Path::kEnds;",
        "",
        "A product of two factors that vary counts as a step of a recurrence.",
        f"{_RECURRENCES}::test_a_product_whose_factors_both_vary_is_lowered",
    ),
    _gains(
        "activations",
        "if (passes_products_ && activates_.Has(id)) return Path::kEnds;",
        "",
        "A recurrent cell with a Relu keeps float32.",
        f"{_RECURRENCES}::test_a_recurrent_cell_and_what_forgets_are_lowered",
    ),
    _accumulators(
        "both_halves",
        "if (sums_.Has(id) && std::all_of(fanin.begin(), fanin.end(), is_on_cycle)) {",
        "if (false) {",
        "A value of which half stays counts as one that forgets.",
        f"{_RECURRENCES}::test_a_linear_recurrence_keeps_float32",
    ),
    _loop_ends(
        "sums_of_iterations",
        "if (ends_path_[id] || Cycles().of_sums[id]) return;",
        "if (ends_path_[id]) return;",
        "A layer keeps float32 whose results a loop takes away until nothing is left.",
        f"{_ENDS}::test_a_layer_that_computes_what_a_sum_takes_away_is_lowered",
    ),
    _loop_ends(
        "numbers",
        "if (IsNumber(fanin[0]) || IsNumber(fanin[1])) return;",
        "",
        "What a value lacks to a number counts as a sign that it rests.",
        _OTHERWISE,
    ),
    _loop_ends(
        "cycle",
        "for (int node : on_cycle_[cycle]) Keep(node, state.comparison);",
        "",
        "A value is lowered that a loop changes until it rests.",
        f"{_ENDS}::test_a_loop_that_runs_until_a_value_rests_keeps_its_layer",
    ),
    _loop_ends(
        "residual",
        "if (products_.Has(id)) {\n      Keep(id, state.comparison);",
        "if (products_.Has(id)) {",
        "The product of a residual is lowered.",
        f"{_ENDS}::test_a_product_that_only_the_condition_reads_is_kept",
    ),
    _body_facts(
        "conditions",
        "if (IsLoop(view.node(id).op())) FindReadByCondition(view.node(id));",
        "",
        "The body of a While is lowered whose condition asks for a difference.",
        f"{_ENDS}::test_the_body_of_a_while_whose_condition_asks_for_a_difference_is_kept",
    ),
)
