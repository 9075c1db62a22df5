"""Replicas with parts of a batch and synchronized batch norms compute as one with the whole."""

from __future__ import annotations

import collections
import json

import numpy as np
import pytest
from support.replicas import MIRRORED, MULTI_WORKER, shown
from support.tf_versions import (
    needs_cluster_store,
    needs_logical_devices,
    needs_synchronized_batch_norm,
)

pytestmark = [needs_synchronized_batch_norm, needs_logical_devices, pytest.mark.slow]

BATCH = 12
# By kind: a model with ordinary batch norms. A step shows all values that a batch norm changes.
NETS = f"""
from npu_precision.amp.parallel import convert_syncbn_model

layers = tf.keras.layers
rng = np.random.default_rng(0)
# The mean of a channel is ten times its deviation.
images = (rng.normal(size=[{BATCH}, 8, 8, 3]) + [10, 0, 0]).astype(np.float32)
labels = rng.integers(0, 5, [{BATCH}])


def net(kind):
    norm = layers.BatchNormalization
    hidden = {{
        "conv": [
            *(norm(), layers.ReLU(), layers.Conv2D(16, 3, use_bias=False)),
            *(norm(), layers.ReLU(), layers.Conv2D(16, 3, use_bias=False)),
            *(norm(), layers.ReLU(), layers.GlobalAveragePooling2D()),
        ],
        "dense": [
            *(norm(), layers.ReLU(), layers.Flatten(), layers.Dense(16, use_bias=False)),
            norm(scale=False, center=False),
        ],
        "channels first": [layers.Permute([3, 1, 2]), norm(axis=1), layers.Flatten()],
        "middle axis": [norm(axis=2), layers.Flatten()],
        "three axes": [layers.Reshape([24, 8]), norm(axis=1), layers.Flatten()],
        "five axes": [layers.Reshape([2, 4, 8, 3]), norm(), layers.Flatten()],
        "small epsilon": [norm(epsilon=1e-7), layers.Flatten()],
    }}[kind]
    model = tf.keras.Sequential([layers.Input([8, 8, 3]), *hidden, layers.Dense(5)])
    # None as an initializer has it, which may differ in the scope of a strategy.
    generator = np.random.default_rng(2)
    model.set_weights([
        generator.normal(size=value.shape) / np.sqrt(value[..., 0].size)
        if value.ndim > 1
        else generator.uniform(0.5, 1.5, value.shape)
        for value in model.get_weights()
    ])
    return model


def step(strategy, model, x, y):
    def replica(x, y):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = model(x, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, outputs)
            loss = tf.reduce_sum(losses) / {BATCH}
        dx, *gradients = tape.gradient(loss, [x, *model.trainable_variables])
        context = tf.distribute.get_replica_context()
        return outputs, dx, context.all_reduce("sum", gradients)

    outputs, dx, gradients = tf.function(lambda x, y: strategy.run(replica, args=(x, y)))(x, y)
    local = lambda value: [np.array(one) for one in strategy.experimental_local_results(value)]
    # Of each replica, as they must all be the same.
    gradients = [local(gradient) for gradient in gradients]
    moving = [local(variable) for variable in model.non_trainable_variables]
    show(local(outputs), local(dx), gradients, moving)
"""

REPLICAS = f"""{MIRRORED}{NETS}
# Arguments: how many replicas, and, by kind, lists of the sizes of their batches; shows pairs.
def part(values, sizes):
    parts = np.split(values, np.cumsum(sizes)[:-1])
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group])
    )


for kind, all_sizes in json.loads(sys.argv[2]).items():
    for sizes in all_sizes:
        step(tf.distribute.get_strategy(), net(kind), tf.constant(images), tf.constant(labels))
        with strategy.scope():
            model = convert_syncbn_model(net(kind))
        step(strategy, model, part(images, sizes), part(labels, sizes))
"""


