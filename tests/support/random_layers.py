"""Random networks of the layers that passes of this project write in another form.

Each layer is written in one of the ways that users write it: a LayerNorm by moments or by hand, a
GELU in any order of factors, a product by tensordot or einsum. Sizes may be unknown. Weights are
constants, copies of constants, or placeholders with a default.
"""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class RandomNetwork:
    """A graph with one placeholder, "x".

    Attributes:
        graph_def: the graph.
        fetches: names of nodes; the first is the last layer's.
        inputs: values for x, of different shapes where sizes are unknown.
    """

    graph_def: graph_pb2.GraphDef
    fetches: list[str]
    inputs: list[np.ndarray]


def random_network(seed: int) -> RandomNetwork:
    """A network of two to seven layers, which the seed determines."""
    return _Layers(seed).network()


class _Layers:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.values = np.random.RandomState(seed)

    def network(self):
        choose = self.random
        rank = choose.choice([2, 3, 4, 4])
        shape = [2, *choose.choices([6, 7, 8, 9], k=rank - 2), choose.choice([3, 4, 8])]
        known = [size if choose.random() < 0.7 else None for size in shape[:-1]]
        other = [
            max(size + choose.choice([-1, 1, 2]), 1) if declared is None else size
            for size, declared in zip(shape, [*known, shape[-1]])
        ]
        with tf.Graph().as_default() as graph:
            layers = [tf1.placeholder(tf.float32, [*known, shape[-1]], name="x")]
            for _ in range(choose.randrange(2, 8)):
                of = layers[-1] if choose.random() < 0.8 else choose.choice(layers)
                layers.append(self.layer(of))
            fetched = [layers[-1], *(each for each in layers[1:-1] if choose.random() < 0.15)]
            fetches = [tf1.identity(each, name=f"out{k}") for k, each in enumerate(fetched)]
        inputs = [self.values.randn(*each).astype(np.float32) for each in (shape, other)]
        return RandomNetwork(graph.as_graph_def(), [each.op.name for each in fetches], inputs)

    def weights(self, *shape, scale=1.0, least=None):
        values = self.values.randn(*shape) * scale if least is None else self.values.rand(*shape)
        values = (values + (least or 0)).astype(np.float32)
        how = self.random.random()
        if how < 0.15:
            return tf1.placeholder_with_default(values, values.shape)
        return tf1.identity(tf1.constant(values)) if how < 0.4 else tf1.constant(values)

    def number(self, value):
        shape = self.random.choice([(), (), (), (1,), (1, 1)])
        return tf1.constant(np.full(shape, value, np.float32))

    def layer(self, x):
        if x.shape.ndims == 4:
            return self.of_image(x)
        choose = self.random
        if x.shape.ndims == 3 and choose.random() < 0.15:
            return self.attention(x)
        y = self.dense(x) if choose.random() < 0.7 else x
        if choose.random() < 0.5:
            y = self.activation(y)
        if choose.random() < 0.4:
            y = self.layer_norm(y)
        return y + x if choose.random() < 0.3 and width(y) == width(x) else y

    def of_image(self, x):
        which = self.random.random()
        if which < 0.6:
            y = self.scaled(self.convolution(x))
            return self.activation(y) if self.random.random() < 0.7 else y
        if which < 0.75:
            return x * self.excitation(x)
        if which < 0.9:
            return self.layer_norm(x)
        if which < 0.95:
            return tf1.reduce_mean(x, [1, 2])
        return tf1.reshape(x, [tf1.shape(x)[0], -1, width(x)])

    def bias(self, y):
        choose = self.random
        which = choose.randrange(5)
        if which == 0:
            return tf1.nn.bias_add(y, self.weights(width(y)))
        if which == 1:
            return y + self.weights(width(y))
        if which == 2:
            return self.weights(width(y)) + y
        if which == 3:
            return y + self.weights(*[1] * (y.shape.ndims - 1), width(y))
        return y

    def dense(self, x):
        choose = self.random
        depth, units, rank = width(x), choose.choice([2, 3, 4, 8, 16, width(x)]), x.shape.ndims
        scale = depth**-0.5
        if rank == 2 and choose.random() < 0.3:
            y = tf1.matmul(x, self.weights(units, depth, scale=scale), transpose_b=True)
        elif rank == 2:
            y = tf1.matmul(x, self.weights(depth, units, scale=scale))
        elif choose.random() < 0.4:
            y = tf1.tensordot(x, self.weights(depth, units, scale=scale), 1)
        elif choose.random() < 0.6:
            y = tf1.einsum("abk,ku->abu", x, self.weights(depth, units, scale=scale))
        elif choose.random() < 0.4:
            return self.dense_of_rows(x, units)
        else:
            heads = choose.choice([1, 2, 4])
            y = tf1.einsum("abk,khu->abhu", x, self.weights(depth, heads, units, scale=scale))
            y = self.bias(y)
            y = tf1.reshape(y, tf1.concat([tf1.shape(y)[:2], [heads * units]], 0))
            y.set_shape([None, None, heads * units])
        return self.bias(y)

    def attention(self, x):
        """Attention with the dimensions in any order: batch, words t and s, heads, their size d."""
        choose = self.random
        heads, size = choose.choice([1, 2, 3]), choose.choice([2, 4])

        def order(labels):
            return "".join(choose.sample(labels, len(labels)))

        def projected(labels):
            weights = self.weights(width(x), heads, size, scale=width(x) ** -0.5)
            y = tf1.einsum(f"b{labels[0]}k,khd->b{labels[0]}hd", x, weights)
            shuffled = order(["b", *labels, "h", "d"])
            perm = [f"b{labels[0]}hd".index(label) for label in shuffled]
            return shuffled, tf1.transpose(y, perm)

        (of_q, q), (of_k, k), (of_v, v) = (projected(labels) for labels in "tss")
        of_scores = order("bhts")
        scores = tf1.einsum(f"{of_q},{of_k}->{of_scores}", q, k)
        shares = tf1.nn.softmax(scores, axis=of_scores.index("s"))
        y = tf1.einsum(f"{of_scores},{of_v}->bthd", shares, v)
        y = tf1.reshape(y, tf1.concat([tf1.shape(y)[:2], [heads * size]], 0))
        y.set_shape([None, None, heads * size])
        return y

    def dense_of_rows(self, x, units):
        """A dense layer like GPT-2's Conv1D: adds the bias before it reshapes the batch back."""
        rows = tf1.reshape(x, [-1, width(x)])
        weights = self.weights(width(x), units, scale=width(x) ** -0.5)
        y = self.bias(tf1.matmul(rows, weights))
        if x.shape.is_fully_defined():
            y = tf1.reshape(y, [*x.shape.as_list()[:-1], units])
        else:
            y = tf1.reshape(y, tf1.concat([tf1.shape(x)[:2], [units]], 0))
        return y + self.weights(units) if self.random.random() < 0.2 else y

    def convolution(self, x):
        choose = self.random
        known = all(size is not None and size >= 5 for size in x.shape.as_list()[1:3])
        kernel = choose.choice([1, 2, 3, 5]) if known else 1
        stride = choose.choice([1, 1, 2])
        padding = choose.choice(["SAME", "VALID"])
        if choose.random() < 0.5:
            around = [choose.randrange(3) for _ in range(4)]
            half = kernel // 2
            around = choose.choice([around, 4 * [half], 2 * [(kernel - 1) // 2, half]])
            zero = choose.choice([0.0, 0.0, 0.0, 1.0])
            amounts = [[0, 0], around[:2], around[2:], [0, 0]]
            x, padding = tf1.pad(x, amounts, constant_values=zero), "VALID"
        channels = width(x)
        if choose.random() < 0.5:
            filters = self.weights(
                kernel, kernel, channels, choose.choice([1, 1, 2]), scale=1 / kernel
            )
            return tf1.nn.depthwise_conv2d(x, filters, [1, stride, stride, 1], padding)
        filters = self.weights(
            kernel, kernel, channels, choose.choice([2, 3, 4, 8]), scale=channels**-0.5 / kernel
        )
        return tf1.nn.conv2d(x, filters, [1, stride, stride, 1], padding)

    def scaled(self, y):
        """A batch norm in one of its forms, or a bias."""
        which, channels = self.random.randrange(5), width(y)
        mean, shift = self.weights(channels), self.weights(channels)
        scale, variance = self.weights(channels, least=0.5), self.weights(channels, least=0.5)
        if which == 0:
            result, *_ = tf1.nn.fused_batch_norm(
                y, scale, shift, mean, variance, epsilon=1e-3, is_training=False
            )
            return result
        if which == 1:
            return y * scale + shift
        if which == 2:
            return tf1.nn.batch_normalization(y, mean, variance, shift, scale, 1e-3)
        return self.bias(y)

    def excitation(self, x):
        """The gate of squeeze and excite."""
        choose, channels = self.random, width(x)
        if choose.random() < 0.7:
            mean = tf1.reduce_mean(x, choose.choice([[1, 2], [-3, -2], [2, 1]]), keepdims=True)
        else:
            mean = tf1.reshape(tf1.reduce_mean(x, [1, 2]), [-1, 1, 1, channels])
        filters = self.weights(1, 1, channels, channels, scale=channels**-0.5)
        y = self.bias(tf1.nn.conv2d(mean, filters, [1, 1, 1, 1], "SAME"))
        return choose.choice([tf1.sigmoid, tf1.nn.relu, lambda z: tf1.nn.relu6(z + 3) / 6])(y)

    def layer_norm(self, x):
        choose, columns = self.random, width(x)
        axis = [choose.choice([-1, x.shape.ndims - 1])]
        epsilon = choose.choice([1e-6, 1e-3, 0.1])
        gamma = self.weights(columns, least=0.5) if choose.random() < 0.6 else None
        beta = self.weights(columns) if choose.random() < 0.6 else None
        if choose.random() < 0.2:
            moments = tf1.nn.moments(x, axis, keepdims=True)
            return tf1.nn.batch_normalization(x, *moments, beta, gamma, epsilon)
        mean = tf1.reduce_mean(x, axis, keepdims=True)
        centered = choose.choice([x - mean, x - mean, mean - x])
        squares = choose.choice(
            [tf1.square, lambda each: each * each, lambda each: tf1.pow(each, self.number(2.0))]
        )
        variance = tf1.reduce_mean(squares(centered), axis, keepdims=True)
        if choose.random() < 0.2:
            variance = tf1.reduce_mean(tf1.square(x), axis, keepdims=True) - tf1.square(mean)
        small = self.number(epsilon)
        safe = choose.choice([variance + small, small + variance])
        y = choose.choice([centered * tf1.rsqrt(safe), centered / tf1.sqrt(safe)])
        if gamma is not None:
            y = choose.choice([y * gamma, gamma * y])
        return y if beta is None else choose.choice([y + beta, beta + y, y - beta])

    def activation(self, y):
        return self.random.choice(_ACTIVATIONS)(y, self.number)


def width(tensor):
    """The size of the last dimension."""
    return tensor.shape.as_list()[-1]


_ROOT_2 = 2.0**0.5
_OF_TANH = (2 / np.pi) ** 0.5
_ACTIVATIONS = (
    lambda y, n: n(0.5) * y * (n(1) + tf1.erf(y * n(1 / _ROOT_2))),
    lambda y, n: y * (n(0.5) * (tf1.erf(y / n(_ROOT_2)) + n(1))),
    lambda y, n: n(0.5) * y * tf1.erfc(-y * n(1 / _ROOT_2)),
    lambda y, n: n(0.5) * y * (n(1) + tf1.erf(y * n(0.7))),  # no GELU
    lambda y, n: n(0.5) * y * (n(1) + tf1.tanh(n(_OF_TANH) * (y + n(0.044715) * tf1.pow(y, n(3))))),
    lambda y, n: n(0.5) * y * (n(1) + tf1.tanh(n(_OF_TANH) * (y * (n(1) + n(0.044715) * y * y)))),
    lambda y, n: y * tf1.sigmoid(y),
    lambda y, n: y * tf1.sigmoid(n(1.702) * y),
    lambda y, n: tf1.nn.swish(y),
    lambda y, n: y * tf1.nn.relu6(y + n(3)) * n(1 / 6),
    lambda y, n: y * tf1.minimum(tf1.maximum(y + n(3), n(0)), n(6)) / n(6),
    lambda y, n: y * tf1.tanh(tf1.nn.softplus(y)),
    lambda y, n: tf1.nn.relu(y),
    lambda y, n: tf1.nn.elu(y),
)
