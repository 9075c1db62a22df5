"""Mutations of PrecisionGuard."""

from __future__ import annotations

from mutate.mutation import mutations_of

_KERAS = "guard/test_keras_training.py"
_SESSION = "guard/test_session_training.py"
_HEALER = "guard/test_healer.py"
_BLAME = "guard/test_blame.py"
_WORKERS = "guard/test_guarded_workers.py"

_healer = mutations_of("npu_precision/guard/healer.py")
_blame = mutations_of("npu_precision/guard/blame.py")
_agreement = mutations_of("npu_precision/guard/agreement.py")
_healed_mixlist = mutations_of("npu_precision/guard/healed_mixlist.py")
_keras_training = mutations_of("npu_precision/guard/keras_training.py")
_session_training = mutations_of("npu_precision/guard/session_training.py")

MUTATIONS = (
    _healer(
        "float32",
        "of_float32 = self._wrong_in_float32(step, stuck)",
        'of_float32 = ""',
        "A step is healed that float32 fails as well.",
        f"{_KERAS}::test_a_learning_rate_that_diverges_in_float32_is_not_healed",
        f"{_KERAS}::test_a_nan_in_the_data_is_named",
    ),
    _healer(
        "max_heals",
        "if self.heals >= self._limits.max_heals:",
        "if self.heals > self._limits.max_heals:",
        "One heal too many is made.",
        f"{_KERAS}::test_it_heals_as_often_as_it_may",
    ),
    _healer(
        "band",
        "if not low <= outcome.loss <= high:",
        "if not low <= outcome.loss:",
        "A loss above its band is no fault.",
        f"{_KERAS}::test_a_loss_out_of_its_band_stops_or_is_healed",
    ),
    _healer(
        "goes_back",
        '''        """An error, when the last good state is back."""
        self._go_back()''',
        '''        """An error, when the last good state is back."""''',
        "After an error the model has weights that are not finite.",
        f"{_KERAS}::test_a_nan_in_the_data_is_named",
        f"{_SESSION}::test_a_nan_in_the_data_is_named",
    ),
    _healer(
        "steps_since",
        "for step in self._made:\n            self._run(step)",
        "pass",
        "The steps since the last saved state are lost.",
        f"{_KERAS}",
        f"{_SESSION}::test_an_op_that_overflows_is_kept_and_no_batch_is_lost",
    ),
    _healer(
        "stuck",
        "stuck = self._training.unchanged(self._state) - self._still",
        "stuck = set()",
        "Gradients that vanish are not noticed.",
        f"{_KERAS}::test_gradients_that_vanish_under_a_fixed_scale_are_kept",
    ),
    _healer(
        "memory",
        "max(1, min(self._limits.snapshot_every, fit))",
        "self._limits.snapshot_every",
        "Inputs take more memory than the guard may have.",
        f"{_KERAS}::test_large_inputs_have_states_saved_more_often",
    ),
    _healer(
        "of_before",
        "self._mixlist.add(options, {})\n            self._training.use(",
        "self._mixlist.add(options, {})\n            self._mixlist.add(options, {}) or (",
        "What an earlier run kept in float32 is not in force.",
        f"{_KERAS}::test_a_mixlist_of_before_is_in_force_from_the_first_step",
    ),
    _healer(
        "everything",
        "for entry in [*lowered, EVERY_NODE]:",
        "for entry in lowered:",
        "Nothing is said to heal a step that all nodes in float32 would heal.",
        f"{_HEALER}::test_where_no_op_is_found_all_are_kept",
    ),
    _healer(
        "narrowed",
        "kept = Search([*everything], is_good, _MOST_TRIALS).run()",
        "kept = everything",
        "All nodes are in float32 where two are enough.",
        f"{_HEALER}::test_where_the_readers_are_not_enough_it_looks_among_all_that_comes_after",
    ),
    _healer(
        "unwritable_session",
        "if self._training.needs_file:",
        "if False:",
        "A session goes on without the entries that it needs.",
        f"{_SESSION}::test_a_mixlist_that_cannot_be_written_stops_a_session",
    ),
    _blame(
        "stage",
        "return min(found, key=lambda each: each.stage, default=None)",
        "return max(found, key=lambda each: each.stage, default=None)",
        "The NaN that an overflow made is blamed, not the overflow.",
        f"{_BLAME}::test_the_device_with_the_overflow_is_blamed_and_not_the_one_that_got_its_nan",
    ),
    _blame(
        "reads",
        "own = [] if _IS_READ.fullmatch(tensor.op) else [[tensor.node]]",
        "own = [[tensor.node]]",
        "What the graph reads is kept, which no list changes.",
        f"{_BLAME}::test_of_what_is_read_the_readers_are_kept",
    ),
    _blame(
        "others",
        "if tensor.op.startswith(_FROM_OTHERS):\n            return None",
        "",
        "A worker blames what came from the one that overflowed.",
        f"{_BLAME}::test_what_came_from_others_is_theirs",
    ),
    _blame(
        "after",
        "after = [node for node, at in graph.lowered if at >= place]",
        "after = [node for node, at in graph.lowered if at > place]",
        "The op where the fault begins is not among the nodes to keep.",
        f"{_BLAME}::test_all_that_is_lowered_may_be_kept_what_comes_after_the_fault_first",
    ),
    _agreement(
        "numbers",
        "_questions = itertools.count()\n\n\n",
        "_questions = itertools.repeat(0)\n\n\n",
        "An answer to an earlier question answers a later one.",
        f"{_WORKERS}::test_a_second_guard_hears_nothing_that_was_said_to_the_first",
    ),
    _agreement(
        "first",
        "return min(blamed, key=lambda each: each.stage, default=None)",
        "return None if found is None else Blamed(*found)",
        "Each worker keeps what it saw itself.",
        f"{_WORKERS}::test_all_workers_heal_where_one_overflows",
    ),
    _healed_mixlist(
        "foreign",
        "if lines[0] != _HEADER:",
        "if False:",
        "A file of somebody else is overwritten.",
        f"{_KERAS}::test_a_file_that_no_guard_wrote_is_refused",
    ),
    _healed_mixlist(
        "users_entries",
        "return [*reasons] if self.is_of(options) else [*{**self._healed, **reasons}]",
        "return [*reasons]",
        "Entries of an earlier run are lost where the options name another mixlist.",
        f"{_KERAS}",
        _SESSION,
    ),
    _healed_mixlist(
        "reasons",
        'lines.append(f"{indent}{_COMMENT}{quoted[stripped]}")',
        "pass",
        "No reason stands beside an entry.",
        f"{_KERAS}::test_an_op_that_overflows_is_kept_and_training_goes_on",
    ),
    _keras_training(
        "changes",
        "tf.raw_ops.AssignVariableOp(resource=self._handles[index][0], value=value)",
        "pass",
        "A learning rate that a callback set is that of the saved state again.",
        f"{_KERAS}::test_what_other_callbacks_change_stays_changed",
    ),
    _keras_training(
        "several",
        "if self._iterations() < iterations + SEVERAL:",
        "if self._iterations() < iterations:",
        "Weights count as standing still that had no step yet.",
        f"{_KERAS}::test_a_weight_stands_still_only_where_the_optimizer_has_made_several_steps",
    ),
    _session_training(
        "batches",
        'inputs.batches = dict(zip(graph.batches, seen["batches"]))',
        "inputs.batches = {}",
        "A step that is run again takes the next batch, and one is lost.",
        f"{_SESSION}::test_an_op_that_overflows_is_kept_and_no_batch_is_lost",
    ),
    _session_training(
        "mark",
        "self._mark += 1",
        "pass",
        "The session goes on with the graph that overflowed.",
        f"{_SESSION}",
    ),
)
