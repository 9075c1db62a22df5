"""Graphs of a batch norm in training, with its gradient, and their exact values."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from support.live_rewrite import rewrite_and_run
from support.text_graph import random_values

tf1 = tf.compat.v1
SHAPE = [3, 6, 5, 4]
FETCHES = ["y", "dx", "dgamma", "dbeta", "of_mean", "of_variance", "second"]
FUSED = ["FusedBatchNormGradV3", "FusedBatchNormV3"]


def moments(x, axes):
    mean = tf.reduce_mean(x, axes, keepdims=True)
    squares = tf1.squared_difference(x, tf.stop_gradient(mean))
    return mean, tf.reduce_mean(squares, axes, keepdims=True)


def graph_of(norm, dtype=tf.float32, shape=SHAPE, unknown=False, layer=False, more=None):
    """A norm and its gradient, and whatever `more(x, y, gradient)` adds."""
    channels = shape[-1]
    with tf.Graph().as_default() as graph:
        given = [None, *shape[1:]] if unknown else shape
        inputs = tf1.placeholder(dtype, given, name="x")
        t = tf1.placeholder(dtype, given, name="t")
        gamma = tf1.placeholder(dtype, [channels], name="gamma")
        beta = tf1.placeholder(dtype, [channels], name="beta")
        window = tf.constant(random_values("w", [1, 1, channels, channels]), dtype)
        convolve = lambda z: tf.nn.conv2d(z, window, 1, "SAME") if layer else z  # noqa: E731
        x = convolve(inputs)
        y, mean, variance = norm(x, gamma, beta)
        loss = tf.reduce_sum(t * tf.tanh(convolve(y)))
        wanted = [each for each in (gamma, beta) if each is not None]
        gradients = tf.gradients(loss, [x, *wanted])
        if layer:
            gradients[0] = tf.gradients(x, inputs, gradients[0])[0]
        if more is not None:
            more(x, y, gradients[0])
        for name, value in zip(FETCHES, [y, *gradients, mean, variance]):
            if value is not None:
                tf.identity(value + 0 if name.startswith("of_") else tf.abs(value), name)
    return graph.as_graph_def()


def fetches_of(graph):
    names = {node.name for node in graph.node}
    return [name for name in FETCHES if name in names]


def feeds(dtype, shape=SHAPE):
    x = 3.0 + random_values("x", shape).astype(dtype)
    rest = {name: random_values(name, [shape[-1]]).astype(dtype) for name in ("gamma", "beta")}
    return {"x": x, "t": random_values("t", shape).astype(dtype), **rest}


def values_of(graph, dtype=np.float32, shape=SHAPE):
    with tf.Graph().as_default() as built:
        tf.import_graph_def(graph, name="")
        placeholders = {node.name for node in graph.node if node.op == "Placeholder"}
        fed = {f"{k}:0": v for k, v in feeds(dtype, shape).items() if k in placeholders}
        with tf1.Session(graph=built) as session:
            return session.run([name + ":0" for name in fetches_of(graph)], fed)


def ran(graph, folder, shape=SHAPE, mode="allow_mix_precision_bf16"):
    """In a session that runs this pass alone."""
    return rewrite_and_run(
        graph,
        fetches_of(graph),
        folder,
        feeds=feeds(np.float32, shape),
        precision_mode=mode,
        float16_compute="native",
        rewrites="none,trained_norms",
    )


def assert_exact(graph, norm, found, unknown=False, shape=SHAPE):
    exact = values_of(graph_of(norm, tf.float64, shape, unknown), np.float64, shape)
    for name, want, got in zip(fetches_of(graph), exact, found):
        atol = 3e-6 * np.abs(want).max() + 1e-6
        np.testing.assert_allclose(got, want, rtol=0, atol=atol, err_msg=name)
