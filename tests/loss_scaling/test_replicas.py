"""GradScaler under mirrored strategies: all replicas make a step or none, and it counts once.

Replicas are processes, or logical CPUs, which need a process of their own.
"""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf
from support.replicas import MIRRORED, MULTI_WORKER, shown
from support.tf_versions import (
    needs_functions_by_default,
    needs_logical_devices,
    needs_train_step,
    needs_workers,
)

import npu_precision

pytestmark = [needs_functions_by_default, needs_logical_devices, pytest.mark.slow]

OVERFLOWS = (
    MIRRORED
    + """
OPTIMIZERS = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.5),
    "adam": lambda: tf.keras.optimizers.Adam(0.5),
    "tf1": lambda: tf.compat.v1.train.GradientDescentOptimizer(0.5),
}
if KERAS_2 and hasattr(tf.keras.optimizers, "legacy"):
    OPTIMIZERS["legacy adam"] = lambda: tf.keras.optimizers.legacy.Adam(0.5)
PLACES = {"function": tf.function, "eager": lambda f: f}


def train(place, make_optimizer, in_scope, unscale, update_inside, factors):
    make_scaler = lambda: npu_precision.GradScaler(8.0, growth_interval=3)
    scaler = None if in_scope else make_scaler()
    with strategy.scope():
        variable, table = tf.Variable([1.0, 2.0]), tf.Variable(tf.ones([3, 2]))
        optimizer = make_optimizer()
        scaler = scaler or make_scaler()

    def replica(factor):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable + tf.gather(table, [1])) * factor / COUNT
            scaled = scaler.scale(loss)
        grads = tape.gradient(scaled, [variable, table])
        if unscale:
            grads = scaler.unscale_(optimizer, grads)
        made = scaler.step(optimizer, zip(grads, [variable, table]))
        if update_inside:
            scaler.update()
        return made

    @place
    def step(factor):
        made = strategy.run(replica, args=(factor,))
        if not update_inside:
            scaler.update()
        return made

    history = []
    for each in factors:
        made = [bool(one) for one in strategy.experimental_local_results(step(per_replica(each)))]
        state = scaler.state_dict()
        history.append([all(made), any(made), state["scale"], state["_growth_tracker"]])
    return history, int(scaler.skipped_steps.numpy()), variable.numpy(), table.numpy()[1]


ones, bad = [1.0] * COUNT, [ones_but(0, np.nan), ones_but(COUNT - 1, np.inf)]
ways = [("function", "sgd", True, True, True)]
if COUNT == 2:
    ways += [("function", name, False, False, False) for name in OPTIMIZERS]
    ways += [("eager", "adam", True, True, True), ("function", "sgd", False, True, True)]
for place, optimizer, *flags in ways:
    arguments = PLACES[place], OPTIMIZERS[optimizer], *flags
    got = train(*arguments, [ones, bad[1], bad[0], ones, ones, ones])
    show(place, optimizer, flags, got, train(*arguments, [ones] * 4)[2:])
"""
)


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.full)])
def test_an_overflow_in_one_replica_skips_the_step_of_all_and_counts_once(run_python, count):
    """Only this test finds optimizers whose all-reduce cannot be in a branch."""
    ways = shown(run_python(OVERFLOWS, count).stdout)
    assert len(ways) >= {2: 6, 4: 1}[count]
    for *_, got, without in ways:
        history, skipped, *values = got
        made = [made for made, *_ in history]
        assert made == [made for _, made, *_ in history] == [True, False, False, True, True, True]
        assert [scale for *_, scale, _ in history] == [8.0, 4.0, 2.0, 2.0, 2.0, 4.0]
        assert [good for *_, good in history] == [1, 0, 0, 1, 2, 0]
        assert skipped == 2
        # The scale is a power of two, which rounds nothing.
        for value, expected in zip(values, without):
            np.testing.assert_array_equal(value, expected)


