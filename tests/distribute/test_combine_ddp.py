"""combine_ddp: a step adds up all replicas' gradients once, with the same result as without it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.replicas import MIRRORED, MULTI_WORKER, shown
from support.tf_versions import needs_cluster_store, needs_logical_devices

import npu_precision
from npu_precision import amp

pytestmark = [needs_logical_devices, pytest.mark.slow]

# Trains with and without combine_ddp: a hidden layer large enough to be lowered, a bias, and rows
# of a table, whose gradients are IndexedSlices. One step overflows in the last replica alone.
TRAIN = """
STYLE, MODE, CLIPS = sys.argv[-3], sys.argv[-2], sys.argv[-1] == "clips"
LOW = tf.bfloat16 if MODE.endswith("bf16") else tf.float16
BATCH = 16
rng = np.random.default_rng(0)
x = rng.normal(size=[6, BATCH, 64]).astype(np.float32)
x[3, -1, 0] = 1e39  # infinite
rows = rng.integers(0, 8, size=[6, BATCH])
y = rng.normal(size=[6, BATCH, 4]).astype(np.float32)


def train(combine_ddp, report_dir, eager=False):
    options = {"lower_collectives": WORKERS > 1, "report_dir": report_dir}
    rng = np.random.default_rng(1)
    with strategy.scope():
        hidden, last, table = (
            tf.Variable(rng.normal(size=shape).astype(np.float32) / 8)
            for shape in ([64, 32], [32, 4], [8, 4])
        )
        bias = tf.Variable(tf.zeros([32]))
        weights = [hidden, bias, last, table]
        optimizer = tf.keras.optimizers.SGD(0.125)
        if STYLE == "amp":
            options.update(cast_model_type=LOW, loss_scale="dynamic", max_loss_scale=8)
            amp.initialize(optimizer, "O1", verbosity=0, combine_ddp=combine_ddp, **options)
        else:
            npu_precision.enable(precision_mode=MODE, **options)
            scaler = npu_precision.GradScaler(8.0, combine_ddp=combine_ddp)

    def replica(x, rows, y):
        with tf.GradientTape() as tape:
            made = tf.matmul(tf.nn.relu(tf.matmul(x, hidden) + bias), last) + tf.gather(table, rows)
            loss = tf.reduce_sum(tf.square(made - y)) / BATCH
            if STYLE == "amp":
                with amp.scale_loss(loss, optimizer) as scaled:
                    pass
            else:
                scaled = scaler.scale(loss)
        gradients = tape.gradient(scaled, weights)
        if CLIPS:
            if STYLE == "amp":
                gradients = amp.unscale_gradients(gradients, optimizer)
            else:
                gradients = scaler.unscale_(optimizer, gradients)
            gradients = [tf.clip_by_norm(each, 1.0) if each is not gradients[-1] else each
                         for each in gradients]
        if STYLE == "amp":
            optimizer.apply_gradients(zip(gradients, weights))
        else:
            scaler.step(optimizer, zip(gradients, weights))
            scaler.update()

    def parts(values):
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(
                np.array_split(values, COUNT)[context.replica_id_in_sync_group]
            )
        )

    step = lambda *args: strategy.run(replica, args=args)
    step = step if eager else tf.function(step)
    for batch in zip(x, rows, y):
        step(*map(parts, batch))
    show([weight.numpy() for weight in weights], optimizer.iterations.numpy())
    npu_precision.disable()
