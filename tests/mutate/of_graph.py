"""Mutations of graph_passes/graph and of graph_passes/analysis."""

from __future__ import annotations

from mutate.mutation import mutations_of

_view = mutations_of("graph_passes/graph/graph_view.cc")
_GRAPH_VIEW = (
    _view(
        "duplicate_names",
        "if (!ids_.insert({graph_->node(id).name(), id}).second) {",
        "if (!ids_.insert({graph_->node(id).name(), id}).second && false) {",
        "Two nodes of one name are accepted.",
        "passes/test_graph_view.py", "passes/test_malformed_graphs.py",
    ),
    _view(
        "output_number",
        "tensor.index() >= outputs(producer).size()",
        "tensor.index() > outputs(producer).size()",
        "An input may ask for one output more than there are.",
        "passes/test_graph_view.py", "passes/test_malformed_graphs.py",
    ),
    _view(
        "data_after_control",
        "if (saw_control) {",
        "if (false) {",
        "A data input may stand after a control input.",
        "passes/test_graph_view.py", "passes/test_malformed_graphs.py",
    ),
    _view(
        "number_of_inputs",
        "data_inputs != inputs(id).size()",
        "data_inputs < inputs(id).size()",
        "A node may have more inputs than its op.",
        "passes/test_graph_view.py", "passes/test_malformed_graphs.py",
    ),
    _view(
        "readers_by_output",
        "outputs(id).size() < 2) continue;",
        "outputs(id).size() < 3) continue;",
        "The readers of two outputs are not sorted by output.",
        "control_flow/test_v1_cond.py", "control_flow/test_v1_loops.py",
    ),
)

_marks = mutations_of("graph_passes/graph/marks.cc")
_MARKS = (
    _marks(
        "keep_dtype",
        "(value->i() != 0 || value->b())",
        "value->i() != 0",
        "A mark of keep_dtype_scope that is a bool counts for nothing.",
        "passes/test_keep_dtype_scope.py",
    ),
    _marks(
        "copy_of_a_decision",
        "node->mutable_attr()->erase(kDecision);  // a copy",
        "// a copy",
        "What is inserted has the decision about what it was copied from.",
        "control_flow/test_loop_invariants.py", "passes/test_insert_casts.py", "passes/test_earlier_runs.py",
    ),
    _marks(
        "earlier_dtypes",
        "before.insert(earlier.before.begin(), earlier.before.end());",
        "",
        "A second run forgets what the dtypes were before the first.",
        "passes/test_earlier_runs.py", "passes/test_ledger.py",
    ),
    _marks(
        "transparent_casts",
        'return node.op() != "Cast" || node.input_size() == 1;',
        "return true;",
        "A Cast with control inputs is looked through.",
        "passes/test_earlier_runs.py",
    ),
    _marks(
        "forged_marks",
        "return IsOpOfInserted(node.op()) && Find(node, kInserted) != nullptr;",
        "return Find(node, kInserted) != nullptr;",
        "Any op with our mark is taken for one of ours.",
        "passes/test_graph_view.py",
    ),
    _marks(
        "fed_casts",
        "if (fed.count(node.name()) != 0) node.mutable_attr()->erase(kInserted);",
        "",
        "A Cast of an earlier run is read past though the caller feeds it.",
        "passes/test_earlier_runs.py", "passes/test_lower_io_types.py",
    ),
    _marks(
        "colocated",
        "if (found != moved.end()) place = absl::StrCat(kPlace, found->second);",
        "",
        "What was colocated with a node that is gone names it still.",
        "passes/test_loop_constants.py", "training/test_colocation.py",
    ),
)

_values = mutations_of("graph_passes/graph/constant_values.cc")
_CONSTANT_VALUES = (
    _values(
        "functions",
        "if (from.has_library()) *to->mutable_library() = from.library();",
        "",
        "A rewritten graph has lost its functions.",
        "control_flow/test_v2_control_flow.py", "control_flow/test_function_bodies.py",
    ),
    _values(
        "attributes",
        "if (attr.first != kValue) (*to->mutable_attr())[attr.first] = attr.second;",
        "",
        "A large constant loses its attributes.",
        "passes/test_constant_values.py",
    ),
    _values(
        "inputs",
        "*to->mutable_input() = from.input();",
        "",
        "A large constant loses its control inputs.",
        "passes/test_constant_values.py",
    ),
)

_fused = mutations_of("graph_passes/graph/fused_ops.cc")
_FUSED_OPS = (
    _fused(
        "control_inputs",
        "parts_.front().add_input(control);",
        "parts_.back().add_input(control);",
        "Only the last part of a fused op has its control inputs.",
        "passes/test_fused_ops.py",
    ),
    _fused(
        "alpha",
        'if (op == "LeakyRelu" && alpha != nullptr)',
        'if (op == "LeakyRelu" && alpha == nullptr)',
        "A LeakyRelu of a fused op gets the default slope.",
        "passes/test_fused_ops.py",
    ),
    _fused(
        "further_outputs",
        "if (node.op() == \"_FusedBatchNormEx\") first_parts[node.name()] = parts.front().name();",
        "",
        "The statistics of a fused batch norm are read of its activation.",
        "passes/test_fused_ops.py",
    ),
    _fused(
        "host_arguments",
        "data_.size() < 2 || (host_args != nullptr && host_args->i() != 0)",
        "data_.size() < 2",
        "A fused op with arguments of the host is split as one without.",
        "passes/test_fused_ops.py",
    ),
    _fused(
        "all_inputs",
        "return parts_.size() > 1 && next == data_.size();",
        "return parts_.size() > 1;",
        "A fused op is split though an input of it is left over.",
        "passes/test_fused_ops.py",
    ),
    _fused(
        "names_of_parts",
        "expand = names.count(parts[i].name()) == 0;",
        "expand = true;",
        "A part gets a name that another node has.",
        "passes/test_fused_ops.py",
    ),
    _fused(
        "default_attributes",
        "for (NodeDef& part : parts_) AddDefaultAttrs(&part);",
        "",
        "Parts lack the attributes that have defaults.",
        "passes/test_fused_ops.py",
    ),
    _fused(
        "name_in_mixlist",
        "const size_t at = name.rfind(kPart);",
        "const size_t at = std::string::npos;",
        "A node: entry that names a fused node does not match its parts.",
        "passes/test_fused_ops.py",
    ),
)

