"""hoist_variable_reads: a loop reads a variable once, where no loop may write one."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.text_graph import random_values

import npu_precision

tf1 = tf.compat.v1
MODE = "allow_mix_precision"


def hoisted(form):
    """TensorFlow 1.15 makes nodes of a While only after all optimizers have run."""
    return [] if form == "v2" and tf.__version__.startswith("1.15.") else ["Enter"]


def session_of(body, before=None, behind=None):
    """A graph whose loop has five turns of `body(y, v)`; `before` and `behind` may write v."""
    with tf.Graph().as_default() as graph, tf1.variable_scope("", use_resource=True):
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        v = tf1.get_variable("v", initializer=random_values("v", [4, 4]))
        with tf.control_dependencies([] if before is None else [before(v)]):
            _, y = tf1.while_loop(
                lambda i, y: i < 5, lambda i, y: (i + 1, body(y, v)), [0, x + 0.0]
            )
        if behind is not None:
            with tf.control_dependencies([y]):
                behind(v)
        tf.identity(y, "y")
        init = tf1.global_variables_initializer()
    return graph, init


def values_of(graph, init, mode, report_dir=None, rewrites=None):
    """The values of two runs."""
    config = npu_precision.npu_config_proto(
        precision_mode=mode,
        rewrites=rewrites,
        report_dir=report_dir and str(report_dir),
        strict=True,
        float16_compute="native",
    )
    with tf1.Session(graph=graph, config=config) as session:
        session.run(init)
        return [session.run("y:0", {"x:0": random_values("x", [4, 4])}) for _ in range(2)]


def rewrites_of(report_dir):
    for file in report_dir.glob("*.json"):
        ledger = npu_precision.Ledger.from_json(file.read_text())
        yield from (entry.after for entry in ledger.rewrites if entry.by == "hoist_variable_reads")


def check(graph, init, expected, report_dir):
    """Also that both runs have the values of float32."""
    wanted = values_of(graph, init, "must_keep_origin_dtype")
    found = values_of(graph, init, MODE, report_dir, "none,hoist_variable_reads")
    for want, got in zip(wanted, found):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-2)
    assert [*rewrites_of(report_dir)] == expected


def product(y, v):
    return tf.tanh(tf.matmul(y, v.read_value()))


def test_a_weight_is_read_before_the_loop(form, tmp_path):
    check(*session_of(product), hoisted(form), tmp_path)


@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_write_beside_the_loop_stays_in_its_place(place, form, tmp_path):
    def write(v):
        return v.assign_add(tf.ones([4, 4]), read_value=False)

    check(*session_of(product, **{place: write}), hoisted(form), tmp_path)


def test_a_loop_that_writes_a_variable_reads_in_each_turn(form, tmp_path):
    def body(y, v):
        with tf.control_dependencies([v.assign_add(0.1 * y, read_value=False)]):
            return product(y, v)

    check(*session_of(body), [], tmp_path)


def test_a_read_that_goes_on_when_the_loop_is_over_stays(form, tmp_path):
    def body(y, v):
        return tf.tanh(y @ tf.exp(v.read_value()))

    check(*session_of(body), [], tmp_path)


@pytest.mark.skipif(not tf.executing_eagerly(), reason="TensorFlow 1.15 has no eager variables")
def test_a_loop_whose_python_assigns_the_variable_reads_in_each_turn(tmp_path):
    weight = tf.Variable(np.eye(4, dtype=np.float32))

    @tf.function
    def run(y):
        for _ in tf.range(3):
            write = tf.py_function(lambda: weight.assign_add(np.eye(4)), [], tf.float32)
            with tf.control_dependencies([write]):
                y = tf.tanh(y @ weight.read_value())
        return y

    options = npu_precision.PrecisionOptions(
        precision_mode="allow_mix_precision_bf16",
        rewrites="none,hoist_variable_reads",
        report_dir=str(tmp_path),
    )
    x = random_values("x", [4, 4])
    wanted = run(tf.constant(x)).numpy()
    weight.assign(np.eye(4))
    with npu_precision.autocast(options):
        found = run(tf.constant(x)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-2)
    assert [*rewrites_of(tmp_path)] == []
