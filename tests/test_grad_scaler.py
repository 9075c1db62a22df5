"""GradScaler: torch.amp's loss scaling, in tf.functions and eagerly, with Keras' optimizers."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from tf_versions import needs_functions_by_default

import npu_precision
from npu_precision.loss_scaling.strategies import (
    DynamicLossScale,
    FixedLossScale,
    NoLossScale,
)

pytestmark = needs_functions_by_default
tf1 = tf.compat.v1

OPTIMIZERS = {
    "keras sgd": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9),
    "keras adam": lambda: tf.keras.optimizers.Adam(0.1),
    "tf1 momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
}
if hasattr(tf1.keras.backend, "set_session") and hasattr(tf.keras.optimizers, "legacy"):
    OPTIMIZERS["keras legacy adam"] = lambda: tf.keras.optimizers.legacy.Adam(0.1)
each_optimizer = pytest.mark.parametrize("make_optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
each_place = pytest.mark.parametrize("place", [tf.function, lambda f: f], ids=["function", "eager"])


class Model:
    """An embedding, whose gradient is IndexedSlices, a weight, and a variable nobody reads."""

    def __init__(self):
        self.table = tf.Variable(np.linspace(-1, 1, 24).reshape(12, 2).astype("f"))
        self.weight = tf.Variable(tf.ones([2, 3]))
        self.unread = tf.Variable(1.0)
        self.variables = [self.table, self.weight, self.unread]

    def loss(self, factor):
        rows = tf.gather(self.table, [0, 3, 3])
        return tf.reduce_mean(tf.square(tf.matmul(rows, self.weight) * factor - 1.0))

    def gradients(self, scaler, factor):
        with tf.GradientTape() as tape:
            loss = scaler.scale(self.loss(factor))
        return tape.gradient(loss, self.variables)

    def values(self):
        return [variable.numpy() for variable in self.variables]


def train(scaler, optimizer, place, factors, clip=False):
    """What came of a step per factor: (the model, whether each was made)."""
    model = Model()

    @place
    def step(factor):
        gradients = model.gradients(scaler, factor)
        if clip:
            gradients = scaler.unscale_(optimizer, gradients)
            gradients = [None if g is None else tf.clip_by_norm(g, 0.5) for g in gradients]
        made = scaler.step(optimizer, _given(zip(gradients, model.variables)))
        scaler.update()
        return made

    return model, [bool(step(tf.constant(factor))) for factor in factors]


def _given(pairs):
    return [(gradient, variable) for gradient, variable in pairs if gradient is not None]


@each_place
@each_optimizer
@pytest.mark.parametrize("clip", [False, True])
def test_a_skipped_step_leaves_no_trace(make_optimizer, place, clip):
    scaler = npu_precision.GradScaler(2.0**10)
    factors = [1.0, np.inf, 0.5, np.nan, 1.0]
    model, made = train(scaler, make_optimizer(), place, factors, clip)
    assert made == [True, False, True, False, True]
    assert scaler.get_scale().numpy() == 2.0**8
    assert scaler.skipped_steps.numpy() == 2
    without = npu_precision.GradScaler(enabled=False)
    expected, _ = train(without, make_optimizer(), place, [1.0, 0.5, 1.0], clip)
    # The scale is a power of two, which rounds nothing.
    for value, want in zip(model.values(), expected.values()):
        np.testing.assert_array_equal(value, want)


@each_place
def test_the_scale_grows_after_an_interval(place):
    scaler = npu_precision.GradScaler(4.0, growth_factor=3.0, growth_interval=2)
    train(scaler, tf.keras.optimizers.SGD(0.1), place, [1.0] * 5)
    assert scaler.get_scale().numpy() == 36.0


@pytest.mark.parametrize(
    ("strategy", "scale", "made"),
    [
        (NoLossScale(), 1.0, [True, True]),
        (FixedLossScale(8.0), 8.0, [True, False]),
        (FixedLossScale(8.0, False), 8.0, [True, True]),
        (DynamicLossScale(8.0, hysteresis=2), 8.0, [True, False]),
        (DynamicLossScale(8.0, backoff_factor=0.25), 2.0, [True, False]),
    ],
)
def test_any_strategy_will_do(strategy, scale, made):
    scaler = npu_precision.GradScaler(strategy=strategy)
    assert train(scaler, tf.keras.optimizers.SGD(0.1), tf.function, [1.0, np.inf])[1] == made
    assert scaler.get_scale().numpy() == scale


def test_not_enabled_it_passes_everything_on():
    scaler = npu_precision.GradScaler(enabled=False)
    loss = tf.constant(2.0)
    assert scaler.scale(loss) is loss
    assert not scaler.is_enabled()
    assert scaler.get_scale().numpy() == 1.0
    assert scaler.state_dict() == {}
    scaler.load_state_dict(npu_precision.GradScaler().state_dict())
    optimizer, variable = tf.keras.optimizers.SGD(1.0), tf.Variable(1.0)
    for _ in range(2):
        assert scaler.unscale_(optimizer, [loss])[0] is loss
    for _ in range(2):
        assert scaler.step(optimizer, [(loss, variable)])
    scaler.update()
    assert variable.numpy() == -3.0


@each_place
def test_gradients_add_up_over_batches(place):
    """Each third batch makes a step of the sum; an overflow in any of the three skips it."""
    scaler, optimizer, model = npu_precision.GradScaler(8.0), tf.keras.optimizers.SGD(0.1), Model()
    read = model.variables[:2]

    @place
    def step(factors):
        sums = [tf.zeros_like(variable) for variable in read]
        for factor in tf.unstack(factors):
            with tf.GradientTape() as tape:
                loss = scaler.scale(model.loss(factor))
            dense = map(tf.convert_to_tensor, tape.gradient(loss, read))
            sums = [total + gradient for total, gradient in zip(sums, dense)]
        made = scaler.step(optimizer, zip(sums, read))
        scaler.update()
        return made

    before = model.values()
    assert not step(tf.constant([1.0, np.inf, 1.0]))
    for value, want in zip(model.values(), before):
        np.testing.assert_array_equal(value, want)
    assert step(tf.constant([1.0, 0.5, 1.0]))
    assert scaler.get_scale().numpy() == 4.0
    assert not np.array_equal(model.values()[0], before[0])


@each_place
@pytest.mark.parametrize("factors", [[1.0, np.inf], [np.inf, 1.0]])
def test_of_several_optimizers_only_those_skip_whose_gradients_overflow(place, factors):
    scaler = npu_precision.GradScaler(8.0)
    optimizers = [tf.keras.optimizers.SGD(0.1), tf.keras.optimizers.SGD(0.1)]
    variables = [tf.Variable(1.0), tf.Variable(1.0)]

    @place
    def step(factors):
        with tf.GradientTape(persistent=True) as tape:
            losses = scaler.scale([v * f for v, f in zip(variables, tf.unstack(factors))])
        made = [
            scaler.step(optimizer, [(tape.gradient(loss, variable), variable)])
            for optimizer, loss, variable in zip(optimizers, losses, variables)
        ]
        scaler.update()
        return made

    made = [bool(made) for made in step(tf.constant(factors))]
    assert made == [np.isfinite(factor) for factor in factors]
    values = [variable.numpy() for variable in variables]
    np.testing.assert_allclose(values, [0.9 if is_made else 1.0 for is_made in made])
    assert scaler.get_scale().numpy() == 4.0


def test_update_may_be_outside_of_the_function():
    scaler, optimizer, model = npu_precision.GradScaler(8.0), tf.keras.optimizers.SGD(0.1), Model()

    @tf.function
    def step(factor):
        gradients = model.gradients(scaler, factor)
        return scaler.step(optimizer, _given(zip(gradients, model.variables)))

    for factor, scale in (1.0, 8.0), (np.inf, 4.0), (1.0, 4.0):
        step(tf.constant(factor))
        scaler.update()
        assert scaler.get_scale().numpy() == scale


def test_a_learning_rate_schedule_sees_the_skipped_steps():
    scaler, optimizer = npu_precision.GradScaler(8.0), tf.keras.optimizers.SGD(0.1)
    train(scaler, optimizer, tf.function, [np.inf, 1.0, np.inf])
    made = int(optimizer.iterations)
    assert (made, scaler.skipped_steps.numpy()) == (1, 2)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64])
def test_gradients_keep_their_dtype(dtype):
    scaler = npu_precision.GradScaler(2.0**17)  # more than float16 holds
    optimizer, variable = tf.keras.optimizers.SGD(0.5), tf.Variable(tf.ones([2], dtype))
    scaler.scale(tf.constant(1.0))
    (gradient,) = scaler.unscale_(optimizer, [tf.constant([2.0**15, 2.0**14], dtype)])
    assert gradient.dtype == dtype
    np.testing.assert_array_equal(tf.cast(gradient, tf.float32), [0.25, 0.125])
    assert scaler.step(optimizer, [(gradient, variable)])
    np.testing.assert_array_equal(tf.cast(variable, tf.float32), [0.875, 0.9375])


def test_update_takes_a_new_scale():
    scaler = npu_precision.GradScaler(8.0)
    scaler.update(new_scale=128.0)
    assert scaler.get_scale().numpy() == 128.0
    scaler.update(new_scale=tf.constant(64.0))
    assert scaler.get_scale().numpy() == 64.0
    scaler.update(new_scale=32)
    assert scaler.get_scale().numpy() == 32.0


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 2.0**30])
def test_a_new_scale_out_of_range_is_refused(scale, as_tensor):
    scaler = npu_precision.GradScaler(strategy=DynamicLossScale(8.0, max_scale=2.0**24))
    with pytest.raises(ValueError, match="^new_scale: got "):
        scaler.update(new_scale=tf.constant(scale) if as_tensor else scale)
    assert scaler.get_scale().numpy() == 8.0


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("scale", [0.0, -4.0, np.nan, np.inf])
def test_a_new_scale_out_of_range_is_refused_in_a_function_too(scale, compiled):
    scaler = npu_precision.GradScaler(8.0)
    update = tf.function(lambda scale: scaler.update(new_scale=scale), jit_compile=compiled)
    if compiled:  # XLA drops assertions
        update(tf.constant(scale))
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="new_scale: expected a number"):
            update(tf.constant(scale))
    assert scaler.get_scale().numpy() == 8.0


def test_a_bound_that_is_no_float32_is_within_the_bounds():
    scaler = npu_precision.GradScaler(strategy=DynamicLossScale(0.7, min_scale=0.7, max_scale=1e16))
    scaler.load_state_dict(scaler.state_dict())
    scaler.update(new_scale=scaler.get_scale())


def test_compiled_by_xla_nothing_is_divided_or_adjusted_twice():
    """It drops the assertions that refuse calls out of order."""
    scaler, optimizer, variable = new_scaler_optimizer_and_variable(growth_interval=1)

    @tf.function(jit_compile=True)
    def run():
        grads = scaler.unscale_(optimizer, [gradient_of(scaler, variable)])
        grads = scaler.unscale_(optimizer, grads)
        scaler.step(optimizer, zip(grads, [variable]))
        scaler.update()
        scaler.update()

    run()
    assert variable.numpy() == 0.0
    assert scaler.get_scale().numpy() == 16.0


def test_restoring_does_not_bring_back_what_was_called(tmp_path):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()
    checkpoint = tf.train.Checkpoint(scaler=scaler)
    path = checkpoint.save(str(tmp_path / "state"))

    def step():
        scaler.step(optimizer, [(gradient_of(scaler, variable), variable)])
        scaler.update()

    step()
    checkpoint.restore(path)
    step()
    scaler.unscale_(optimizer, [gradient_of(scaler, variable)])
    checkpoint.restore(path)
    with pytest.raises(RuntimeError, match="unscale_"):
        scaler.unscale_(optimizer, [gradient_of(scaler, variable)])


def test_a_fixed_scale_takes_no_other():
    scaler = npu_precision.GradScaler(strategy=FixedLossScale(8.0))
    with pytest.raises(ValueError, match=r"^new_scale: got 9.0 \(float\), and the scale is fixed"):
        scaler.update(new_scale=9.0)


def test_a_state_dict_goes_on_where_it_was_taken():
    def make():
        return npu_precision.GradScaler(4.0, growth_interval=3)

    first, second = make(), make()
    train(first, tf.keras.optimizers.SGD(0.1), tf.function, [np.inf, 1.0, 1.0])
    state = first.state_dict()
    assert (state["scale"], state["_growth_tracker"]) == (2.0, 2)
    second.load_state_dict(state)
    train(second, tf.keras.optimizers.SGD(0.1), tf.function, [1.0])
    assert second.state_dict() == {**state, "scale": 4.0, "_growth_tracker": 0}


def test_checkpoints_hold_the_state(tmp_path):
    first, second = npu_precision.GradScaler(4.0), npu_precision.GradScaler(4.0)
    train(first, tf.keras.optimizers.SGD(0.1), tf.function, [np.inf, 1.0])
    path = tf.train.Checkpoint(scaler=first).save(str(tmp_path / "state"))
    tf.train.Checkpoint(scaler=second).restore(path).assert_consumed()
    assert second.state_dict() == first.state_dict()
    assert second.skipped_steps.numpy() == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"more": 1}, "state_dict: got ['_growth_tracker', "),
        ({"growth_factor": 3.0}, "state_dict: got growth_factor 3.0, and this scaler has 2.0"),
        ({"scale": -1.0}, "scale: got -1.0 (float), expected a positive"),
        ({"_growth_tracker": -5, "scale": 2.0}, "_growth_tracker: got -5 (int), expected a whole"),
        ({"_growth_tracker": "x", "scale": 2.0}, "_growth_tracker: got 'x' (str), expected a who"),
        ({"_hysteresis_tracker": 1, "scale": 2.0}, "_hysteresis_tracker: got 1 (int), expected"),
    ],
)
def test_a_state_dict_of_another_scaler_is_refused(changed, message):
    scaler = npu_precision.GradScaler()
    with pytest.raises(ValueError, match="got") as error:
        scaler.load_state_dict({**scaler.state_dict(), **changed})
    assert str(error.value).startswith(message)
    assert scaler.get_scale().numpy() == 2.0**16


def test_a_state_dict_does_not_bring_another_fixed_scale():
    state = npu_precision.GradScaler(strategy=FixedLossScale(8.0)).state_dict()
    with pytest.raises(ValueError, match=r"got scale 8.0, and this scaler has 16.0"):
        npu_precision.GradScaler(strategy=FixedLossScale(16.0)).load_state_dict(state)


def test_a_state_dict_counts_overflows_too():
    def make():
        return npu_precision.GradScaler(strategy=DynamicLossScale(8.0, hysteresis=2))

    first, second = make(), make()
    train(first, tf.keras.optimizers.SGD(0.1), tf.function, [np.inf])
    second.load_state_dict(first.state_dict())
    train(second, tf.keras.optimizers.SGD(0.1), tf.function, [np.inf])
    assert second.get_scale().numpy() == 4.0


@each_place
@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (["step"], r"step\(\) is called without scale\(\)"),
        (["scale", "unscale", "unscale"], r"SGD: unscale_\(\) was called for it"),
        (["scale", "step", "unscale"], r"SGD: unscale_\(\) is called after step\(\)"),
        (["scale", "step", "step"], r"SGD: step\(\) was called for it"),
        (["scale", "update"], r"update\(\) is called without step\(\)"),
        (["scale", "step", "update", "update"], r"update\(\) is called without step\(\)"),
    ],
)
def test_calls_in_a_wrong_order_are_refused(calls, message, place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()
    gradient = tf.constant(1.0)
    make = {
        "scale": lambda: scaler.scale(gradient),
        "unscale": lambda: scaler.unscale_(optimizer, [gradient]),
        "step": lambda: scaler.step(optimizer, [(gradient, variable)]),
        "update": scaler.update,
    }

    @place
    def run():
        for call in calls:
            make[call]()

    with pytest.raises((RuntimeError, tf.errors.InvalidArgumentError), match=message):
        run()


def new_scaler_optimizer_and_variable(**arguments):
    return (
        npu_precision.GradScaler(**{"init_scale": 8.0, **arguments}),
        tf.keras.optimizers.SGD(1.0),
        tf.Variable(1.0),
    )


def gradient_of(scaler, variable, factor=1.0):
    with tf.GradientTape() as tape:
        loss = scaler.scale(variable * factor)
    return tape.gradient(loss, variable)


@pytest.mark.parametrize("where", [set(), {"unscale"}, {"step"}, {"update"}, {"unscale", "step"}])
def test_each_call_may_be_in_a_function_of_its_own(where):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable(growth_interval=2)

    def place(name, call):
        return tf.function(call) if name in where else call

    gradient = place("gradient", lambda: gradient_of(scaler, variable))
    unscale = place("unscale", lambda grad: scaler.unscale_(optimizer, [grad]))
    step = place("step", lambda grad: scaler.step(optimizer, [(grad, variable)]))
    update = place("update", scaler.update)
    for _ in range(4):
        (unscaled,) = unscale(gradient())
        assert step(unscaled)
        update()
    assert variable.numpy() == -3.0
    assert scaler.get_scale().numpy() == 32.0


@each_place
def test_a_step_may_be_in_a_branch(place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @place
    def run(limit):
        grads = scaler.unscale_(optimizer, [gradient_of(scaler, variable)])
        if tf.linalg.global_norm(grads) < limit:
            scaler.step(optimizer, zip(grads, [variable]))
        scaler.update()

    for limit, value in (0.5, 1.0), (2.0, 0.0), (0.5, 0.0):
        run(tf.constant(limit))
        assert variable.numpy() == value


@each_place
def test_an_overflow_that_unscale_finds_counts_without_a_step(place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable(growth_interval=1)

    @place
    def run(factor):
        scaler.unscale_(optimizer, [gradient_of(scaler, variable, factor)])
        scaler.update()

    for factor, scale in (np.inf, 4.0), (np.nan, 2.0), (1.0, 4.0):
        run(tf.constant(factor))
        assert scaler.get_scale().numpy() == scale


@each_place
def test_gradients_that_became_infinite_after_unscale_are_not_applied(place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @place
    def run():
        (grad,) = scaler.unscale_(optimizer, [gradient_of(scaler, variable)])
        made = scaler.step(optimizer, [(grad / 0.0, variable)])
        scaler.update()
        return made

    assert not run()
    assert variable.numpy() == 1.0
    assert scaler.get_scale().numpy() == 4.0


@each_place
@pytest.mark.parametrize("in_branch", [False, True])
def test_who_forgets_what_unscale_returns_is_told(place, in_branch):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @place
    def run(is_on):
        grads = [gradient_of(scaler, variable)]
        scaler.unscale_(optimizer, grads)
        if is_on or not in_branch:
            scaler.step(optimizer, zip(grads, [variable]))

    with pytest.raises(ValueError, match=r"the gradients that unscale_\(\) was given; pass on"):
        run(tf.constant(True) if in_branch else True)
    assert variable.numpy() == 1.0


def test_a_function_that_fails_when_traced_leaves_nothing_behind():
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @tf.function
    def fails():
        scaler.unscale_(optimizer, [gradient_of(scaler, variable)])
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert scaler.step(optimizer, [(gradient_of(scaler, variable), variable)])


def test_graphs_are_not_kept():
    """Keras keeps those that step() is in, as any where its optimizers are in a branch."""
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    def traced():
        unscale = tf.function(lambda grad: scaler.unscale_(optimizer, [grad]))
        unscale(gradient_of(scaler, variable))
        scaler.update()
        return weakref.ref(unscale.get_concrete_function(tf.TensorSpec([])).graph)

    graphs = [traced() for _ in range(3)]
    gc.collect()
    assert [graph() for graph in graphs] == [None] * 3


def test_a_copy_goes_on_where_the_original_is():
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()
    scaler.step(optimizer, [(gradient_of(scaler, variable, np.inf), variable)])
    scaler.update()
    assert copy.deepcopy(scaler).state_dict() == scaler.state_dict()


@pytest.mark.parametrize("mode", ["allow_mix_precision", "force_fp16"])
def test_no_mode_lowers_the_scale(mode):
    scaler, optimizer = npu_precision.GradScaler(2.0**20), tf.keras.optimizers.SGD(0.1)
    x, variable = tf.ones([4, 8]), tf.Variable(tf.ones([8, 2]))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = scaler.scale(tf.reduce_mean(tf.matmul(x, variable)))
        made = scaler.step(optimizer, [(tape.gradient(loss, variable), variable)])
        scaler.update()
        return made

    with npu_precision.autocast(precision_mode=mode):
        made = [bool(step()) for _ in range(8)]
    assert made[-1]
    assert scaler.get_scale().numpy() == 2.0 ** (20 - made.count(False))


def test_in_a_graph_of_a_session_it_names_what_to_use():
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="NPULossScaleOptimizer"):
        npu_precision.GradScaler()


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: npu_precision.GradScaler(0), "init_scale: got 0 (int), expected a positive"),
        (lambda: npu_precision.GradScaler(growth_factor=1.0), "growth_factor: got 1.0 (float)"),
        (lambda: npu_precision.GradScaler(strategy="dynamic"), "strategy: got 'dynamic' (str), ex"),
        (
            lambda: npu_precision.GradScaler(enabled="no"),
            "enabled: got 'no' (str), expected a bool",
        ),
        (
            lambda: npu_precision.GradScaler().unscale_(tf.keras.optimizers.SGD(), tf.ones([2])),
            "grads: got <tf.Tensor",
        ),
        (
            lambda: npu_precision.GradScaler().unscale_(
                tf.keras.optimizers.SGD(), [(tf.ones([2]), None)]
            ),
            "grads: got (<tf.Tensor",
        ),
        (
            lambda: npu_precision.GradScaler().step(tf.keras.optimizers.SGD(), [tf.ones([2])]),
            "grads_and_vars: got <tf.Tensor",
        ),
        (
            lambda: npu_precision.GradScaler(8.0, strategy=NoLossScale()),
            "strategy: got one, and numbers of another: give either",
        ),
        (
            lambda: npu_precision.GradScaler().step("adam", []),
            "optimizer: got 'adam' (str), expected an optimizer of Keras",
        ),
        (
            lambda: npu_precision.GradScaler().step(
                tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD()), []
            ),
            "optimizer: got LossScaleOptimizer",
        ),
    ],
)
def test_a_mistake_is_named(mistake, message):
    with pytest.raises(ValueError, match="got") as error:
        mistake()
    assert str(error.value).startswith(message)
