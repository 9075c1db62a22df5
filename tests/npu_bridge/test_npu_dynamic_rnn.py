"""npu_dynamic_rnn: compares the LSTM and GRU of an NPU with NumPy, also in a mode that lowers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import npu_precision
from npu_precision.npu_bridge import npu_rnn
from npu_precision.npu_bridge.npu_dynamic_rnn import DynamicGRUV2, DynamicRNN

tf1 = tf.compat.v1
STEPS, BATCH, FEATURES, HIDDEN = 5, 3, 4, 6


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, w, b, h, c, forget_bias=0.0, lengths=None):
    """The eight results of DynamicRNN, in NumPy."""
    results = []
    for number, now in enumerate(x):
        i, j, f, o = np.split(np.concatenate([now, h], 1) @ w + b, 4, axis=1)
        i, j, f, o = sigmoid(i), np.tanh(j), sigmoid(f + forget_bias), sigmoid(o)
        new_c = f * c + i * j
        tanhc = np.tanh(new_c)
        alive = np.ones([BATCH, 1]) if lengths is None else (number < np.array(lengths))[:, None]
        y = alive * (o * tanhc)
        h, c = np.where(alive, y, h), np.where(alive, new_c, c)
        results.append((y, h, c, i, j, f, o, tanhc))
    return [np.stack(each) for each in zip(*results)]


def gru(x, wi, wh, bi, bh, h, order="zrh", reset_after=True, lengths=None):
    """The six results of DynamicGRUV2, in NumPy."""
    results = []
    for number, now in enumerate(x):
        of_x = dict(zip(order, np.split(now @ wi + bi, 3, axis=1)))
        of_h = dict(zip(order, np.split(h @ wh + bh, 3, axis=1)))
        z, r = sigmoid(of_x["z"] + of_h["z"]), sigmoid(of_x["r"] + of_h["r"])
        if reset_after:
            hidden_new = of_h["h"]
            new = np.tanh(of_x["h"] + r * hidden_new)
        else:
            hidden_new = (r * h) @ wh[:, 2 * HIDDEN :] + bh[2 * HIDDEN :]
            new = np.tanh(of_x["h"] + hidden_new)
        alive = np.ones([BATCH, 1]) if lengths is None else (number < np.array(lengths))[:, None]
        y = alive * ((1 - z) * new + z * h)
        h = np.where(alive, y, h)
        results.append((y, h, z, r, new, hidden_new))
    return [np.stack(each) for each in zip(*results)]


@pytest.fixture
def run():
    """Calls layer(x, **arguments) in a session, and compares with NumPy(x, *variables)."""
    random = np.random.default_rng(0)
    x = random.normal(size=[STEPS, BATCH, FEATURES]).astype(np.float32)

    def compare(layer, exact, arguments, states, tolerance=1e-5, mode=None):
        config = npu_precision.npu_config_proto(precision_mode=mode)
        with tf.Graph().as_default(), tf1.Session(config=config) as session:
            results = layer(tf1.placeholder_with_default(x, x.shape), **arguments)
            session.run(tf1.global_variables_initializer())
            for variable in tf1.global_variables():
                values = random.normal(size=variable.shape).astype(np.float32)
                variable.load(values, session)
            variables = session.run(tf1.global_variables())
            made = session.run(results)
        for value, expected in zip(made, exact(x, *variables, *states)):
            assert value.shape == (STEPS, BATCH, HIDDEN)
            np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance)
        assert len(made) == len(exact(x, *variables, *states))

    return compare


ZEROS = np.zeros([BATCH, HIDDEN], np.float32)
H = np.random.default_rng(1).normal(size=[BATCH, HIDDEN]).astype(np.float32)


@pytest.mark.parametrize("forget_bias", [0.0, 1.0])
def test_the_lstm_computes_that_of_an_npu(run, forget_bias):
    layer = DynamicRNN(hidden_size=HIDDEN, dtype=tf.float32, forget_bias=forget_bias)
    run(layer, lambda *given: lstm(*given, forget_bias=forget_bias), {}, [ZEROS, ZEROS])


def test_the_lstm_begins_with_given_states(run):
    layer = DynamicRNN(HIDDEN, tf.float32)
    # With the shape of an NPU, [1, batch, hidden], and without the 1.
    run(layer, lstm, {"init_h": H[None], "init_c": 2 * H}, [H, 2 * H])


def test_past_its_end_a_sequence_has_zeros_and_its_states_stay(run):
    lengths = [1, 5, 3]
    arguments = {"seq_length": lengths}
    layer = DynamicRNN(HIDDEN, tf.float32)
    run(layer, lambda *given: lstm(*given, lengths=lengths), arguments, [ZEROS, ZEROS])


@pytest.mark.parametrize("order", ["zrh", "rzh"])
@pytest.mark.parametrize("reset_after", [True, False])
def test_the_gru_computes_that_of_an_npu(run, order, reset_after):
    layer = DynamicGRUV2(HIDDEN, tf.float32, gate_order=order, reset_after=reset_after)
    run(
        layer,
        lambda *given: gru(*given, order=order, reset_after=reset_after, lengths=[4, 5, 1]),
        {"init_h": H, "seq_length": [4, 5, 1]},
        [H],
    )


def test_they_train_and_stay_close_in_a_mode_that_lowers(run):
    # bfloat16 has 8 bits; weights of a normal distribution magnify.
    layer = DynamicRNN(HIDDEN, tf.float32)
    run(layer, lstm, {}, [ZEROS, ZEROS], tolerance=0.1, mode="allow_mix_precision_bf16")
    layer = DynamicGRUV2(HIDDEN, tf.float32)
    run(layer, gru, {}, [ZEROS], tolerance=0.1, mode="allow_mix_precision_bf16")


def test_variables_are_those_of_an_instance():
    with tf.Graph().as_default():
        x = tf.zeros([STEPS, BATCH, FEATURES])
        first, second = DynamicRNN(HIDDEN, tf.float32), DynamicRNN(HIDDEN, tf.float32)
        y = first(x)[0] + second(x)[0] + first(x)[0]
        assert {v.name: v.shape.as_list() for v in tf1.trainable_variables()} == {
            "dynamic_rnn/w:0": [FEATURES + HIDDEN, 4 * HIDDEN],
            "dynamic_rnn/b:0": [4 * HIDDEN],
            "dynamic_rnn_1/w:0": [FEATURES + HIDDEN, 4 * HIDDEN],
            "dynamic_rnn_1/b:0": [4 * HIDDEN],
        }
        assert None not in tf.gradients(y, tf1.trainable_variables())
        lowered = DynamicGRUV2(HIDDEN, tf.float16)(x)
        assert {each.dtype for each in lowered} == {tf.float16}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: DynamicRNN(6, tf.float32, direction="BIDIRECTIONAL"),
            "direction: got 'BIDIRECTIONAL' (str), expected 'UNIDIRECTIONAL'; an NPU has no other",
        ),
        (
            lambda: DynamicGRUV2(6, tf.float32, time_major=False),
            "time_major: got False (bool), expected True; an NPU has no other",
        ),
        (
            lambda: DynamicGRUV2(6, tf.float32, gate_order="hzr"),
            "gate_order: got 'hzr' (str), expected 'zrh' or 'rzh'",
        ),
        (
            lambda: DynamicRNN(6, tf.float32)(np.zeros([5, 4], np.float32)),
            "x: got a tensor of shape (5, 4), expected [steps, batch, features] with a known "
            "number of features",
        ),
    ],
)
def test_what_an_npu_does_not_have_is_an_error(make, message):
    with tf.Graph().as_default(), pytest.raises(ValueError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.skipif(
    not hasattr(tf1.nn.rnn_cell, "BasicLSTMCell"), reason="TensorFlow with Keras 3 has no RNNCells"
)
def test_npu_dynamic_rnn_is_that_of_tensorflow_with_steps_first():
    x = np.random.default_rng(0).normal(size=[STEPS, BATCH, FEATURES]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        cell = tf1.nn.rnn_cell.BasicLSTMCell(HIDDEN, forget_bias=1.0)
        outputs, state = npu_rnn.npu_dynamic_rnn(cell, tf.constant(x), dtype=tf.float32)
        session.run(tf1.global_variables_initializer())
        outputs, h, w, b = session.run([outputs, state.h, *cell.variables])
    expected = lstm(x, w, b, ZEROS, ZEROS, forget_bias=1.0)[0]
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(h, expected[-1], rtol=0, atol=1e-5)
