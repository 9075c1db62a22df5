"""GradScaler: torch.amp's loss scaling, in tf.functions and eagerly, with Keras' optimizers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.scaled_steps import (
    Model,
    each_optimizer,
    each_place,
    train,
)
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision.loss_scaling.strategies import (
    DynamicLossScale,
    FixedLossScale,
    NoLossScale,
)

pytestmark = needs_functions_by_default


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
    """Each third batch makes a step with the sum; an overflow in any of the three skips it."""
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


@pytest.mark.parametrize(
    ("arguments", "fields", "scale"),
    [
        (("cuda",), {}, 2.0**16),
        (("cuda", 8.0), {}, 8.0),
        (("cpu",), {"init_scale": 8.0}, 8.0),
        ((), {"device": "npu", "init_scale": 8.0}, 8.0),
        (("cuda", 8.0, 2.0, 0.5, 10, False), {}, 1.0),
    ],
)
def test_the_first_argument_may_be_a_device_as_in_torch(arguments, fields, scale):
    assert npu_precision.GradScaler(*arguments, **fields).get_scale().numpy() == scale


def test_in_a_graph_of_a_session_it_names_what_to_use():
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="NPULossScaleOptimizer"):
        npu_precision.GradScaler()


@pytest.mark.parametrize(("call", "says"), [("step", "zip"), ("unscale_", "gradients = scaler")])
def test_the_form_of_torch_without_gradients_is_told(call, says):
    scaler = npu_precision.GradScaler()
    with pytest.raises(TypeError, match=f"got no gradients; they are values here.*{says}"):
        getattr(scaler, call)(tf.keras.optimizers.SGD())


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: npu_precision.GradScaler(0), "init_scale: got 0 (int), expected a positive"),
        (
            lambda: npu_precision.GradScaler("cdua"),
            "device: got 'cdua' (str), expected one of",
        ),
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
            lambda: npu_precision.GradScaler().step(
                tf.keras.optimizers.SGD(), [(tf.Variable(1.0), tf.ones([]))]
            ),
            "grads_and_vars: got pairs of a variable and a gradient",
        ),
        (
            lambda: npu_precision.GradScaler().step(
                npu_precision.amp.initialize(tf.keras.optimizers.SGD(), verbosity=0)[0], []
            ),
            "optimizer: got SGD, which scales the loss already",
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
