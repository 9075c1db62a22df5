"""Mutations of the code that carries out decisions: insert_casts, its parts, and hoisting."""

from __future__ import annotations

from mutate.mutation import mutations_of

_LOOP_INVARIANTS = "control_flow/test_loop_invariants.py"
_EARLIER_RUNS = "passes/test_earlier_runs.py"
_HOIST_LOOP_INVARIANTS = "passes/test_hoist_loop_invariants.py"
_HOIST_VARIABLE_READS = "passes/test_hoist_variable_reads.py"
_INSERT_CASTS = "passes/test_insert_casts.py"

_insert_casts = mutations_of("graph_passes/rewrite/insert_casts.cc")
_shared_casts = mutations_of("graph_passes/rewrite/shared_casts.cc")
_loop_carriers = mutations_of("graph_passes/rewrite/loop_carriers.cc")
_reference_casts = mutations_of("graph_passes/rewrite/reference_casts.cc")
_rename_stateful = mutations_of("graph_passes/rewrite/rename_stateful.cc")
_unique_names = mutations_of("graph_passes/rewrite/unique_names.cc")
_hoist_variable_reads = mutations_of("graph_passes/rewrite/hoist_variable_reads.cc")
_hoist_loop_invariants = mutations_of("graph_passes/rewrite/hoist_loop_invariants.cc")

