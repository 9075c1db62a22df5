"""amp.initialize() with models, as Apex documents it, and its effect until enabled=False."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision import amp

tf1 = tf.compat.v1
pytestmark = needs_functions_by_default
MODE = "allow_mix_precision"


def model():
    return tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(2)])


def sgd():
    return tf.keras.optimizers.SGD(0.1)


def gradient_of(loss_of, weight, optimizer, **flags):
    """The gradient of the scaled loss."""
    with tf.GradientTape() as tape, amp.scale_loss(loss_of(weight), optimizer, **flags) as loss:
        pass
    return tape.gradient(loss, weight)


def initialize(*arguments, **overrides):
    return amp.initialize(*arguments, verbosity=0, **overrides)


def test_a_model_and_its_optimizer_come_back():
    net, optimizer = model(), sgd()
    got = initialize(net, optimizer, opt_level="O2")
    assert got[0] is net
    assert got[1] is optimizer
    assert npu_precision.active_options().all_white


def test_a_model_may_be_unbuilt():
    net = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    assert initialize(net, sgd())[0] is net


def test_a_model_that_was_fitted_before_scales_its_loss_from_then_on():
    net, optimizer = model(), sgd()
    net.compile(optimizer, "mse")
    x, y = np.ones([8, 4], np.float32), np.ones([8, 2], np.float32)
    net.fit(x, y, verbose=0)
    initialize(net, optimizer)
    begun = amp.state_dict()
    net.fit(x, y, epochs=2, verbose=0)
    assert amp.state_dict() != begun


def test_lists_come_back_as_lists():
    nets, optimizers = [model(), model()], [sgd(), sgd()]
    got_nets, got_optimizers = initialize(nets, optimizers, opt_level="O1", num_losses=3)
    assert got_nets == nets
    assert got_optimizers == optimizers
    assert len(amp.state_dict()) == 3


def test_one_model_and_several_optimizers():
    net, optimizers = model(), [sgd(), sgd()]
    got = initialize(net, optimizers)
    assert got[0] is net
    assert got[1] == optimizers


def test_without_an_optimizer_it_is_for_inference():
    net = model()
    assert initialize(net, opt_level="O1") is net
    assert npu_precision.active_options().precision_mode == MODE
    assert amp.state_dict() == {}
    nets = [model(), model()]
    assert initialize(nets, None) == nets


def test_the_form_without_a_model_is_as_it_was():
    optimizer = sgd()
    got, config = initialize(optimizer, "O1")
    assert got is optimizer
    assert config.graph_options.rewrite_options.custom_optimizers[0].name == "NpuOptimizer"
    assert initialize(optimizer=sgd(), opt_level="O2")[1] is not None


def test_the_third_argument_is_enabled_as_in_apex():
    net, optimizer = model(), sgd()
    assert initialize(net, optimizer, False) == (net, optimizer)
    assert npu_precision.active_options() is None


@pytest.mark.parametrize(
    ("arguments", "overrides", "message"),
    [
        (lambda: (sgd(), model()), {}, "got an optimizer and then a model: the order is"),
        (lambda: (model(), "O1"), {}, "a level is given as opt_level='O1'"),
        (lambda: (model(), 3), {}, r"optimizers: got 3 \(int\), expected an optimizer of Keras"),
        (lambda: ("model", sgd()), {}, "got 'model' .str., expected an optimizer of Keras or"),
        (lambda: (tf.keras.Model, sgd()), {}, "or a model, and then its optimizer"),
        (lambda: (model(), sgd(), "O1"), {}, r"enabled: got 'O1' \(str\), expected a bool"),
        (lambda: (sgd(), sgd()), {}, "got optimizers twice"),
        (
            lambda: (model(), tf1.train.GradientDescentOptimizer(0.1)),
            {},
            "without the model",
        ),
        (lambda: (model(), sgd()), {"opt_level": "01"}, "the letter is O, not zero"),
    ],
)
def test_bad_calls_are_one_line_each(arguments, overrides, message):
    with pytest.raises(ValueError, match=message) as error:
        initialize(*arguments(), **overrides)
    assert "\n" not in str(error.value)
    assert npu_precision.active_options() is None


def test_models_and_optimizers_of_another_framework_are_named():
    optimizer_of_torch = type("SGD", (), {"__module__": "torch.optim.sgd", "step": None})()
    module_of_torch = type("Linear", (), {"__module__": "torch.nn.modules.linear"})()
    for arguments in ((model(), optimizer_of_torch), (module_of_torch, sgd())):
        with pytest.raises(ValueError, match=r"got a torch\..*, which is of torch; expected"):
            initialize(*arguments)


def test_swapped_arguments_of_scale_loss_are_told():
    _, optimizer = initialize(model(), sgd())
    expected = pytest.raises(ValueError, match="expected what amp.initialize")
    with expected, amp.scale_loss(optimizer, tf.constant(1.0)):
        pass


def test_a_policy_of_keras_that_is_set_later_is_refused_at_the_step():
    net, optimizer = initialize(model(), sgd())
    gradient = gradient_of(lambda w: w * w, net.weights[0], [optimizer])
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        with pytest.raises(ValueError, match="Keras' global policy is mixed_float16"):
            optimizer.apply_gradients([(gradient, net.weights[0])])
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


@pytest.mark.parametrize(
    ("level", "in_function", "warns"), [("O1", False, 1), ("O1", True, 0), ("O0", False, 0)]
)
def test_a_loss_that_is_computed_eagerly_is_told_of_once(level, in_function, warns, caplog):
    net, optimizer = initialize(model(), sgd(), opt_level=level)
    weight = net.weights[0]
    compute = tf.function(lambda: tf.reduce_sum(weight * weight))
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = compute() if in_function else tf.reduce_sum(weight * weight)
            with amp.scale_loss(loss, optimizer) as scaled:
                pass
        optimizer.apply_gradients([(tape.gradient(scaled, weight), weight)])
    said = [message for message in caplog.messages if "computed eagerly" in message]
    assert len(said) == warns


def test_an_unknown_override_has_a_guess():
    with pytest.raises(TypeError, match="unknown override 'opt_levle'"):
        initialize(model(), sgd(), opt_levle="O1")


def test_enabled_false_ends_what_an_earlier_call_began():
    net, optimizer = initialize(model(), sgd())
    weight = tf.Variable(1.0)
    assert initialize(net, optimizer, enabled=False) == (net, optimizer)
    assert npu_precision.active_options() is None
    assert type(optimizer) is tf.keras.optimizers.SGD
    with amp.scale_loss(tf.constant(2.0), optimizer) as scaled:
        assert float(scaled) == 2.0
    optimizer.apply_gradients([(tf.constant(1.0), weight)])
    assert float(weight) == pytest.approx(0.9)
    initialize(net, optimizer)  # and it may begin again
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**16


def test_enabled_false_gives_back_the_optimizer_of_tf1():
    plain = tf1.train.GradientDescentOptimizer(0.1)
    with tf.Graph().as_default():
        wrapped, _ = initialize(plain, "O1")
        assert wrapped is not plain
        assert initialize(wrapped, "O1", enabled=False)[0] is plain


def test_master_params_are_the_variables():
    net, optimizer = initialize(model(), sgd())
    assert [v.shape for v in amp.master_params(optimizer)] == [v.shape for v in net.weights]
    weight = tf.Variable([1.0])
    optimizer.apply_gradients([(gradient_of(tf.reduce_sum, weight, optimizer), weight)])
    assert list(amp.master_params(optimizer)) == [weight]


def test_master_params_where_amp_is_not_enabled():
    net, optimizer = initialize(model(), sgd(), enabled=False)
    assert [v.shape for v in amp.master_params(optimizer)] == [v.shape for v in net.weights]


def test_master_params_of_nobody_knows_which_variables():
    optimizer, _ = initialize(sgd(), "O1")
    with pytest.raises(RuntimeError, match=r"give initialize\(\) the model too"):
        next(amp.master_params(optimizer))
    with pytest.raises(ValueError, match=r"expected what amp.initialize\(\) returned"):
        next(amp.master_params(sgd()))


@pytest.mark.parametrize("place", [tf.function, lambda function: function], ids=["graph", "eager"])
def test_an_overflow_is_printed_with_the_new_scale(place, capfd):
    optimizer, _ = amp.initialize(sgd(), "O1")
    capfd.readouterr()
    weight = tf.Variable([1.0])

    @place
    def step(factor):
        gradient = gradient_of(lambda w: tf.reduce_sum(w * factor), weight, optimizer)
        optimizer.apply_gradients([(gradient, weight)])

    for factor in (1.0, np.inf, 1.0):
        step(tf.constant(factor))
    printed = capfd.readouterr().out
    line = "npu_precision.amp: gradient overflow, step skipped; loss scaler 0 scales by 32768"
    assert printed.count("overflow") == 1
    assert line in printed


def test_nothing_is_printed_without_verbosity(capfd):
    optimizer, _ = initialize(sgd(), "O1")
    weight = tf.Variable([1.0])
    gradient = gradient_of(lambda w: tf.reduce_sum(w * np.inf), weight, optimizer)
    optimizer.apply_gradients([(gradient, weight)])
    assert "overflow" not in capfd.readouterr().out


def test_gradients_accumulate_with_delay_unscale():
    optimizer, _ = initialize(sgd(), "O1")
    weight = tf.Variable([1.0])
    total = tf.zeros([1])
    for last in (False, False, True):
        total += gradient_of(
            lambda w: tf.reduce_sum(w * 2.0) / 3.0, weight, optimizer, delay_unscale=not last
        )
    optimizer.apply_gradients([(total, weight)])
    assert weight.numpy() == pytest.approx([1.0 - 0.1 * 2.0])


@pytest.mark.parametrize("overflows_in", [None, 0, 1, 2])
def test_a_gan_of_two_models_two_optimizers_and_three_losses(overflows_in):
    """As in Apex' DCGAN: the discriminator has two losses, on real and on fake images."""
    dense = tf.keras.layers.Dense
    discriminator = tf.keras.Sequential([tf.keras.Input([8]), dense(16, "relu"), dense(1)])
    generator = tf.keras.Sequential([tf.keras.Input([4]), dense(16, "relu"), dense(8)])
    nets = [discriminator, generator]
    _, (opt_d, opt_g) = initialize(nets, [sgd(), sgd()], opt_level="O1", num_losses=3)

    def loss_of(logits, is_real):
        labels = tf.fill(tf.shape(logits), float(is_real))
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))

    @tf.function
    def step(real, noise, factors):
        found = []
        for loss_id, (images, is_real) in enumerate(((real, 1), (generator(noise), 0))):
            with tf.GradientTape() as tape:
                loss = loss_of(discriminator(images), is_real) * factors[loss_id]
                with amp.scale_loss(loss, opt_d, loss_id=loss_id) as scaled:
                    pass
            gradients = tape.gradient(scaled, discriminator.trainable_variables)
            found.append(amp.unscale_gradients(gradients, opt_d, loss_id=loss_id))
        summed = [tf.add_n(pair) for pair in zip(*found)]
        opt_d.apply_gradients(zip(summed, discriminator.trainable_variables))
        with tf.GradientTape() as tape:
            loss = loss_of(discriminator(generator(noise)), 1) * factors[2]
            with amp.scale_loss(loss, opt_g, loss_id=2) as scaled:
                pass
        gradients = tape.gradient(scaled, generator.trainable_variables)
        opt_g.apply_gradients(zip(gradients, generator.trainable_variables))

    random = np.random.RandomState(0)
    factors = np.ones(3, np.float32)
    if overflows_in is not None:
        factors[overflows_in] = np.inf
    before = [[v.numpy() for v in net.trainable_variables] for net in nets]
    images, noise = random.randn(16, 8), random.randn(16, 4)
    step(tf.constant(images, tf.float32), tf.constant(noise, tf.float32), tf.constant(factors))
    moved = [
        any(np.any(v.numpy() != old) for v, old in zip(net.trainable_variables, olds))
        for net, olds in zip(nets, before)
    ]
    assert moved == [overflows_in not in (0, 1), overflows_in != 2]
    scales = [amp.state_dict()[f"loss_scaler{number}"]["loss_scale"] for number in range(3)]
    assert scales == [2.0**15 if number == overflows_in else 2.0**16 for number in range(3)]


