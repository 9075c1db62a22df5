"""With lower_collectives: workers that die, steps that overflow, checkpoints that move."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support import workers
from support.replicas import MULTI_WORKER, shown
from support.tf_versions import needs_cluster_store, needs_fit_with_workers

pytestmark = [needs_cluster_store, pytest.mark.slow]

MIXED = 'precision_mode="allow_mix_precision_bf16", lower_collectives=True, report_dir="reports"'


def lowered(folder):
    """How many gradients are reduced in the low type, over all ledgers in the folder."""
    collectives = [
        collective
        for report in folder.rglob("reports/*.json")
        for collective in json.loads(report.read_text())["collectives"]
    ]
    return sum(collective["lowered"] for collective in collectives)


# A fit in which the worker argv[2], if there is one, kills itself after the forward pass of a step.
FIT = f"""{MULTI_WORKER}
import signal

npu_precision.enable({MIXED})
EPOCHS, BATCHES, BATCH = 4, 4, 32
backup, victim = sys.argv[1], int(sys.argv[2])
steps = 0


def die():
    global steps
    steps += 1
    # In the middle of the third epoch.
    if steps == 2 * BATCHES + 2 and WORKER == victim:
        os.kill(os.getpid(), signal.SIGKILL)


def loss(y, predicted):
    with tf.control_dependencies([predicted]):
        dies = tf.py_function(die, [], [])
    with tf.control_dependencies([dies]):
        return tf.reduce_mean(tf.square(y - predicted), axis=-1)


