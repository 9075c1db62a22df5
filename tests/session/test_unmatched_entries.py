"""A mixlist's entry that matches nothing causes a warning, once for all graphs of a program."""

from __future__ import annotations

import pytest

PROGRAM = """
import sys
import tensorflow as tf
import npu_precision

tf1 = tf.compat.v1
config = npu_precision.npu_config_proto(
    precision_mode="allow_mix_precision", modify_mixlist=sys.argv[1]
)
with tf.Graph().as_default():
    x = tf1.placeholder(tf.float32, [4, 4], name="x")
    product = tf.matmul(x, x, name="product")
    graphs = {"train": tf.nn.relu(product, name="train"), "predict": tf.tanh(product)}
    with tf1.Session(config=config) as session:
        for name in sys.argv[2:]:
            session.run(graphs[name], {x: [[1.0] * 4] * 4})
"""


@pytest.fixture
def warnings(mixlist, run_python):
    """warnings(entry, graphs...) -> the logged warnings about entries that match no node."""

    def run(entry, *graphs):
        process = run_python(PROGRAM, mixlist(black=[entry]), *graphs)
        return [line for line in process.stderr.splitlines() if "matches no node" in line]

    return run


def test_an_entry_that_matches_in_no_graph_is_a_warning_once(warnings):
    (warning,) = warnings("node:none", "train", "predict")
    assert "'node:none' matches no node of the graph" in warning


def test_an_entry_that_has_matched_in_one_graph_is_none_in_the_next(warnings):
    assert warnings("node:train", "train", "predict") == []


def test_nobody_knows_what_comes_after_the_first_graph(warnings):
    assert len(warnings("node:train", "predict", "train", "predict")) == 1
