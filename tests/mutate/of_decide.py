"""Mutations of graph_passes/decide."""

from __future__ import annotations

from mutate.mutation import mutations_of

_classify = mutations_of("graph_passes/decide/classify_nodes.cc")
_CLASSIFY_NODES = (
    _classify(
        "unknown_reader",
        "if (view_.op_def(consumer.node) == nullptr) return true;",
        "",
        "What an op reads that TensorFlow does not know is lowered.",
        "passes/test_earlier_runs.py", "passes/test_malformed_graphs.py", "passes/test_ledger.py",
    ),
    _classify(
        "fed",
        "if (context_.fed.count(def.name()) != 0) return Reason::kFed;",
        "",
        "What the caller feeds is lowered.",
        "passes/test_verify_graph.py", "passes/test_ledger.py",
    ),
    _classify(
        "several_outputs",
        "if (outputs.size() == 1 && outputs[0].group != kFixedDtype) return true;",
        "return true;",
        "A fetched node of several outputs is lowered, and no Cast can take its name.",
        "passes/test_verify_graph.py", "passes/test_fused_ops.py", "passes/test_ledger.py",
    ),
    _classify(
        "dilations",
        '{"_kernel", "data_format", "dilations"}',
        '{"_kernel", "data_format"}',
        "Convolutions share the answer whether there is a kernel, whatever their dilations.",
        "passes/test_earlier_runs.py", "passes/test_convolution_chains.py",
    ),
    _classify(
        "one_kernel_for_all",
        "if (!HasKernel(id, changeable)) changeable.resize(before);",
        "",
        "Attributes are lowered together that no kernel takes together.",
        "passes/test_node_types.py", "passes/test_abilities.py", "training/test_batch_norm_training.py",
    ),
    _classify(
        "handles_that_leave",
        "if (handle.leaves_graph) leaving_.insert(handle.groups.begin(), handle.groups.end());",
        "",
        "A list that leaves the graph is lowered.",
        "control_flow/test_tensor_list_boundaries.py",
    ),
    _classify(
        "target_forbids",
        "if (bound && !entry.second.Allows(dtype)) return false;",
        "",
        "The dtypes of an ops-info file restrict nothing.",
        "lists/test_ops_info_dir.py",
    ),
    _classify(
        "waiting_cast",
        "if (IsInsertedCast(def) && view_.outputs(id)[0].dtype == context_.NewDtype()) return Status();",
        "",
        "A Cast of an earlier run that has control inputs is a node of the user's.",
        "passes/test_earlier_runs.py",
    ),
)

_mode = mutations_of("graph_passes/decide/apply_mode.cc")
_APPLY_MODE = (
    _mode(
        "gray_without_float32",
        "if (node.listing.color == ListColor::kGray && !has_float32()) {",
        "if (false) {",
        "A gray op is kept in a dtype that the target lacks.",
        "lists/test_ascend910.py",
    ),
    _mode(
        "default_mode",
        "return has_float32() ? Keep(Reason::kTargetHasFloat32) : Lower(Reason::kTargetLacksFloat32);",
        "return Lower(Reason::kTargetLacksFloat32);",
        "The default mode lowers what the target can run.",
        "passes/test_decide_modes.py", "lists/test_ascend910.py",
    ),
    _mode(
        "unlisted",
        "const bool listed = node.listing.color != ListColor::kUnlisted;",
        "const bool listed = true;",
        "force_fp16 lowers what no list has.",
        "passes/test_decide_modes.py",
    ),
    _mode(
        "keep_dtype_scope",
        "fixed == Reason::kNeverChanged || fixed == Reason::kKeepDtypeScope ||",
        "fixed == Reason::kNeverChanged ||",
        "What keep_dtype_scope keeps says nothing to what follows it.",
        "passes/test_keep_dtype_scope.py",
    ),
    _mode(
        "kept_for_good",
        "fixed == Reason::kHandleLeavesGraph;",
        "false;",
        "A list that leaves the graph says nothing to what reads it.",
        "control_flow/test_tensor_list_boundaries.py",
    ),
    _mode(
        "sources",
        "if (lowers && node.fixed == Reason::kNeutralSource) return GroupState::Decided(Vote::kUnknown);",
        "",
        "A reference that is handed on votes.",
        "passes/test_references_handed_on.py", "training/test_reference_reads.py",
    ),
)

