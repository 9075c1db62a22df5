"""Graphs: convolutions and walks on them, Laplacians, embeddings of nodes, molecules, roads."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, classes, normal, program, uniform

_NODES = 64


def _adjacency(nodes=_NODES, share=0.2):
    """A symmetric matrix of zeros and ones, with a ring so that no node is alone."""
    upper = np.triu(uniform(9, nodes, nodes) < share, 1) | np.eye(nodes, k=1, dtype=bool)
    upper[0, -1] = True
    return (upper | upper.T).astype(np.float32)


def _walk(nodes=_NODES):
    """The matrix of a random walk: each row sums to one."""
    edges = _adjacency(nodes)
    return edges / edges.sum(1, keepdims=True)


def _features(width=16):
    return [normal(0, _NODES, 32), normal(1, 32, width, scale=0.18)]


def _edges(count=6000, hubs=4):
    """Senders, and receivers of which the first few get most."""
    senders = classes(2, count, _NODES)
    return senders, np.where(uniform(3, count) < 0.8, senders % hubs, classes(4, count, _NODES))


@program("GCN of two layers, normalised by degrees")
def gcn():
    def function(a, x, w):
        rate = tf.math.rsqrt(tf.reduce_sum(a, 1) + 1.0)
        a = (a + tf.eye(_NODES)) * rate[:, None] * rate
        return tf.nn.softmax(tf.matmul(a, tf.matmul(tf.nn.relu(tf.matmul(a, tf.matmul(x, w))), w)))

    return Result(function, [_adjacency(), normal(0, _NODES, 32), normal(1, 32, 32, scale=0.18)])


@program("GAT, attention over neighbours")
def gat():
    def function(a, x, w, left, right):
        h = tf.matmul(x, w)
        scores = tf.nn.leaky_relu(tf.matmul(h, left) + tf.transpose(tf.matmul(h, right)), 0.2)
        return tf.matmul(tf.nn.softmax(tf.where(a > 0, scores, -1e9)), h)

    return Result(function, [_adjacency(), *_features(), normal(5, 16, 1), normal(6, 16, 1)])


@program("messages summed at hubs of 1200 edges")
def hubs():
    senders, receivers = _edges()

    def function(x, w):
        messages = tf.nn.relu(tf.gather(tf.matmul(x, w), senders))
        return tf.math.unsorted_segment_sum(messages, receivers, _NODES)

    return Result(function, _features())


@program("GraphSAGE: the mean of neighbours, unit length")
def sage():
    senders, receivers = _edges()

    def function(x, w):
        h = tf.matmul(x, w)
        mean = tf.math.unsorted_segment_mean(tf.gather(h, senders), receivers, _NODES)
        return tf.nn.l2_normalize(tf.nn.relu(tf.concat([h, mean], 1)), -1)

    return Result(function, _features())


@program("softmax of edges by segments")
def segment_softmax():
    senders, receivers = _edges()

    def function(x, w):
        scores = tf.gather(tf.matmul(x, w)[:, 0] * 3.0, senders)
        top = tf.math.unsorted_segment_max(scores, receivers, _NODES)
        weights = tf.exp(scores - tf.gather(top, receivers))
        total = tf.math.unsorted_segment_sum(weights, receivers, _NODES)
        return weights / tf.gather(total, receivers)

    return Result(function, _features())


def _repeated(step, steps, *inputs):
    """The state after `step(state, *rest)` in tf.while_loop; the first input is the state."""

    def function(state, *rest):
        body = lambda i, state: (i + 1, step(state, *rest))  # noqa: E731
        return tf.while_loop(lambda i, _: i < steps, body, (0, state))[1]

    return Result(function, list(inputs))


def _start():
    """All of the mass at one node."""
    return np.eye(_NODES, dtype=np.float32)[:1]


@program("PageRank with a damping of 0.99")
def page_rank():
    step = lambda p, walk: 0.99 * tf.matmul(p, walk) + 0.01 / _NODES  # noqa: E731
    return _repeated(step, 500, _start(), _walk())


@program("a lazy random walk of 1000 steps, its distribution")
def lazy_walk():
    lazy = 0.5 * _walk() + 0.5 * np.eye(_NODES, dtype=np.float32)
    return _repeated(lambda p, walk: tf.matmul(p, walk), 1000, _start(), lazy)


@program("a random walk with restart, tf.scan")
def restart():
    def function(p, walk):
        step = lambda q, _: 0.98 * tf.matmul(q, walk) + 0.02 * p  # noqa: E731
        return tf.scan(step, tf.zeros([200]), p)[-1]

    return Result(function, [_start(), _walk()])


@program("label propagation, 99 % from neighbours")
def labels():
    known = np.zeros([_NODES, 3], np.float32)
    known[[0, 20, 40], [0, 1, 2]] = 1.0

    def function(known, walk):
        step = lambda i, f: (i + 1, 0.99 * tf.matmul(walk, f) + 0.01 * known)  # noqa: E731
        scores = tf.while_loop(lambda i, _: i < 400, step, (0, known))[1]
        return scores / tf.reduce_sum(scores, 1, keepdims=True)

    return Result(function, [known, _walk()])


@program("heat on a graph, 20 degrees and a spark")
def heat():
    laplacian = np.eye(_NODES, dtype=np.float32) - _walk()
    warm = 20.0 + np.eye(_NODES, dtype=np.float32)[:, :1] * 5.0
    result = _repeated(lambda x, m: x - 0.2 * tf.matmul(m, x), 40, warm, laplacian)
    return Result(lambda x, m: result.function(x, m) - 20.0, result.inputs)


@program("heights of nodes less the mean of neighbours")
def heights():
    return Result(
        lambda h, walk: h - tf.matmul(walk, h), [normal(0, _NODES, 4, scale=3.0) + 800.0, _walk()]
    )


@program("Dirichlet energy of temperatures around 15 degrees")
def dirichlet():
    def function(x, a):
        laplacian = tf.linalg.diag(tf.reduce_sum(a, 1)) - a
        return tf.reduce_sum(x * tf.matmul(laplacian, x), 0)

    return Result(function, [15.0 + normal(0, _NODES, 8), _adjacency()])


@program("Chebyshev filter of order 8 on a graph")
def chebyshev():
    def function(x, scaled):
        before, now = x, tf.matmul(scaled, x)
        total = before + now
        for _ in range(7):
            before, now = now, 2.0 * tf.matmul(scaled, now) - before
            total += now
        return total

    return Result(function, [normal(0, _NODES, 8), -_walk()])


@program("triangles at each node, to int32")
def triangles():
    def function(a):
        paths = tf.linalg.diag_part(tf.matmul(tf.matmul(a, a), a))
        return tf.cast(paths, tf.int32) // 2 % 10

    return Result(function, [_adjacency(share=0.5)])


@program("walks of length 3 between nodes, to int32")
def walks():
    return Result(
        lambda a: tf.cast(tf.matmul(tf.matmul(a, a), a), tf.int32) % 10, [_adjacency(share=0.5)]
    )


@program("degrees up to 400 by a product, an embedding of each")
def degree_embedding():
    def function(a, table):
        degree = tf.cast(tf.matmul(a, tf.ones([500, 1]))[:, 0], tf.int32)
        return tf.gather(table, degree)

    return Result(function, [_adjacency(500, 0.7), normal(1, 500, 4)])


@program("Weisfeiler-Lehman colours, a hash modulo 1009")
def colours():
    def function(colours, a):
        for _ in range(3):
            colours = tf.math.floormod(colours * 31.0 + tf.matmul(a, colours) * 17.0, 1009.0)
        return colours

    return Result(function, [classes(0, _NODES, 1009).astype(np.float32)[:, None], _adjacency()])


@program("k-core by a loop of degrees")
def core():
    def function(alive, a):
        step = lambda i, x: (i + 1, tf.cast(tf.matmul(a, x) >= 9.0, tf.float32) * x)  # noqa: E731
        return tf.while_loop(lambda i, _: i < 20, step, (0, alive))[1]

    return Result(function, [np.ones([_NODES, 1], np.float32), _adjacency()])


def _costs(x, w):
    """Costs of edges in metres, between 100 and 900."""
    return 500.0 + 400.0 * tf.tanh(tf.matmul(tf.matmul(x, w), x, transpose_b=True))


def _costly(function):
    return Result(function, [normal(0, _NODES, 16), normal(1, 16, 16, scale=0.06)])


@program("shortest paths of learnt costs in metres, ten rounds")
def shortest():
    def function(x, w):
        costs = _costs(x, w)
        distance = costs[0]
        for _ in range(10):
            distance = tf.minimum(distance, tf.reduce_min(distance[:, None] + costs, 0))
        return distance

    return _costly(function)


# The product itself is multiplied by 40, which is worth 0.8 % in float16.
@program("assignment by a soft minimum of costs, 10 metres", tolerance={"float16": 0.012})
def soft_minimum():
    return _costly(lambda x, w: tf.nn.softmax(-_costs(x, w) / 10.0))


@program("Fiedler vector of a learnt graph, magnitudes")
def fiedler():
    def function(x, w):
        a = tf.nn.sigmoid(tf.matmul(tf.matmul(x, w), x, transpose_b=True))
        a = a + tf.transpose(a)
        values = tf.linalg.eigvalsh(tf.linalg.diag(tf.reduce_sum(a, 1)) - a)
        return values[1:8]

    return _costly(function)


@program("effective resistance, the inverse of a Laplacian")
def resistance():
    def function(a):
        inverse = tf.linalg.inv(tf.linalg.diag(tf.reduce_sum(a, 1)) - a + 1.0 / _NODES)
        d = tf.linalg.diag_part(inverse)
        return d[:, None] + d - 2.0 * inverse

    return Result(function, [_adjacency()])


@program("modularity of communities")
def modularity():
    def function(a, s):
        k = tf.reduce_sum(a, 1, keepdims=True)
        m = tf.reduce_sum(k)
        expected = tf.matmul(k, k, transpose_b=True) / m
        return tf.linalg.trace(tf.matmul(s, tf.matmul(a - expected, s), transpose_a=True)) / m

    return Result(function, [_adjacency(), np.eye(4, dtype=np.float32)[np.arange(_NODES) // 16]])


@program("link prediction: scores of the five best")
def links():
    def function(x, w):
        h = tf.nn.l2_normalize(tf.matmul(x, w), -1)
        scores = tf.linalg.set_diag(tf.matmul(h, h, transpose_b=True), tf.fill([_NODES], -1e9))
        return tf.math.top_k(scores, 5).values

    return Result(function, _features(32))


@program("RotatE: entities turned by phases of relations")
def rotat_e():
    def function(x, w, phase):
        re, im = tf.split(tf.matmul(x, w), 2, 1)
        turned = tf.concat([re * tf.cos(phase) - im * tf.sin(phase), re * tf.sin(phase)], 1)
        return tf.reduce_sum(tf.abs(turned), 1)

    return Result(function, [*_features(), uniform(5, 8, low=-3.0, high=3.0)])


@program("DiffPool: a soft assignment of nodes, pooled edges")
def diff_pool():
    def function(a, x, w):
        s = tf.nn.softmax(tf.matmul(x, w))
        return tf.matmul(s, tf.matmul(a, s), transpose_a=True)

    return Result(function, [_adjacency(), *_features(8)])


@program("SchNet: a radial basis of moved atoms")
def radial():
    def function(x, w, atoms):
        atoms = atoms + 0.3 * tf.tanh(tf.matmul(x, w))
        d = tf.sqrt(tf.reduce_sum(tf.square(atoms[:, None] - atoms), -1) + 1e-9)
        return tf.exp(-10.0 * tf.square(d[..., None] - np.linspace(0, 6, 24, dtype=np.float32)))

    return Result(function, [*_features(3), uniform(5, _NODES, 3, high=12.0)])


@program("Lennard-Jones forces of atoms on a grid, moved")
def lennard_jones():
    grid = np.stack(np.meshgrid(*3 * [np.arange(4.0)]), -1).reshape([-1, 3]).astype(np.float32)

    def function(x, w, atoms):
        moved = atoms + 0.1 * tf.tanh(tf.matmul(x, w))
        square = tf.reduce_sum(tf.square(moved[:, None] - moved), -1) + 99.0 * tf.eye(_NODES)
        power = tf.math.reciprocal(square) ** 3
        return tf.gradients(tf.reduce_sum(power * power - power), moved)[0]

    return Result(function, [*_features(3), 1.2 * grid])


@program("energies of atoms and of their references, bonds only")
def atomisation():
    kinds = np.eye(4, dtype=np.float32)[classes(5, _NODES, 4)]
    alone = np.array([[-13.6], [-1029.8], [-1485.3], [-2042.6]], np.float32)

    def function(x, w, kinds, alone):
        reference = tf.matmul(kinds, alone)
        return tf.matmul(x, w) + reference - tf.gather(alone, tf.argmax(kinds, 1))

    return Result(function, [*_features(1), kinds, alone])


@program("energies of atoms, references from a table")
def reference_energies():
    def function(x, w, reference):
        total = tf.matmul(x, w) + reference
        return total[1:] - total[:-1]

    return Result(function, [*_features(1), -1029.8 + normal(5, _NODES, 1)])


@program("roads turned by 30 degrees, vectors between crossings")
def roads():
    angle = np.float32(np.pi / 6)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]], np.float32)
    crossings = np.cumsum(normal(0, 200, 2, scale=30.0), 0) + np.float32(8000.0)

    def function(crossings, turn):
        turned = tf.matmul(crossings, turn)
        return turned[1:] - turned[:-1]

    return Result(function, [crossings, turn])


@program("the nearest station in metres, x² + y² - 2xy")
def nearest():
    def function(people, stations):
        product = tf.matmul(people, stations, transpose_b=True)
        squares = tf.reduce_sum(people**2, 1, keepdims=True) + tf.reduce_sum(stations**2, 1)
        return tf.one_hot(tf.argmin(squares - 2.0 * product, 1), 20)

    return Result(function, [uniform(0, 200, 2, high=4000.0), uniform(1, 20, 2, high=4000.0)])


@program("PageRank until the ranks move less than 1e-7", seconds=8)
def ranks_until():
    def function(walk):
        body = lambda p, _: (0.85 * tf.matmul(p, walk) + 0.15 / 64, p)  # noqa: E731
        start = (tf.fill([1, 64], 1 / 64), tf.zeros([1, 64]))
        return tf.while_loop(lambda p, old: tf.reduce_sum(tf.abs(p - old)) > 1e-7, body, start)[0]

    walk = uniform(0, 64, 64) ** 4
    return Result(function, [(walk / walk.sum(1, keepdims=True)).astype(np.float32)])
