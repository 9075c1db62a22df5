"""trained_norms fuses a batch norm in training whatever form it is written in.

Forms are put together at random: how the variance is computed, its root, and in which order it is
scaled. Whichever it is, the fused ops have the values and gradients of float64.
"""

from __future__ import annotations

import random

import pytest
import tensorflow as tf
from support.norm_graphs import FUSED, SHAPE, assert_exact, graph_of, ran
from support.tf_versions import need_kernels, needs_gradients_of_means_by_shape
from support.tiers import corpus_seeds

tf1 = tf.compat.v1
pytestmark = needs_gradients_of_means_by_shape
FORMS = 600
PLACES = [0, 1, 2]

VARIANCES = {
    "of constants": lambda x, m, reduce: reduce(tf1.squared_difference(x, tf.stop_gradient(m))),
    "of differences": lambda x, m, reduce: reduce(tf1.squared_difference(x, m)),
    "of squares": lambda x, m, reduce: reduce(tf.square(x - m)),
    "of products": lambda x, m, reduce: reduce((m - x) * (m - x)),
    "of powers": lambda x, m, reduce: reduce((x - m) ** 2),
    "less the square": lambda x, m, reduce: reduce(tf.square(x)) - tf.square(m),
    "less the product": lambda x, m, reduce: reduce(x * x) - m * m,
}
# Each yields a function that divides by the root.
ROOTS = {
    "rsqrt": lambda v: lambda z: z * tf1.rsqrt(v),
    "inverse": lambda v: lambda z: (1.0 / tf.sqrt(v)) * z,
    "sqrt": lambda v: lambda z: z / tf.sqrt(v),
    "power": lambda v: lambda z: z * v**-0.5,
}
ORDERS = {
    "scaled last": lambda x, m, divide, g, b: divide(x - m) * g + b,
    "scaled first": lambda x, m, divide, g, b: b + divide(g * (x - m)),
    "scaled between": lambda x, m, divide, g, b: (x - m) * divide(g) + b,
    "shifted": lambda x, m, divide, g, b: x * divide(g) + (b - m * divide(g)),
    "shifted by a product": lambda x, m, divide, g, b: x * divide(g) - (m * divide(g) - b),
    "negative": lambda x, m, divide, g, b: b - (m - x) * divide(g),
}
PARAMETERS = {
    "both": lambda g, b: (g, b),
    "of rank 4": lambda g, b: (tf.reshape(g, [1, 1, 1, -1]), tf.reshape(b, [1, 1, 1, -1])),
    "one more": lambda g, b: (1.0 + g, b),
    "twice": lambda g, b: (g * 2.0, b - 0.5),
}


def form_of(seed):
    """A norm of a random form, and its name."""
    draw = random.Random(seed)
    chosen = [draw.choice(sorted(each)) for each in (VARIANCES, ROOTS, ORDERS, PARAMETERS)]
    variance_of, root, order = VARIANCES[chosen[0]], ROOTS[chosen[1]], ORDERS[chosen[2]]
    keeps, epsilon = draw.random() < 0.5, draw.choice([1e-5, 1e-3, 0.1])
    is_read = draw.random() < 0.5  # whether anything else reads the statistics

    def norm(x, gamma, beta):
        def reduce(z):
            return tf.reduce_mean(z, PLACES, keepdims=keeps)

        mean = reduce(x)
        variance = variance_of(x, mean, reduce)
        scale, offset = PARAMETERS[chosen[3]](gamma, beta)
        statistics = (mean, variance) if is_read else (None, None)
        return (order(x, mean, root(variance + epsilon), scale, offset), *statistics)

    return norm, f"{chosen}, keeps {keeps}, epsilon {epsilon}, read {is_read}"


@pytest.mark.parametrize("seed", corpus_seeds(FORMS))
def test_a_norm_of_any_form_is_fused_with_its_gradient(seed, tmp_path):
    need_kernels("bfloat16", *FUSED)
    norm, name = form_of(seed)
    unknown = seed % 2 == 0
    graph = graph_of(norm, unknown=unknown)
    found = ran(graph, tmp_path)
    assert sorted(entry.after for entry in found.rewrites) == FUSED, name
    assert not {"SquaredDifference", "RsqrtGrad"} & set(found.ops().values())
    assert_exact(graph, norm, found.values, unknown, SHAPE)
