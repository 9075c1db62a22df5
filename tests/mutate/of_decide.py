"""Mutations of graph_passes/decide."""

from __future__ import annotations

from mutate.mutation import mutations_of

_AUTOCAST_MARKS = "passes/test_autocast_marks.py"
_V1_LOOPS = "control_flow/test_v1_loops.py"
_ASCEND910 = "lists/test_ascend910.py"
_ALL_WHITE = "passes/test_all_white.py"
_CUSTOM_DTYPES = "passes/test_custom_dtypes.py"
_DECIDE_MODES = "passes/test_decide_modes.py"
_EARLIER_RUNS = "passes/test_earlier_runs.py"
_FOLLOW_CONSUMERS = "passes/test_follow_consumers.py"
_FUSED_OPS = "passes/test_fused_ops.py"
_LEDGER = "passes/test_ledger.py"
_RESOLVE_GRAY = "passes/test_resolve_gray.py"
_VARIABLE_UPDATES = "passes/test_variable_updates.py"

_classify_nodes = mutations_of("graph_passes/decide/classify_nodes.cc")
_kept_by_mark = mutations_of("graph_passes/decide/kept_by_mark.cc")
_autocast_runs = mutations_of("graph_passes/autocast_runs.cc")
_apply_custom_dtypes = mutations_of("graph_passes/decide/apply_custom_dtypes.cc")
_apply_mode = mutations_of("graph_passes/decide/apply_mode.cc")
_missing_kernels = mutations_of("graph_passes/decide/missing_kernels.cc")
_mixed_by_model = mutations_of("graph_passes/decide/mixed_by_model.cc")
_compute_dtypes = mutations_of("graph_passes/decide/compute_dtypes.cc")
_cube_inputs = mutations_of("graph_passes/decide/cube_inputs.cc")
_keep_rules = mutations_of("graph_passes/decide/keep_rules.cc")
_reasons = mutations_of("graph_passes/decide/reasons.cc")
_shared_dtypes = mutations_of("graph_passes/decide/shared_dtypes.cc")
_resolve_gray = mutations_of("graph_passes/decide/resolve_gray.cc")
_explain_gray = mutations_of("graph_passes/decide/explain_gray.cc")
_follow_consumers = mutations_of("graph_passes/decide/follow_consumers.cc")
_variable_updates = mutations_of("graph_passes/decide/variable_updates.cc")
_plan_fused_ops = mutations_of("graph_passes/decide/plan_fused_ops.cc")
_all_white = mutations_of("graph_passes/decide/all_white.cc")
_loss_region = mutations_of("graph_passes/decide/loss_region.cc")
_precision_mode = mutations_of("graph_passes/decide/precision_mode.cc")

