"""Small models for the numerics tests, as TF1 graph builders, and data that they can learn.

Weights, biases and batch norm statistics look like those of trained models: TensorFlow folds zero
biases and identity batch norms away, and then there is less to lower than in a real model.
"""

import dataclasses

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

CLASSES = 4
BATCH = 16


@dataclasses.dataclass(frozen=True)
class Model:
    """A graph that classifies.

    Attributes:
        inputs: its placeholder.
        labels: placeholder of one int per example.
        logits: float32 [batch, CLASSES].
        loss: float32 scalar, the mean cross entropy.
    """

    inputs: tf.Tensor
    labels: tf.Tensor
    logits: tf.Tensor
    loss: tf.Tensor


class Layers:
    """Layers with variables, by name; `training` decides what batch norm does."""

    def __init__(self, training, use_resource=True):
        self._training = training
        self._use_resource = use_resource
        self._count = 0

    def _variable(self, name, shape, initializer, trainable=True):
        return tf1.get_variable(
            name,
            shape,
            tf.float32,
            initializer,
            trainable=trainable,
            use_resource=self._use_resource,
        )

    def _uniform(self, low, high):
        self._count += 1
        return tf1.random_uniform_initializer(low, high, seed=self._count)

    def _weights(self, name, shape, terms):
        spread = np.sqrt(3 / terms)
        return self._variable(name, shape, self._uniform(-spread, spread))

    def dense(self, x, units, name):
        weights = self._weights(name + "_w", [x.shape[-1], units], int(x.shape[-1]))
        bias = self._variable(name + "_b", [units], self._uniform(-0.2, 0.2))
        return tf.nn.bias_add(tf.matmul(x, weights), bias)

    def conv(self, x, channels, size, name, stride=1):
        shape = [size, size, int(x.shape[-1]), channels]
        weights = self._weights(name, shape, size * size * shape[2])
        return tf.nn.conv2d(x, weights, stride, "SAME")

    def depthwise(self, x, name):
        shape = [3, 3, int(x.shape[-1]), 1]
        return tf.nn.depthwise_conv2d(x, self._weights(name, shape, 9), [1, 1, 1, 1], "SAME")

    def batch_norm(self, x, name):
        channels = [int(x.shape[-1])]
        scale = self._variable(name + "_scale", channels, self._uniform(0.7, 1.3))
        offset = self._variable(name + "_offset", channels, self._uniform(-0.3, 0.3))
        mean = self._variable(name + "_mean", channels, self._uniform(-0.2, 0.2), trainable=False)
        variance = self._variable(name + "_var", channels, self._uniform(0.7, 1.5), trainable=False)
        if not self._training:
            y, _, _ = tf1.nn.fused_batch_norm(x, scale, offset, mean, variance, is_training=False)
            return y
        y, batch_mean, batch_variance = tf1.nn.fused_batch_norm(x, scale, offset)
        for average, value in ((mean, batch_mean), (variance, batch_variance)):
            update = tf1.assign_sub(average, 0.1 * (average - value))
            tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
        return y

    def embedding(self, ids, words, width, name):
        table = self._variable(name, [words, width], self._uniform(-1, 1))
        return tf.nn.embedding_lookup(table, ids)


def mlp(layers, x):
    for index in range(3):
        x = tf.nn.relu(layers.dense(x, 24, f"dense{index}"))
    return x


def cnn(layers, x):
    x = tf.nn.relu(layers.batch_norm(layers.conv(x, 8, 3, "conv0"), "norm0"))
    x = tf.nn.max_pool2d(x, 2, 2, "SAME")
    x = tf.nn.relu(layers.batch_norm(layers.conv(x, 12, 3, "conv1"), "norm1"))
    return tf.reduce_mean(x, [1, 2])


def residual_net(layers, x):
    x = tf.nn.relu(layers.batch_norm(layers.conv(x, 8, 3, "stem"), "stem_norm"))
    for index in range(2):
        y = layers.batch_norm(layers.conv(x, 8, 3, f"block{index}a"), f"block{index}a_norm")
        y = layers.conv(tf.nn.relu(y), 8, 3, f"block{index}b")
        x = tf.nn.relu(x + layers.batch_norm(y, f"block{index}b_norm"))
    return tf.reshape(tf.nn.avg_pool2d(x, 4, 4, "VALID"), [-1, 8])


def depthwise_net(layers, x):
    x = tf.nn.relu6(layers.batch_norm(layers.conv(x, 8, 3, "stem"), "stem_norm"))
    for index in range(2):
        x = layers.batch_norm(layers.depthwise(x, f"depth{index}"), f"depth{index}_norm")
        x = layers.conv(tf.nn.relu6(x), 8, 1, f"point{index}")
        x = tf.nn.relu6(layers.batch_norm(x, f"point{index}_norm"))
    return tf.reduce_mean(x, [1, 2])


def embedding_net(layers, ids):
    x = tf.reduce_mean(layers.embedding(ids, 40, 16, "table"), axis=1)
    return tf.nn.relu(layers.dense(x, 24, "hidden"))


# By name: the function that yields the features, and the shape of one example (the embedding's
# examples are ids).
MODELS = {
    "mlp": (mlp, [12]),
    "cnn": (cnn, [8, 8, 3]),
    "residual": (residual_net, [4, 4, 3]),
    "depthwise": (depthwise_net, [6, 6, 3]),
    "embedding": (embedding_net, [6]),
}
# The models that `make test` runs: with convolutions and batch norms, and without.
MODELS_OF_TEST = ["cnn", "embedding"]


def build(name, training=False, use_resource=True):
    """Adds a model of MODELS to the default graph.

    Args:
        name: the model's name.
        training: whether batch norm uses and collects the batch's statistics.
        use_resource: resource variables, or TF1's ref variables.
    """
    features, shape = MODELS[name]
    layers = Layers(training, use_resource)
    dtype = tf.int32 if name == "embedding" else tf.float32
    inputs = tf1.placeholder(dtype, [BATCH, *shape], name="inputs")
    labels = tf1.placeholder(tf.int32, [BATCH], name="labels")
    logits = layers.dense(features(layers, inputs), CLASSES, "logits")
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits), name="loss"
    )
    return Model(inputs, labels, logits, loss)


def batches(name, count, seed=0):
    """Batches (inputs, labels): each class has a fixed pattern, with noise of half its size."""
    _, shape = MODELS[name]
    random = np.random.default_rng(seed)
    patterns = np.random.default_rng(99).normal(size=[CLASSES, *shape])
    for _ in range(count):
        labels = random.integers(0, CLASSES, BATCH).astype(np.int32)
        if name == "embedding":
            # Every class has words of its own.
            words = random.integers(0, 10, [BATCH, *shape])
            yield (words + 10 * labels[:, None]).astype(np.int32), labels
        else:
            noise = random.normal(scale=0.5, size=[BATCH, *shape])
            yield (patterns[labels] + noise).astype(np.float32), labels