def joined(result):
    """(name, value) of all that a step showed; checks that replicas agree on shared values."""
    outputs, dx, gradients, moving = result
    for values in (*gradients, *moving):
        for value in values[1:]:
            np.testing.assert_array_equal(value, values[0])
    parts = [[np.array(part) for part in parts if len(part)] for parts in (outputs, dx)]
    yield "outputs", np.concatenate(parts[0])
    yield "dx", np.concatenate(parts[1])
    yield from ((f"gradient {i}", np.array(values[0])) for i, values in enumerate(gradients))
    yield from ((f"moving {i}", np.array(values[0])) for i, values in enumerate(moving))


def errors(one, other):
    """The largest difference relative to the largest value, by name."""
    return {
        name: np.max(np.abs(a - b)) / np.max(np.abs(a))
        for (name, a), (_, b) in zip(joined(one), joined(other))
    }


def check(one, other, tolerance):
    off = {name: error for name, error in errors(one, other).items() if not error <= tolerance}
    assert not off


def check_pairs(printed, tolerance):
    results = shown(printed)
    assert results
    for alone, together in zip(results[::2], results[1::2]):
        check(alone, together, tolerance)


@pytest.mark.parametrize(
    "all_sizes", [[[1, 11]], pytest.param([[4, 2, 6]], marks=pytest.mark.full)]
)
def test_replicas_are_one_with_the_whole_batch(all_sizes, run_python):
    count = len(all_sizes[0])
    check_pairs(run_python(REPLICAS, count, json.dumps({"conv": all_sizes})).stdout, 5e-4)


@pytest.mark.full
def test_so_they_are_with_other_axes_and_weights(run_python):
    kinds = ["channels first", "middle axis", "three axes", "five axes", "small epsilon"]
    all_sizes = {"dense": [[5, 7], [0, 12]], **{kind: [[5, 7]] for kind in kinds}}
    check_pairs(run_python(REPLICAS, 2, json.dumps(all_sizes)).stdout, 5e-4)


LOWERED = f"""{MIRRORED}{NETS}
# Shows the steps alone in float32 and lowered, and of replicas with synchronized batch norms of
# amp and of Keras, lowered; each has its folder of reports.
def part(values):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(np.split(values, COUNT)[context.replica_id_in_sync_group])
    )


def lowered(name, strategy, model, *data):
    npu_precision.enable(precision_mode=sys.argv[2], report_dir=name)
    step(strategy, model, *data)


def keras_has_it(model):
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.synchronized, layer.fused = True, False
    return model


alone = tf.distribute.get_strategy(), net("conv"), tf.constant(images), tf.constant(labels)
step(*alone)
alone[1].set_weights(net("conv").get_weights())
lowered("alone", *alone)
for name, change in (("unsynchronized", lambda model: model), ("keras", keras_has_it),
                     ("amp", convert_syncbn_model)):
    with strategy.scope():
        model = change(net("conv"))
    lowered(name, strategy, model, part(images), part(labels))
"""


@pytest.mark.parametrize(
    "mode",
    ["allow_mix_precision_bf16", pytest.param("allow_mix_precision", marks=pytest.mark.full)],
)
def test_what_is_around_is_lowered_as_around_ordinary_batch_norms(
    mode, run_python, tmp_path, ledgers
):
    float32, alone, _, _, together = shown(run_python(LOWERED, 2, mode).stdout)
    # As far from float32 as ordinary batch norms are. A single value may be off by more if the
    # input of a ReLU is on different sides of zero.
    worst = max(errors(float32, alone).values())
    assert 0 < max(errors(float32, together).values()) < 1.5 * worst
    plain, keras, amp = (
        lowered_around(ledgers(tmp_path / name)) for name in ("unsynchronized", "keras", "amp")
    )
    # Of three in each replica: the first batch norm, of 3 channels, keeps float32 with oneDNN.
    assert amp["ReluGrad"] == (4 if is_slow(ledgers(tmp_path / "amp")) else 6)
    assert all(amp[op] >= plain[op] > 0 for op in ("Conv2D", "Conv2DBackpropFilter", "MatMul"))
    assert all(amp[op] >= plain[op] for op in AROUND)
    assert sum(keras.values()) < sum(amp.values())