HALVES = """
rng = np.random.default_rng(1)
x = rng.normal(size=[6, 8, 4]).astype(np.float32)
y = rng.normal(size=[6, 8, 1]).astype(np.float32)
start = rng.normal(size=[4, 1]).astype(np.float32)


def train(strategy, count):
    with strategy.scope():
        weight = tf.Variable(start)
        optimizer = tf.keras.optimizers.Adam(0.1)
        scaler = npu_precision.GradScaler(2.0**10)

    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(x @ weight - y)) / 8
            scaled = scaler.scale(loss)
        (grad,) = scaler.unscale_(optimizer, [tape.gradient(scaled, weight)])
        scaler.step(optimizer, [(grad, weight)])
        scaler.update()

    @tf.function
    def step(x, y):
        strategy.run(replica, args=(x, y))

    for batch in zip(x, y):
        parts = [np.split(value, count) for value in batch]
        step(*map(per_replica, parts) if count > 1 else map(tf.constant, batch))
    return weight.numpy()


show(train(strategy, COUNT), train(tf.distribute.get_strategy(), 1), start)
"""


def test_two_replicas_with_half_the_batch_are_one_with_the_whole(run_python):
    """They are equal except for the order of additions."""
    check_halves(run_python(MIRRORED + HALVES, 2).stdout)


def check_halves(printed):
    ((halves, whole, start),) = shown(printed)
    np.testing.assert_allclose(halves, whole, rtol=0, atol=1e-5)
    assert np.abs(np.subtract(whole, start)).min() > 0.1


TRAIN_STEP = (
    MIRRORED
    + """
class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")
        self.scaler = npu_precision.GradScaler(8.0)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(tf.square(self(x) - y)[:, 0], global_batch_size=4)
            scaled = self.scaler.scale(loss)
        grads = tape.gradient(scaled, self.trainable_variables)
        made = self.scaler.step(self.optimizer, zip(grads, self.trainable_variables))
        self.scaler.update()
        return {"made": tf.cast(made, tf.float32)}


x = np.random.default_rng(1).normal(size=[16, 2]).astype(np.float32)
x[6, 0] = np.inf  # in the second of four batches
for several in True, False:
    with strategy.scope() if several else tf.distribute.get_strategy().scope():
        model = Model()
        model.compile(optimizer=tf.keras.optimizers.SGD(0.1))
    model.fit(x, np.ones([16, 1], np.float32), batch_size=4, shuffle=False, verbose=0)
    state, skipped = model.scaler.state_dict(), model.scaler.skipped_steps.numpy()
    show(model.get_weights()[0], state["scale"], state["_growth_tracker"], skipped)
"""
)


@needs_train_step
def test_fit_calls_a_train_step_in_each_replica(run_python):
    (several, *state), (one, *expected) = shown(run_python(TRAIN_STEP, 2).stdout)
    np.testing.assert_allclose(several, one, rtol=0, atol=1e-6)
    assert state == expected == [4.0, 2, 1]


CALLS = (
    MIRRORED
    + """
def outcome(calls):
    with strategy.scope():
        variable, optimizer = tf.Variable(1.0), tf.keras.optimizers.SGD(0.5)
        scaler = npu_precision.GradScaler(8.0, growth_interval=1)

    def replica():
        with tf.GradientTape() as tape:
            scaled = scaler.scale(variable / COUNT)
        grads = given = [tape.gradient(scaled, variable)]
        for call in calls:
            if call == "unscale":
                grads = scaler.unscale_(optimizer, given)
            elif call == "step":
                scaler.step(optimizer, [(grads[0], variable)])
            elif call == "step given":
                scaler.step(optimizer, [(given[0], variable)])
            else:
                scaler.update()

    try:
        place(lambda: strategy.run(replica))()
        return [variable.numpy(), scaler.get_scale()]
    except (RuntimeError, ValueError, tf.errors.InvalidArgumentError) as error:
        return str(error)


for place in tf.function, lambda f: f:
    for calls in json.loads(sys.argv[2]):
        show(outcome(calls))
"""
)