_origin = mutations_of("graph_passes/decide/check_origin.cc")
_cube = mutations_of("graph_passes/decide/cube_inputs.cc")
_earlier = mutations_of("graph_passes/decide/earlier_runs.cc")
_SPECIAL_CASES = (
    _origin(
        "ten_nodes",
        "++count > kMostNodesNamed",
        "++count >= kMostNodesNamed",
        "An error of must_keep_origin_dtype names nine nodes.",
        "lists/test_ascend910.py",
    ),
    _origin(
        "unsupported",
        "if (!TargetAllows(view, info, id, g, dtype)) return dtype;",
        "",
        "must_keep_origin_dtype keeps what the target cannot run.",
        "lists/test_ascend910.py",
    ),
    _cube(
        "bias",
        "&& !(fused && k == 2)",
        "",
        "Cube mode rounds the bias of a fused convolution.",
        "passes/test_fused_ops.py",
    ),
    _cube(
        "only_float32",
        "if (port.dtype != tensorflow::DT_FLOAT || port.group == kFixedDtype) continue;",
        "if (port.group == kFixedDtype) continue;",
        "Cube mode rounds what is not float32.",
        "passes/test_decide_modes.py",
    ),
    _earlier(
        "raised",
        "if (raised != (context.mode.rule == ModeRule::kForceFloat32)) return false;",
        "",
        "force_fp32 takes the word of an earlier run that lowered.",
        "passes/test_earlier_runs.py", "passes/test_decide_modes.py",
    ),
    _earlier(
        "cube",
        "return context.mode.rule == ModeRule::kCube;",
        "return true;",
        "A node of which cube mode rounded the inputs says so in every mode.",
        "passes/test_earlier_runs.py", "control_flow/test_loop_invariants.py", "passes/test_decide_modes.py",
    ),
    _earlier(
        "undone",
        "if (group.dtype == context.NewDtype()) return true;",
        "return true;",
        "A node that was lowered and raised again is told to be lowered.",
        "passes/test_earlier_runs.py", "passes/test_decide_modes.py",
    ),
)

_decide = mutations_of("graph_passes/decide/decide_precision.cc")
_shared = mutations_of("graph_passes/decide/shared_dtypes.cc")
_DECIDE = (
    _decide(
        "users_word",
        "if (groups_[group].kind != GroupState::kFollows) continue;",
        "",
        "A mixlist does not count for what updates a variable or sums over a loop.",
        "passes/test_variable_updates.py", "control_flow/test_loop_sums.py",
    ),
    _decide(
        "reason",
        "LowersByItself(decision.reason) != changes",
        "false",
        "What could not do as its list says does not say why.",
        "passes/test_ledger.py", "passes/test_abilities.py",
    ),
    _decide(
        "loop_sums",
        "KeepGray(LoopAccumulatorGroups(), Reason::kSumsIterations);",
        "",
        "A sum over the iterations of a loop is lowered.",
        "control_flow/test_loop_sums.py",
    ),
    _shared(
        "handles",
        "for (int group : handle.groups) classes.Join(handle.groups.front(), group);",
        "",
        "Ops on one list are decided one by one.",
        "control_flow/test_tensor_lists.py", "passes/test_abilities.py",
    ),
    _shared(
        "loops",
        "if (view.op_def(id) != nullptr && merges.Has(id)) JoinLoop(view, id, &classes);",
        "",
        "The Enter and the NextIteration of a loop variable are decided one by one.",
        "control_flow/test_v1_loops.py",
    ),
    _shared(
        "elements",
        "if (view.groups(id)[g].element >= 0 || !can_change[group]) continue;",
        "if (!can_change[group]) continue;",
        "The elements of a list of types are decided together.",
        "passes/test_resolve_gray.py", "passes/test_node_types.py",
    ),
    _shared(
        "cannot_change",
        "if (view.groups(id)[g].element >= 0 || !can_change[group]) continue;",
        "if (view.groups(id)[g].element >= 0) continue;",
        "A type that cannot change keeps the other types of its node.",
        "passes/test_node_types.py", "passes/test_layers.py", "training/test_batch_norm_training.py",
    ),
    _shared(
        "white_and_fixed",
        "if ((its | leaders) == kKept) {",
        "if ((its & leaders) == kKept) {",
        "A class with a white member and one that cannot change is lowered in part.",
        "control_flow/test_v1_loops.py",
    ),
)

