"""Each style of loss scaling on two halves of a batch trains as on the whole; one step is skipped.

The gradients of one example overflow in float16. All replicas skip its step, although only one of
them has the example.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.replicas import HCCL, MIRRORED, MULTI_WORKER, shown
from support.tf_versions import (
    needs_estimator,
    needs_functions_by_default,
    needs_logical_devices,
    needs_workers,
)

pytestmark = pytest.mark.slow

STEPS, SCALE = 12, 2.0**16

# As a fraction of how far training moves the weights. float16 rounds sums of half a batch
# differently; 0.001 was measured.
TOLERANCE = 0.005
WHERE = [
    pytest.param("mirrored", marks=[needs_functions_by_default, needs_logical_devices]),
    pytest.param("workers", marks=needs_workers),
]

DATA = f"""
random = np.random.RandomState(0)
x = random.normal(size=[{STEPS}, 32, 16]).astype(np.float32)
y = np.eye(3, dtype=np.float32)[np.argmax(x @ random.normal(size=[16, 3]), axis=-1)]
y[5, 20] *= 1e20  # in the second half of a batch: a finite loss, and gradients beyond float16
START = [(random.normal(size=shape) / 4).astype(np.float32) for shape in ([16, 24], [24, 3])]


def loss_of(weights, x, y):
    hidden = tf.nn.relu(tf.matmul(x, weights[0]))
    logits = tf.matmul(hidden, weights[1])
    return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits)) / 32
"""


def check(halves, whole):
    """Compares two trainings: the start, the end, the scale and the number of steps made."""
    assert halves[2:] == whole[2:] == [SCALE / 2, STEPS - 1]
    start, end = map(flat, whole[:2])
    way = np.linalg.norm(end - start)
    assert way > 1
    # float32 alone would be a hundred times closer.
    assert 1e-5 * way < np.linalg.norm(flat(halves[1]) - end) < TOLERANCE * way


def flat(weights):
    return np.concatenate([np.ravel(weight) for weight in weights])


FUNCTIONS = f"""{DATA}
from npu_precision import ExponentialUpdateLossScaleManager, NPULossScaleOptimizer

FLOAT16 = {{"precision_mode": "allow_mix_precision"}}


def npu_bridge(weights):
    npu_precision.enable(**FLOAT16)
    manager = ExponentialUpdateLossScaleManager({SCALE}, 1000, 1, decr_ratio=0.5)
    optimizer = NPULossScaleOptimizer(tf.compat.v1.train.MomentumOptimizer(0.2, 0.9), manager)
    steps = tf.Variable(0)

    def step(x, y):
        return optimizer.minimize(lambda: loss_of(weights, x, y), steps, weights)

    return step, lambda: (manager.get_loss_scale().numpy(), steps.numpy())


def scaler(weights):
    npu_precision.enable(**FLOAT16)
    optimizer = tf.keras.optimizers.SGD(0.2, momentum=0.9)
    scaler = npu_precision.GradScaler({SCALE})

    def step(x, y):
        with tf.GradientTape() as tape:
            scaled = scaler.scale(loss_of(weights, x, y))
        scaler.step(optimizer, zip(tape.gradient(scaled, weights), weights))
        scaler.update()

    return step, lambda: (scaler.get_scale(), optimizer.iterations.numpy())


def apex(weights):
    optimizer = tf.keras.optimizers.SGD(0.2, momentum=0.9)
    amp.initialize(optimizer, "O1", cast_model_type=tf.float16, loss_scale="dynamic", verbosity=0)

    def step(x, y):
        with tf.GradientTape() as tape:
            with amp.scale_loss(loss_of(weights, x, y), optimizer) as scaled:
                pass
        optimizer.apply_gradients(zip(tape.gradient(scaled, weights), weights))

    def state():
        return amp.state_dict()["loss_scaler0"]["loss_scale"], optimizer.iterations.numpy()

    return step, state


def train(strategy, parts_of):
    with strategy.scope():
        weights = [tf.Variable(value) for value in START]
        replica, state = globals()[sys.argv[2]](weights)

    @tf.function
    def step(x, y):
        strategy.run(replica, args=(x, y))

    for batch in zip(x, y):
        step(*map(parts_of, batch))
    show(START, [weight.numpy() for weight in weights], *state())
    npu_precision.disable()


