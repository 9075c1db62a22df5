"""Training for the tests of npu_precision.amp: one weight; a factor makes its gradient overflow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import npu_precision

tf1 = tf.compat.v1

KERAS = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.5, momentum=0.9),
    "adam": lambda: tf.keras.optimizers.Adam(0.5),
}
if hasattr(getattr(tf.keras.optimizers, "Optimizer", None), "build"):
    KERAS["fused adam"] = lambda: npu_precision.amp.optimizers.NpuFusedAdam(0.5)
if hasattr(tf1.keras.backend, "set_session") and hasattr(tf.keras.optimizers, "legacy"):
    KERAS["legacy adam"] = lambda: tf.keras.optimizers.legacy.Adam(0.5)
SESSION = {
    "momentum": lambda: tf1.train.MomentumOptimizer(0.5, 0.9),
    "adam": lambda: tf1.train.AdamOptimizer(0.5),
}


def losses(weight, factors):
    """One loss per factor."""
    return [tf.reduce_sum(tf.square(weight - 3.0) * factor) for factor in factors]


class KerasModel:
    """A weight, an optimizer from initialize(), and a function that takes a step."""

    def __init__(self, amp, optimizer, place=tf.function, unscale=None):
        self.weight = tf.Variable([1.0, 2.0])
        self.optimizer = optimizer

        def step(factors):
            grads = []
            with tf.GradientTape(persistent=True) as tape:
                scaled = []
                for loss_id, loss in enumerate(losses(self.weight, tf.unstack(factors))):
                    with amp.scale_loss(loss, optimizer, loss_id) as scaled_loss:
                        scaled.append(scaled_loss)
            for loss_id, scaled_loss in enumerate(scaled):
                gradient = tape.gradient(scaled_loss, [self.weight])
                if unscale is not None:
                    gradient = unscale(gradient, optimizer, loss_id)
                grads.append(gradient[0])
            optimizer.apply_gradients([(tf.add_n(grads), self.weight)])

        self._step = place(step)

    def train(self, *steps):
        """Takes a step for each item of the list; an item holds the factors of the losses."""
        for factors in steps:
            self._step(tf.constant(np.reshape(factors, [-1]), tf.float32))
        return self.weight.numpy()


class SessionModel:
    """The same model in a graph and a session."""

    def __init__(self, amp, make, **overrides):
        with tf.Graph().as_default() as graph:
            self.optimizer, self.config = amp.initialize(make(), "O1", verbosity=0, **overrides)
            count = overrides.get("num_losses", 1)
            self.weight = tf1.get_variable("w", initializer=[1.0, 2.0], use_resource=True)
            self.factors = tf1.placeholder(tf.float32, [count])
            self.steps = tf1.train.get_or_create_global_step()
            pairs = []
            for loss_id, loss in enumerate(losses(self.weight, tf.unstack(self.factors))):
                with amp.scale_loss(loss, self.optimizer, loss_id) as scaled_loss:
                    pairs.append(self.optimizer.compute_gradients(scaled_loss, [self.weight]))
            gradient = tf.add_n([pair[0][0] for pair in pairs])
            self._step = self.optimizer.apply_gradients([(gradient, self.weight)], self.steps)
            self.session = tf1.Session(graph=graph, config=self.config)
            self.session.run(tf1.global_variables_initializer())

    def train(self, *steps):
        """Takes a step for each item of the list; an item holds the factors of the losses."""
        for factors in steps:
            self.session.run(self._step, {self.factors: np.reshape(factors, [-1])})
        return self.session.run(self.weight)