_gray = mutations_of("graph_passes/decide/resolve_gray.cc")
_explain = mutations_of("graph_passes/decide/explain_gray.cc")
_GRAY = (
    _gray(
        "kept_beats_lowered",
        "if (vote <= state.vote) return;",
        "if (state.vote != Vote::kUnknown) return;",
        "The first vote wins, whatever the others are.",
        "passes/test_resolve_gray.py",
    ),
    _gray(
        "follows_or_keeps",
        "if (state.kind == GroupState::kFollowsOrKeeps && vote == Vote::kLowered) vote = Vote::kKept;",
        "",
        "A gray node that cannot be lowered votes lowered.",
        "passes/test_resolve_gray.py", "passes/test_abilities.py",
    ),
    _gray(
        "through_casts",
        "if (port.node != direct.node && view.dtype(port) == low_type) return Vote::kLowered;",
        "",
        "A second run does not see that the first lowered a source's reader.",
        "passes/test_earlier_runs.py", "passes/test_decide_modes.py", "passes/test_insert_casts.py", "control_flow/test_loop_invariants.py",
    ),
    _gray(
        "unknown_op",
        "if (view.op_def(port.node) == nullptr) return Vote::kKept;",
        "if (view.op_def(port.node) == nullptr) return Vote::kUnknown;",
        "An op that TensorFlow does not know has no vote.",
        "passes/test_earlier_runs.py", "passes/test_malformed_graphs.py",
    ),
    _gray(
        "fixed_output",
        "  }\n  return Vote::kKept;\n}\n\n}  // namespace npu_precision",
        "  }\n  return Vote::kUnknown;\n}\n\n}  // namespace npu_precision",
        "An output that is always float32 has no vote.",
        "passes/test_resolve_gray.py",
    ),
    _explain(
        "no_votes",
        "if (unknown) decision->reason = Reason::kGrayNoVotes;",
        "",
        "Gray without votes does not say so.",
        "passes/test_resolve_gray.py", "passes/test_ledger.py",
    ),
    _explain(
        "own_dtype",
        "if (!can_change && classes_.nodes[id].fixed == Reason::kNone) continue;",
        "",
        "The statistics of a batch norm are told to have kept it.",
        "passes/test_layers.py", "passes/test_ledger.py", "training/test_batch_norm_training.py",
    ),
)

_follow = mutations_of("graph_passes/decide/follow_consumers.cc")
_FOLLOW_CONSUMERS = (
    _follow(
        "other_readers",
        "objects |= !IsLowered(use) && !Follows(use);",
        "objects |= false;",
        "What is read in float32 too follows what reads it lowered.",
        "passes/test_follow_consumers.py",
    ),
    _follow(
        "fetched",
        "context_.preserved.count(view_.node(id).name()) == 0;",
        "true;",
        "What the caller fetches follows what reads it.",
        "passes/test_follow_consumers.py",
    ),
    _follow(
        "sums",
        "if (handle.adds) may_follow_[leader_[group]] = false;",
        "",
        "A list that is added to another follows what reads it.",
        "passes/test_follow_consumers.py",
    ),
    _follow(
        "branches",
        "if (switches_.Has(id) && !loop_conds_.Has(view_.fanin(id)[1].node)) return true;",
        "",
        "What one branch reads is cast for both.",
        "passes/test_follow_consumers.py",
    ),
    _follow(
        "gains",
        "if (!gains) return;",
        "",
        "What costs nothing follows, and saves no Cast.",
        "passes/test_follow_consumers.py",
    ),
    _follow(
        "producers",
        "VisitProducers(group, [&](int from) { objects |= from == kNoGroup || !Follows(from); });",
        "",
        "What an iteration makes anew is cast in each.",
        "passes/test_follow_consumers.py",
    ),
)

