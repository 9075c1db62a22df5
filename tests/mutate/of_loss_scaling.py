"""Mutations of npu_precision/loss_scaling."""

from __future__ import annotations

from mutate.mutation import mutations_of

_STRATEGY_TESTS = "loss_scaling/test_loss_scale_strategies.py"
_strategies = mutations_of("npu_precision/loss_scaling/strategies.py")
_STRATEGIES = (
    _strategies(
        "growth_interval",
        "grows = good >= self.growth_interval",
        "grows = good > self.growth_interval",
        "The scale grows a step late.",
        _STRATEGY_TESTS,
    ),
    _strategies(
        "in_a_row",
        "good = tf.where(overflowed, zero, state.good_steps + 1)",
        "good = tf.where(overflowed, state.good_steps + zero, state.good_steps + 1)",
        "Finite steps count that are not in a row.",
        _STRATEGY_TESTS,
    ),
    _strategies(
        "not_in_a_row",
        "bad = tf.where(overflowed, state.bad_steps + 1, state.bad_steps + zero)",
        "bad = tf.where(overflowed, state.bad_steps + 1, zero)",
        "Only overflows in a row count.",
        _STRATEGY_TESTS,
    ),
    _strategies(
        "hysteresis",
        "bad >= self.hysteresis)",
        "bad > self.hysteresis)",
        "The scale backs off an overflow late.",
        _STRATEGY_TESTS,
    ),
    _strategies(
        "infinite",
        "grown = tf.where(tf.math.is_finite(grown), tf.minimum(grown, self.max_scale), scale)",
        "grown = tf.minimum(grown, self.max_scale)",
        "A scale whose growth is infinite becomes the largest.",
        _STRATEGY_TESTS,
    ),
    _strategies(
        "least",
        "backed_off = tf.maximum(scale * self.backoff_factor, self.min_scale)",
        "backed_off = scale * self.backoff_factor",
        "The scale becomes less than min_scale.",
        _STRATEGY_TESTS,
    ),
    _strategies(
        "counts_anew",
        "changed = tf.logical_or(grows, backs_off)",
        "changed = grows",
        "Counting goes on after the scale backed off.",
        _STRATEGY_TESTS,
    ),
    _strategies(
        "bools",
        "is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)",
        "is_whole = isinstance(value, (int, np.integer))",
        "True counts as a number of steps.",
        _STRATEGY_TESTS,
    ),
    _strategies(
        "init_scale",
        "if not self.min_scale <= self.init_scale <= self.max_scale:",
        "if not self.min_scale <= self.init_scale:",
        "A scale may begin above the largest.",
        _STRATEGY_TESTS,
    ),
)

_gradients = mutations_of("npu_precision/loss_scaling/gradients.py")
_GRADIENTS = (
    _gradients(
        "infinities",
        "tf.reduce_all(tf.math.is_finite(values_of(gradient)))",
        "tf.reduce_all(tf.logical_not(tf.math.is_nan(values_of(gradient))))",
        "An infinite gradient counts as finite.",
        "loss_scaling/test_grad_scaler.py::test_a_skipped_step_leaves_no_trace",
    ),
    _gradients(
        "combined",
        "finite.append(tf.reduce_all(tf.math.is_finite(flat)))",
        "",
        "Gradients in a flat buffer are not checked.",
        "training/test_amp_keras.py", "training/test_amp_sessions.py",
    ),
    _gradients(
        "reciprocal",
        "return values / tf.cast(scale, values.dtype)",
        "return values * (1 / tf.cast(scale, values.dtype))",
        "The largest scales lose all gradients.",
        "loss_scaling/test_npu_loss_scale_optimizer.py::test_the_largest_scale_loses_no_gradient",
    ),
    _gradients(
        "float16",
        "if values.dtype.size < tf.float32.size:",
        "if False:",
        "A float16 gradient is divided by a scale that float16 does not hold.",
        "loss_scaling/test_grad_scaler.py::test_gradients_keep_their_dtype",
    ),
    _gradients(
        "slices",
        "return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient",
        "return tf.convert_to_tensor(gradient)",
        "The gradient of a gather becomes dense.",
        "training/test_embeddings.py", "loss_scaling/test_grad_scaler.py",
    ),
)

