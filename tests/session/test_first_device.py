"""What holds on the device that TensorFlow computes on: the first GPU, or the CPU without one."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support import gpu
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision import _tf_compat
from npu_precision.ledger import Ledger

tf1 = tf.compat.v1
pytestmark = needs_functions_by_default
KIND = "GPU" if _tf_compat.has_gpu() and not gpu.rehearses() else "CPU"
MIXED = "allow_mix_precision"
IMAGES = np.random.default_rng(0).normal(size=[4, 16, 16, 8]).astype(np.float32)
FILTERS = np.random.default_rng(1).normal(size=[3, 3, 8, 8]).astype(np.float32) / 8


def two_layers(images):
    """Convolutions around an Exp, which keeps float32."""
    first = tf.exp(tf.tanh(tf.nn.conv2d(images, FILTERS, 1, "SAME")))
    return tf.nn.conv2d(first, FILTERS, 1, "SAME")


def nodes_that_run(config):
    """The values of two_layers in a session, and the nodes that computed them."""
    with tf.Graph().as_default() as graph:
        images = tf1.get_variable("images", initializer=IMAGES, use_resource=True)
        result = two_layers(images)
        options = tf1.RunOptions(output_partition_graphs=True)
        metadata = tf1.RunMetadata()
        with tf1.Session(graph=graph, config=config) as session:
            session.run(images.initializer)
            value = session.run(result, options=options, run_metadata=metadata)
    return value, [node for part in metadata.partition_graphs for node in part.node]


def test_casts_are_on_the_device_of_the_tensors_and_none_crosses_the_bus():
    exact, before = nodes_that_run(tf1.ConfigProto())
    value, nodes = nodes_that_run(npu_precision.npu_config_proto(precision_mode=MIXED))
    casts = [node for node in nodes if node.op.endswith("Cast")]
    assert casts
    assert {node.device.split(":")[-2] for node in casts} == {KIND}
    sent = [sum(node.op in ("_Send", "_HostSend") for node in each) for each in (before, nodes)]
    assert sent[1] <= sent[0]
    np.testing.assert_allclose(value, exact, rtol=0, atol=1e-2 * np.abs(exact).max())
    assert not np.array_equal(value, exact)


def recorded_layer(folder, scale):
    """The results of three runs, and what the recorder tells of the layer in two of them."""

    @tf.function
    def step(images):
        return tf.nn.conv2d(images, FILTERS * np.float32(scale), 1, "SAME", name="layer")

    mode = npu_precision.autocast(precision_mode=MIXED)
    with npu_precision.FlightRecorder(folder, every_n_steps=2), mode:
        results = [step(tf.constant(IMAGES)).numpy() for _ in range(3)]
    lines = [json.loads(line) for line in (folder / "flight.jsonl").read_text().splitlines()]
    (tensors,) = (line for line in lines if line["event"] == "tensors")
    names = [name.partition("/")[0] for name in tensors["tensors"]]
    forward = [line for line in lines if line["event"] == "forward"]
    assert [line["step"] for line in forward] == [0, 2]
    place = names.index("layer")
    return results, [(line["largest"][place], line["over"][place]) for line in forward]


def test_the_recorder_counts_what_the_device_computed(tmp_path):
    results, recorded = recorded_layer(tmp_path / "finite", 1.0)
    for largest, over in recorded:
        assert largest == pytest.approx(np.abs(results[0]).max(), rel=1e-3)
        assert over == 0
    results, recorded = recorded_layer(tmp_path / "overflow", 3e4)
    share = np.isinf(results[0]).mean()
    assert share > 0
    for _, over in recorded:
        assert over == pytest.approx(share, rel=1e-2)


def train(strategy, mode):
    """The losses of five steps in the strategy."""
    with strategy.scope():
        filters = tf.Variable(FILTERS)

    def replica(images):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.nn.conv2d(images, filters, 1, "SAME") - 0.1))
        gradient = tape.gradient(loss, filters)
        gradient = tf.distribute.get_replica_context().all_reduce("sum", gradient)
        filters.assign_sub(gradient)
        return loss

    step = tf.function(lambda: strategy.run(replica, args=(tf.constant(IMAGES),)))
    if not mode:
        return [float(step()) for _ in range(5)]
    with npu_precision.autocast(precision_mode=mode):
        return [float(step()) for _ in range(5)]


def test_a_mirrored_strategy_on_one_device_trains_as_in_float32():
    strategy = tf.distribute.MirroredStrategy([f"{KIND}:0"])
    exact, low = train(strategy, None), train(strategy, MIXED)
    assert exact[-1] < exact[0]
    np.testing.assert_allclose(low, exact, rtol=1e-2)
    assert low != exact


def added_up_alone(folder, key, **options):
    """A gradient that a group of one adds up, in NCCL where a GPU is; and what is told of it."""
    strategy = tf.distribute.MirroredStrategy([f"{KIND}:0"])
    with strategy.scope():  # Small gradients are added up in float32.
        filters = tf.Variable(np.concatenate([FILTERS, FILTERS], axis=-1))

    def replica(images):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.nn.conv2d(images, filters, 1, "SAME")))
        total = tf.raw_ops.CollectiveReduceV2(
            input=tape.gradient(loss, filters),
            group_size=1,
            group_key=1,
            instance_key=key,
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
            communication_hint="nccl" if KIND == "GPU" else "auto",
        )
        return tf.exp(total)

    step = tf.function(lambda: strategy.run(replica, args=(tf.constant(IMAGES),)))
    if not options:
        return step().numpy(), []
    with npu_precision.autocast(report_dir=str(folder), **options):
        value = step().numpy()
    ledgers = [Ledger.from_json(path.read_text()) for path in folder.glob("*.json")]
    return value, [each for ledger in ledgers for each in ledger.collectives]


def test_a_group_of_one_device_adds_up_in_the_low_type(tmp_path):
    exact, _ = added_up_alone(tmp_path, 1)
    options = {"precision_mode": MIXED, "lower_collectives": True}
    value, collectives = added_up_alone(tmp_path, 2, **options)
    assert [each.reason for each in collectives] == ["lowered"]
    np.testing.assert_allclose(value, exact, rtol=0, atol=1e-2 * np.abs(exact - 1).max())