rng = np.random.default_rng(0)
x = rng.normal(size=[BATCHES * BATCH, 64]).astype(np.float32)
y = x @ rng.normal(size=[64, 1]).astype(np.float32) / 8
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
with strategy.scope():
    tf.keras.utils.set_random_seed(1)
    layers = [tf.keras.layers.Dense(64, "tanh"), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential([tf.keras.Input([64]), *layers])
    model.compile(tf.keras.optimizers.SGD(0.02, momentum=0.9), loss)
history = model.fit(
    data.with_options(options),
    epochs=EPOCHS,
    shuffle=False,
    verbose=0,
    callbacks=[tf.keras.callbacks.BackupAndRestore(backup)],
)
show(history.epoch, history.history["loss"], [np.ravel(each) for each in model.get_weights()])
"""


@needs_fit_with_workers
@pytest.mark.full
@pytest.mark.parametrize("count", [2, 4])
def test_workers_that_are_all_started_anew_end_where_they_would_have_ended(tmp_path, count):
    def fit(name, victim):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return workers.run_workers(folder, FIT, folder / "backup", victim, count=count)

    whole = [each for printed in fit("whole", -1) for each in shown(printed)]
    with pytest.raises(AssertionError, match="worker 1 ended with status -9"):
        fit("killed", 1)
    (tmp_path / "killed" / "workers0").rename(tmp_path / "before_death")
    resumed = [each for printed in fit("killed", -1) for each in shown(printed)]

    assert lowered(tmp_path / "killed") > 0, "the workers that were started anew did not lower"
    assert len(whole) == len(resumed) == count
    for (epochs, losses, weights), (later, later_losses, same) in zip(whole, resumed):
        assert epochs == [0, 1, 2, 3]
        assert losses[-1] < 0.5 * losses[0]
        # The third epoch is made again from its beginning, with the same sums in the same order.
        assert later == [2, 3]
        assert later_losses == losses[2:]
        assert same == weights


# A worker that dies writes the time; the others show their error, and how many seconds later.
DEATH = f"""{MULTI_WORKER}
import signal
import time

npu_precision.enable({MIXED})
victim, when = int(sys.argv[1]), sys.argv[2]


def die():
    if WORKER == victim:
        with open("died", "w") as file:
            file.write(str(time.time()))
        os.kill(os.getpid(), signal.SIGKILL)


with strategy.scope():
    weights = tf.Variable(tf.ones([64, 32]))


@tf.function
def train(x, is_last):
    def replica(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(x, weights))
        with tf.control_dependencies([loss]):
            dies = tf.cond(is_last, lambda: tf.py_function(die, [], []), tf.no_op)
        with tf.control_dependencies([dies]):
            gradient = tf.identity(tape.gradient(loss, weights))
        gradient = tf.distribute.get_replica_context().all_reduce("sum", gradient)
        weights.assign_sub(0.5 * gradient)

    strategy.run(replica, args=(x,))


try:
    if when == "before they agree":
        die()
    for step in range(4):
        train(tf.ones([8, 64]), tf.constant(step == 3))
    show("trained")
except Exception as error:
    seconds = time.time() - float(open("died").read())
    show(type(error).__name__, seconds, str(error))
"""


@pytest.mark.parametrize(
    ("count", "victim", "when"),
    [
        pytest.param(2, 1, "before they agree", marks=pytest.mark.full),
        (2, 1, "in a step"),
        # The first worker holds the coordination service.
        pytest.param(2, 0, "before they agree", marks=pytest.mark.full),
        pytest.param(2, 0, "in a step", marks=pytest.mark.full),
        pytest.param(4, 2, "before they agree", marks=pytest.mark.full),
        pytest.param(4, 2, "in a step", marks=pytest.mark.full),
    ],
)
def test_the_others_get_an_error_when_a_worker_dies(run_workers, tmp_path, count, victim, when):
    printed = run_workers(DEATH, victim, when, count=count, killed=victim, timeout=120)
    died = printed.pop(victim)
    assert not died
    assert (lowered(tmp_path) > 0) == (when == "in a step")
    for survivor in printed:
        ((name, seconds, message),) = shown(survivor)
        assert name == "UnavailableError", message
        assert seconds < 60
        if when == "before they agree" and victim != 0:
            assert message.startswith(f"/job:worker/task:{victim} is gone: ")


# One worker has values that do not fit into a float16; argv[1] is "scaler" or "amp".
OVERFLOW = f"""{MULTI_WORKER}
HUGE = 1e5  # More than float16's 65504: its cast is infinite.


def train(lower_collectives):
    options = {{"lower_collectives": lower_collectives}}
    with strategy.scope():
        weights = tf.Variable(tf.ones([64, 32]))
        optimizer = tf.keras.optimizers.SGD(2.0**-4)
        if sys.argv[1] == "amp":
            low = {{"cast_model_type": tf.float16, "loss_scale": "dynamic"}}
            amp.initialize(optimizer, "O1", verbosity=0, **low, **options)
        else:
            npu_precision.enable(precision_mode="allow_mix_precision", **options)
            scaler = npu_precision.GradScaler(8.0)

    def replica(factor):
        x = tf.ones([8, 64]) * factor
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(x, weights)) / (8 * 64 * COUNT)
            if sys.argv[1] == "amp":
                with amp.scale_loss(loss, optimizer) as scaled:
                    pass
            else:
                scaled = scaler.scale(loss)
        gradient = tape.gradient(scaled, weights)
        if sys.argv[1] == "amp":
            optimizer.apply_gradients([(gradient, weights)])
        else:
            scaler.step(optimizer, [(gradient, weights)])
            scaler.update()

    step = tf.function(lambda factor: strategy.run(replica, args=(factor,)))
    for factors in [1.0] * COUNT, ones_but(COUNT - 1, HUGE), ones_but(0, HUGE), [1.0] * COUNT:
        step(per_replica(factors))
        show(weights[0, 0].numpy(), optimizer.iterations.numpy())
    npu_precision.disable()
