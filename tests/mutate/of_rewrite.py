"""Mutations of graph_passes/rewrite, of the pipeline and of the ledger."""

from __future__ import annotations

from mutate.mutation import mutations_of

_SATURATE = "passes/test_saturate_overflows.py"
_EMULATE = "passes/test_emulate.py"
_COMPUTE_IN_FLOAT32 = "passes/test_compute_in_float32.py"
_RESTORE_FLOAT16 = "passes/test_restore_float16.py"
_FOLD_CONSTANTS = "passes/test_fold_constants.py"
_SAME_PADDING = "passes/test_same_padding.py"
_VERIFY_GRAPH = "passes/test_verify_graph.py"
_CALLS = "passes/test_call_boundaries.py"
_COLLECTIVES = "passes/test_lower_collectives.py"
_PIPELINE = "project/test_pipeline.py"

_constants = mutations_of("graph_passes/rewrite/constants.cc")
_fold_constants = mutations_of("graph_passes/rewrite/fold_constants.cc")
_into_loops = mutations_of("graph_passes/rewrite/constants_into_loops.cc")
_call_boundaries = mutations_of("graph_passes/rewrite/call_boundaries.cc")
_lower_io_types = mutations_of("graph_passes/rewrite/lower_io_types.cc")
_saturate = mutations_of("graph_passes/rewrite/saturate_overflows.cc")
_raise_groups = mutations_of("graph_passes/rewrite/raise_groups.cc")
_compute_in_float32 = mutations_of("graph_passes/rewrite/compute_in_float32.cc")
_restore_float16 = mutations_of("graph_passes/rewrite/restore_float16.cc")
_verify_graph = mutations_of("graph_passes/rewrite/verify_graph.cc")
_pipeline = mutations_of("graph_passes/pipeline.cc")
_pass_table = mutations_of("graph_passes/pass_table.cc")
_pass_state = mutations_of("graph_passes/rewrite/pass_state.cc")
_counts = mutations_of("graph_passes/counts.cc")
_ledger = mutations_of("graph_passes/ledger.cc")
_lower_collectives = mutations_of("graph_passes/rewrite/lower_collectives.cc")
_plan_collectives = mutations_of("graph_passes/decide/plan_collectives.cc")

