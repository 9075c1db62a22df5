"""Mutations of graph_passes/graph and graph_passes/analysis."""

from __future__ import annotations

from mutate.mutation import mutations_of

_TENSOR_LIST_BOUNDARIES = "control_flow/test_tensor_list_boundaries.py"
_V1_LOOPS = "control_flow/test_v1_loops.py"
_FUSED_OPS = "passes/test_fused_ops.py"
_NODE_ROLES = "passes/test_node_roles.py"
_FORWARDED_REFERENCES = "passes/test_forwarded_references.py"
_VERIFY_GRAPH = "passes/test_verify_graph.py"

_graph_view = mutations_of("graph_passes/graph/graph_view.cc")
_marks = mutations_of("graph_passes/graph/marks.cc")
_fused_ops = mutations_of("graph_passes/graph/fused_ops.cc")
_constant_values = mutations_of("graph_passes/graph/constant_values.cc")
_handles = mutations_of("graph_passes/analysis/handles.cc")
_reference_reads = mutations_of("graph_passes/analysis/reference_reads.cc")
_loop_invariants = mutations_of("graph_passes/analysis/loop_invariants.cc")
_node_roles = mutations_of("graph_passes/analysis/node_roles.cc")

MUTATIONS = (
    _node_roles(
        "all_readers",
        "if (--readers[input.node] > 0 || !MayServe(input.node)) continue;",
        "if (!MayServe(input.node)) continue;",
        "What the model reads too counts as an update.",
        f"{_NODE_ROLES}::test_it_computes_because",
    ),
    _node_roles(
        "fetched",
        "if (fetched_.count(view_.node(id).name()) != 0) return false;",
        "",
        "What is fetched counts as an update.",
        f"{_NODE_ROLES}::test_it_computes_because",
    ),
    _node_roles(
        "elementwise",
        "return may_serve_.Has(id) || (sums_.Has(id) && packs_.Has(view_.fanin(id)[0].node));",
        "return true;",
        "A product, or the gradient of a bias, counts as an update.",
        f"{_NODE_ROLES}::test_it_computes_because",
    ),
    _node_roles(
        "norm_of_gradients",
        "return may_serve_.Has(id) || (sums_.Has(id) && packs_.Has(view_.fanin(id)[0].node));",
        "return may_serve_.Has(id);",
        "The norm of all gradients counts as a part of the model.",
        f"{_NODE_ROLES}::test_what_only_updates_variables_is_counted_apart",
    ),
    _node_roles(
        "tests_of_values",
        "if (!UsesValues(id)) continue;",
        "",
        "A test for infinity makes the step of an optimizer a part of the model.",
        f"{_NODE_ROLES}::test_what_only_updates_variables_is_counted_apart",
    ),
    _node_roles(
        "stateful_arithmetic",
        "return yields ? NodeRole::kComputes : NodeRole::kBookkeeping;",
        "return NodeRole::kBookkeeping;",
        "A stateful op that computes counts as bookkeeping.",
        f"{_NODE_ROLES}::test_the_role_is",
    ),
    _graph_view(
        "duplicate_names",
        "if (!ids_.insert({graph_->node(id).name(), id}).second) {",
        "if (!ids_.insert({graph_->node(id).name(), id}).second && false) {",
        "Two nodes of one name are accepted.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _graph_view(
        "output_number",
        "tensor.port >= num_outputs(producer)",
        "tensor.port > num_outputs(producer)",
        "An input may ask for one output more than there are.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _graph_view(
        "data_after_control",
        "if (saw_control) {",
        "if (false) {",
        "A data input may stand after a control input.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _graph_view(
        "number_of_inputs",
        "data_inputs != num_inputs(id)",
        "data_inputs > num_inputs(id)",
        "A node may have fewer inputs than its op.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _graph_view(
        "readers_by_output",
        "num_outputs(id) < 2) continue;",
        "num_outputs(id) < 3) continue;",
        "The readers of two outputs are not sorted by output.",
        _V1_LOOPS,
        "passes/test_hoist_loop_invariants.py::test_the_body_reads_a_weight_from_outside",
    ),
    _marks(
        "earlier_dtypes",
        "before.insert(earlier.before.begin(), earlier.before.end());",
        "",
        "A second run forgets what the dtypes were before the first.",
        "passes/test_earlier_runs.py::test_what_the_dtypes_were_before_the_first_of_three_runs",
    ),
    _marks(
        "transparent_casts",
        'return node.op() != "Cast" || node.input_size() == 1;',
        "return true;",
        "A Cast with control inputs is looked through.",
        "passes/test_fold_constants.py::test_a_cast_of_ours_that_has_a_control_input_stays",
        "passes/test_insert_casts.py::test_a_cast_of_ours_that_has_a_control_input_is_not_shared",
    ),
    _marks(
        "forged_marks",
        "return IsOpOfInserted(node.op()) && Find(node, kInserted) != nullptr;",
        "return Find(node, kInserted) != nullptr;",
        "Any op with our mark is taken for one of ours.",
        "passes/test_graph_view.py::test_our_mark_on_another_op_does_not_make_it_ours",
    ),
    _fused_ops(
        "control_inputs",
        "parts_.front().add_input(control);",
        "parts_.back().add_input(control);",
        "Only the last part of a fused op has its control inputs.",
        f"{_FUSED_OPS}::test_the_first_part_has_the_control_inputs",
    ),
    _fused_ops(
        "further_outputs",
        'if (node.op() == "_FusedBatchNormEx") first_parts[node.name()] = parts.front().name();',
        "",
        "The statistics of a fused batch norm are read of its activation.",
        f"{_FUSED_OPS}::test_the_further_outputs_of_a_batch_norm_are_those_of_its_first_part",
    ),
    _fused_ops(
        "name_in_mixlist",
        "std::min(name.rfind(kPart), name.rfind(kRenamedSuffix))",
        "name.rfind(kRenamedSuffix)",
        "A node: entry that names a fused node does not match its parts.",
        f"{_FUSED_OPS}::test_parts_that_are_all_kept_stay_one_node",
    ),
    _constant_values(
        "library",
        "if (from.has_library()) *to->mutable_library() = from.library();",
        "",
        "A rewritten graph has no functions, so that calls by name are of unknown ops.",
        "control_flow/test_function_bodies.py::test_a_defun_that_is_fetched_keeps_its_dtypes",
    ),
    _handles(
        "case",
        '"Switch",   "_SwitchN",',
        '"Switch",',
        "A list that a branch of a Case writes has two dtypes.",
        "control_flow/test_tensor_lists.py"
        "::test_a_list_that_one_of_two_branches_writes_is_lowered_with_it",
    ),
    _handles(
        "fetched",
        "if (seen) leaves_[MemberOf({id, p})] = true;",
        "",
        "A list that the caller fetches is lowered.",
        f"{_TENSOR_LIST_BOUNDARIES}::test_a_list_that_is_fetched_keeps_float32",
        f"{_TENSOR_LIST_BOUNDARIES}::test_a_list_that_is_fetched_and_read_keeps_float32",
    ),
    _reference_reads(
        "control_flow",
        "AliasesReference(tensor.node) && !StartsOrSplits(view_.node(tensor.node).op()) &&",
        "AliasesReference(tensor.node) &&",
        "A Cast reads a reference from before the Switch that chooses.",
        f"{_FORWARDED_REFERENCES}::test_a_cast_behind_the_switch_of_a_read_has_the_control_inputs_of_its_reader",
    ),
    _loop_invariants(
        "changed_by_body",
        "origins[view_.fanin(producer.node)[0].node] != origin) {",
        "false) {",
        "What the body changes is taken for a loop invariant.",
        f"{_V1_LOOPS}::test_a_loop_around_a_black_op_keeps_float32_as_one",
    ),
    _loop_invariants(
        "written",
        "if (varying[outside] != Memory::kItsOwn) break;",
        "",
        "A variable that the loop writes is read before it.",
        f"{_FORWARDED_REFERENCES}::test_a_cast_in_a_loop_that_writes_the_reference_depends_on_what_its_reader_reads",
    ),
)
