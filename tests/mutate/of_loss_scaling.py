"""Mutations of npu_precision/loss_scaling."""

from __future__ import annotations

from mutate.mutation import mutations_of

_AUTOGRAPH = "session/test_autograph.py"
_AMP_KERAS = "amp/test_keras_optimizer.py"
_AMP_MODELS = "amp/test_amp_models.py"
_CALL_ORDER = "loss_scaling/test_call_order.py"
_GRAD_SCALER = "loss_scaling/test_grad_scaler.py"
_GRAD_SCALER_CALLS = "loss_scaling/test_grad_scaler_calls.py"
_GRAD_SCALER_STATE = "loss_scaling/test_scaler_state.py"
_LOSS_SCALE_GRAPHS = "loss_scaling/test_loss_scale_graphs.py"
_LOSS_SCALE_STRATEGIES = "loss_scaling/test_strategies.py"
_SCALER_REPLICAS = "loss_scaling/test_replicas.py"
_NPU_LOSS_SCALE_OPTIMIZER = "loss_scaling/test_npu_loss_scale_optimizer.py"

_strategies = mutations_of("npu_precision/loss_scaling/strategies.py")
_gradients = mutations_of("npu_precision/loss_scaling/gradients.py")
_call_order = mutations_of("npu_precision/loss_scaling/rounds.py")
_rounds = mutations_of("npu_precision/loss_scaling/rounds.py")
_grad_scaler = mutations_of("npu_precision/loss_scaling/grad_scaler.py")
_conditional_step = mutations_of("npu_precision/loss_scaling/conditional_step.py")
_replicas = mutations_of("npu_precision/loss_scaling/replicas.py")
_scaled_losses = mutations_of("npu_precision/loss_scaling/arguments.py")
_shared_losses = mutations_of("npu_precision/amp/shared_losses.py")
_variables = mutations_of("npu_precision/loss_scaling/variables.py")
_autograph = mutations_of("npu_precision/_tf_compat/autograph.py")
_graphs = mutations_of("npu_precision/_tf_compat/graphs.py")
_managers = mutations_of("npu_precision/loss_scaling/managers.py")
_npu_loss_scale_optimizer = mutations_of("npu_precision/loss_scaling/npu_loss_scale_optimizer.py")

