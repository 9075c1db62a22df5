"""npu_bridge's scripts on several ranks: hccl's ops, optimizers and hooks in sessions."""

from __future__ import annotations

import numpy as np
import pytest
from support.replicas import HCCL, shown
from support.tf_versions import needs_collectives_that_end, needs_estimator
from support.workers import adjacent_ports

pytestmark = pytest.mark.slow

OPS = f"""{HCCL}
mine = tf.constant([[1.0, 2.0], [3.0, 4.0]]) * float(RANK + 1)
results = {{
    **{{name: hccl_ops.allreduce(mine, name) for name in ("sum", "prod", "max", "min")}},
    "gathered": hccl_ops.allgather(mine[:1], SIZE),
    "root 1": hccl_ops.broadcast([mine, mine[0] * 2], 1 % SIZE),
    "scattered": hccl_ops.reduce_scatter(mine, "sum", SIZE),
    "mean": npu_allreduce([mine, None], "mean")[:1],
}}
with tf.Session(config=npu_config_proto()) as session:
    show(session.run(results))
"""


def results_of(printed):
    ((results,),) = shown(printed)
    return {name: np.array(value) for name, value in results.items() if name != "root 1"}, results


def test_collectives_of_two_ranks(run_workers):
    one = np.array([[1.0, 2.0], [3.0, 4.0]])
    all_of_them = [one, one * 2]
    for rank, printed in enumerate(run_workers(OPS)):
        results, as_shown = results_of(printed)
        np.testing.assert_array_equal(results["sum"], np.sum(all_of_them, 0))
        np.testing.assert_array_equal(results["prod"], np.prod(all_of_them, 0))
        np.testing.assert_array_equal(results["max"], np.max(all_of_them, 0))
        np.testing.assert_array_equal(results["min"], np.min(all_of_them, 0))
        np.testing.assert_array_equal(results["mean"], [np.mean(all_of_them, 0)])
        np.testing.assert_array_equal(results["gathered"], [each[0] for each in all_of_them])
        np.testing.assert_array_equal(results["scattered"], np.sum(all_of_them, 0)[rank : rank + 1])
        np.testing.assert_array_equal(as_shown["root 1"][0], all_of_them[1])
        np.testing.assert_array_equal(as_shown["root 1"][1], all_of_them[1][0] * 2)


def test_alone_each_of_them_is_the_identity(run_python):
    results, as_shown = results_of(run_python(OPS).stdout)
    one = np.array([[1.0, 2.0], [3.0, 4.0]])
    for name in ("sum", "prod", "max", "min", "scattered"):
        np.testing.assert_array_equal(results[name], one)
    np.testing.assert_array_equal(results["mean"], [one])
    np.testing.assert_array_equal(results["gathered"], one[:1])
    np.testing.assert_array_equal(as_shown["root 1"][0], one)


TRAIN = f"""{HCCL}
rng = np.random.default_rng(0) if hasattr(np.random, "default_rng") else np.random.RandomState(0)
x = rng.normal(size=[20, 8, 4]).astype(np.float32)
y = rng.normal(size=[20, 8, 1]).astype(np.float32)
features, labels = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
# Each rank begins with numbers of its own; the hook gives all those of rank 0.
weights = tf.get_variable("w", [4, 1], initializer=tf.constant_initializer(0.1 * (RANK + 1)))
loss = tf.reduce_sum(tf.square(tf.matmul(features, weights) - labels)) / (8 / SIZE)
optimizer = tf.train.MomentumOptimizer(0.05, 0.9)
STYLE
hooks = npu_hooks_append()
with tf.train.MonitoredTrainingSession(hooks=hooks, config=npu_config_proto()) as session:
    for one_x, one_y in zip(x, y):
        mine = slice(RANK * 8 // SIZE, (RANK + 1) * 8 // SIZE)
        session.run(train_op, {{features: one_x[mine], labels: one_y[mine]}})
    show(session.run(weights))
"""
STYLES = {
    "distributed": "train_op = NPUDistributedOptimizer(optimizer).minimize(loss)",
    "wrapper": "train_op = npu_distributed_optimizer_wrapper(optimizer).minimize(loss)",
    "loss scaling": (
        "manager = FixedLossScaleManager(1024.0)\n"
        "optimizer = NPUDistributedOptimizer(optimizer)\n"
        "train_op = NPULossScaleOptimizer(optimizer, manager, is_distributed=True).minimize(loss)"
    ),
    "all in one": (
        "manager = FixedLossScaleManager(1024.0)\n"
        "optimizer = NPUOptimizer(optimizer, manager, is_distributed=True, is_loss_scale=True)\n"
        "train_op = optimizer.minimize(loss)"
    ),
}