MUTATIONS = (
    _apply_custom_dtypes(
        "control_flow",
        "if (IsControlFlow(op) || HasElementDtype(op)) return false;",
        "if (HasElementDtype(op)) return false;",
        "A Cast stands between a Merge and what feeds it.",
        f"{_CUSTOM_DTYPES}::test_what_only_steers_a_loop_has_no_ports_to_round",
    ),
    _classify_nodes(
        "name_in_mixlist_first",
        "if (of_name == nullptr && node->listing.edited != Edited::kByName) {",
        "if (of_name == nullptr) {",
        "An op type in customize_dtypes beats a node: entry.",
        f"{_CUSTOM_DTYPES}::test_the_order_of_precedence",
    ),
    _classify_nodes(
        "unknown_reader",
        "if (view_.op_def(consumer.node) == nullptr) return true;",
        "",
        "What an op reads that TensorFlow does not know is lowered.",
        f"{_EARLIER_RUNS}::test_next_to_an_op_tensorflow_does_not_know_nothing_changes",
    ),
    _classify_nodes(
        "fed",
        "if (context_.fed.count(def.name()) != 0) return Reason::kFed;",
        "",
        "What the caller feeds is lowered.",
        f"{_LEDGER}::test_the_reason_is_told",
        "passes/test_verify_graph.py::test_any_node_that_is_fed_keeps_name_and_dtypes",
    ),
    _classify_nodes(
        "several_outputs",
        "if (outputs.size() == 1 && outputs[0].group != kFixedDtype) return true;",
        "return true;",
        "A fetched node of several outputs is lowered, and no Cast can take its name.",
        "passes/test_insert_casts.py::test_a_fetch_with_several_outputs_keeps_its_dtypes",
    ),
    _classify_nodes(
        "dilations",
        '"data_format", "dilations", ',
        '"data_format", ',
        "Convolutions share the answer whether there is a kernel, whatever their dilations.",
        f"{_EARLIER_RUNS}::test_whether_there_is_a_kernel_depends_on_the_dilations",
    ),
    _classify_nodes(
        "windows",
        '"dilations", "ksize", ',
        '"dilations", ',
        "Max pools share the answer whether there is a kernel, whatever their windows.",
        "passes/test_wrong_kernels.py::test_one_window_does_not_decide_for_another",
    ),
    _classify_nodes(
        "equations",
        '"ksize", "equation", ',
        '"ksize", ',
        "Einsums share the answer whether there is a kernel, whatever their equations.",
        "passes/test_wrong_kernels.py::test_one_equation_does_not_decide_for_another",
    ),
    _classify_nodes(
        "filters",
        'for (const auto& shape : shapes.inputs) absl::StrAppend(&key, "|", shape.DebugString());',
        "",
        "Convolutions share the answer whether there is a kernel, whatever their shapes.",
        "passes/test_wrong_kernels.py::test_one_filter_does_not_decide_for_another",
    ),
    _classify_nodes(
        "target_forbids",
        "if (bound && !entry.second.Allows(dtype)) return false;",
        "",
        "The dtypes of an ops-info file restrict nothing.",
        "lists/test_ops_info_dir.py::test_the_dtypes_of_a_port_restrict_what_is_lowered",
    ),
    _apply_mode(
        "gray_without_float32",
        "if (node.listing.color == ListColor::kGray && !has_float32()) {",
        "if (false) {",
        "A gray op is kept in a dtype that the target lacks.",
        f"{_ASCEND910}::test_a_gray_op_with_float16_kernels_only_is_lowered_even_after_a_black_one",
    ),
    _apply_mode(
        "unlisted",
        "const bool listed = node.listing.color != ListColor::kUnlisted;",
        "const bool listed = true;",
        "force_fp16 lowers what no list has.",
        f"{_DECIDE_MODES}::test_force_fp16_lowers_all_listed_nodes_that_have_a_kernel",
    ),
    _reasons(
        "keep_dtype_scope",
        '"keep_dtype_scope", ReasonKind::kNode',
        '"keep_dtype_scope", ReasonKind::kSupport',
        "What keep_dtype_scope keeps says nothing to what follows it.",
        "passes/test_keep_dtype_scope.py::test_ops_of_the_scope_keep_float32_and_vote_so",
    ),
    _missing_kernels(
        "ten_nodes",
        "++count > kMostNodesNamed",
        "++count >= kMostNodesNamed",
        "An error of must_keep_origin_dtype names nine nodes.",
        f"{_ASCEND910}::test_origin_names_ten_nodes_and_counts_the_rest",
    ),
    _mixed_by_model(
        "own_marks",
        "if (ReadDecisionMark(view.node(id), &mark)) return tensorflow::DT_INVALID;",
        "",
        "What an earlier run lowered is taken for a policy of the model.",
        "passes/test_mixed_by_model.py",
    ),
    _mixed_by_model(
        "lowers",
        " || !lowers) return;",
        ") return;",
        "A model that is left as it is has a warning.",
        "passes/test_mixed_by_model.py",
    ),
    _compute_dtypes(
        "stored",
        "if (!is_fused) is_stored_[id] = true;",
        "",
        "A product reads what was not rounded.",
        "passes/test_compute_in_float32.py::"
        "test_all_readers_of_a_tensor_read_the_same_rounded_values",
    ),
    _compute_dtypes(
        "exact",
        "if (is_stored_[id] || !YieldsFloat32(id)) continue;",
        "continue;",
        "What selects values that were not rounded counts as rounded.",
        "passes/test_compute_in_float32.py::test_an_activation_of_unrounded_values_is_rounded",
    ),
    _compute_dtypes(
        "classes",
        "if (stays[leaders[g]]) found_.in_float32[g] = false;",
        "if (stays[g]) found_.in_float32[g] = false;",
        "Ops on one handle compute in two dtypes.",
        "passes/test_abilities.py::"
        "test_ops_on_one_handle_compute_in_float32_together_or_not_at_all",
    ),
    _cube_inputs(
        "bias",
        "&& !(fused && k == 2)",
        "",
        "Cube mode rounds the bias of a fused convolution.",
        f"{_FUSED_OPS}::test_cube_rounds_image_and_filter_of_a_fused_convolution_and_not_its_bias",
    ),
    _keep_rules(
        "what_can_change",
        "if (state->groups[group].kind != GroupState::kFollows) continue;",
        "",
        "What has no kernel is said to be kept because it updates a variable.",
        f"{_VARIABLE_UPDATES}::test_what_no_kernel_can_lower_is_kept_for_that",
    ),
    _shared_dtypes(
        "handles",
        "for (int group : handle.groups) classes.Join(handle.groups.front(), group);",
        "",
        "Ops on one list are decided one by one.",
        "control_flow/test_tensor_lists.py::test_a_list_that_one_black_op_writes_to_keeps_float32",
    ),
    _shared_dtypes(
        "loops",
        "if (view.op_def(id) != nullptr && merges.Has(id)) JoinLoop(view, id, &classes);",
        "",
        "The Enter and the NextIteration of a loop variable are decided one by one.",
        f"{_V1_LOOPS}::test_a_loop_around_a_black_op_keeps_float32_as_one",
    ),
    _shared_dtypes(
        "elements",
        "if (view.groups(id)[g].element >= 0 || !can_change[group]) continue;",
        "if (!can_change[group]) continue;",
        "The elements of a list of types are decided together.",
        "passes/test_node_types.py::test_elements_of_a_list_of_types_change_one_by_one",
        f"{_RESOLVE_GRAY}::test_each_element_of_a_list_of_types_hears_its_own_producer",
    ),
    _shared_dtypes(
        "white_and_fixed",
        "if ((its | leaders) == kKept) {",
        "if ((its & leaders) == kKept) {",
        "A class with a white member and one that cannot change is lowered in part.",
        f"{_V1_LOOPS}::test_a_white_member_of_a_loop_next_to_one_that_cannot_change_votes_kept",
    ),
    _resolve_gray(
        "kept_beats_lowered",
        "if (vote <= state.vote) return;",
        "if (state.vote != Vote::kUnknown) return;",
        "The first vote wins, whatever the others are.",
        f"{_RESOLVE_GRAY}::test_one_kept_predecessor_outvotes_the_lowered_one",
    ),
    _resolve_gray(
        "follows_or_keeps",
        "if (state.kind == GroupState::kFollowsOrKeeps && vote == Vote::kLowered)",
        "if (false)",
        "A gray node that cannot be lowered votes lowered.",
        f"{_RESOLVE_GRAY}::test_gray_that_knows_only_float32_votes_kept",
    ),
    _resolve_gray(
        "through_casts",
        "if (dtype == low_type) return Vote::kLowered;",
        "",
        "A second run does not see that the first lowered a source's reader.",
        f"{_EARLIER_RUNS}::test_gray_follows_what_an_earlier_run_lowered",
    ),
    _kept_by_mark(
        "off",
        "return is_disabled && !is_named ? Reason::kAutocastDisabled : Reason::kOutsideAutocast;",
        "return Reason::kOutsideAutocast;",
        "autocast_only does not say that a scope was switched off.",
        f"{_AUTOCAST_MARKS}::test_autocast_only_says_what_was_switched_off",
    ),
    _kept_by_mark(
        "named",
        "if (is_named) return Reason::kNone;",
        "",
        "A name in the mixlist does not lower what a scope switched off.",
        f"{_AUTOCAST_MARKS}::test_a_name_in_the_mixlist_lowers_what_the_scope_switched_off",
    ),
    _autocast_runs(
        "same_mode",
        "unmarked.autocast.insert(own);",
        "",
        "In the mode of the marks, what is marked keeps its dtype.",
        f"{_AUTOCAST_MARKS}::test_in_the_mode_of_the_scope_nothing_is_special_about_it",
    ),
    _autocast_runs(
        "inherit",
        "InheritMarks(view, out);",
        "",
        "Gradients do not follow what autocast() marked.",
        f"{_AUTOCAST_MARKS}::test_gradients_follow_their_forward_op",
    ),
    _classify_nodes(
        "list_mark",
        "ListByMark(view_.node(id), &node->listing);",
        "",
        "amp's decorators have no effect.",
        "amp/test_own_functions.py::test_what_a_float_function_computes_is_kept_after_a_white_op",
    ),
    _resolve_gray(
        "other_low_type",
        "if (IsLowType(dtype) && IsLowType(low_type)) return Vote::kKept;",
        "",
        "A second run lowers what the first kept after a node of another low type.",
        f"{_AUTOCAST_MARKS}::test_a_second_application_keeps_what_followed_the_scope",
    ),
    _resolve_gray(
        "fixed_output",
        "return group == kNoGroup ? Vote::kKept",
        "return group == kNoGroup ? Vote::kUnknown",
        "An output that is always float32 has no vote.",
        f"{_RESOLVE_GRAY}::test_an_output_that_is_always_float32_votes_kept",
    ),
    _explain_gray(
        "no_votes",
        "if (unknown) decision->reason = Reason::kGrayNoVotes;",
        "",
        "Gray without votes does not say so.",
        f"{_LEDGER}::test_the_reason_is_told",
    ),
    _follow_consumers(
        "case",
        "switches_(view, IsSwitch)",
        'switches_(view, "Switch")',
        "What one branch of a Case reads is cast for all.",
        "control_flow/test_follow_consumers_flow.py"
        "::test_what_only_one_branch_reads_is_not_cast_for_both",
    ),
    _follow_consumers(
        "other_readers",
        "keeps |= !IsLowered(use) && !Follows(use);",
        "keeps |= false;",
        "What is read in float32 too follows what reads it lowered.",
        f"{_FOLLOW_CONSUMERS}::test_a_reader_that_stays_keeps_it",
    ),
    _follow_consumers(
        "fetched",
        "context_.preserved.count(view_.node(id).name()) == 0;",
        "true;",
        "What the caller fetches follows what reads it.",
        f"{_FOLLOW_CONSUMERS}::test_a_fetched_node_stays",
    ),
    _follow_consumers(
        "branches",
        "if (switches_.Has(id) && !loop_conds_.Has(view_.fanin(id)[1].node)) return true;",
        "",
        "What one branch reads is cast for both.",
        "control_flow/test_follow_consumers_flow.py::"
        "test_what_only_one_branch_reads_is_not_cast_for_both",
    ),
    _follow_consumers(
        "gains",
        "if (!gains) return;",
        "",
        "What costs nothing follows, and saves no Cast.",
        f"{_FOLLOW_CONSUMERS}::test_where_nothing_is_gained_it_stays",
    ),
    _variable_updates(
        "also_used",
        "if (groups[g] && MayBeLoweredAfter(g, groups)) out.push_back(g);",
        "",
        "What the model goes on with is kept, as if it only updated a variable.",
        f"{_VARIABLE_UPDATES}::test_what_the_model_also_uses_follows_its_predecessors",
    ),
    _variable_updates(
        "between",
        "Groups updates = NeverLoweredAfter(Reached(last));\n    KeepBetween(&updates);",
        "Groups updates = NeverLoweredAfter(Reached(last));",
        "A variable's next value that the model uses too is lowered.",
        f"{_VARIABLE_UPDATES}::test_a_next_value_that_the_model_also_uses_is_still_exact",
    ),
    _variable_updates(
        "goes_round",
        "while (goes_round) {",
        "for (int turn = 0; turn < 1; ++turn) {",
        "What a loop adds to a variable is lowered.",
        f"{_VARIABLE_UPDATES}::test_a_next_value_that_a_loop_computes_is_exact",
    ),
    _variable_updates(
        "same_variable",
        "if ((read[i] & written[i]).any())",
        "if (read[i].any() && written[i].any())",
        "A path from one variable to another is kept exact.",
        f"{_VARIABLE_UPDATES}::test_sums_are_exact_on_paths_from_a_variable_to_itself_only[20]",
    ),
    _variable_updates(
        "batches",
        "if (batch.size() < kBatch) continue;\n      KeepBetween(batch, updates);",
        "if (batch.size() < kBatch) continue;",
        "Of many variables, only the last ones keep exact sums.",
        f"{_VARIABLE_UPDATES}::test_sums_are_exact_on_paths_from_a_variable_to_itself_only[600]",
    ),
    _variable_updates(
        "enter",
        'op == "Identity" || op == "Enter" || IsSwitch(op)',
        'op == "Identity" || IsSwitch(op)',
        "A write within a loop is not of the variable that was read before it.",
        f"{_VARIABLE_UPDATES}::test_a_write_through_another_node_is_of_the_variable_that_was_read[Enter]",
    ),
    _plan_fused_ops(
        "statistics",
        "!LowersStatistics(original_.node(id)) &&",
        "",
        "The statistics of a batch norm that is fused into a convolution are lowered.",
        "lists/test_gpu_lists.py::test_a_batch_norm_fused_into_a_convolution_keeps_its_statistics",
    ),
    _plan_fused_ops(
        "kernel",
        "HasChangedKernel(original_, context_, id);",
        "true;",
        "A fused node is lowered whole though it has no kernel.",
        f"{_FUSED_OPS}::test_parts_are_written_out_where_the_fused_op_has_no_kernel",
    ),
    _all_white(
        "loss",
        "if (region[group]) RestoreListing(view_.node_of_group(group));",
        "",
        "all_white lowers a scaled loss.",
        f"{_ALL_WHITE}::test_the_loss_and_its_gradient_go_by_the_lists",
    ),
    _loss_region(
        "forward",
        "for (int group : backward) to_producers(group, &producers);",
        "",
        "Values of the forward pass that a gradient reads do not belong to the loss.",
        f"{_ALL_WHITE}::test_so_it_is_where_only_the_gradient_is_run",
        f"{_ALL_WHITE}::test_a_second_run_finds_the_loss_behind_the_casts_of_the_first",
    ),
    _precision_mode(
        "mixed_bfloat16",
        '{"mixed_bfloat16", "allow_mix_precision_bf16"}',
        '{"mixed_bfloat16", "allow_mix_precision_fp16"}',
        "mixed_bfloat16 lowers to float16.",
        f"{_DECIDE_MODES}::test_the_table_of_modes",
    ),
)
