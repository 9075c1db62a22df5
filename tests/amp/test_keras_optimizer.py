"""npu_precision.amp with Keras' optimizers, in eager code, tf.functions and fit()."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.amp_training import KERAS, KerasModel
from support.tf_versions import needs_functions_by_default, needs_keras_2

import npu_precision
from npu_precision import amp

pytestmark = needs_functions_by_default
INF, NAN = np.inf, np.nan
each_place = pytest.mark.parametrize("place", [tf.function, lambda f: f], ids=["function", "eager"])
each_keras = pytest.mark.parametrize("make", KERAS.values(), ids=KERAS)


def finite_after(unscale):
    """Unscales, and replaces infinities and NaNs by finite values."""

    def unscale_and_clean(grads, *which):
        grads = unscale(grads, *which)
        return [tf.where(tf.math.is_finite(grad), grad, tf.zeros_like(grad)) for grad in grads]

    return unscale_and_clean


def infinite_after(unscale):
    return lambda grads, *which: [grad / 0.0 for grad in unscale(grads, *which)]


def keras_model(make, place=tf.function, unscale=None, **overrides):
    optimizer, _ = amp.initialize(make(), "O1", verbosity=0, **overrides)
    return KerasModel(amp, optimizer, place, unscale)


@each_place
@each_keras
@pytest.mark.parametrize("combine_grad", [False, True])
@pytest.mark.parametrize("unscale", [None, amp.unscale_gradients], ids=["at once", "before"])
def test_a_skipped_step_leaves_no_trace(make, place, combine_grad, unscale):
    model = keras_model(make, place, unscale, combine_grad=combine_grad)
    got = model.train(1.0, INF, 0.5, NAN, 1.0)
    plain = keras_model(make, place, loss_scale=1.0).train(1.0, 0.5, 1.0)
    # The scale is a power of two, which rounds nothing.
    np.testing.assert_array_equal(got, plain)
    assert int(model.optimizer.iterations) == 3
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 1.0, "unskipped": 0}}


@each_keras
def test_the_scale_halves_with_each_overflow(make):
    keras_model(make).train(1.0, INF, 0.5, NAN, 1.0)
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 2.0**14, "unskipped": 1}}


def test_each_loss_has_its_scale():
    model = keras_model(KERAS["sgd"], unscale=amp.unscale_gradients, num_losses=2)
    got = model.train([1.0, 1.0], [1.0, INF], [NAN, 1.0], [1.0, INF], [0.5, 2.0])
    scales = [state["loss_scale"] for state in amp.state_dict().values()]
    assert scales == [2.0**15, 2.0**14]
    plain = keras_model(KERAS["sgd"], unscale=amp.unscale_gradients, num_losses=2, loss_scale=1.0)
    np.testing.assert_array_equal(got, plain.train([1.0, 1.0], [0.5, 2.0]))


def test_several_losses_must_be_unscaled_one_by_one():
    model = keras_model(KERAS["sgd"], place=lambda f: f, num_losses=2)
    with pytest.raises(RuntimeError, match="of several, call unscale_gradients"):
        model.train([1.0, 1.0])


def test_one_of_several_losses_need_not_be():
    optimizer, _ = amp.initialize(KERAS["sgd"](), "O1", num_losses=3, verbosity=0)
    weight = tf.Variable(1.0)
    for factor in (1.0, INF):
        with tf.GradientTape() as tape, amp.scale_loss(weight * factor, optimizer, 2) as loss:
            pass
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
    assert weight.numpy() == 0.5
    scales = [state["loss_scale"] for state in amp.state_dict().values()]
    assert scales == [2.0**16, 2.0**16, 2.0**15]


def test_gradients_are_divided_by_the_scale_they_were_made_with():
    """Two optimizers share a loss scale, and the step of one lowers it."""
    (first, second), _ = amp.initialize([KERAS["sgd"](), KERAS["sgd"]()], "O1", verbosity=0)
    weights = [tf.Variable(1.0), tf.Variable(1.0)]
    grads = []
    for optimizer, weight, factor in zip((first, second), weights, (INF, 1.0)):
        with tf.GradientTape() as tape, amp.scale_loss(weight * factor, optimizer) as loss:
            pass
        grads.append(tape.gradient(loss, weight))
    first.apply_gradients([(grads[0], weights[0])])
    second.apply_gradients([(grads[1], weights[1])])
    assert [weight.numpy() for weight in weights] == [1.0, 0.5]


@each_place
def test_calls_out_of_order_are_errors(place):
    optimizer, _ = amp.initialize(KERAS["sgd"](), "O1", verbosity=0)
    weight = tf.Variable(1.0)

    @place
    def apply():
        optimizer.apply_gradients([(tf.constant(1.0), weight)])

    with pytest.raises((RuntimeError, tf.errors.InvalidArgumentError), match="scale_loss"):
        apply()
    unscale = place(lambda: amp.unscale_gradients([tf.constant(1.0)], optimizer))
    with pytest.raises((RuntimeError, tf.errors.InvalidArgumentError), match="scale_loss"):
        unscale()
    assert weight.numpy() == 1.0


@each_place
@pytest.mark.parametrize(
    ("unscale", "forgets"),
    [(False, "the tape"), (False, "the scaled loss"), (True, "the scaled loss")],
)
def test_a_step_without_the_scaled_loss_in_the_tape_is_an_error(place, unscale, forgets):
    optimizer, _ = amp.initialize(KERAS["sgd"](), "O1", verbosity=0)
    weight = tf.Variable(1.0)

    @place
    def run():
        with tf.GradientTape() as tape:
            loss = weight * 2.0
            if forgets == "the scaled loss":
                with amp.scale_loss(loss, optimizer):
                    pass
        if forgets == "the tape":
            with amp.scale_loss(loss, optimizer) as loss:
                pass
        gradients = [tape.gradient(loss, weight)]
        if unscale:
            gradients = amp.unscale_gradients(gradients, optimizer)
        optimizer.apply_gradients(zip(gradients, [weight]))

    with pytest.raises(ValueError, match=r"call scale_loss\(loss\) inside the tape's scope"):
        run()
    assert weight.numpy() == 1.0


@each_place
@pytest.mark.parametrize("options", [{"opt_level": "O0"}, {"opt_level": "O1", "loss_scale": 1.0}])
def test_where_nothing_is_scaled_gradients_of_the_loss_itself_will_do(place, options):
    optimizer, _ = amp.initialize(KERAS["sgd"](), verbosity=0, **options)
    weight = tf.Variable(1.0)

    @place
    def run():
        with tf.GradientTape() as tape:
            loss = weight * 1.0
            with amp.scale_loss(loss, optimizer):
                pass
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])

    run()
    assert weight.numpy() == 0.5


@each_place
def test_one_of_several_losses_may_reach_no_variable(place):
    optimizer, _ = amp.initialize(KERAS["sgd"](), "O1", verbosity=0, num_losses=2)
    weight, other = tf.Variable(1.0), tf.Variable(1.0)

    @place
    def run():
        with tf.GradientTape(persistent=True) as tape:
            with amp.scale_loss(weight * 1.0, optimizer, 0) as first:
                pass
            with amp.scale_loss(other * 1.0, optimizer, 1) as second:
                pass
        grads = amp.unscale_gradients([tape.gradient(first, weight)], optimizer, 0)
        amp.unscale_gradients([tape.gradient(second, weight)], optimizer, 1)
        optimizer.apply_gradients(zip(grads, [weight]))

    run()
    assert weight.numpy() == 0.5


def test_rows_of_a_table_are_unscaled_too():
    optimizer, _ = amp.initialize(KERAS["sgd"](), "O1", combine_grad=True, verbosity=0)
    table, other = tf.Variable(tf.ones([4, 2])), tf.Variable(2.0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [1, 3])) + other
        with amp.scale_loss(loss, optimizer) as scaled:
            pass
    grads = tape.gradient(scaled, [table, other])
    assert isinstance(grads[0], tf.IndexedSlices)
    optimizer.apply_gradients(zip(grads, [table, other]))
    np.testing.assert_array_equal(table, [[1, 1], [0.5, 0.5], [1, 1], [0.5, 0.5]])
    assert other.numpy() == 1.5


def test_the_options_are_in_force_at_once():
    amp.initialize(KERAS["sgd"](), "O3", verbosity=0)
    assert npu_precision.active_options().precision_mode == "force_fp16"


def test_gradients_that_unscaling_was_given_are_refused():
    optimizer, _ = amp.initialize(KERAS["sgd"](), "O1", verbosity=0)
    weight = tf.Variable(1.0)
    with tf.GradientTape() as tape, amp.scale_loss(weight * 1.0, optimizer) as loss:
        pass
    grads = tape.gradient(loss, [weight])
    unscaled = amp.unscale_gradients(grads, optimizer)
    with pytest.raises(ValueError, match="pass on those that it returned"):
        optimizer.apply_gradients(zip(grads, [weight]))
    optimizer.apply_gradients(zip(unscaled, [weight]))
    assert weight.numpy() == 0.5


def test_what_is_done_to_gradients_after_unscaling_hides_no_overflow():
    model = keras_model(KERAS["sgd"], unscale=finite_after(amp.unscale_gradients))
    before = model.weight.numpy()
    np.testing.assert_array_equal(model.train(INF), before)
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**15
    assert int(model.optimizer.npu_precision_losses.skipped_steps) == 1


def test_an_overflow_after_unscaling_lowers_the_scale_of_the_only_loss():
    model = keras_model(KERAS["sgd"], unscale=infinite_after(amp.unscale_gradients))
    model.train(1.0)
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**15


def test_batches_may_be_unscaled_one_by_one():
    """A batch that overflows skips the step, even if the last batch does not."""
    optimizer, _ = amp.initialize(KERAS["sgd"](), "O1", verbosity=0)
    weight = tf.Variable(1.0)
    for factors, expected in ((INF, 1.0), 1.0), ((1.0, 1.0), 0.0):
        total = 0.0
        for factor in factors:
            with tf.GradientTape() as tape, amp.scale_loss(weight * factor, optimizer) as loss:
                pass
            (grad,) = amp.unscale_gradients([tape.gradient(loss, weight)], optimizer)
            total += tf.where(tf.math.is_finite(grad), grad, 0.0)
        optimizer.apply_gradients([(total, weight)])
        assert weight.numpy() == expected


@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
@pytest.mark.parametrize("scale", [2.0**10, 2.0**17, 2.0**30])
def test_no_level_lowers_the_scale(level, scale):
    """float16 ends at 65504."""
    optimizer, _ = amp.initialize(
        tf.keras.optimizers.SGD(1.0), level, loss_scale=scale, verbosity=0
    )
    weight = tf.Variable([1.0] * 4)

    @tf.function
    def step(gradient):
        with amp.scale_loss(tf.constant(1.0), optimizer):
            pass
        optimizer.apply_gradients([(gradient, weight)])

    step(tf.constant([scale] * 4))
    np.testing.assert_array_equal(weight, [0.0] * 4)


@pytest.mark.parametrize("scale", [2.0**15, 2.0**22])
def test_at_o2_the_scale_may_be_larger_than_float16(scale):
    optimizer, _ = amp.initialize(tf.keras.optimizers.SGD(1.0), "O2", loss_scale=scale, verbosity=0)
    weight = tf.Variable(tf.ones([4, 4]))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            logits = tf.matmul(tf.ones([4, 4]), weight)
            labels = tf.constant([[1.0, 0.0, 0.0, 0.0]] * 4)
            loss = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            with amp.scale_loss(tf.reduce_mean(loss) * 1e-2, optimizer) as scaled:
                pass
        optimizer.apply_gradients([(tape.gradient(scaled, weight), weight)])

    for _ in range(3):
        step()
    assert int(optimizer.iterations) == 3


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_fit_scales_skips_and_learns(level, tmp_path):
    optimizer, _ = amp.initialize(tf.keras.optimizers.SGD(0.1), level, verbosity=0)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False)])
    # XLA would compile the nodes that the test looks at.
    no_xla = {"jit_compile": False} if hasattr(optimizer, "apply") else {}
    model.compile(optimizer, "mse", **no_xla)
    x = np.ones([8, 2], np.float32)
    with npu_precision.FlightRecorder(tmp_path) as recorder:
        first = model.evaluate(x, np.ones(8), verbose=0)
        model.fit(x, np.ones(8), batch_size=2, epochs=5, verbose=0)
        model.fit(x * np.float32(INF), np.ones(8), batch_size=8, verbose=0)
    assert "21 steps, " in recorder.summary()
    assert model.evaluate(x, np.ones(8), verbose=0) < 0.1 * first
    made = int(optimizer.iterations)
    assert made + int(optimizer.npu_precision_losses.skipped_steps) == 21
    assert made < 21


@needs_keras_2
def test_minimize_scales_as_fit_does():
    optimizer, _ = amp.initialize(KERAS["sgd"](), "O1", verbosity=0)
    weight = tf.Variable(1.0)
    optimizer.minimize(lambda: weight * 1.0, [weight])
    assert weight.numpy() == 0.5
    optimizer.minimize(lambda: weight * INF, [weight])
    assert weight.numpy() == 0.5
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**15


def test_a_policy_that_scales_too_is_refused():
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        with pytest.raises(ValueError, match="Keras' global policy is mixed_float16"):
            amp.initialize(KERAS["sgd"](), "O1", verbosity=0)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


def test_a_copy_without_losses_is_an_optimizer_as_any():
    optimizer, _ = amp.initialize(KERAS["sgd"](), "O1", verbosity=0)
    copy = type(optimizer).from_config(optimizer.get_config())
    weight = tf.Variable(1.0)
    copy.apply_gradients([(tf.constant(1.0), weight)])
    assert weight.numpy() == 0.5


def test_a_list_of_which_one_is_refused_is_left_as_it_was():
    optimizer = KERAS["sgd"]()
    with pytest.raises(ValueError, match="expected an optimizer of Keras or"):
        amp.initialize([optimizer, None], "O1")
    assert amp.initialize(optimizer, "O1", verbosity=0)[0] is optimizer


def test_a_list_with_different_scales_is_refused():
    pair = [amp.initialize(KERAS["sgd"](), "O1", verbosity=0)[0] for _ in range(2)]
    for optimizers, message in (pair, "whose scales differ"), ([], "got an empty list"):
        scaled = amp.scale_loss(tf.constant(1.0), optimizers)
        with pytest.raises(ValueError, match=message), scaled:
            pass


@pytest.mark.parametrize(
    ("loss", "message"),
    [(lambda: 1.0, "expected a tensor"), (tf.constant(1), "got a tensor of int32")],
)
def test_what_is_no_loss_is_refused(loss, message):
    optimizer, _ = amp.initialize(KERAS["sgd"](), "O1", verbosity=0)
    scaled = amp.scale_loss(loss, optimizer)
    with pytest.raises(ValueError, match=message), scaled:
        pass


def test_an_optimizer_is_saved_as_what_it_was():
    optimizer, _ = amp.initialize(tf.keras.optimizers.Adam(0.25), "O1", verbosity=0)
    config = tf.keras.optimizers.serialize(optimizer)
    assert config["class_name"] == "Adam"
    again = tf.keras.optimizers.deserialize(config)
    assert type(again) is tf.keras.optimizers.Adam


def test_the_scale_is_in_checkpoints(tmp_path):
    model = keras_model(KERAS["adam"])
    model.train(INF, 1.0)
    path = tf.train.Checkpoint(optimizer=model.optimizer).save(str(tmp_path / "checkpoint"))
    other = keras_model(KERAS["adam"])
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**16
    tf.train.Checkpoint(optimizer=other.optimizer).restore(path).expect_partial()
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 2.0**15, "unskipped": 1}}


def test_keras_in_a_session_is_an_error_that_says_what_to_do():
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="tf.compat.v1.train"):
        amp.initialize(KERAS["sgd"](), "O1", verbosity=0)


ADAM = tf.keras.optimizers.Adam


@pytest.mark.parametrize(
    ("level", "make", "is_told"),
    [
        ("O3", lambda: ADAM(0.5), True),
        ("O2", lambda: ADAM(0.5), False),
        ("O3", lambda: ADAM(0.5, epsilon=1e-4), False),
        ("O3", KERAS["sgd"], False),
        *([("O3", KERAS["fused adam"], False)] if "fused adam" in KERAS else []),
    ],
)
def test_o3_tells_of_an_epsilon_that_float16_loses(level, make, is_told, caplog):
    amp.initialize(make(), level, verbosity=0)
    assert ("Adam computes its update in float16, as O3 has all" in caplog.text) == is_told


@pytest.mark.parametrize(("dtype", "is_told"), [(tf.float32, False), (tf.float16, True)])
def test_variables_in_float16_are_told_of_too(dtype, is_told, caplog):
    optimizer, _ = amp.initialize(ADAM(0.5), "O1", loss_scale=8.0, verbosity=0)
    weight = tf.Variable(1.0, dtype=dtype)
    with tf.GradientTape() as tape, amp.scale_loss(weight * 1.0, optimizer) as loss:
        pass
    optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
    assert ("as its variables are" in caplog.text) == is_told