@pytest.mark.parametrize(
    "style",
    [
        "loss scaling",
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in sorted(STYLES)
            if each != "loss scaling"
        ),
    ],
)
def test_two_ranks_with_half_batches_are_one_with_the_whole(style, run_workers, run_python):
    script = TRAIN.replace("STYLE", STYLES[style])
    (expected,) = shown(run_python(script).stdout)
    for printed in run_workers(script):
        np.testing.assert_allclose(shown(printed), [expected], rtol=1e-5, atol=1e-6)


OVERFLOW = f"""{HCCL}
factor = tf.placeholder(tf.float32, [])
weight = tf.get_variable("w", [], initializer=tf.ones_initializer())
manager = ExponentialUpdateLossScaleManager(16.0, 100, 1, 2.0, 0.5)
optimizer = NPUDistributedOptimizer(tf.train.GradientDescentOptimizer(0.5))
train_op = NPULossScaleOptimizer(optimizer, manager, is_distributed=True).minimize(weight * factor)
with tf.Session(config=npu_config_proto()) as session:
    session.run(tf.global_variables_initializer())
    for step in range(3):
        infinite = step == 1 and RANK == 1
        session.run(train_op, {{factor: np.inf if infinite else 1.0}})
        show(session.run([weight, "loss_scale:0"]))
"""


def test_an_overflow_on_one_rank_skips_the_step_of_all(run_workers):
    for printed in run_workers(OVERFLOW):
        assert [values for (values,) in shown(printed)] == [[0.5, 16.0], [0.5, 8.0], [0.0, 8.0]]


DEATH = f"""{HCCL}
import os
import signal
import sys
import threading

weight = tf.get_variable("w", [], initializer=tf.ones_initializer())
step = tf.train.get_or_create_global_step()
optimizer = NPUDistributedOptimizer(tf.train.GradientDescentOptimizer(0.5))
train_op = optimizer.minimize(weight, step)
try:
    with tf.train.MonitoredTrainingSession(config=npu_config_proto()) as session:
        while True:
            session.run(train_op)
            if RANK == 1 and session.run(step) == 3:
                if sys.argv[1] == "between runs":
                    os.kill(os.getpid(), signal.SIGKILL)
                threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
except RuntimeError as error:
    show(str(error))
"""


@needs_collectives_that_end
@pytest.mark.parametrize(
    "when", ["between runs", pytest.param("at any time", marks=pytest.mark.full)]
)
def test_a_rank_that_dies_ends_the_others_in_a_session_that_would_recover(run_workers, when):
    survivor, _ = run_workers(DEATH, when, killed=1, timeout=90, HCCL_EXEC_TIMEOUT="10")
    ((message,),) = shown(survivor)
    lost = "hccl: rank 0 of 2 has lost another rank, and reaches none any more: start all of them"
    timed_out = "hccl: a run of rank 0 took longer than its time-out (HCCL_EXEC_TIMEOUT"
    assert message.startswith((lost, timed_out))


GROUPS = f"""{HCCL}
create_group("pair", 2, [0, 2])
shows = [get_rank_size("pair"), get_world_rank_from_group_rank("pair", 1)]
whole = hccl_ops.allreduce(tf.constant(float(RANK + 1)), "sum")
if RANK != 1:
    shows += [get_rank_id("pair"), get_group_rank_from_world_rank(RANK, "pair")]
    partial = hccl_ops.allreduce(tf.constant(float(RANK + 1)), "sum", group="pair")
with tf.Session() as session:
    sums = [session.run(whole)]
    if RANK != 1:
        sums.append(session.run(partial))
    sums.append(session.run(whole))
show(shows, sums)
"""


