"""Mutations of what lowers and watches functions that XLA compiles."""

from __future__ import annotations

from mutate.mutation import mutations_of

_CALLS = "session/test_compiled_functions.py"
_DECISIONS = "session/test_compiled_decisions.py"
_IN_PLACE = "session/test_bodies_in_place.py"
_BODIES = "offline/test_compiled_bodies.py"
_WATCHED = "flight/test_recorded_compiled.py"
_ROUND = "passes/test_round_for_xla.py"

_functions = mutations_of("cc/compiled_functions.cc")
_kept = mutations_of("cc/kept_values.cc")
_prepare = mutations_of("cc/prepare_body.cc")
_saved = mutations_of("npu_precision/offline/bodies_in_place.py")
_optimizer = mutations_of("cc/npu_optimizer.cc")
_counted = mutations_of("cc/counted_function.cc")
_watch = mutations_of("cc/watch_compiled.cc")
_round = mutations_of("graph_passes/rewrite/round_for_xla.cc")
_callers = mutations_of("npu_precision/_tf_compat/compiled_functions.py")
_marks = mutations_of("npu_precision/offline/compiled_marks.py")

MUTATIONS = (
    _functions(
        "in_place",
        "in_place_.Mark(function.signature().name(), &item->graph);",
        "",
        "A product is lowered before a loop that magnifies its rounding errors.",
        f"{_IN_PLACE}::test_what_another_body_magnifies_is_kept",
    ),
    _prepare(
        "dependencies",
        "Run(&dependencies, cluster, item);",
        "",
        "A value that no iteration changes looks as if one did.",
        f"{_IN_PLACE}::test_what_another_body_magnifies_is_kept",
    ),
    _prepare(
        "implementations",
        'function.mutable_attr()->erase("api_implements");',
        "",
        "A product is rounded before a Keras LSTM that magnifies its errors.",
        f"{_IN_PLACE}::test_what_a_function_with_another_implementation_for_gpus_magnifies_is_kept",
    ),
    _saved(
        "in_place",
        "if node.name in kept[function]:",
        "if False:",
        "A SavedModel's branch yields infinity where a probability is rounded before it.",
        "offline/test_bodies_in_place_offline.py::test_what_another_body_magnifies_is_kept",
    ),
    _functions(
        "hash",
        'absl::StrCat(function.signature().name(), "_lowered_", hash)',
        'absl::StrCat(function.signature().name(), "_lowered")',
        "XLA runs what it compiled in another mode under the same name.",
        f"{_CALLS}::test_each_body_has_its_own_name_for_xla",
    ),
    _functions(
        "xla_launch",
        'node.op() == "XlaLaunch" || ',
        "",
        "tf.xla.experimental.compile() is float32.",
        f"{_CALLS}::test_the_older_ways_to_compile_are_lowered_too",
    ),
    _functions(
        "invariant",
        "results[i] == Kept::kYes || invariant[i]",
        "results[i] == Kept::kYes",
        "What a loop only hands on has no vote in its body.",
        f"{_DECISIONS}::test_values_that_a_caller_keeps_vote_in_a_loop",
    ),
    _functions(
        "neutral",
        "each == Kept::kYes || (!is_loop && each == Kept::kNeutral)",
        "each == Kept::kYes",
        "A constant outside a branch has no vote in it.",
        f"{_DECISIONS}::test_values_that_a_caller_keeps_vote_in_a_branch",
    ),
    _kept(
        "branch",
        "const int first = IsChoice(node.op()) ? 1 : 0;",
        "const int first = 0;",
        "The arguments of a branch have the votes of their neighbours.",
        f"{_DECISIONS}::test_values_that_a_caller_keeps_vote_in_a_branch",
    ),
    _optimizer(
        "for_kernels",
        "if (compiled || IsTrial(run)) EraseForSpeed(&options.passes);",
        "",
        "Forms for oneDNN's kernels are written where XLA compiles.",
        f"{_BODIES}::test_what_a_compiled_function_calls_gets_no_form_for_kernels",
    ),
    _counted(
        "over",
        'Add("is_over", "LogicalAnd", {"is_larger:z:0", "is_Finite:y:0"}',
        'Add("is_over", "LogicalAnd", {"is_larger:z:0", "is_larger:z:0"}',
        "Infinities are counted as values that overflow.",
        f"{_WATCHED}::test_what_is_rounded_is_counted_at_the_ends_of_its_range",
    ),
    _watch(
        "both",
        '    both->add_input("^" + done);\n',
        "",
        "TensorFlow drops a recorded step whose results nobody reads.",
        f"{_WATCHED}::test_a_step_assigns_once_whether_or_not_it_is_recorded",
    ),
    _watch(
        "iteration",
        '      controls.push_back("^" + here->name());\n',
        "",
        "A call in a loop waits for an op outside of it.",
        f"{_WATCHED}::test_a_function_called_by_a_function_in_a_loop_is_recorded",
    ),
    _round(
        "subnormal",
        "const bool is_half = low == tensorflow::DT_HALF;",
        "const bool is_half = false;",
        "float16 is rounded to as bfloat16 is.",
        f"{_ROUND}::test_float16_has_subnormal_numbers_which_that_op_lacks",
    ),
    _callers(
        "stateful",
        'node.op = "StatefulPartitionedCall"',
        'node.op = "PartitionedCall"',
        "A call without arguments is computed while it is optimized.",
        f"{_CALLS}::test_a_long_loop_without_arguments_does_not_overflow_the_stack",
    ),
    _callers(
        "removed",
        "        if caller:\n            original(self, caller)\n",
        "",
        "Each function that is gone leaves one behind.",
        f"{_CALLS}::test_a_function_that_is_removed_leaves_nothing_behind",
    ),
    _marks(
        "called",
        "    compiled.update(reachable.called_functions(nodes, library))\n",
        "",
        "What a compiled function calls gets forms for oneDNN's kernels.",
        f"{_BODIES}::test_what_a_compiled_function_calls_gets_no_form_for_kernels",
    ),
)
