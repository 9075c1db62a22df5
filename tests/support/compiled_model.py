"""A SavedModel with functions that XLA compiles."""

from __future__ import annotations

import tensorflow as tf

from support.text_graph import random_values


class _Model(tf.Module):
    """A plain signature that calls a compiled function, and a compiled signature."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(random_values("w", [8, 8]))

        @tf.function(jit_compile=True)
        def inner(x):
            return tf.nn.relu(tf.matmul(x, self.w)) @ self.w

        spec = [tf.TensorSpec([None, 8], tf.float32, name="x")]
        self.plain = tf.function(lambda x: {"y": inner(x) @ self.w}, input_signature=spec)
        self.compiled = tf.function(
            lambda x: {"y": inner(x)}, input_signature=spec, jit_compile=True
        )


def save_compiled_model(folder):
    """Saves a model with the signatures "plain" and "compiled", of x [None, 8]; returns it."""
    model = _Model()
    tf.saved_model.save(model, str(folder), {"plain": model.plain, "compiled": model.compiled})
    return folder