MUTATIONS = (
    _strategies(
        "growth_interval",
        "grows = good >= growth.growth_interval",
        "grows = good > growth.growth_interval",
        "The scale grows a step late.",
        f"{_LOSS_SCALE_STRATEGIES}::test_a_dynamic_scale_is_what_the_reference_says",
    ),
    _strategies(
        "in_a_row",
        "good = _tf_compat.where(overflowed, zero, state.good_steps + 1)",
        "good = _tf_compat.where(overflowed, state.good_steps + zero, state.good_steps + 1)",
        "Finite steps count that are not in a row.",
        f"{_LOSS_SCALE_STRATEGIES}::test_a_dynamic_scale_is_what_the_reference_says",
    ),
    _strategies(
        "not_in_a_row",
        "bad = _tf_compat.where(overflowed, state.bad_steps + 1, state.bad_steps + zero)",
        "bad = _tf_compat.where(overflowed, state.bad_steps + 1, zero)",
        "Only overflows in a row count.",
        f"{_LOSS_SCALE_STRATEGIES}::test_npu_bridges_scripts_want_two_overflows_that_need_not_be_in_a_row",
    ),
    _strategies(
        "hysteresis",
        "bad >= self.hysteresis)",
        "bad > self.hysteresis)",
        "The scale backs off an overflow late.",
        f"{_LOSS_SCALE_STRATEGIES}::test_a_dynamic_scale_is_what_the_reference_says",
    ),
    _strategies(
        "infinite",
        "_tf_compat.where(tf.math.is_finite(grown), tf.minimum(grown, self.max_scale), scale)",
        "tf.minimum(grown, self.max_scale)",
        "A scale whose growth is infinite becomes the largest.",
        f"{_LOSS_SCALE_STRATEGIES}::test_growth_that_is_infinite_is_left_out",
    ),
    _strategies(
        "counts_anew",
        "changed = tf.logical_or(grows, backs_off)",
        "changed = grows",
        "Counting goes on after the scale backed off.",
        f"{_LOSS_SCALE_STRATEGIES}::test_a_dynamic_scale_is_what_the_reference_says",
    ),
    _gradients(
        "infinities",
        "tf.reduce_all(tf.math.is_finite(values_of(gradient)))",
        "tf.reduce_all(tf.logical_not(tf.math.is_nan(values_of(gradient))))",
        "An infinite gradient counts as finite.",
        f"{_GRAD_SCALER}::test_a_skipped_step_leaves_no_trace",
    ),
    _gradients(
        "reciprocal",
        "return values / tf.cast(scale, values.dtype)",
        "return values * (1 / tf.cast(scale, values.dtype))",
        "The largest scales lose all gradients.",
        f"{_NPU_LOSS_SCALE_OPTIMIZER}::test_the_largest_scale_loses_no_gradient",
    ),
    _call_order(
        "unscaled_twice",
        "Stage.UNSCALED: {Stage.READY: _NOT_SCALED, Stage.UNSCALED: _NOT_SCALED},",
        "Stage.UNSCALED: {Stage.READY: _NOT_SCALED},",
        "amp with Keras unscales the gradients of one loss twice.",
        f"{_CALL_ORDER}::test_of_amp_with_keras",
    ),
    _rounds(
        "all_optimizers",
        "rounds.all_finite.assign(tf.logical_and(rounds.all_finite, finite))",
        "rounds.all_finite.assign(finite)",
        "The scale goes by the last optimizer alone.",
        f"{_GRAD_SCALER}::test_of_several_optimizers_only_those_skip_whose_gradients_overflow",
    ),
    _rounds(
        "begins_anew",
        "self.all_finite.assign(True)",
        "",
        "After an overflow the scale never grows again.",
        f"{_GRAD_SCALER_CALLS}::test_an_overflow_that_unscale_finds_counts_without_a_step",
        f"{_GRAD_SCALER}::test_the_scale_grows_after_an_interval",
        f"{_CALL_ORDER}::test_of_grad_scaler",
    ),
    _rounds(
        "was_finite",
        "all_finite = tf.logical_and(all_finite, finite)",
        "all_finite = finite",
        "What unscale_() found infinite is applied once it is clipped.",
        f"{_GRAD_SCALER_CALLS}::test_what_unscale_finds_infinite_is_not_applied_once_it_is_clipped",
    ),
    _grad_scaler(
        "divided_twice",
        "return _tf_compat.where(round_.is_in(Stage.UNSCALED), 1.0, self._state.scale())",
        "return self._state.scale()",
        "Gradients are divided by the scale twice.",
        f"{_GRAD_SCALER_CALLS}::test_compiled_by_xla_nothing_is_divided_or_adjusted_twice",
        f"{_GRAD_SCALER}::test_a_skipped_step_leaves_no_trace",
    ),
    _grad_scaler(
        "not_checked",
        "finite if self._state.strategy.checks_overflow else None,",
        "finite,",
        "A strategy that checks no overflow skips steps.",
        f"{_GRAD_SCALER}::test_any_strategy_will_do",
    ),
    _grad_scaler(
        "given_again",
        "if round_.was_given(grads):",
        "if False:",
        "Gradients that are still scaled are applied.",
        f"{_GRAD_SCALER_CALLS}::test_who_forgets_what_unscale_returns_is_told",
    ),
    _grad_scaler(
        "restored_round",
        "self._state.set(state)\n        self._rounds.begin()",
        "self._state.set(state)",
        "Restoring a state leaves the calls of the round.",
        f"{_GRAD_SCALER_STATE}::test_a_state_dict_begins_a_round_anew",
    ),
    _conditional_step(
        "counts",
        "lambda: skipped_steps.assign_add(1)",
        "lambda: None",
        "Steps that are skipped are not counted.",
        f"{_GRAD_SCALER}::test_a_skipped_step_leaves_no_trace",
    ),
    _replicas(
        "agreed",
        "missing = tf.cast(tf.logical_not(value), tf.float32)",
        "missing = tf.cast(tf.logical_not(value), tf.float32) * 0.0",
        "Replicas do not agree on whether gradients are finite.",
        f"{_SCALER_REPLICAS}::test_an_overflow_in_one_replica_skips_the_step_of_all_and_counts_once",
    ),
    _scaled_losses(
        "plain_loss",
        "_given_to(loss).add(owner)",
        "_given_to(loss)",
        "Gradients of the loss itself are divided by the scale.",
        f"{_GRAD_SCALER_CALLS}::test_gradients_of_the_loss_that_scale_was_given_are_refused",
    ),
    _shared_losses(
        "adjusted_once",
        "return tf.cond(tf.equal(left, 0), self._adjust, lambda: tf.constant(False))",
        "return self._adjust()",
        "Each optimizer that shares a loss adjusts its scale.",
        f"{_AMP_MODELS}::test_optimizers_that_share_a_loss_adjust_its_scale_once",
    ),
    _shared_losses(
        "alone",
        "self._is_shared.assign(count > 1)",
        "self._is_shared.assign(True)",
        "An optimizer that was given a loss alone skips with others.",
        f"{_AMP_KERAS}::test_gradients_are_divided_by_the_scale_they_were_made_with",
    ),
    _variables(
        "shared",
        "if made.shared is not None and",
        "if False and",
        "Each call of get_loss_scale() adds an op to the graph, which may be finalized.",
        f"{_LOSS_SCALE_GRAPHS}::test_the_scale_is_one_tensor_of_a_graph_that_may_be_finalized",
    ),
    _graphs(
        "context",
        "and graph._get_control_flow_context() is None",
        "",
        "A loop scales by the scale of before its first iteration.",
        f"{_LOSS_SCALE_GRAPHS}::test_each_iteration_of_a_loop_reads_the_scale_anew",
    ),
    _graphs(
        "dependencies",
        "and not graph._current_control_dependencies()",
        "",
        "The scale after a step is the one of before it.",
        f"{_LOSS_SCALE_GRAPHS}::test_where_ops_have_an_order_the_scale_is_read_anew",
    ),
    _autograph(
        "package",
        "config.CONVERSION_RULES = (config.DoNotConvert(package), *config.CONVERSION_RULES)",
        "pass",
        "AutoGraph converts the package's functions, which takes seconds.",
        f"{_AUTOGRAPH}::test_a_step_of_grad_scaler",
    ),
    _autograph(
        "users",
        "return api.tf_convert(function, context)",
        "return function",
        "A function of the user's that we call is not converted.",
        f"{_AUTOGRAPH}::test_a_step_of_grad_scaler",
        f"{_AUTOGRAPH}::test_the_train_step_under_a_guard",
    ),
    _variables(
        "out_of_range",
        "variable.assign(_tf_compat.where(is_right, scale, variable.read_value()))",
        "variable.assign(scale)",
        "Compiled by XLA, a scale out of range is set.",
        f"{_GRAD_SCALER_STATE}::test_a_new_scale_out_of_range_is_refused_in_a_function_too",
    ),
    _variables(
        "lock",
        "if made.lock is None:",
        "if made.lock is None or tf.distribute.has_strategy():",
        "Under a strategy, optimizers of one run overwrite each other's adjustment.",
        f"{_LOSS_SCALE_GRAPHS}::test_under_a_strategy_steps_of_one_run_lose_no_adjustment",
    ),
    _managers(
        "at_least_one",
        "min_scale=1.0,",
        "",
        "A manager's scale becomes less than one.",
        f"{_NPU_LOSS_SCALE_OPTIMIZER}::test_the_scale_stays_at_least_one",
    ),
    _npu_loss_scale_optimizer(
        "overflow_check",
        "self.checks_overflow = True if check is None else check()",
        "self.checks_overflow = True",
        "A step that overflows is skipped though nobody asked for the check.",
        f"{_NPU_LOSS_SCALE_OPTIMIZER}::test_without_the_check_a_step_that_overflows_is_made",
    ),
)