_CALLS = "loss_scaling/test_grad_scaler_calls.py"
_ORDER = "loss_scaling/test_call_order.py"
_order = mutations_of("npu_precision/loss_scaling/call_order.py")
_rounds = mutations_of("npu_precision/loss_scaling/rounds.py")
_scaler = mutations_of("npu_precision/loss_scaling/grad_scaler.py")
_conditional = mutations_of("npu_precision/loss_scaling/conditional_step.py")
_SCALER = (
    _order(
        "unscaled_twice",
        "Stage.UNSCALED: {Stage.READY: _NOT_SCALED, Stage.UNSCALED: _NOT_SCALED},",
        "Stage.UNSCALED: {Stage.READY: _NOT_SCALED},",
        "amp with Keras unscales the gradients of one loss twice.",
        _ORDER,
    ),
    _order(
        "all_losses",
        "if stage in refusals:",
        "if stage in refusals and loss_id == 0:",
        "The order of calls is checked for one loss alone.",
        _ORDER,
    ),
    _rounds(
        "all_optimizers",
        "rounds.all_finite.assign(tf.logical_and(rounds.all_finite, finite))",
        "rounds.all_finite.assign(finite)",
        "The scale goes by the last optimizer alone.",
        "loss_scaling/test_grad_scaler.py::test_of_several_optimizers_only_those_skip_whose_gradients_overflow",
    ),
    _rounds(
        "begins_anew",
        "self.all_finite.assign(True)",
        "",
        "After an overflow the scale never grows again.",
        "loss_scaling/test_grad_scaler.py", _CALLS,
    ),
    _rounds(
        "has_calls",
        "return tf.logical_and(has_calls, tf.equal(self._stage.read_value(), int(stage)))",
        "return tf.equal(self._stage.read_value(), int(stage))",
        "Calls of an earlier round count.",
        _CALLS, _ORDER,
    ),
    _rounds(
        "was_finite",
        "all_finite = tf.logical_and(all_finite, finite)",
        "all_finite = finite",
        "What unscale_() found infinite is applied once it is clipped.",
        _CALLS, "loss_scaling/test_grad_scaler.py",
    ),
    _scaler(
        "divided_twice",
        "return tf.where(round_.is_in(Stage.UNSCALED), 1.0, self._state.scale())",
        "return self._state.scale()",
        "Gradients are divided by the scale twice.",
        _CALLS,
    ),
    _scaler(
        "not_checked",
        "finite if self._state.strategy.checks_overflow else None,",
        "finite,",
        "A strategy that checks no overflow skips steps.",
        "loss_scaling/test_grad_scaler.py::test_any_strategy_will_do",
    ),
    _scaler(
        "given_again",
        "if round_.was_given(grads):",
        "if False:",
        "Gradients that are still scaled are applied.",
        _CALLS,
    ),
    _scaler(
        "no_scale",
        "if not self._has_scaled:",
        "if False:",
        "A step is made without a scaled loss.",
        _CALLS, "loss_scaling/test_grad_scaler.py",
    ),
    _scaler(
        "other_parameters",
        "if state_dict[name] != own[name]:",
        "if False:",
        "The state of a scaler with other parameters is restored.",
        "loss_scaling/test_grad_scaler_state.py",
    ),
    _scaler(
        "restored_round",
        "state_dict[\"_hysteresis_tracker\"],\n            )\n        )\n        self._rounds.begin()",
        "state_dict[\"_hysteresis_tracker\"],\n            )\n        )",
        "Restoring a state leaves the calls of the round.",
        "loss_scaling/test_grad_scaler_state.py",
    ),
    _conditional(
        "counts",
        "skipped_steps.assign_add(1)",
        "",
        "Steps that are skipped are not counted.",
        "loss_scaling/test_grad_scaler.py::test_a_skipped_step_leaves_no_trace",
    ),
)

_variables = mutations_of("npu_precision/loss_scaling/variables.py")
_managers = mutations_of("npu_precision/loss_scaling/managers.py")
_npu = mutations_of("npu_precision/loss_scaling/npu_loss_scale_optimizer.py")
_observed = mutations_of("npu_precision/loss_scaling/observed_gradients.py")
_STATE = (
    _variables(
        "out_of_range",
        "variable.assign(tf.where(is_right, scale, variable.read_value()))",
        "variable.assign(scale)",
        "Compiled by XLA, a scale out of range is set.",
        "loss_scaling/test_grad_scaler_state.py",
    ),
    _variables(
        "fetched_first",
        "with tf.control_dependencies([*before, *([made.fetched] if is_here else [])]):",
        "with tf.control_dependencies(before):",
        "A fetch of the scale with a step may give the scale of the next one.",
        "loss_scaling/test_npu_loss_scale_optimizer.py", "loss_scaling/test_loss_scale_graphs.py",
    ),
    _variables(
        "lock",
        "if made.lock is None or tf.distribute.has_strategy():",
        "if True:",
        "Two steps in one run adjust the scale at the same time.",
        "loss_scaling/test_loss_scale_graphs.py",
    ),
    _variables(
        "last_good",
        "self.strategy.growth_interval - 1, self.strategy.hysteresis - 1",
        "self.strategy.growth_interval, self.strategy.hysteresis - 1",
        "A state is restored that the strategy never comes to.",
        "loss_scaling/test_grad_scaler_state.py",
    ),
    _managers(
        "at_least_one",
        "min_scale=1.0,",
        "",
        "A manager's scale becomes less than one.",
        "loss_scaling/test_npu_loss_scale_optimizer.py::test_the_scale_stays_at_least_one",
    ),
    _npu(
        "overflow_check",
        "self.checks_overflow = True if check is None else check()",
        "self.checks_overflow = True",
        "A step that overflows is skipped though nobody asked for the check.",
        "loss_scaling/test_npu_loss_scale_optimizer.py::test_without_the_check_a_step_that_overflows_is_made",
    ),
    _npu(
        "scales_already",
        "if isinstance(opt, _tf_compat.MixedPrecisionLossScaleOptimizer):",
        "if False:",
        "An optimizer that scales the loss is wrapped in another.",
        "loss_scaling/test_npu_loss_scale_optimizer.py::test_a_mistake_is_named",
    ),
    _observed(
        "left_out",
        "if not is_left_out:",
        "if True:",
        "A flight recorder sees a step twice that unscale_() showed it.",
        "loss_scaling/test_flight_recorder.py",
    ),
)

MUTATIONS = (*_STRATEGIES, *_GRADIENTS, *_SCALER, *_STATE)
