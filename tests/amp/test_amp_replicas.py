"""npu_precision.amp with Keras' optimizers under mirrored strategies, in fit() and in loops."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.replicas import MIRRORED, MULTI_WORKER, shown
from support.tf_versions import (
    needs_fit_with_workers,
    needs_functions_by_default,
    needs_logical_devices,
    needs_workers,
)

pytestmark = [needs_functions_by_default, needs_logical_devices, pytest.mark.slow]

LOOPS = """
def train(unscale, losses, in_scope):
    with strategy.scope():
        variable, optimizer = tf.Variable([1.0, 2.0]), tf.keras.optimizers.SGD(0.5)
        if in_scope:
            amp.initialize(optimizer, "O1", num_losses=losses, verbosity=0)
    if not in_scope:
        amp.initialize(optimizer, "O1", num_losses=losses, verbosity=0)

    def replica(factor):
        scaled = []
        with tf.GradientTape(persistent=True) as tape:
            for loss_id in range(losses):
                # Only the last loss overflows.
                loss = tf.reduce_sum(variable * (factor if loss_id == losses - 1 else 1.0)) / COUNT
                with amp.scale_loss(loss, optimizer, loss_id) as scaled_loss:
                    scaled.append(scaled_loss)
        grads = [tape.gradient(loss, variable) for loss in scaled]
        if unscale:
            grads = [
                amp.unscale_gradients([grad], optimizer, loss_id)[0]
                for loss_id, grad in enumerate(grads)
            ]
        optimizer.apply_gradients([(tf.add_n(grads), variable)])

    step = tf.function(lambda factor: strategy.run(replica, args=(factor,)))
    for factors in [1.0] * COUNT, ones_but(1, np.inf), ones_but(0, np.nan), [1.0] * COUNT:
        step(per_replica(factors))
    states = [[one["loss_scale"], one["unskipped"]] for one in amp.state_dict().values()]
    show(variable.numpy(), states, optimizer.iterations.numpy())
    npu_precision.disable()


for arguments in (False, 1, True), (True, 1, False), (True, 2, True):
    train(*arguments)
"""


def check_loops(printed):
    at_once, before, two = shown(printed)
    assert at_once == before == [[0.0, 1.0], [[2.0**14, 1]], 2]
    assert two == [[-1.0, 0.0], [[2.0**16, 4], [2.0**14, 1]], 2]


def test_an_overflow_in_one_replica_skips_the_step_of_all(run_python):
    check_loops(run_python(MIRRORED + LOOPS, 2).stdout)


@pytest.mark.full
@needs_workers
def test_an_overflow_in_one_worker_skips_the_step_of_all(run_workers):
    """Only this test finds a decision that depends on the replicas of one process alone."""
    for printed in run_workers(MULTI_WORKER + LOOPS):
        check_loops(printed)


SHARED = """
with strategy.scope():
    weights = [tf.Variable([1.0]), tf.Variable([1.0])]
    optimizers = [tf.keras.optimizers.SGD(0.5), tf.keras.optimizers.SGD(0.5)]
    amp.initialize(optimizers, "O1", verbosity=0)


def replica(factor):
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_sum(weights[0] + weights[1] * factor) / COUNT
        with amp.scale_loss(loss, optimizers) as scaled:
            pass
    grads = [
        amp.unscale_gradients([tape.gradient(scaled, weight)], optimizer)[0]
        for weight, optimizer in zip(weights, optimizers)
    ]
    for grad, weight, optimizer in zip(grads, weights, optimizers):
        optimizer.apply_gradients([(grad, weight)])


step = tf.function(lambda factor: strategy.run(replica, args=(factor,)))
for factors in [1.0] * COUNT, ones_but(1, np.inf), [1.0] * COUNT:
    step(per_replica(factors))
show([weight.numpy() for weight in weights], amp.state_dict()["loss_scaler0"])
"""


def test_optimizers_that_share_a_loss_skip_together_in_all_replicas(run_python):
    (result,) = shown(run_python(MIRRORED + SHARED, 2).stdout)
    assert result == [[[0.0], [0.0]], {"loss_scale": 2.0**15, "unskipped": 1}]


FIT = """
x = np.random.default_rng(0).normal(size=[32, 4]).astype(np.float32)
y = x @ np.ones([4, 1], np.float32)
OPTIMIZERS = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.05, momentum=0.9),
    "adam": lambda: tf.keras.optimizers.Adam(0.01),
}


def fit(strategy, make_optimizer, x):
    with strategy.scope():
        tf.keras.utils.set_random_seed(1)
        layers = [tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(1)]
        model = tf.keras.Sequential([tf.keras.Input([4]), *layers])
        optimizer, _ = amp.initialize(make_optimizer(), "O1", loss_scale=2.0**8, verbosity=0)
        model.compile(optimizer, "mse")
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    model.fit(data.with_options(options), epochs=2, shuffle=False, verbose=0)
    skipped = optimizer.npu_precision_losses.skipped_steps.numpy()
    npu_precision.disable()
    weights = np.concatenate([np.ravel(weight) for weight in model.get_weights()])
    return weights, skipped, optimizer.iterations.numpy()


x_of_overflow = x.copy()
x_of_overflow[9] = np.inf
for make_optimizer in OPTIMIZERS.values():
    for inputs in x, x_of_overflow:
        several = fit(strategy, make_optimizer, inputs)
        show(several, fit(tf.distribute.get_strategy(), make_optimizer, inputs))
"""


def check_fits(printed):
    fits = shown(printed)
    assert len(fits) == 4
    for (several, *counts), (one, *expected) in fits:
        # bfloat16 rounds sums of half a batch differently.
        np.testing.assert_allclose(several, one, rtol=0, atol=2e-3)
        assert counts == expected
    assert [one[1:] for one, _ in fits] == [[0, 8], [2, 6]] * 2


@pytest.mark.full
def test_fit_with_two_replicas_is_fit_with_one(run_python):
    check_fits(run_python(MIRRORED + FIT, 2).stdout)


@pytest.mark.full
@needs_fit_with_workers
def test_fit_with_two_workers_is_fit_with_one(run_workers):
    """Only this test finds a fit() whose workers deadlock."""
    one, other = run_workers(MULTI_WORKER + FIT)
    check_fits(one)
    for (several, _), (same, _) in zip(shown(one), shown(other)):
        assert json.dumps(several) == json.dumps(same)