class TwoOptimizers:
    """A loss of two weights, each with an optimizer; a factor for the gradient of each."""

    def __init__(self, place, unscale_first=False):
        self.weights = [tf.Variable([1.0]), tf.Variable([1.0])]
        _, self.optimizers = initialize(model(), [sgd(), sgd()], opt_level="O1")

        def step(factors):
            weights, optimizers = self.weights, self.optimizers
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.add_n([tf.reduce_sum(w * f) for w, f in zip(weights, factors)])
                with amp.scale_loss(loss, optimizers) as scaled:
                    pass
            gradients = [tape.gradient(scaled, weight) for weight in weights]
            if unscale_first:
                gradients = [
                    amp.unscale_gradients([gradient], optimizer)[0]
                    for gradient, optimizer in zip(gradients, optimizers)
                ]
            for optimizer, gradient, weight in zip(optimizers, gradients, weights):
                optimizer.apply_gradients([(gradient, weight)])

        self._step = place(step)

    def moved(self, *factors):
        """The weights that a step moves, and the state of the scale after it."""
        before = [weight.numpy() for weight in self.weights]
        self._step([tf.constant(factor) for factor in factors])
        now = [weight.numpy() for weight in self.weights]
        moved = [bool(np.any(a != b)) for a, b in zip(now, before)]
        return moved, amp.state_dict()["loss_scaler0"]