"""
ON_REPLICAS = f"{MIRRORED}WORKERS = 1\n{TRAIN}"
ON_WORKERS = f"{MULTI_WORKER}WORKERS = COUNT\n{TRAIN}"

# The largest error of a weight: in float32, from another order of additions; with lowered
# gradients, from six sums of two rounded gradients.
DISTANCE = {"float32": 1e-6, "allow_mix_precision": 2e-3, "allow_mix_precision_bf16": 5e-3}


def check_same(shown, distance):
    (expected, made), (weights, made_combined) = shown
    assert made == made_combined == 5, "the step that overflows is skipped, and no other"
    for one, other in zip(expected, weights):
        np.testing.assert_allclose(one, other, rtol=0, atol=distance)


@pytest.mark.parametrize(
    ("style", "clips"),
    [
        ("scaler", "clips"),
        ("amp", "plain"),
        pytest.param("scaler", "plain", marks=pytest.mark.full),
        pytest.param("amp", "clips", marks=pytest.mark.full),
    ],
)
def test_it_trains_alike_on_two_replicas(style, clips, run_python):
    script = f'{ON_REPLICAS}\ntrain(False, "separate")\ntrain(True, "combined")\n'
    printed = run_python(script, "2", style, "allow_mix_precision", clips).stdout
    check_same(shown(printed), DISTANCE["float32"])


def test_it_trains_alike_without_a_function(run_python):
    script = f'{ON_REPLICAS}\ntrain(False, "a", eager=True)\ntrain(True, "b", eager=True)\n'
    check_same(
        shown(run_python(script, "2", "scaler", "allow_mix_precision", "plain").stdout),
        DISTANCE["float32"],
    )


@needs_cluster_store
@pytest.mark.parametrize(
    ("style", "mode"),
    [
        ("scaler", "allow_mix_precision"),
        pytest.param("amp", "allow_mix_precision_bf16", marks=pytest.mark.full),
    ],
)
def test_scaled_gradients_travel_in_the_low_type(style, mode, run_workers, tmp_path):
    script = f'{ON_WORKERS}\ntrain(False, "separate")\ntrain(True, "combined")\n'
    one, other = map(shown, run_workers(script, style, mode, "plain"))
    assert one == other, "the workers differ"
    check_same(one, DISTANCE[mode])

    def collectives(name):
        paths = tmp_path.glob(f"workers*/{name}/*worker0*.json")
        found = [json.loads(path.read_text())["collectives"] for path in paths]
        return [each for of_graph in found for each in of_graph if each["bytes_before"] > 4]

    (separate,) = collectives("separate")
    assert (separate["tensors"], separate["lowered"]) == (3, 0)
    # With the flag of overflows.
    (combined,) = collectives("combined")
    assert (combined["tensors"], combined["lowered"]) == (4, 1)
    assert combined["bytes_before"] - combined["bytes_after"] == 64 * 32 * 2


def test_without_replicas_it_has_no_effect():
    with tf.device("CPU:0"):
        weight = tf.Variable([1.0, 2.0])
    optimizer = tf.keras.optimizers.SGD(0.5)
    scaler = npu_precision.GradScaler(8.0, combine_ddp=True)
    with tf.GradientTape() as tape:
        scaled = scaler.scale(tf.reduce_sum(weight))
    assert scaler.step(optimizer, [(tape.gradient(scaled, weight), weight)])
    scaler.update()
    np.testing.assert_array_equal(weight, [0.5, 1.5])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: npu_precision.GradScaler(combine_ddp="yes"),
            "combine_ddp: got 'yes' (str), expected a bool",
        ),
        (
            lambda: amp.initialize(
                tf.compat.v1.train.GradientDescentOptimizer(0.1), "O1", combine_ddp=True
            ),
            "combine_ddp: got an optimizer of tf.compat.v1.train, expected one of Keras",
        ),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError) as caught:
        make()
    assert str(caught.value).startswith(message)


TF1_OPTIMIZER = f"""{MIRRORED}
scaler = npu_precision.GradScaler(8.0, combine_ddp=True)
optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
with strategy.scope():
    weight = tf.Variable([1.0])


def replica():
    with tf.GradientTape() as tape:
        loss = scaler.scale(tf.reduce_sum(weight))
    scaler.step(optimizer, [(tape.gradient(loss, weight), weight)])


try:
    tf.function(lambda: strategy.run(replica))()
except ValueError as error:
    show(str(error))
"""


def test_an_optimizer_that_always_adds_up_is_refused(run_python):
    ((message,),) = shown(run_python(TF1_OPTIMIZER, "2").stdout)
    assert "combine_ddp: got GradientDescentOptimizer, which adds up gradients itself" in message
