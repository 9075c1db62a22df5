"""npu_device.distribute: alone, and on two ranks that execute eagerly."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.replicas import NPU_DEVICE, shown
from support.tf_versions import needs_functions_by_default

pytestmark = needs_functions_by_default


def test_alone_the_collectives_change_nothing(npu):
    x = tf.constant([1.0, 2.0])
    assert npu.distribute.all_reduce(x) is x
    assert npu.distribute.all_reduce([x, None], "sum") == [x, None]
    variable = tf.Variable([3.0])
    assert npu.distribute.broadcast([variable], root_rank=0) is None
    assert variable.numpy() == [3.0]
    data = tf.data.Dataset.range(3)
    assert npu.distribute.shard_and_rebatch_dataset(data, 7) == (data, 7)
    optimizer = tf.keras.optimizers.SGD(0.1)
    assert npu.distribute.npu_distributed_keras_optimizer_wrapper(optimizer) is optimizer
    assert type(optimizer) is tf.keras.optimizers.SGD


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("all_reduce(x, 'average')", "reduction: got 'average', expected one of mean, sum"),
        ("all_reduce(x, group='pear')", "group: got 'pear', expected one of hccl_world_group"),
        ("broadcast(variable, 1)", "root_rank: got 1, expected 0 to 0"),
        ("broadcast([x], 0)", "values: got EagerTensor, expected variables"),
        ("npu_distributed_keras_optimizer_wrapper('sgd')", "expected an optimizer of Keras"),
        (
            "npu_distributed_keras_optimizer_wrapper(optimizer, 'avg')",
            "reduction: got 'avg', expected one of mean, sum",
        ),
    ],
)
def test_mistakes_are_errors_alone_too(npu, code, message):
    names = {
        **vars(npu.distribute),
        "x": tf.constant([1.0]),
        "variable": tf.Variable([1.0]),
        "optimizer": tf.keras.optimizers.SGD(0.1),
    }
    with pytest.raises(ValueError) as error:
        exec(code, names)
    assert message in str(error.value)


EXCHANGE = f"""{NPU_DEVICE}
mine = tf.constant([1.0, 2.0]) * float(RANK + 1)
rows = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([RANK]), tf.constant([2, 2]))
variables = [tf.Variable([float(RANK)]), tf.Variable(RANK + 5, dtype=tf.int64)]
npu.distribute.broadcast(variables, root_rank=1)
summed = tf.function(lambda x: npu.distribute.all_reduce(x, "sum"))
data, batch = npu.distribute.shard_and_rebatch_dataset(tf.data.Dataset.range(6), 8)
show({{
    "mean": npu.distribute.all_reduce(mine),
    "max": npu.distribute.all_reduce([mine], "max"),
    "sparse": tf.convert_to_tensor(npu.distribute.all_reduce(rows, "sum")),
    "function": [summed(mine), summed(2 * mine)],
    "variables": variables,
    "data": [list(data.as_numpy_iterator()), batch],
}})
try:
    npu.distribute.shard_and_rebatch_dataset(data, 7)
except ValueError as error:
    show(str(error))
"""


@pytest.mark.slow
def test_two_ranks_exchange_tensors(run_workers):
    for rank, printed in enumerate(run_workers(EXCHANGE)):
        (results,), (message,) = shown(printed)
        assert results == {
            "mean": [1.5, 3.0],
            "max": [[2.0, 4.0]],
            "sparse": [[1.0, 1.0], [1.0, 1.0]],
            "function": [[3.0, 6.0], [6.0, 12.0]],
            "variables": [[1.0], 6],
            "data": [[rank, rank + 2, rank + 4], 4],
        }
        assert message == "global_bs: got 7, expected a number that 2 ranks can divide"


TRAIN = f"""{NPU_DEVICE}
random = np.random.default_rng(0)
x = random.normal(size=[64, 4]).astype(np.float32)
y = x @ random.normal(size=[4, 1]).astype(np.float32)
tf.keras.utils.set_random_seed(RANK)  # Each rank begins with numbers of its own.
model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
model.set_weights([weights + RANK for weights in [np.ones([4, 1]), np.ones([1])]])
npu.distribute.broadcast(model.trainable_variables, 0)
data = tf.data.Dataset.from_tensor_slices((x, y))
data, batch = npu.distribute.shard_and_rebatch_dataset(data, 16)
data = data.batch(batch)
optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
STYLE
show([weights.tolist() for weights in model.get_weights()])
"""
FIT = """
model.compile(optimizer, "mse")
model.fit(data, epochs=2, verbose=0)
"""
WRAP = "optimizer = npu.distribute.npu_distributed_keras_optimizer_wrapper(optimizer)\n"
SCALE = "optimizer = npu.train.optimizer.NpuLossScaleOptimizer(optimizer)\n"
STYLES = {
    "fit": WRAP + FIT,
    "fit with loss scaling inside": SCALE + WRAP + FIT,
    "fit with loss scaling outside": WRAP + SCALE + FIT,
    "a loop of one's own": """
@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    grads = npu.distribute.all_reduce(tape.gradient(loss, model.trainable_variables))
    optimizer.apply_gradients(zip(grads, model.trainable_variables))


for _ in range(2):
    for some_x, some_y in data:
        step(some_x, some_y)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "style",
    [
        "fit with loss scaling outside",
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in sorted(STYLES)
            if each != "fit with loss scaling outside"
        ),
    ],
)
def test_two_ranks_with_half_batches_are_one_with_the_whole(style, run_workers, run_python):
    script = TRAIN.replace("STYLE", STYLES[style])
    # The whole batch, in an order that no rank has; its mean is the same.
    ((expected,),) = shown(run_python(script).stdout)
    for printed in run_workers(script):
        ((weights,),) = shown(printed)
        for ours, theirs in zip(weights, expected):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


OVERFLOW = f"""{NPU_DEVICE}
weight = tf.Variable(1.0)
optimizer = tf.keras.optimizers.SGD(0.5)
STYLE

@tf.function
def step(factor):
    with tf.GradientTape() as tape:
        loss = optimizer.get_scaled_loss(weight * factor)
    grads = optimizer.get_unscaled_gradients(tape.gradient(loss, [weight]))
    optimizer.apply_gradients(zip(grads, [weight]))


for number in range(3):
    step(tf.constant(np.inf if number == 1 and RANK == 1 else 1.0))
    show(weight, optimizer.loss_scale)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "style", [WRAP + SCALE, pytest.param(SCALE + WRAP, marks=pytest.mark.full)]
)
def test_an_overflow_on_one_rank_skips_the_step_of_all(style, run_workers):
    for printed in run_workers(OVERFLOW.replace("STYLE", style)):
        assert shown(printed) == [[0.5, 2.0**15], [0.5, 2.0**14], [0.0, 2.0**14]]