@pytest.mark.parametrize("place", [tf.function, lambda function: function], ids=["graph", "eager"])
def test_optimizers_that_share_a_loss_adjust_its_scale_once(place):
    training = TwoOptimizers(place)
    scale = 2.0**16
    assert training.moved(1.0, 1.0) == ([True, True], {"loss_scale": scale, "unskipped": 1})
    assert training.moved(1.0, 1.0) == ([True, True], {"loss_scale": scale, "unskipped": 2})
    halved = {"loss_scale": scale / 2, "unskipped": 0}
    assert training.moved(np.inf, 1.0) == ([False, False], halved)
    # The first has stepped by the time that the second meets its overflow.
    assert training.moved(1.0, np.inf) == ([True, False], {"loss_scale": scale / 4, "unskipped": 0})


@pytest.mark.parametrize("factors", [(np.inf, 1.0), (1.0, np.inf)])
def test_they_skip_together_where_all_are_unscaled_first(factors):
    training = TwoOptimizers(tf.function, unscale_first=True)
    halved = {"loss_scale": 2.0**15, "unskipped": 0}
    assert training.moved(*factors) == ([False, False], halved)
    assert training.moved(1.0, 1.0) == ([True, True], {"loss_scale": 2.0**15, "unskipped": 1})


@pytest.mark.parametrize("place", [tf.function, lambda function: function], ids=["graph", "eager"])
def test_a_loss_has_one_scale_where_one_of_them_has_not_stepped(place):
    """The next loss is scaled by the scale that the other optimizers have adjusted."""
    _, optimizers = initialize(model(), [sgd(), sgd()])
    weights = [tf.Variable([1.0]), tf.Variable([1.0])]

    @place
    def gradients(factor):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((weights[0] + weights[1]) * factor)
            with amp.scale_loss(loss, optimizers) as scaled:
                pass
        return tape.gradient(scaled, weights)

    first, _ = gradients(tf.constant(1e38))
    optimizers[0].apply_gradients([(first, weights[0])])
    unscaled = [
        amp.unscale_gradients([gradient], optimizer)[0].numpy()
        for gradient, optimizer in zip(gradients(tf.constant(0.125)), optimizers)
    ]
    assert unscaled == [[0.125], [0.125]]
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**15


def test_a_loss_that_fewer_share_than_the_last_waits_for_these():
    _, optimizers = initialize(model(), [sgd(), sgd(), sgd()])
    weight = tf.Variable([1.0])
    gradient_of(tf.reduce_sum, weight, optimizers)  # Nobody steps.
    for expected in 2.0**15, 2.0**14:
        gradient = gradient_of(lambda w: tf.reduce_sum(w * np.inf), weight, optimizers[:2])
        for optimizer in optimizers[:2]:
            optimizer.apply_gradients([(gradient, weight)])
        assert amp.state_dict()["loss_scaler0"]["loss_scale"] == expected


def test_where_one_of_them_never_steps_the_others_adjust_the_scale():
    _, optimizers = initialize(model(), [sgd(), sgd()])
    weight = tf.Variable([1.0])
    for _ in range(3):
        gradient = gradient_of(lambda w: tf.reduce_sum(w * np.inf), weight, optimizers)
        optimizers[0].apply_gradients([(gradient, weight)])
    # The last step does not count until the other optimizer has made its own.
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**14
