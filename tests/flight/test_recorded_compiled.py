"""FlightRecorder: what XLA compiles is counted as it is where TensorFlow runs it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_compiled_functions

import npu_precision
from npu_precision.flight import tensor_watch

tf1 = tf.compat.v1
pytestmark = needs_compiled_functions
FP16 = {"precision_mode": "allow_mix_precision", "float16_compute": "native"}
BF16 = {"precision_mode": "allow_mix_precision_bf16"}
RANDOM = np.random.default_rng(0)
W = RANDOM.normal(size=[16, 16]).astype(np.float32)


def watched_steps(function, *batches, mode=FP16, every_n_steps=1, watch="lowered"):
    """The recorded steps of calls of the function, one per batch."""
    seen = []
    recording = tensor_watch.TensorWatch(watch, every_n_steps, seen.append)
    with recording, npu_precision.autocast(**mode):
        for batch in batches:
            function(tf.constant(batch))
    return seen


def program(x):
    hidden = tf.nn.relu(tf.matmul(x, W, name="product"))
    return tf.matmul(hidden * 3000.0, W, name="second")


def counts_of(step):
    """By the name of a tensor: its low type and its counts."""
    return {
        tensor.node: (tensor.low_type, *(step.counts[name][place] for name in COUNTED))
        for place, tensor in enumerate(step.graph.tensors)
    }


COUNTED = ("elements", "zeros", "infinities", "nans", "over", "under", "fault")


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e-6, np.inf, np.nan])
def test_counts_are_those_of_the_same_function_without_xla(scale):
    x = (RANDOM.normal(size=[8, 16]) * scale).astype(np.float32)
    x[0, 0] = 0.0
    (compiled,) = watched_steps(tf.function(program, jit_compile=True), x, mode=BF16)
    (plain,) = watched_steps(tf.function(program), x, mode=BF16)
    found, expected = counts_of(compiled), counts_of(plain)
    common = found.keys() & expected.keys()
    assert {"x", "mul", "second"} <= common  # Others are within fused kernels.
    assert {name: found[name] for name in common} == {name: expected[name] for name in common}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_rounded_is_counted_at_the_ends_of_its_range(dtype):
    largest = tf.as_dtype(dtype).max
    edges = {"float16": [65519.99, 65520.0, 2.0**-14, 6.1e-5], "bfloat16": [3.3961e38, 3.3962e38]}
    x = np.array([largest, -largest, 0, np.inf, np.nan, -np.inf, *edges[dtype]], np.float32)

    @tf.function(jit_compile=True)
    def rounded(x):
        return tf.cast(tf.cast(x, dtype), tf.float32)

    (step,) = watched_steps(rounded, x)
    place = [tensor.node for tensor in step.graph.tensors].index("x")
    with np.errstate(all="ignore"):
        low = x.astype(tf.as_dtype(dtype).as_numpy_dtype).astype(np.float32)
    finite = np.isfinite(x)
    normal = 2.0**-14 if dtype == "float16" else 2.0**-126
    assert {name: step.counts[name][place] for name in ("largest", *COUNTED[:-1])} == {
        "largest": np.abs(x[finite]).max(),
        "elements": x.size,
        "zeros": 1,
        "infinities": 2,
        "nans": 1,
        "over": (finite & np.isinf(low)).sum(),
        "under": ((x != 0) & (np.abs(x) < normal)).sum(),
    }


def test_one_in_n_calls_is_recorded_and_all_results_are_the_same_to_the_bit():
    step = tf.function(program, jit_compile=True)
    batches = [RANDOM.normal(size=[8, 16]).astype(np.float32) * number for number in range(1, 8)]
    with npu_precision.autocast(**BF16):
        expected = [step(tf.constant(batch)) for batch in batches]
    results = []
    seen = watched_steps(
        lambda batch: results.append(step(batch)), *batches, mode=BF16, every_n_steps=3
    )
    assert [each.step for each in seen] == [0, 3, 6]
    for want, got in zip(expected, results):
        np.testing.assert_array_equal(got, want)


def test_a_function_called_by_a_function_in_a_loop_is_recorded():
    compiled = tf.function(program, jit_compile=True)

    @tf.function
    def step(x):
        total = tf.zeros([8, 16])
        for number in tf.range(4):
            total += compiled(x * tf.cast(number - 2, tf.float32) * 1e4)
        return total

    x = RANDOM.normal(size=[8, 16]).astype(np.float32)
    seen = watched_steps(step, x, x)
    of_compiled = [each for each in seen if any(t.node == "second" for t in each.graph.tensors)]
    assert [each.step for each in of_compiled] == [0, 1]
    place = [tensor.node for tensor in of_compiled[0].graph.tensors].index("product")
    assert of_compiled[0].counts["elements"][place] == 4 * 8 * 16


def test_a_step_assigns_once_whether_or_not_it_is_recorded():
    """The code of a recorded step may round elsewhere: XLA fuses other ops in it."""

    def trained():
        w = tf.Variable(W)

        @tf.function(jit_compile=True)
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(x, w) ** 2)
            w.assign_sub(1e-4 * tape.gradient(loss, w))

        for _ in range(3):
            step(tf.constant(W))
        return w.numpy()

    with npu_precision.autocast(**BF16):
        expected = trained()
        seen = []
        with tensor_watch.TensorWatch("lowered", 2, seen.append):
            np.testing.assert_allclose(trained(), expected, atol=0.1 * np.abs(expected - W).max())
    assert [each.step for each in seen] == [0, 2]


@pytest.mark.parametrize("fetched", ["the call", "what reads it", "its op"])
def test_a_sessions_call_is_recorded_whether_or_not_it_is_fetched(fetched):
    seen = []
    with tf.Graph().as_default(), tensor_watch.TensorWatch("lowered", 1, seen.append):
        x = tf1.placeholder(tf.float32, [8, 16])
        y = tf.function(program, jit_compile=True)(x)
        fetch = {"the call": y, "what reads it": y * 1.0, "its op": y.op}[fetched]
        with tf1.Session(config=npu_precision.npu_config_proto(**BF16)) as session:
            results = [session.run(fetch, {x: RANDOM.normal(size=[8, 16])}) for _ in range(2)]
    assert [each.step for each in seen] == [0, 1]
    if fetched != "its op":
        assert all(np.abs(result).max() > 1 for result in results)


def test_a_call_whose_result_is_fed_is_left_as_it_is():
    with tf.Graph().as_default(), tensor_watch.TensorWatch("lowered", 1, lambda step: None):
        x = tf1.placeholder(tf.float32, [None, 16])
        y = tf.function(program, jit_compile=True)(x)
        z = y * 2.0
        with tf1.Session(config=npu_precision.npu_config_proto(**BF16)) as session:
            np.testing.assert_array_equal(session.run(z, {y: W}), 2 * W)


@pytest.mark.slow
def test_the_first_infinity_of_a_compiled_training_has_a_name(tmp_path):
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [
            layers.Input([8]),
            layers.Dense(16, name="first"),
            layers.Rescaling(1e5),
            layers.Dense(4, name="overflows"),
        ]
    )
    model.compile("sgd", "mse", jit_compile=True)
    x = RANDOM.normal(size=[32, 8]).astype(np.float32)
    recorder = npu_precision.FlightRecorder(tmp_path, every_n_steps=1)
    with recorder, npu_precision.autocast(**FP16):
        model.fit(x, np.zeros([32, 4]), batch_size=16, verbose=0)
    assert "2 steps, 2 recorded" in recorder.summary()
    lines = map(json.loads, (tmp_path / "flight.jsonl").read_text().splitlines())
    first = next(line for line in lines if line["event"] == "forward")
    assert "rescaling" in first["first"]["node"]
    assert first["first"]["value"] == "overflow"
    assert "overflows" in first["first_nan"]["node"]