"""


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.full)])
@pytest.mark.parametrize("by", ["scaler", pytest.param("amp", marks=pytest.mark.full)])
def test_an_overflow_in_one_worker_skips_the_step_of_all(run_workers, by, count):
    script = f"{OVERFLOW}\ntrain(False)\ntrain(True)\n"
    one, *others = (shown(printed) for printed in run_workers(script, by, count=count))
    for other in others:
        assert other == one
    # A gradient is 1 / 64; the optimizer subtracts a sixteenth of it.
    made = 1 / 64 / 16
    expected = [[1 - made, 1], [1 - made, 1], [1 - made, 1], [1 - 2 * made, 2]]
    assert one == expected * 2


# Restores from argv[1], if it is not empty, trains argv[3] times, and saves to argv[2]. A step sums
# up gradients in bfloat16, or in float32, because GradScaler unscales them before.
CHECKPOINT = f"""{MULTI_WORKER}
npu_precision.enable({MIXED})
before, after, legs = *sys.argv[1:3], int(sys.argv[3])
BATCH = 32
rng = np.random.default_rng(0)
x = rng.normal(size=[BATCH, 64]).astype(np.float32)
y = x @ rng.normal(size=[64, 1]).astype(np.float32) / 8
mine = slice(WORKER * BATCH // COUNT, (WORKER + 1) * BATCH // COUNT)
with strategy.scope():
    tf.keras.utils.set_random_seed(1)
    layers = [tf.keras.layers.Dense(64, "tanh"), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential([tf.keras.Input([64]), *layers])
    optimizer = tf.keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    scaler = npu_precision.GradScaler(8.0, growth_interval=2)
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, scaler=scaler)


def state():
    values = [value.numpy() for value in (*model.variables, *optimizer.variables)]
    return [np.ravel(value) for value in values], scaler.state_dict()


def gradients(x, y, scale):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(model(x) - y)) / BATCH
        scaled = scale(loss)
    weights = model.trainable_variables
    return loss, list(zip(tape.gradient(scaled, weights), weights))


def plain(x, y):
    loss, pairs = gradients(x, y, tf.identity)
    optimizer.apply_gradients(pairs)
    return loss


def scaled(x, y):
    loss, pairs = gradients(x, y, scaler.scale)
    scaler.step(optimizer, pairs)
    scaler.update()
    return loss


def step_of(replica):
    return tf.function(
        lambda x, y: strategy.reduce("SUM", strategy.run(replica, args=(x, y)), axis=None)
    )


steps = [step_of(plain), step_of(scaled)] * 3 * legs
if before:
    checkpoint.read(before).assert_consumed()
show(state())
losses = [float(step(tf.constant(x[mine]), tf.constant(y[mine]))) for step in steps]
# Every worker saves, into a folder of its own.
checkpoint.write(f"{{after}}/{{WORKER}}/state")
show(state(), losses)
"""

# The largest error of the weights, as a fraction of how far training moved them: workers round each
# gradient once more, to 8 bits, and Adam's first steps depend on little more than its sign.
DISTANCE = 0.1
# The kernels and biases of two layers.
WEIGHTS = 4


@needs_fit_with_workers
@pytest.mark.full
@pytest.mark.parametrize("counts", [(1, 2), (2, 4, 1, 2)], ids=str)
def test_a_checkpoint_moves_between_numbers_of_workers(tmp_path, counts):
    def train(name, count, before="", legs=1):
        """Runs CHECKPOINT; returns the state before and after, the losses, and a checkpoint."""
        folder = tmp_path / name
        folder.mkdir()
        arguments = before, folder / "saved", legs
        one, *others = map(shown, workers.run_workers(folder, CHECKPOINT, *arguments, count=count))
        assert all(other == one for other in others)
        assert (lowered(folder) > 0) == (count > 1)
        return one, folder / "saved" / "0" / "state"

    moved, saved = [], ""
    for leg, count in enumerate(counts):
        shown_of_leg, saved = train(f"leg{leg}", count, saved)
        moved.append(shown_of_leg)
    alone, _ = train("alone", 1, legs=len(counts))
    for (_, (saved, _)), ((restored,), _) in zip(moved, moved[1:]):
        assert restored == saved
    (_, ((values, scaler), losses)), (_, ((expected, same), expected_losses)) = moved[-1], alone
    assert scaler == same
    assert scaler["scale"] > 8.0
    np.testing.assert_allclose(losses, expected_losses[-len(losses) :], rtol=0.05, atol=0)
    assert losses[-1] < expected_losses[0]
    (((start, _),), _) = moved[0]
    ends, same_ends, starts = (np.concatenate(each[:WEIGHTS]) for each in (values, expected, start))
    distance = np.linalg.norm(ends - same_ends) / np.linalg.norm(same_ends - starts)
    assert distance < DISTANCE
