"""float16_compute in sessions and functions: a CPU without fast float16 computes in float32."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from support.products import ratio_of_products
from support.tf_versions import (
    ADDS_PRODUCTS_IN_FLOAT16,
    EMULATES_FLOAT16,
    TRUNCATES_BFLOAT16_PRODUCTS,
    need_kernels,
    needs_functions_by_default,
    needs_kernels,
)

import npu_precision
from npu_precision import Ledger

tf1 = tf.compat.v1
TERMS = 16384
ON_THIS_CPU = "float32" if EMULATES_FLOAT16 else "float16"


def ledgers(folder):
    return [Ledger.from_json(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]


def ways_to_compute(folder, op):
    """The dtypes in which the lowered nodes of an op compute, over all graphs."""
    nodes = [node for ledger in ledgers(folder) for node in ledger.nodes if node.op == op]
    assert {node.decision for node in nodes} == {"lowered"}
    return {node.computes_in for node in nodes}


def sum_in_session(**options):
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision", strict=True, **options
    )
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [1, TERMS], name="x")
        ones = tf1.placeholder(tf.float32, [TERMS, 1], name="ones")
        tf.identity(tf.matmul(x, ones), name="sum")
    feeds = {"x:0": np.full([1, TERMS], 0.7, np.float32), "ones:0": np.ones([TERMS, 1])}
    with tf1.Session(graph=graph, config=config) as session:
        return session.run("sum:0", feeds).item()


@pytest.mark.parametrize(
    ("compute", "expected"),
    [(None, ON_THIS_CPU), ("auto", ON_THIS_CPU), ("native", "float16"), ("float32", "float32")],
)
def test_a_session_computes_as_the_option_says(compute, expected, tmp_path):
    got = sum_in_session(float16_compute=compute, report_dir=str(tmp_path))
    assert ways_to_compute(tmp_path, "MatMul") == {expected}
    right = TERMS * 0.7
    if expected == "float32":
        assert abs(got - right) < 2.0**-10 * right
    elif ADDS_PRODUCTS_IN_FLOAT16:
        assert got < 0.7 * right


@needs_functions_by_default
@pytest.mark.parametrize(("compute", "expected"), [("auto", ON_THIS_CPU), ("native", "float16")])
def test_a_function_and_what_it_calls_compute_as_the_option_says(compute, expected, tmp_path):
    @tf.function(experimental_attributes={"_noinline": True})
    def called(x):
        return tf.nn.relu(tf.matmul(x, x))

    @tf.function
    def caller(x):
        turned = tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, x))), [0, called(x)]
        )
        return tf.nn.softmax(tf.matmul(turned[1], x))

    x = tf.constant(np.random.default_rng(0).normal(size=[8, 8]).astype(np.float32))
    right = caller.python_function(x)
    options = {"float16_compute": compute, "report_dir": str(tmp_path)}
    with npu_precision.autocast(precision_mode="allow_mix_precision", strict=True, **options):
        got = caller(x)
    np.testing.assert_allclose(got, right, atol=0.02)
    assert ways_to_compute(tmp_path, "MatMul") == {expected}


def test_a_step_of_training_updates_variables_of_float32(tmp_path):
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision", report_dir=str(tmp_path), strict=True
    )
    x = np.random.default_rng(0).normal(size=[64, 8]).astype(np.float32)
    labels = (x @ np.arange(8, dtype=np.float32)[:, None] > 0).astype(np.float32)
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(0)
        hidden = tf.nn.relu(tf.matmul(x, tf1.get_variable("w", [8, 32])))
        logits = tf.matmul(hidden, tf1.get_variable("v", [32, 1]))
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        step = tf1.train.AdamOptimizer(0.05).minimize(loss)
        variables = tf1.trainable_variables()
        init = tf1.global_variables_initializer()
    with tf1.Session(graph=graph, config=config) as session:
        session.run(init)
        before = session.run(loss)
        for _ in range(30):
            session.run(step)
        assert session.run(loss) < 0.3 * before
        assert {value.dtype.name for value in session.run(variables)} == {"float32"}
    ways = {
        node.computes_in
        for ledger in ledgers(tmp_path)
        for node in ledger.nodes
        if node.op == "MatMul" and node.decision == "lowered"
    }
    assert ways == {ON_THIS_CPU}


def test_a_graph_that_was_converted_in_float32_runs_as_it_is(tmp_path):
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [1, TERMS], name="x")
        tf.identity(tf.matmul(x, tf.ones([TERMS, 1])), name="sum")
    converted, _ = npu_precision.rewrite_graph_def(
        graph.as_graph_def(),
        "sum",
        precision_mode="allow_mix_precision",
        float16_compute="float32",
    )
    values = np.full([1, TERMS], 0.7, np.float32)
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision",
        float16_compute="float32",
        report_dir=str(tmp_path),
        strict=True,
    )
    results = []
    for options in (None, config):
        with tf.Graph().as_default() as again:
            tf.import_graph_def(converted, name="")
        with tf1.Session(graph=again, config=options) as session:
            results.append(session.run("sum:0", {"x:0": values}))
    assert results[0] == results[1]
    assert abs(results[0].item() - TERMS * 0.7) < 2.0**-10 * TERMS * 0.7


@pytest.mark.parametrize("compute", [None, "native"])
def test_products_of_bfloat16_are_rounded_and_not_truncated(compute, tmp_path):
    """TensorFlow's own kernels truncate them: products of positive numbers are 0.3 % too small."""
    need_kernels("bfloat16", "MatMul")
    ratio = ratio_of_products(compute, str(tmp_path))
    truncates = TRUNCATES_BFLOAT16_PRODUCTS and compute == "native"
    assert ratio < 1 - 2e-3 if truncates else abs(ratio - 1) < 5e-4
    in_float32 = TRUNCATES_BFLOAT16_PRODUCTS and compute is None
    assert ways_to_compute(tmp_path, "MatMul") == {"float32" if in_float32 else "bfloat16"}
    assert ways_to_compute(tmp_path, "Relu") == {"bfloat16"}  # It rounds everywhere.


WITHOUT_ONEDNN = """
import sys

sys.path.insert(0, sys.argv[1])
from support.products import ratio_of_products

print(*(ratio_of_products(compute, None) for compute in (None, "native")))
"""


@needs_kernels("bfloat16", "MatMul")
def test_they_are_rounded_without_the_kernels_of_onednn_too(run_python):
    tests = pathlib.Path(__file__).parents[1]
    printed = run_python(WITHOUT_ONEDNN, tests, TF_ENABLE_ONEDNN_OPTS="0").stdout
    ratio, native = map(float, printed.split())
    assert abs(ratio - 1) < 5e-4
    assert native < 1 - 2e-3


def test_a_converted_graph_keeps_products_of_bfloat16_for_the_device_that_it_may_run_on(tmp_path):
    need_kernels("bfloat16", "MatMul")
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        tf.identity(tf.matmul(x, x, name="product"), name="end")
    _, ledger = npu_precision.rewrite_graph_def(
        graph.as_graph_def(), "end", precision_mode="allow_mix_precision_bf16"
    )
    assert ledger.node("product").computes_in == "bfloat16"