MUTATIONS = (
    _insert_casts(
        "marks",
        "MarkDecision(mark, graph_.mutable_node(id));",
        "",
        "What is changed has no mark that says so.",
        f"{_INSERT_CASTS}::test_a_wide_fan_out_shares_one_cast",
    ),
    _insert_casts(
        "fetched",
        "if (context_.preserved.count(node->name()) != 0) GiveNameToCast(id);",
        "",
        "What the caller fetches has another dtype.",
        f"{_INSERT_CASTS}::test_a_lowered_fetch_keeps_name_and_dtype",
    ),
    _insert_casts(
        "wrong_before",
        "if (view_.dtype(from) != view_.dtype(input)) return;",
        "",
        "An edge that was wrong before gets a Cast.",
        "passes/test_graph_view.py::test_an_edge_whose_dtypes_disagree_gets_no_cast",
    ),
    _insert_casts(
        "unused",
        "if (inserted_before) DropUnused(context_.preserved, &out_);",
        "",
        "Casts of an earlier run stay though nobody reads them.",
        f"{_EARLIER_RUNS}::test_force_fp32_undoes_the_rounding_of_a_lowered_fetch",
        f"{_INSERT_CASTS}::test_what_an_earlier_run_in_another_mode_left_is_built_on",
    ),
    _shared_casts(
        "shared",
        "if (name.empty()) {\n    name = graph_.CastName(tensor, dtype);",
        "{\n    name = graph_.CastName(tensor, dtype);",
        "Each reader has a Cast of its own.",
        f"{_INSERT_CASTS}::test_a_wide_fan_out_shares_one_cast",
    ),
    _shared_casts(
        "of_earlier_runs",
        "casts_.emplace(Key(from.node, from.port, dtype), view_.node(id).name());",
        'casts_.emplace(Key(from.node, from.port, dtype), "");',
        "A second run adds Casts beside those of the first.",
        f"{_INSERT_CASTS}::test_a_cast_of_an_earlier_run_is_shared",
    ),
    _shared_casts(
        "widening",
        "== wanted && IsLowType(wanted)) return graph_.InputName(source);",
        "== wanted && false) return graph_.InputName(source);",
        "What the user widened is narrowed again.",
        f"{_INSERT_CASTS}::test_reading_a_half_tensor_that_the_user_widened_needs_no_cast",
    ),
    _loop_carriers(
        "enters_once",
        "if (entered.empty()) {",
        "{",
        "A tensor enters a loop once for each reader.",
        f"{_LOOP_INVARIANTS}::test_a_weight_that_is_read_directly_and_through_an_identity_enters_the_loop_once",
    ),
    _loop_carriers(
        "is_constant",
        '(*carrier->mutable_attr())["is_constant"].set_b(true);',
        "",
        "What a Cast yields enters the first iteration alone.",
        f"{_LOOP_INVARIANTS}::test_a_variable_that_the_body_passes_on_is_cast_outside",
    ),
    _loop_carriers(
        "within_loops",
        'if (op != "Switch" && op != "Identity") return entered;',
        "return entered;",
        "A tensor is read in a branch that is not taken.",
        f"{_LOOP_INVARIANTS}::test_a_weight_used_in_a_cond_of_a_loop_is_dead_in_the_other_branch",
    ),
    _reference_casts(
        "of_reader",
        "AddInputsOfReader(reader, tensor.node, &read);",
        "",
        "A Cast reads a reference before what its reader has as a control input.",
        f"{_EARLIER_RUNS}::test_a_cast_with_control_inputs_is_no_node_of_the_users_in_a_second_run",
    ),
    _reference_casts(
        "in_loops",
        "if (!in_loop) return;",
        "return;",
        "An iteration reads a reference before the one before it has written.",
        "passes/test_forwarded_references.py::"
        "test_a_cast_in_a_loop_that_writes_the_reference_depends_on_what_its_reader_reads",
    ),
    _rename_stateful(
        "control_inputs",
        'if (found != new_names.end()) input = absl::StrCat("^", found->second);',
        "",
        "A control input has the old name of a node with state.",
        "session/test_several_fetches.py::"
        "test_what_has_a_renamed_node_as_a_control_input_still_has_it",
    ),
    _unique_names(
        "taken",
        "return view_.IndexOf(name) < 0 && taken_.insert(name).second;",
        "return taken_.insert(name).second;",
        "A Cast gets a name that another node has.",
        f"{_INSERT_CASTS}::test_a_name_that_is_taken_is_not_taken_again",
    ),
    _unique_names(
        "taken_by_us",
        "return view_.IndexOf(name) < 0 && taken_.insert(name).second;",
        "return view_.IndexOf(name) < 0;",
        "Two inserted nodes get one name.",
        "passes/test_wide_reference_reads.py::"
        "test_casts_for_one_reader_depend_on_one_node_with_its_control_inputs",
    ),
    _hoist_variable_reads(
        "writes",
        "if (in_loop_[id] && MayWrite(id)) return;",
        "",
        "A loop does not see what it writes to a variable.",
        f"{_HOIST_VARIABLE_READS}::test_a_loop_that_writes_a_variable_reads_in_each_turn",
    ),
    _hoist_variable_reads(
        "python",
        "if (RunsPython(op->name())) return true;",
        "if (RunsPython(op->name())) return false;",
        "A loop does not see that a py_function may assign any variable.",
        f"{_HOIST_VARIABLE_READS}::"
        "test_a_loop_whose_python_assigns_the_variable_reads_in_each_turn",
    ),
    _hoist_variable_reads(
        "dead",
        "    return AreDeadAfterwards(id);",
        "    return true;",
        "What reads only a variable runs once more when the loop is over.",
        f"{_HOIST_VARIABLE_READS}::test_a_read_that_goes_on_when_the_loop_is_over_stays",
    ),
    _hoist_loop_invariants(
        "control_inputs",
        "if (HasControlInputs(view_, variable->merge) || !DependsOnPivotsAlone(variable->next)) {",
        "if (HasControlInputs(view_, variable->merge)) {",
        "The next iteration begins before what it has as a control input.",
        f"{_HOIST_LOOP_INVARIANTS}::test_where_it_may_make_a_difference_a_variable_stays",
    ),
    _hoist_loop_invariants(
        "value_index",
        "if (view_.fanout({variable->merge, 1}).size() != 0) return false;",
        "",
        "A loop variable goes of which the number of the input is read.",
        f"{_HOIST_LOOP_INVARIANTS}::test_where_it_may_make_a_difference_a_variable_stays",
    ),
    _hoist_loop_invariants(
        "last_variable",
        "if (loops.count(variable.loop) == 0) continue;",
        "",
        "A loop loses its only variable, and with it its iterations.",
        f"{_HOIST_LOOP_INVARIANTS}::test_a_loop_with_no_other_variable_stays",
    ),
)
