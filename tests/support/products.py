"""Products that tests/session computes."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import npu_precision

tf1 = tf.compat.v1
# What the fixtures `product` and `low_type` multiply.
X = tf.constant(np.random.default_rng(1).normal(size=[4, 32]).astype(np.float32))


def ratio_of_products(float16_compute, report_dir):
    """Two matrix products of positive numbers in bfloat16, as a share of their exact values."""
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision_bf16",
        float16_compute=float16_compute,
        report_dir=report_dir,
        strict=True,
    )
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [32, 512], name="x")
        w = tf1.placeholder(tf.float32, [512, 32], name="w")
        hidden = tf.nn.relu(tf.matmul(x, w))
        tf.identity(tf.matmul(hidden, tf.transpose(hidden)), name="end")
    random = np.random.RandomState(0)
    feeds = {"x:0": random.uniform(size=[32, 512]), "w:0": random.uniform(size=[512, 32])}
    with tf1.Session(graph=graph, config=config) as session:
        got = session.run("end:0", feeds)
    hidden = feeds["x:0"] @ feeds["w:0"]
    return np.mean(got / (hidden @ hidden.T))
