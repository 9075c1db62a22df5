"""Mutations of the rules that keep float32, and of the analyses that they use."""

from __future__ import annotations

from mutate.mutation import mutations_of

_CANCELLING_SUMS = "passes/test_cancelling_sums.py"
_ENDS = "passes/test_error_path_ends.py"
_BEFORE = "passes/test_before_magnifiers.py"
_RANGES = "passes/test_range_rules.py"
_LOOPS = "control_flow/test_loop_sums.py"
_VALUES = "passes/test_value_ranges.py"
_FORWARD = "passes/test_follows_forward.py"
_FUNCTIONS = "control_flow/test_function_sums.py"
_FORCED = "passes/test_force_warnings.py"
_ASCEND = "lists/test_ascend910.py"

_accumulators = mutations_of("graph_passes/analysis/accumulators.cc")
_gains = mutations_of("graph_passes/analysis/gains.cc")
_error_paths = mutations_of("graph_passes/analysis/error_paths.cc")
_body_facts = mutations_of("graph_passes/analysis/body_facts.cc")
_few_values = mutations_of("graph_passes/analysis/few_values.cc")
_forward_names = mutations_of("graph_passes/analysis/forward_names.cc")
_value_ranges = mutations_of("graph_passes/analysis/value_ranges.cc")
_squares = mutations_of("graph_passes/analysis/differences_of_squares.cc")
_range_rules = mutations_of("graph_passes/decide/range_rules.cc")
_before = mutations_of("graph_passes/decide/before_magnifiers.cc")
_magnified_inputs = mutations_of("graph_passes/decide/magnified_inputs.cc")
_keep_rules = mutations_of("graph_passes/decide/keep_rules.cc")
_rule_table = mutations_of("graph_passes/decide/rule_table.cc")