def test_calls_in_a_wrong_order_are_refused_in_replicas_too(run_python):
    expected = {
        ("step", "update"): [0.5, 16.0],
        ("unscale", "step", "update"): [0.5, 16.0],
        ("unscale", "unscale"): "unscale_() was called for it since the last update()",
        ("step", "unscale"): "unscale_() is called after step()",
        ("step", "step"): "step() was called for it since the last update()",
        ("step", "update", "update"): "update() is called without step()",
        ("unscale", "step given"): "the gradients that unscale_() was given",
    }
    calls = "[" + ", ".join(str(list(calls)).replace("'", '"') for calls in expected) + "]"
    got = shown(run_python(CALLS, 2, calls).stdout)
    for (outcome,), want in zip(got, itertools.chain(*[expected.values()] * 2)):
        if isinstance(want, str):
            assert want in outcome
        else:
            assert outcome == want
    assert len(got) == 2 * len(expected)


CHECKPOINTS = (
    MIRRORED
    + """
def make(in_scope):
    with strategy.scope():
        variable, optimizer = tf.Variable(1.0), tf.keras.optimizers.SGD(0.5)
        scaler = npu_precision.GradScaler(8.0) if in_scope else None
    scaler = scaler or npu_precision.GradScaler(8.0)

    def replica(factor):
        with tf.GradientTape() as tape:
            scaled = scaler.scale(variable * factor / COUNT)
        scaler.step(optimizer, [(tape.gradient(scaled, variable), variable)])
        scaler.update()

    step = tf.function(lambda factor: strategy.run(replica, args=(factor,)))
    checkpoint = tf.train.Checkpoint(scaler=scaler, variable=variable)
    return scaler, variable, step, checkpoint


for in_scope in False, True:
    scaler, variable, step, checkpoint = make(in_scope)
    path = f"{sys.argv[3]}{in_scope}-1"
    if sys.argv[2] == "save":
        step(per_replica(ones_but(0, np.inf)))
        step(per_replica([1.0] * COUNT))
        checkpoint.save(path[:-2])
    else:
        step(per_replica([1.0] * COUNT))
        checkpoint.restore(path).assert_consumed()
    show(scaler.state_dict(), scaler.skipped_steps.numpy(), variable.numpy())
    step(per_replica([1.0] * COUNT))
    show(scaler.state_dict(), scaler.skipped_steps.numpy(), variable.numpy())
"""
)


@pytest.mark.parametrize(
    "counts", [(2, 1), *(pytest.param(each, marks=pytest.mark.full) for each in ((1, 2), (2, 4)))]
)
def test_a_checkpoint_is_restored_with_another_number_of_replicas(run_python, tmp_path, counts):
    saved, restored = (
        shown(run_python(CHECKPOINTS, count, what, tmp_path / "state").stdout)
        for count, what in zip(counts, ("save", "restore"))
    )
    assert saved == restored
    assert saved[0][0]["scale"] == 4.0
    assert saved[0][1:] == [1, 0.5]


WORKERS = (
    MULTI_WORKER
    + HALVES
    + """
folder = sys.argv[1]


def make(in_scope):
    scaler = None if in_scope else npu_precision.GradScaler(8.0)
    with strategy.scope():
        variable, optimizer = tf.Variable(1.0), tf.keras.optimizers.SGD(0.5)
        scaler = scaler or npu_precision.GradScaler(8.0)

    def replica(factor):
        with tf.GradientTape() as tape:
            scaled = scaler.scale(variable * factor / COUNT)
        made = scaler.step(optimizer, [(tape.gradient(scaled, variable), variable)])
        scaler.update()
        return made

    return scaler, variable, tf.function(lambda factor: strategy.run(replica, args=(factor,)))


for in_scope in False, True:
    scaler, variable, step = make(in_scope)
    for factors in ones_but(COUNT - 1, np.inf), [1.0] * COUNT, ones_but(0, np.nan):
        show(step(per_replica(factors)), scaler.get_scale(), variable.numpy())
    # Every worker saves, into a folder of its own.
    checkpoint = tf.train.Checkpoint(scaler=scaler, variable=variable)
    checkpoint.write(f"{folder}/{WORKER}{in_scope}")
    show(scaler.state_dict(), scaler.skipped_steps.numpy())
"""
)


