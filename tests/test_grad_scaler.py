"""GradScaler: torch.amp's loss scaling, in tf.functions and eagerly, with Keras' optimizers."""

from __future__ import annotations

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
    scaler.load_state_dict({})


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
    with pytest.raises(ValueError, match=r"^new_scale: got 0 \(int\), expected a positive"):
        scaler.update(new_scale=0)


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
    tf.train.Checkpoint(scaler=second).restore(path)
    second.get_scale()
    assert second.state_dict() == first.state_dict()
    assert second.skipped_steps.numpy() == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"more": 1}, "state_dict: got the names ['_growth_tracker', "),
        ({"growth_factor": 3.0}, "state_dict: got growth_factor 3.0, and this scaler was made"),
        ({"scale": -1.0}, "scale: got -1.0 (float), expected a positive"),
    ],
)
def test_a_state_dict_of_another_scaler_is_refused(changed, message):
    scaler = npu_precision.GradScaler()
    with pytest.raises(ValueError, match="got") as error:
        scaler.load_state_dict({**scaler.state_dict(), **changed})
    assert str(error.value).startswith(message)


@each_place
@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (["step"], r"step\(\) is called without scale\(\)"),
        (["scale", "unscale", "unscale"], r"unscale_\(\) was called for this optimizer"),
        (["scale", "step", "unscale"], r"unscale_\(\) is called after step\(\)"),
        (["scale", "step", "step"], r"step\(\) was called for this optimizer"),
    ],
)
def test_calls_in_a_wrong_order_are_refused(calls, message, place):
    scaler, optimizer, variable = (
        npu_precision.GradScaler(),
        tf.keras.optimizers.SGD(0.1),
        tf.Variable(1.0),
    )
    gradient = tf.constant(1.0)
    make = {
        "scale": lambda: scaler.scale(gradient),
        "unscale": lambda: scaler.unscale_(optimizer, [gradient]),
        "step": lambda: scaler.step(optimizer, [(gradient, variable)]),
    }

    @place
    def run():
        for call in calls:
            make[call]()

    with pytest.raises(RuntimeError, match=message):
        run()


def test_gradients_that_another_function_unscaled_are_refused():
    scaler, optimizer, variable = (
        npu_precision.GradScaler(),
        tf.keras.optimizers.SGD(0.1),
        tf.Variable(1.0),
    )
    gradients = scaler.unscale_(optimizer, [scaler.scale(tf.constant(1.0))])

    @tf.function
    def step():
        return scaler.step(optimizer, zip(gradients, [variable]))

    with pytest.raises(RuntimeError, match=r"step\(\) is not where unscale_\(\) is"):
        step()


def test_in_a_graph_of_a_session_it_names_what_to_use():
    scaler = npu_precision.GradScaler()
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="NPULossScaleOptimizer"):
        scaler.scale(tf.constant(1.0))


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: npu_precision.GradScaler(0), "init_scale: got 0 (int), expected a positive"),
        (lambda: npu_precision.GradScaler(growth_factor=1.0), "growth_factor: got 1.0 (float)"),
        (lambda: npu_precision.GradScaler(strategy="dynamic"), "strategy: got 'dynamic' (str), ex"),
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