train(strategy, lambda whole: per_replica(np.split(whole, COUNT)))
train(tf.distribute.get_strategy(), tf.constant)
"""


# GradScaler and amp have their own tests of replicas.
@pytest.mark.parametrize(
    "style",
    ["npu_bridge", *(pytest.param(each, marks=pytest.mark.full) for each in ("scaler", "apex"))],
)
@pytest.mark.parametrize("where", WHERE)
def test_in_functions(where, style, run_python, run_workers):
    if where == "mirrored":
        printed = [run_python(MIRRORED + FUNCTIONS, 2, style).stdout]
    else:
        printed = run_workers(MULTI_WORKER + FUNCTIONS, 2, style)
    for halves, whole in map(shown, printed):
        check(halves, whole)
    assert len({json.dumps(shown(each)[0]) for each in printed}) == 1, "the workers differ"


# argv[1] is "mirrored" for two replicas; without it, each process is a rank, or alone.
SESSIONS = f"""{HCCL}
import sys

{DATA}
is_mirrored = sys.argv[1] == "mirrored"
strategy = tf.distribute.get_strategy()
if is_mirrored:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
run = getattr(strategy, "run", None) or strategy.experimental_run_v2
with tf.Graph().as_default(), strategy.scope():
    features = tf.placeholder(tf.float32, [None, None, 16])
    labels = tf.placeholder(tf.float32, [None, None, 3])
    weights = [tf.get_variable(name, initializer=value) for name, value in zip("vw", START)]
    manager = ExponentialUpdateLossScaleManager({SCALE}, 1000, 1, decr_ratio=0.5)
    # Without several ranks it is the optimizer itself; else it averages over them.
    optimizer = NPUDistributedOptimizer(tf.train.MomentumOptimizer(0.2, 0.9))
    optimizer = NPULossScaleOptimizer(optimizer, manager, is_distributed=SIZE > 1)
    steps = tf.train.get_or_create_global_step()

    def replica():
        here = tf.distribute.get_replica_context().replica_id_in_sync_group
        return optimizer.minimize(SIZE * loss_of(weights, features[here], labels[here]), steps)

    train_op = tf.group(*strategy.experimental_local_results(run(replica)))
    devices = tf.ConfigProto(device_count={{"CPU": 2}}, allow_soft_placement=True)
    config = npu_config_proto(devices, precision_mode="allow_mix_precision")
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        for batch in zip(x, y):
            # Of the replicas of this process, their parts of the batch.
            parts = [np.split(np.split(each, SIZE)[RANK], 1 + is_mirrored) for each in batch]
            session.run(train_op, dict(zip([features, labels], parts)))
        show(START, *session.run([weights, "loss_scale:0", steps]))
"""


@pytest.mark.parametrize("where", ["mirrored", "workers"])
def test_npu_bridges_in_sessions(where, run_python, run_workers):
    (whole,) = shown(run_python(SESSIONS, "alone").stdout)
    if where == "mirrored":
        printed = [run_python(SESSIONS, "mirrored").stdout]
    else:
        printed = run_workers(SESSIONS, "rank")
    for (halves,) in map(shown, printed):
        check(halves, whole)
    assert len(set(printed)) == 1, "the ranks differ"


# A session under MultiWorkerMirroredStrategy needs an Estimator, which starts the servers.
ESTIMATOR = f"""{HCCL}
{DATA}
strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()


class Shows(tf.train.SessionRunHook):
    def __init__(self, tensors):
        self._tensors = tensors

    def end(self, session):
        show(START, *session.run(self._tensors))


def model_fn(features, labels, mode):
    weights = [tf.get_variable(name, initializer=value) for name, value in zip("vw", START)]
    # Gradients are averaged over the workers.
    loss = SIZE * loss_of(weights, features, labels)
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    manager = ExponentialUpdateLossScaleManager({SCALE}, 1000, 1, decr_ratio=0.5)
    optimizer = NPULossScaleOptimizer(tf.train.MomentumOptimizer(0.2, 0.9), manager)
    steps = tf.train.get_global_step()
    train_op = optimizer.minimize(loss, steps)
    shows = Shows([weights, manager.get_loss_scale(), steps])
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[shows])


def input_fn():
    mine = [np.split(each, SIZE, axis=1)[RANK] for each in (x, y)]
    return tf.data.Dataset.from_tensor_slices(tuple(mine))


config = NPURunConfig(train_distribute=strategy, precision_mode="allow_mix_precision")
estimator = NPUEstimator(model_fn, f"model{{RANK}}", config)
training = tf.estimator.TrainSpec(input_fn, max_steps={STEPS - 1})
tf.estimator.train_and_evaluate(estimator, training, tf.estimator.EvalSpec(input_fn, steps=1))
"""


@pytest.mark.full
@needs_estimator
@needs_workers
def test_npu_bridges_in_an_estimator(run_python, run_workers):
    (whole,) = shown(run_python(SESSIONS, "alone").stdout)
    one, other = run_workers(ESTIMATOR)
    assert shown(one) == shown(other)
    check(*shown(one), whole)