MUTATIONS = (
    _gains(
        "divisors",
        "divides ? DividedBy(ValueRange::Of(1), range) : range",
        "range",
        "What is divided by two each time counts as if it were doubled.",
        f"{_LOOPS}::test_what_forgets_follows_its_predecessors",
    ),
    _gains(
        "additions",
        '{"AddV2", {Path::kAdds, 0, 1}},',
        "",
        "What an addition yields is not followed.",
        f"{_LOOPS}::test_whatever_the_addition_looks_like",
    ),
    _gains(
        "memory",
        "constexpr double kForgets = 0.9;",
        "constexpr double kForgets = 0.4;",
        "A factor of one half counts as one that remembers.",
        f"{_LOOPS}::test_what_forgets_follows_its_predecessors",
    ),
    _gains(
        "layers",
        "return varies_[factor.node] && ComesFromModel(factor.node) ?",
        "return false ?",
        "A factor from a matrix product counts as one that remembers.",
        f"{_LOOPS}::test_what_forgets_follows_its_predecessors",
    ),
    _accumulators(
        "growth",
        "if (is_on_cycle && gains_.MayGrow(use)) grows[component[id]] = true;",
        "",
        "A running mean counts as one that forgets, since it is divided each time.",
        f"{_LOOPS}::test_whatever_the_addition_looks_like",
    ),
    _error_paths(
        "counts",
        "HasElementDtype(op) || ReadsShapesOnly(op);",
        "HasElementDtype(op);",
        "A number of elements is off where the elements are.",
        f"{_ENDS}::test_ones_as_many_as_the_elements_have_no_error_of_the_elements",
    ),
    _error_paths(
        "bias_gradients",
        '"BiasAddGrad"',
        '"Sum"',
        "Loss scaling keeps the forward pass in float32.",
        f"{_ENDS}::test_the_gradient_of_a_bias_is_a_sum_that_ends_the_path",
    ),
    _error_paths(
        "integers",
        "!HasErrors(view_.dtype(tensor)) ||",
        "",
        "A share of zeros keeps the layer that it looks at in float32.",
        f"{_ENDS}::test_before_an_integer_nothing_is_kept_for_a_magnifier_behind_it",
        f"{_ENDS}::test_before_a_branch_that_counts_nothing_is_kept",
    ),
    _error_paths(
        "enters",
        "(ends_.Has(id) && !EntersUnchanged(id))",
        "ends_.Has(id)",
        "What is rounded before a loop is lowered, whatever the loop does with it.",
        f"{_ENDS}::test_what_a_loop_magnifies_is_kept_before_it",
    ),
    _before(
        "branches",
        "if (!ReadErrorPaths(view_.node(from.node), &paths)) {",
        "if (true) {",
        "All that is handed to a branch is kept, whatever the branch returns.",
        f"{_ENDS}::test_before_a_branch_only_what_it_computes_its_result_from_is_kept",
    ),
    _before(
        "results_of_branches",
        "if (is_input && path.second == from.port) {",
        "if (is_input && path.second != from.port) {",
        "Nothing before a branch is kept, whatever the branch returns.",
        f"{_ENDS}::test_before_a_branch_only_what_it_computes_its_result_from_is_kept",
    ),
    _error_paths(
        "wide_floats",
        "tensorflow::DataTypeIsFloating(dtype) ||",
        "dtype == tensorflow::DT_FLOAT ||",
        "A Cast to float64 ends the path.",
        f"{_ENDS}::test_before_an_integer_nothing_is_kept_for_a_magnifier_behind_it",
    ),
    _body_facts(
        "branch_products",
        "if (EndsErrorPath(op) || IsMatrixOrConvolution(op) ||",
        "if (EndsErrorPath(op) ||",
        "A product in a branch does not end the path.",
        f"{_ENDS}::test_before_a_branch_only_what_it_computes_its_result_from_is_kept",
    ),
    _body_facts(
        "branch_sums",
        "if (AveragesErrors(op) && !SumsComplements(view, id)) continue;",
        "if (AveragesErrors(op)) continue;",
        "What a sum of 1 - p in a branch lost before a logarithm stays lost.",
        f"{_ENDS}::test_before_a_branch_only_what_it_computes_its_result_from_is_kept",
    ),
    _body_facts(
        "inner_branches",
        "if (!chooses || reaches) push(view.fanin(id)[k]);",
        "if (!chooses || reaches || k >= 0) push(view.fanin(id)[k]);",
        "A branch in a branch is not looked into.",
        f"{_ENDS}::test_a_branch_in_a_branch_is_looked_into_as_well",
    ),
    _body_facts(
        "loop_branches",
        "if (IsLoop(op) || iterated[id]) {",
        "if (IsLoop(op)) {",
        "A sum in a branch in a TensorFlow 1 loop is lowered.",
        f"{_FUNCTIONS}::test_a_branch_in_a_loop_of_tensorflow_1_sums_over_its_iterations",
    ),
    _body_facts(
        "paths_to_results",
        "} else if (IsChoice(op) && !returned[id]) {",
        "} else if (false) {",
        "A residual sum in a branch between two layers of a function is kept.",
        f"{_FUNCTIONS}::"
        "test_a_branch_in_a_called_function_sums_from_call_to_call_between_argument_and_result",
        f"{_FUNCTIONS}::test_an_if_in_a_body_that_is_off_the_path_of_the_variable_sums_nothing",
    ),
    _body_facts(
        "several_callers",
        "if (role <= added.first->second) return;",
        "return;",
        "Of several callers only the first counts.",
        f"{_FUNCTIONS}::test_a_branch_that_another_node_calls_too_is_judged_as_a_called_function",
    ),
    _accumulators(
        "branches",
        " && role != BodyRole::kBranch) FindInFunction",
        ") FindInFunction",
        "A residual sum in a branch counts as one over a loop.",
        f"{_FUNCTIONS}::test_a_residual_sum_in_a_branch_outside_of_loops_is_lowered",
    ),
    _accumulators(
        "iterated",
        "in_loop[id] || IsIterated(role)",
        "in_loop[id]",
        "The sum in the body of a While is told to be one over calls.",
        f"{_FUNCTIONS}::test_the_body_of_a_while_adds_in_float32",
    ),
    _before(
        "probabilities",
        "return range.Magnitude() <= 1;",
        "return true;",
        "The logits of a choice keep float32.",
        f"{_BEFORE}::test_what_orders_probabilities_magnifies",
    ),
    _before(
        "norm_gradients",
        " ||\n           (accumulates_channels_.Has(from.node) && from.port > 0)",
        "",
        "Loss scaling keeps all between convolutions and batch norms in float32.",
        f"{_ENDS}::test_the_gradients_of_a_batch_norms_parameters_end_the_path",
    ),
    _before(
        "scales",
        "&& DividesByScale(magnifier)) continue;",
        "&& false) continue;",
        "Unscaling keeps what leads to the gradient of an embedding in float32.",
        f"{_ENDS}::test_what_one_given_number_divides_is_off_by_no_larger_share",
    ),
    _before(
        "vectors_of_scales",
        "context_.elements(node.name(), tensor.port) == 1;",
        "context_.elements(node.name(), tensor.port) != 0;",
        "What moving deviations divide, of which one may be tiny, is computed in the low type.",
        f"{_ENDS}::test_what_one_given_number_divides_is_off_by_no_larger_share",
    ),
    _magnified_inputs(
        "chains",
        "if (!chains_.Has(id)) return OfOp(node.op());",
        "return OfOp(node.op());",
        "Log and Neg as one op are no magnifier.",
        f"{_BEFORE}::test_a_chain_of_unary_ops_magnifies_what_one_of_them_does",
    ),
    _before(
        "complements",
        "(accumulates_.Has(from.node) && !AccumulatesComplements(from.node)) ||",
        "accumulates_.Has(from.node) ||",
        "What a sum of 1 - p lost before a logarithm stays lost.",
        f"{_ENDS}::test_a_sum_brings_back_no_digits_that_a_complement_lost",
    ),
    _before(
        "sums",
        "(accumulates_.Has(from.node) && !AccumulatesComplements(from.node)) ||",
        "",
        "All that is summed before a logarithm is computed in float32.",
        f"{_ENDS}::test_a_sum_brings_back_no_digits_that_a_complement_lost",
    ),
    _gains(
        "decays",
        "return varies_[factor.node] && ComesFromModel(factor.node) ?",
        "return ComesFromModel(factor.node) ?",
        "A decay that a layer computed outside of the loop counts as one that forgets.",
        f"{_LOOPS}::test_whatever_the_addition_looks_like",
    ),
    _value_ranges(
        "bounds",
        "now.low = NextBelow(now.low);",
        "now.low = -ValueRange::kInfinity;",
        "Nothing is known of a value that decays in a loop.",
        f"{_VALUES}::test_a_loop_variable_has_the_range_of_all_its_iterations",
    ),
    _value_ranges(
        "terms",
        "return static_cast<double>(before) / after;",
        "return static_cast<double>(before);",
        "A Sum over rows counts as one over the whole tensor.",
        f"{_VALUES}::test_the_ends_of_a_range_are_values_that_a_run_comes_to",
    ),
    _value_ranges(
        "fed",
        "if (fed_.count(view_.node(id).name()) != 0) return ValueRange();",
        "",
        "A constant that is fed counts as what it was.",
        f"{_VALUES}::test_nothing_is_known_of_what_is_fed_or_of_an_op_that_the_analysis_does_not_know",
    ),
    _few_values(
        "few",
        "if (different.size() == kFew) return {};",
        "",
        "A weight is taken for a mask.",
        f"{_RANGES}::test_a_large_mask_of_two_values_is_found_and_weights_are_not_looked_at",
    ),
    _range_rules(
        "one",
        "rounded == 0 || std::fabs(rounded) == 1 ||",
        "rounded == 0 ||",
        "A constant next to 1 may become 1.",
        f"{_RANGES}::test_a_constant_that_would_become_another_one_keeps_the_op_that_reads_it",
    ),
    _range_rules(
        "subnormal",
        "if (rounded == value) return std::fabs(value) < SmallestNormalOf(low_type);",
        "if (rounded == value) return false;",
        "A subnormal power of two may be lowered.",
        f"{_RANGES}::test_a_constant_that_would_become_another_one_keeps_the_op_that_reads_it",
    ),
    _range_rules(
        "moved",
        "          moved.push_back(use.node);",
        "",
        "A guard is not found behind an op that moves it.",
        f"{_RANGES}::test_a_constant_is_found_behind_ops_that_move_it",
    ),
    _range_rules(
        "infinity",
        "return std::isfinite(end) && ",
        "return ",
        "A tensor of which nothing is known counts as too large.",
        f"{_RANGES}::test_a_value_that_is_known_to_be_too_large_is_not_lowered",
    ),
    _before(
        "products",
        "if (few_terms_ == 0 || !context_.shapes) return true;",
        "if (few_terms_ == 0 || !context_.shapes) return false;",
        "What is before the last matrix product is kept as well.",
        f"{_BEFORE}::test_a_probability_is_computed_in_float32_before_its_logarithm",
    ),
    _before(
        "away_from_zero",
        "return range.low < SmallestNormalOf(context_.NewDtype());",
        "return true;",
        "A root of what is never near zero counts as a magnifier.",
        f"{_BEFORE}::test_an_op_magnifies_only_where_its_input_may_be_where_it_does",
    ),
    _before(
        "turns",
        "return range.Magnitude() > kPi;",
        "return true;",
        "A sine of a small angle counts as a magnifier.",
        f"{_BEFORE}::test_an_op_magnifies_only_where_its_input_may_be_where_it_does",
    ),
    _squares(
        "means",
        "all_are_means &= averages_.Has(mean.node);",
        "",
        "Any difference of products counts as a variance.",
        f"{_CANCELLING_SUMS}::test_a_blurred_square_minus_a_square_that_is_not_blurred_is_no_variance",
    ),
    _rule_table(
        "accumulating",
        "Keep(Accumulating(state->view, state->accumulators), state);",
        "",
        "A sum over the iterations of a loop is lowered.",
        f"{_LOOPS}::test_a_sum_over_the_iterations_keeps_float32",
    ),
    _keep_rules(
        "rounded",
        "(node.custom != nullptr && Rounds(*node.custom))",
        "(node.custom != nullptr && !Rounds(*node.custom))",
        "What is before an input that customize_dtypes rounds is kept for its digits.",
        "passes/test_custom_dtypes.py::"
        "test_before_an_input_that_a_line_rounds_nothing_is_kept_for_its_digits",
    ),
    _keep_rules(
        "mixlist",
        "if (IsEdited(state->classes, id) || !HasFloat32",
        "if (!HasFloat32",
        "A rule beats the mixlist.",
        f"{_RANGES}::test_a_mixlist_entry_beats_it",
        f"{_BEFORE}::test_a_mixlist_entry_beats_it",
    ),
    _keep_rules(
        "target",
        " || !HasFloat32(*state, id, kept.group)",
        "",
        "A rule keeps float32 where the target has no kernel for it.",
        f"{_ASCEND}::test_a_gray_op_with_float16_kernels_only_is_lowered_even_after_a_black_one",
    ),
    _keep_rules(
        "warnings",
        "    if (!MayBeLowered(*state, kept.group)) continue;",
        "    if (state->mode() == ModeRule::kMix && !MayBeLowered(*state, kept.group)) continue;",
        "force_fp16 warns of what it does not lower.",
        f"{_FORCED}::test_a_mode_that_lowers_nothing_here_warns_of_nothing",
    ),
    _forward_names(
        "whole_scope",
        'if (!absl::ConsumePrefix(&scope, "_") || scope.empty()) return false;',
        "",
        "Any scope that begins with gradients is one of gradients.",
        f"{_FORWARD}::test_a_gradient_of_another_op_does_not_follow",
    ),
    _forward_names(
        "outer_scopes",
        "for (size_t outer = 0; outer <= gradients; ++outer) {",
        "for (size_t outer = gradients; outer <= gradients; ++outer) {",
        "Gradients that are built in a name scope are not found.",
        f"{_FORWARD}::test_a_gradient_goes_by_its_name",
    ),
)