_unused = mutations_of("graph_passes/graph/drop_unused.cc")
_DROP_UNUSED = (
    _unused(
        "fetched",
        "if (IsInserted(node) && preserved.count(node.name()) == 0)",
        "if (IsInserted(node))",
        "A Cast that the caller fetches is dropped.",
        "passes/test_earlier_runs.py", "passes/test_lower_io_types.py", "passes/test_insert_casts.py", "passes/test_verify_graph.py",
    ),
    _unused(
        "chains",
        "candidates.push_back(NodeNameOf(input));",
        "",
        "Of two Casts in a row that nobody reads, the first stays.",
        "passes/test_earlier_runs.py", "passes/test_lower_io_types.py", "control_flow/test_loop_invariants.py",
    ),
)

_handles = mutations_of("graph_passes/analysis/handles.cc")
_HANDLES = (
    _handles(
        "fed",
        "if (fed) leaves_[MemberOf(id)] = true;",
        "",
        "A list that the caller feeds is lowered.",
        "control_flow/test_tensor_list_boundaries.py",
    ),
    _handles(
        "fetched",
        "if (seen) leaves_[MemberOf({id, p})] = true;",
        "",
        "A list that the caller fetches is lowered.",
        "control_flow/test_tensor_list_boundaries.py",
    ),
    _handles(
        "unknown_op",
        "Use(id, MemberOf(tensor), known && !is_element(view_.inputs(id)[k].group));",
        "Use(id, MemberOf(tensor), true);",
        "A list is lowered that an op reads which nobody follows.",
        "control_flow/test_tensor_list_boundaries.py",
    ),
    _handles(
        "identity_n",
        'if (op == "IdentityN") return FollowEach(id);',
        "",
        "The lists of an IdentityN are taken for one, or for lost.",
        "control_flow/test_tensor_list_boundaries.py", "control_flow/test_tensor_lists.py", "control_flow/test_tensor_arrays.py",
    ),
    _handles(
        "sums",
        "handle->second.adds |= adds_[member];",
        "",
        "A list that is added to another follows what reads it.",
        "passes/test_follow_consumers.py",
    ),
)

_references = mutations_of("graph_passes/analysis/reference_reads.cc")
_REFERENCE_READS = (
    _references(
        "loop_variables",
        "|| IsLoopVariable(view, use.node)) continue;",
        ") continue;",
        "What a loop hands on is taken for a read of the variable outside.",
        "passes/test_references_handed_on.py", "passes/test_wide_reference_reads.py", "passes/test_loop_effects.py",
    ),
    _references(
        "control_flow",
        "HandsOn(tensor.node) && !IsControlFlow(view_.node(tensor.node).op()) &&",
        "HandsOn(tensor.node) &&",
        "A Cast reads a reference from before the Switch that chooses.",
        "passes/test_references_handed_on.py", "control_flow/test_loop_invariants.py", "passes/test_wide_reference_reads.py",
    ),
    _references(
        "control_inputs",
        "AddWaits(node, &read->waits);",
        "",
        "A Cast reads a reference before what its reader has as a control input.",
        "passes/test_earlier_runs.py", "passes/test_references_handed_on.py",
    ),
)

_invariants = mutations_of("graph_passes/analysis/loop_invariants.cc")
_LOOP_INVARIANTS = (
    _invariants(
        "changed_by_body",
        "origins[view_.fanin(producer.node)[0].node] != origin) {",
        "false) {",
        "What the body changes is taken for a loop invariant.",
        "control_flow/test_loop_invariants.py",
    ),
    _invariants(
        "is_constant",
        'if (op == "Enter") return IsConstant(view_.node(origin)) ? origin : -1;',
        'if (op == "Enter") return origin;',
        "The first value of a loop variable is taken for a loop invariant.",
        "control_flow/test_loop_invariants.py", "control_flow/test_v1_loops.py", "passes/test_malformed_graphs.py",
    ),
    _invariants(
        "written",
        "if (varying[outside] != Memory::kItsOwn) break;",
        "",
        "A variable that the loop writes is read before it.",
        "passes/test_loop_effects.py", "passes/test_references_handed_on.py", "control_flow/test_loop_invariants.py",
    ),
    _invariants(
        "outer_loops",
        "if (enter < 0 || seen[enter] == kSteady) {",
        "if (true) {",
        "What varies in an outer loop is taken for a loop invariant.",
        "passes/test_loop_effects.py", "passes/test_references_handed_on.py", "control_flow/test_loop_invariants.py", "control_flow/test_v1_loops.py",
    ),
)

MUTATIONS = (
    *_GRAPH_VIEW,
    *_MARKS,
    *_CONSTANT_VALUES,
    *_FUSED_OPS,
    *_DROP_UNUSED,
    *_HANDLES,
    *_REFERENCE_READS,
    *_LOOP_INVARIANTS,
)