# The ops around the batch norms.
AROUND = ["Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Relu", "ReluGrad", "MatMul"]


def is_slow(ledgers):
    return any(node.reason == "slow_kernel" for node in largest(ledgers).nodes)


def lowered_around(ledgers):
    """How many nodes of the replicas' step are lowered, by op."""
    nodes = [node.op for node in largest(ledgers).nodes if node.decision == "lowered"]
    return collections.Counter(op for op in nodes if op in AROUND)


def largest(ledgers):
    """The largest ledger, which is that of the step."""
    return max(ledgers, key=lambda ledger: len(ledger.nodes))


WORKERS = f"""{MULTI_WORKER}{NETS}
for options in {{}}, {{"precision_mode": "allow_mix_precision_bf16", "lower_collectives": True}}:
    if options:
        npu_precision.enable(report_dir="reports", **options)
    with strategy.scope():
        model = convert_syncbn_model(net("conv"))
    x, y = (tf.constant(np.split(values, COUNT)[WORKER]) for values in (images, labels))
    step(strategy, model, x, y)
"""

ALONE = f"""{MIRRORED}{NETS}
step(tf.distribute.get_strategy(), net("conv"), tf.constant(images), tf.constant(labels))
"""


@pytest.mark.full
@needs_cluster_store
def test_workers_are_one_with_the_whole_batch(run_workers, run_python, tmp_path, ledgers):
    (alone,) = shown(run_python(ALONE, 1).stdout)
    results = [shown(printed) for printed in run_workers(WORKERS)]
    for i, tolerance in enumerate([5e-4, 0.2]):
        together = [
            [one + other for one, other in zip(*parts)] if k >= 2 else parts[0] + parts[1]
            for k, parts in enumerate(zip(*(result[i] for result in results)))
        ]
        check(alone, together, tolerance)
    folders = list(tmp_path.glob("workers*/reports"))
    assert len(folders) == len(results) or len(folders) == 1
    for folder in folders:
        totals = largest(ledgers(folder)).totals
        saved = totals["collective_bytes_before"] - totals["collective_bytes_after"]
        # The weights of the second convolution, and nothing of a batch norm.
        assert saved == 2 * 3 * 3 * 16 * 16


FIT = f"""{MIRRORED}{NETS}
def fit(strategy, convert):
    with strategy.scope():
        model = convert(net("conv"))
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.SGD(0.1), loss, jit_compile=False)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch({BATCH})
    model.fit(data, epochs=3, verbose=0)
    show([], [], [], [[value] for value in model.get_weights()])


fit(tf.distribute.get_strategy(), lambda model: model)
fit(strategy, convert_syncbn_model)
"""


def test_fit_trains_to_the_same_weights(run_python):
    alone, together = shown(run_python(FIT, 2).stdout)
    for one, other in zip(alone[3], together[3]):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-3)


SECOND = f"""{MIRRORED}
from npu_precision.amp.parallel import SyncBatchNorm

with strategy.scope():
    norm = SyncBatchNorm()
    norm.build([None, 3])


def replica():
    x = tf.reshape(tf.range(12.0), [4, 3])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(norm(x, training=True) ** 3)
        penalty = tf.reduce_sum(inner.gradient(y, x) ** 2)
    return outer.gradient(penalty, x)


try:
    tf.function(lambda: strategy.run(replica))()
except Exception as error:
    show(str(error))
"""


@pytest.mark.full
def test_a_second_derivative_over_replicas_is_an_error(run_python):
    ((message,),) = shown(run_python(SECOND, 2).stdout)
    assert "SyncBatchNorm has no second derivative over several replicas" in message