@needs_workers
def test_workers_agree_on_each_step(run_workers, tmp_path):
    """Only this test finds a decision that depends on the replicas of one process alone."""
    one, other = map(shown, run_workers(WORKERS, tmp_path))
    assert one == other
    halves, *lines = one
    check_halves("SHOWN " + json.dumps(halves))
    for *steps, (state, skipped) in lines[:4], lines[4:]:
        assert steps == [[False, 4.0, 1.0], [True, 4.0, 0.5], [False, 2.0, 0.5]]
        assert (state["scale"], state["_growth_tracker"], skipped) == (2.0, 0, 2)
    # A run without a strategy continues from the workers' state.
    for path in "0False", "0True":
        scaler, variable = npu_precision.GradScaler(8.0), tf.Variable(1.0)
        checkpoint = tf.train.Checkpoint(scaler=scaler, variable=variable)
        checkpoint.read(str(tmp_path / path)).assert_consumed()
        assert scaler.state_dict() == lines[3][0]
        assert (scaler.skipped_steps.numpy(), variable.numpy()) == (2, 0.5)


RECORDED = (
    MIRRORED
    + """
with strategy.scope():
    variable, optimizer = tf.Variable([1.0, 2.0]), tf.keras.optimizers.SGD(0.5)
    scaler = npu_precision.GradScaler(8.0)


def replica(factor):
    with tf.GradientTape() as tape:
        scaled = scaler.scale(tf.reduce_sum(variable * tf.stack([factor, 0.0])))
    grads = tape.gradient(scaled, [variable])
    if unscale:
        grads = scaler.unscale_(optimizer, grads)
    scaler.step(optimizer, zip(grads, [variable]))
    scaler.update()


for place in tf.function, lambda f: f:
    for unscale in False, True:
        with npu_precision.FlightRecorder("flight", every_n_steps=1):
            step = place(lambda factor: strategy.run(replica, args=(factor,)))
            step(per_replica(ones_but(0, 1.0)))
            step(per_replica(ones_but(1, np.inf)))
for line in open("flight/flight.jsonl"):
    if "source" in json.loads(line):  # Of gradients.
        show(json.loads(line))
"""
)


def test_the_flight_recorder_sees_a_step_of_all_replicas_once(run_python):
    events = [event for (event,) in shown(run_python(RECORDED, 2).stdout)]
    assert [(one["event"], one["step"]) for one in events] == [("sample", 0), ("overflow", 1)] * 4
    assert [one["zero_share"] for one in events[::2]] == [0.5] * 4
    assert [one["first"]["value"] for one in events[1::2]] == ["infinity"] * 4


REFUSED = (
    MIRRORED
    + """
def refusal(call, strategy=strategy):
    with strategy.scope():
        scaler, optimizer = npu_precision.GradScaler(8.0), tf.keras.optimizers.SGD(0.5)
        variable = tf.Variable(1.0)
        scaler.scale(tf.constant(1.0))
        try:
            call(strategy, scaler, lambda: scaler.step(optimizer, [(tf.constant(1.0), variable)]))
        except (RuntimeError, ValueError) as error:
            show(str(error))


central = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0")
refusal(lambda strategy, scaler, step: strategy.run(step), central)
refusal(lambda strategy, scaler, step: step())
new_scale = tf.constant(2.0)
refusal(lambda strategy, scaler, step: strategy.run(lambda: scaler.update(new_scale)))
"""
)


def test_what_does_not_work_under_a_strategy_is_told(run_python):
    (other,), (outside,), (new_scale,) = shown(run_python(REFUSED, 2).stdout)
    assert "GradScaler.step(): got a CentralStorageStrategy of several replicas, expect" in other
    assert "GradScaler.step(): called outside of the replicas, expected within a fun" in outside
    assert "new_scale: got a tensor in a replica of a tf.distribute strategy, expect" in new_scale