@pytest.mark.full
def test_a_group_of_some_ranks(run_workers):
    one, other, third = (shown(printed)[0] for printed in run_workers(GROUPS, count=3))
    assert one == [[2, 2, 0, 0], [6.0, 4.0, 6.0]]
    assert other == [[2, 2], [6.0, 6.0]]
    assert third == [[2, 2, 1, 1], [6.0, 4.0, 6.0]]


def test_sparse_gradients_are_gathered(run_workers):
    script = f"""{HCCL}
# Rank 0 has a row, rank 1 has two.
rows = tf.constant([[1.0, 2.0], [4.0, 6.0]])[: RANK + 1] * (RANK + 1)
slices = tf.IndexedSlices(rows, tf.range(RANK + 1) + RANK)
mean = npu_allreduce(slices)
with tf.Session() as session:
    show(session.run([mean.values, mean.indices]))
"""
    for printed in run_workers(script):
        assert shown(printed) == [[[[[0.5, 1.0], [1.0, 2.0], [4.0, 6.0]], [0, 1, 2]]]]


def test_a_session_from_before_the_first_op_is_told(run_workers):
    script = f"""{HCCL}
session = tf.Session()
try:
    hccl_ops.allreduce(tf.constant(1.0), "sum")
except RuntimeError as error:
    show(str(error))
"""
    for printed in run_workers(script):
        ((message,),) = shown(printed)
        assert "was made before its first hccl op" in message
        assert "tf.Session(npu_precision.hccl.server.target(), config=...)" in message


MISTAKES = [
    ('hccl_ops.allreduce(x, "average")', "reduction: got 'average', expected one of sum, prod"),
    ('hccl_ops.allreduce(x, "mean")', "reduction: got 'mean', expected one of sum, prod, max, min"),
    ('hccl_ops.allreduce(x, "sum", group="pear")', "expected one of hccl_world_group, pair"),
    ("hccl_ops.allgather(x, 3)", "rank_size: got 3, and group 'hccl_world_group' has 1"),
    ("hccl_ops.broadcast([x], 1)", "root_rank: got 1, expected 0 to 0"),
    ('create_group("pair", 1, [0])', "group: got 'pair', which there is already"),
    ('create_group("two", 2, [1, 0])', "expected different ranks, ascending"),
    ('create_group("two", 1, [5])', "rank_ids: got [5], expected ranks from 0 to 0"),
    ('npu_allreduce(x, "avg")', "reduction: got 'avg', expected one of mean, sum"),
]


def test_mistakes_name_what_is_there(run_python):
    script = f"""{HCCL}
x = tf.constant([1.0])
create_group("pair", 1, [0])
for code in {[code for code, _ in MISTAKES]!r}:
    try:
        exec(code)
        show("no error")
    except ValueError as error:
        show(str(error))
"""
    messages = [message for (message,) in shown(run_python(script).stdout)]
    for (code, expected), message in zip(MISTAKES, messages):
        assert expected in message, code
    assert len(messages) == len(MISTAKES)


ESTIMATOR = f"""{HCCL}
import os

del os.environ["TF_CONFIG"]  # which tf.estimator reads as well, for parameter servers
os.environ.update(RANK_ID=str(RANK), RANK_SIZE=str(SIZE), HCCL_IF_BASE_PORT=FIRST)


def model_fn(features, labels, mode):
    weights = tf.get_variable("w", [4, 1], initializer=tf.constant_initializer(0.1 * (RANK + 1)))
    loss = tf.reduce_mean(tf.square(tf.matmul(features, weights) - labels))
    optimizer = npu_distributed_optimizer_wrapper(tf.train.GradientDescentOptimizer(0.05))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return NPUEstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    x = np.arange(32, dtype=np.float32).reshape([8, 4])[RANK::SIZE] / 10
    return tf.data.Dataset.from_tensors((x, x.sum(1, keepdims=True))).repeat(10)


estimator = NPUEstimator(model_fn, f"model{{RANK}}", NPURunConfig())
estimator.train(input_fn)
show(estimator.get_variable_value("w"))
"""


@needs_estimator
def test_an_estimator_trains_alike_on_all_ranks(run_workers):
    script = ESTIMATOR.replace("FIRST", repr(str(adjacent_ports(2))))
    one, other = (shown(printed) for printed in run_workers(script))
    assert one == other
    assert np.ptp(one) > 0