MUTATIONS = (
    _constants(
        "fetched",
        'if (IsFixed(id) || view_.node(id).op() != "Const") return {};',
        'if (view_.node(id).op() != "Const") return {};',
        "A constant is replaced that the caller fetches or feeds.",
        "passes/test_fold_batch_norms.py::"
        "test_a_batch_norm_stays_where_folding_would_not_do[weights that are fetched]",
    ),
    _constants(
        "control_inputs",
        '!HasControlInputs(view_, id) && view_.node(id).op() == "Identity") {',
        'view_.node(id).op() == "Identity") {',
        "A constant is read before what its Identity has as a control input.",
        f"{_FOLD_CONSTANTS}::test_an_identity_with_a_control_input_is_not_looked_through",
    ),
    _constants(
        "colocated",
        "if (--readers_[id] > 0 || HasColocated(id)) break;",
        "if (--readers_[id] > 0) break;",
        "A constant goes that another node is colocated with.",
        f"{_FOLD_CONSTANTS}::test_a_constant_that_another_node_is_placed_with_stays",
    ),
    _constants(
        "readers",
        "if (--readers_[id] > 0 || HasColocated(id)) break;",
        "if (--readers_[id] < 0 || HasColocated(id)) break;",
        "A constant goes that others read.",
        f"{_FOLD_CONSTANTS}::test_a_weight_that_is_read_in_float32_as_well_keeps_both",
    ),
    _constants(
        "control_input_of_others",
        "if (has_control_inputs && is_control_producer_[id]) break;",
        "",
        "A constant with control inputs goes that is a control input itself.",
        f"{_FOLD_CONSTANTS}::test_a_constant_that_has_and_is_a_control_input_stays",
    ),
    _fold_constants(
        "rounds",
        "if (!constants.DropsControlInputs()) return Status();",
        "return Status();",
        "An Identity whose last control input is gone is not looked through.",
        f"{_FOLD_CONSTANTS}::test_an_identity_whose_control_input_is_gone_is_looked_through",
    ),
    _lower_io_types(
        "casts_alone",
        "if (!view.IsTransparentCast(reader.node)) return tensorflow::DT_INVALID;",
        "",
        "An input gets the low type though its Cast has a control input.",
        "passes/test_lower_io_types.py::test_an_input_whose_cast_has_a_control_input_keeps_float32",
    ),
    _lower_io_types(
        "names",
        "names[name] = node.name();",
        "",
        "A low output and its Cast get the same name.",
        "passes/test_lower_io_types.py::"
        "test_an_input_and_an_output_that_are_only_cast_get_the_low_type",
    ),
    _raise_groups(
        "rounds_results",
        "if (wants_float32 && reads_unrounded(from.node)) return;",
        "if (wants_float32) return;",
        "What an emulated op yields is not rounded.",
        f"{_EMULATE}::test_each_lowered_op_reads_and_yields_rounded_values",
    ),
    _raise_groups(
        "shared_casts",
        "if (!name.empty()) return name;",
        "",
        "Each reader of an emulated op has Casts of its own.",
        f"{_EMULATE}::test_each_lowered_op_reads_and_yields_rounded_values",
    ),
    _compute_in_float32(
        "casts_of_exact",
        "!IsInFloat32(view_.GroupOf(from)) || !dtypes_.is_exact[from.node]",
        "!IsInFloat32(view_.GroupOf(from))",
        "What was not rounded is read by what keeps float32.",
        f"{_COMPUTE_IN_FLOAT32}::test_an_activation_of_unrounded_values_is_rounded",
    ),
    _compute_in_float32(
        "other_readers",
        "if (view_.fanout(id).size() != 1) return;",
        "",
        "A constant is rounded that something else reads.",
        f"{_COMPUTE_IN_FLOAT32}::test_a_constant_that_others_read_in_float32_stays",
    ),
    _compute_in_float32(
        "rounds_constants",
        "if (RoundThrough(low, values, *value, &rounded)) {",
        "if (RoundThrough(low, values, *value, &rounded) && false) {",
        "A constant is read as if it were rounded.",
        f"{_COMPUTE_IN_FLOAT32}::test_a_constant_that_nothing_else_reads_holds_rounded_values",
    ),
    _restore_float16(
        "fetched",
        "if (context_.IsFixed(node.name())) is_rounding_[id] = false;",
        "",
        "A Cast goes that is fetched.",
        f"{_RESTORE_FLOAT16}::test_a_rounding_cast_that_is_fetched_stays",
    ),
    _restore_float16(
        "low_types",
        "SetGroupDtype(op_def, group, low->second, node);",
        "SetGroupDtype(op_def, group, tensorflow::DT_HALF, node);",
        "Products of bfloat16 that computed in float32 become float16.",
        f"{_RESTORE_FLOAT16}::test_bfloat16_comes_back_as_bfloat16",
    ),
    _restore_float16(
        "disagreeing",
        "if (!widens && !narrows) continue;",
        "continue;",
        "Edges disagree where another optimizer changed the graph.",
        f"{_RESTORE_FLOAT16}::test_casts_connect_what_another_optimizer_changed",
    ),
    _pipeline(
        "same_nodes",
        "if (driver.restored_float16() && HaveSameNodes(given, *out)) *changed = false;",
        "",
        "A second run in float32 gives the nodes in another order.",
        "passes/test_abilities.py::"
        "test_what_computes_in_float32_is_given_back_as_it_was_whatever_its_order",
    ),
    _verify_graph(
        "edges",
        "produced == tensorflow::DT_INVALID || BaseType(produced) == BaseType(consumed)",
        "true",
        "An edge whose ends have two dtypes goes unnoticed.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _verify_graph(
        "next_iterations",
        "if (next_iterations.Has(view.fanin(id)[k].node) && !merges.Has(id) &&",
        "if (false &&",
        "A node between a NextIteration and its Merge goes unnoticed.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _verify_graph(
        "odd_before",
        "!StoodBetween(before, view.node(id).name(), k)) {",
        "true) {",
        "A graph is refused for what was odd in it before.",
        f"{_VERIFY_GRAPH}::test_a_next_iteration_that_no_merge_reads_is_tensorflows",
    ),
    _verify_graph(
        "gone",
        'if (id < 0) return Internal("preserved node ", Quoted(name), " is gone");',
        "if (id < 0) return Status();",
        "A fetched node that is gone goes unnoticed.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _verify_graph(
        "fetched_dtypes",
        "same = before.outputs(old_id)[p].dtype == after.outputs(id)[p].dtype;",
        "same = true;",
        "A fetched node with another dtype goes unnoticed.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _verify_graph(
        "handles",
        "if (disagreeing.empty()) return Status();",
        "return Status();",
        "Ops on one list that disagree about its elements go unnoticed.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _verify_graph(
        "handles_before",
        "if (std::any_of(handle.groups.begin(), handle.groups.end(), excused)) continue;",
        "",
        "A graph is refused for a list that was wrong before.",
        f"{_VERIFY_GRAPH}::test_ops_on_one_handle_that_disagreed_before_are_tensorflows_to_report",
    ),
    _pipeline(
        "honesty",
        "if ((fingerprint_ != before) != (changed && options_.check_changed)) {",
        "if (false) {",
        "A pass that misreports whether it changed the graph goes unnoticed.",
        f"{_PIPELINE}::test_offline_runs_are_strict_and_notice_a_pass_that_misreports_whether_it_changed_the_graph",
    ),
    _pipeline(
        "verification",
        "VerifyGraph(state_.given(), state_.preserved, state_.context.fetched,\n"
        "                                   state_.graph(), state_.mutable_view()));",
        "GraphView::Build(state_.graph(), state_.mutable_view()));",
        "A rewritten graph is not verified.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _pipeline(
        "fused_before",
        "if (state.decided.found_fused_ops) ledger->warnings.push_back(kFusedBefore);",
        "",
        "Nobody is told that the remapper ran before.",
        "passes/test_fused_ops.py::"
        "test_a_pattern_sees_only_the_last_name_of_a_fused_node_which_is_told",
    ),
    _pipeline(
        "dumps",
        "return Show(number_, pass.name);",
        "return Status();",
        "The graph is not dumped after a pass.",
        f"{_PIPELINE}::test_dumps_have_the_graph_after_each_pass_that_changed_it",
    ),
    _pass_table(
        "emulated_speed",
        "return LowersForSpeed(state) && !state.emulates;",
        "return LowersForSpeed(state);",
        "What makes low types faster runs where they are emulated.",
        f"{_SAME_PADDING}::test_padding_stays_where_the_low_type_is_emulated",
    ),
    _pass_state(
        "fed_casts",
        "UnmarkInserted(context.fed, &current_->own);",
        "",
        "A Cast of an earlier run is read past though the caller feeds it.",
        "passes/test_earlier_runs.py::test_a_fed_cast_of_an_earlier_run_is_not_read_past",
    ),
    _ledger(
        "bytes",
        "return BytesJson(of_unknown_size > 0 ? kUnknownBytes : bytes);",
        "return BytesJson(bytes);",
        "Bytes that are unknown count for none.",
        "passes/test_ledger.py::test_bytes_are_unknown_where_a_shape_is",
    ),
    _ledger(
        "rank",
        "if (shape.unknown_rank()) return Json::Value();",
        "",
        "A shape of unknown rank is that of a scalar.",
        "passes/test_ledger.py::test_shapes_are_those_of_the_outputs_as_far_as_they_are_known",
    ),
    _counts(
        "share_of_some",
        "if (changed < counts.products && knows_flops) {",
        "if (knows_flops) {",
        "All products have a share, which is always 100 %.",
        "passes/test_ledger.py::test_the_summary_line_says_what_the_totals_say",
    ),
    _counts(
        "lowered_apart",
        "if (node.verdict != Verdict::kKept) ++changed_apart[node.role];",
        "",
        "A mode that lowers the step of an optimizer does not say so.",
        "passes/test_node_roles.py::test_updates_that_a_mode_lowers_are_reported",
    ),
    _counts(
        "sources",
        "if (node.role != NodeRole::kComputes) {",
        "if (false) {",
        "Constants and variables count as nodes that compute.",
        "passes/test_ledger.py::test_the_whole_ledger_of_a_small_graph",
    ),
    _saturate(
        "own_casts",
        "(is_new || view.IsInserted(id)) && RoundsToHalf(node)",
        "RoundsToHalf(node)",
        "A Cast of the user's saturates.",
        f"{_SATURATE}::test_only_casts_of_the_optimizer_saturate",
    ),
    _saturate(
        "constants",
        'is_new || view.node(view.fanin(id)[0].node).op() != "Const"',
        "true",
        "A constant that does not fit has every step skipped.",
        f"{_SATURATE}::test_a_constant_that_does_not_fit_raises_no_flag",
    ),
    _saturate(
        "order",
        'asks->add_input(absl::StrCat("^", gradients));',
        "",
        "Loss scaling asks for an overflow before there are gradients.",
        f"{_SATURATE}::test_a_check_of_gradients_asks_the_flag_too",
    ),
    _plan_collectives(
        "gradient",
        "if (!IsGradient(view_, part.low)) return CollectiveReason::kNotAGradient;",
        "",
        "A metric is added up in the low type.",
        f"{_COLLECTIVES}::test_what_stays_float32_has_a_reason",
    ),
    _plan_collectives(
        "few",
        "part.elements < kFewElements",
        "false",
        "A bias is added up in the low type.",
        f"{_COLLECTIVES}::test_of_a_mixed_pack_two_sums_are_made",
    ),
    _plan_collectives(
        "same_parts",
        "return same ? split : -1;",
        "return split;",
        "A pack that is split elsewhere is divided, and its parts are mixed up.",
        f"{_COLLECTIVES}::test_a_pack_that_is_not_split_into_its_parts_stays",
    ),
    _plan_collectives(
        "fetched",
        "if (IsFetchedOrFed(plan.id)) return CollectiveReason::kFixed;",
        "",
        "What is fetched of a pack lacks the lowered parts.",
        f"{_COLLECTIVES}::test_a_sum_that_is_fetched_stays",
    ),
    _plan_collectives(
        "replicas",
        "if (!ReplicasDiffer(view, plans)) return plans;",
        "return plans;",
        "A replica waits for a bfloat16 sum that another one adds up in float32.",
        "passes/test_lower_collectives_v3.py::test_one_replica_lowers_nothing_that_another_keeps",
    ),
    _lower_collectives(
        "own_key",
        "GiveOwnKey(&low_reduce);",
        "",
        "Two all-reduces have one key.",
        f"{_COLLECTIVES}::test_of_a_mixed_pack_two_sums_are_made",
    ),
    _lower_collectives(
        "divide",
        "reduce->set_input(0, name);",
        "",
        "Sums of float16 are multiplied and not divided.",
        f"{_COLLECTIVES}::test_what_would_overflow_in_a_sum_of_float16_does_not",
    ),
    _call_boundaries(
        "invariant",
        "if (!is_invariant || !CopyConstantIntoLoop(",
        "if (!CopyConstantIntoLoop(",
        "A variable that changes is taken for a constant.",
        f"{_CALLS}::test_a_variable_stays_that_is_no_constant_or_does_not_stay_one",
    ),
    _into_loops(
        "unread",
        "if (readers.empty()) return false;",
        "",
        "A constant is added that nothing reads, in each round again.",
        f"{_CALLS}::test_a_variable_stays_that_is_no_constant_or_does_not_stay_one",
    ),
    _call_boundaries(
        "loop_constants",
        "if (!copies_constants_) return;",
        "",
        "The option does not switch it.",
        f"{_CALLS}::test_constants_stay_outside_where_it_was_not_asked_for",
    ),
)