_sums = mutations_of("graph_passes/decide/loop_accumulators.cc")
_updates = mutations_of("graph_passes/decide/variable_updates.cc")
_VARIABLES = (
    _sums(
        "subtrahend",
        '(op == "Sub" && use.index == 0)',
        'op == "Sub"',
        "What a loop variable is subtracted from counts as its sum.",
        "control_flow/test_loop_sums.py",
    ),
    _sums(
        "other_uses",
        "} else if (only.node >= 0) {",
        "} else if (false) {",
        "A loop variable that the body uses otherwise too is taken for a sum.",
        "control_flow/test_loop_sums.py",
    ),
    _sums(
        "next_value",
        "!MakesNextValue(view, id, use.node)) {",
        "false) {",
        "An addition to a loop variable that is not its next value is taken for a sum.",
        "control_flow/test_loop_sums.py",
    ),
    _updates(
        "also_used",
        "if (groups[g] && MayBeLoweredAfter(g, groups)) out.push_back(g);",
        "",
        "What the model goes on with is kept, as if it only updated a variable.",
        "passes/test_variable_updates.py", "passes/test_all_white.py",
    ),
    _updates(
        "between",
        "for (const auto& variable : variables_) KeepBetween(variable.second, &updates);",
        "",
        "A variable's next value that the model uses too is lowered.",
        "passes/test_variable_updates.py",
    ),
    _updates(
        "unread",
        "if (lowered || (follows && HandsOn(consumer))) return true;",
        "if (lowered || follows) return true;",
        "What nobody reads counts as the model's use of an update.",
        "passes/test_all_white.py", "passes/test_variable_updates.py",
    ),
    _updates(
        "enter",
        'op == "Identity" || op == "Enter" || op == "Switch"',
        'op == "Identity" || op == "Switch"',
        "A write within a loop is not of the variable that was read before it.",
        "passes/test_variable_updates.py",
    ),
    _updates(
        "other_variables",
        "if (before_write.count(group) == 0 || !between.insert(group).second) continue;",
        "if (group < 0 || !between.insert(group).second) continue;",
        "All that reads a variable is kept, whatever becomes of it.",
        "passes/test_variable_updates.py",
    ),
)

_fused = mutations_of("graph_passes/decide/plan_fused_ops.cc")
_white = mutations_of("graph_passes/decide/all_white.cc")
_loss = mutations_of("graph_passes/decide/loss_region.cc")
_names = mutations_of("graph_passes/decide/precision_mode.cc")
_OTHERS = (
    _fused(
        "statistics",
        "!LowersStatistics(original_.node(id)) &&",
        "",
        "The statistics of a batch norm that is fused into a convolution are lowered.",
        "passes/test_fused_ops.py",
    ),
    _fused(
        "own_statistics",
        '&& view.op_def(id)->attr(group.attr).name() != "U"',
        "",
        "The statistics of a fused batch norm are lowered.",
        "passes/test_fused_ops.py",
    ),
    _fused(
        "fetched",
        '(node.op() != "_FusedBatchNormEx" || context_.preserved.count(node.name()) == 0)',
        "true",
        "A fused batch norm that the caller fetches is split.",
        "passes/test_fused_ops.py",
    ),
    _fused(
        "kernel",
        "HasChangedKernel(original_, context_, id);",
        "true;",
        "A fused node is lowered whole though it has no kernel.",
        "passes/test_fused_ops.py",
    ),
    _white(
        "black_in_loss",
        "if (region[group]) KeepBlack(group);",
        "",
        "all_white lowers what is black in a scaled loss.",
        "passes/test_all_white.py",
    ),
    _white(
        "loss",
        "if (region[group]) RestoreListing(view_.node_of_group(group));",
        "",
        "all_white lowers a scaled loss.",
        "passes/test_all_white.py",
    ),
    _loss(
        "forward",
        "for (int group : backward) to_producers(group, &producers);",
        "",
        "Values of the forward pass that a gradient reads do not belong to the loss.",
        "passes/test_all_white.py",
    ),
    _loss(
        "earlier_runs",
        "for (const InputPort& use : view_.fanout(reader.node)) readers.push_back(use);",
        "",
        "A second run does not find the loss behind the Casts of the first.",
        "passes/test_all_white.py",
    ),
    _names(
        "v2_name",
        "mode->name = name;",
        "",
        "Errors name the mode as precision_mode does, not as precision_mode_v2.",
        "sessions/test_errors.py",
    ),
    _names(
        "mixed_bfloat16",
        '{"mixed_bfloat16", "allow_mix_precision_bf16"}',
        '{"mixed_bfloat16", "allow_mix_precision_fp16"}',
        "mixed_bfloat16 lowers to float16.",
        "passes/test_decide_modes.py",
    ),
)

MUTATIONS = (
    *_CLASSIFY_NODES,
    *_APPLY_MODE,
    *_SPECIAL_CASES,
    *_DECIDE,
    *_GRAY,
    *_FOLLOW_CONSUMERS,
    *_VARIABLES,
    *_OTHERS,
)
