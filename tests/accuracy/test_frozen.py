"""The frozen model that compare and tune run: one graph of constants with the same outputs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_frozen_loops

import npu_precision
from npu_precision.accuracy import frozen
from npu_precision.offline import model_file

tf1 = tf.compat.v1


@pytest.fixture
def saved(tmp_path):
    """saved(function, *signature) -> (the function, the path of a SavedModel of it)."""

    def save(function, *signature):
        module = tf.Module()
        module.serve = tf.function(function, input_signature=signature)
        path = str(tmp_path / "model")
        tf.saved_model.save(module, path, signatures=module.serve)
        return module.serve, path

    return save


def run_frozen(path, **inputs):
    """The outputs by name; no optimizer but ours changes the graph."""
    model = frozen.freeze(model_file.load_model(path))
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(model.graph_def, name="")
        with tf1.Session(graph=graph, config=config) as session:
            feed = {model.inputs[name].tensor: value for name, value in inputs.items()}
            return session.run(model.output_names, feed)


def assert_frozen_alike(function, path, x):
    expected = function(tf.constant(x))
    found = run_frozen(path, x=x)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value.numpy(), rtol=1e-6)


VECTOR = tf.TensorSpec([2], tf.float32, name="x")


@pytest.mark.parametrize("sign", [1, -1])
def test_the_branch_that_is_taken_is_the_model_s(saved, sign):
    def serve(x):
        factor = tf.cond(
            tf.reduce_sum(x) > 0, lambda: tf.constant([1.0, 2.0]), lambda: tf.constant([10.0, 20.0])
        )
        return {"out": 2.0 * factor}

    assert_frozen_alike(*saved(serve, VECTOR), np.full([2], sign, np.float32))


@needs_frozen_loops
def test_loops_and_what_they_call_are_in_it(saved):
    @tf.function
    def body(i, x):
        return i + 1, tf.cond(tf.reduce_sum(x) > 2, lambda: x / 2.0, lambda: x * 3.0)

    def serve(x):
        return {"out": tf.while_loop(lambda i, x: i < 5, body, [tf.constant(0), x])[1]}

    assert_frozen_alike(*saved(serve, VECTOR), np.float32([0.5, 0.25]))


def test_functions_that_are_not_inlined_stay(tmp_path):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2], name="x")
        cond = tf.function(lambda i, x: i < 3).get_concrete_function(
            tf.TensorSpec([], tf.int32), tf.TensorSpec([2], tf.float32)
        )
        body = tf.function(lambda i, x: (i + 1, x * x)).get_concrete_function(
            tf.TensorSpec([], tf.int32), tf.TensorSpec([2], tf.float32)
        )
        cond.add_to_graph(graph)
        body.add_to_graph(graph)
        loop = tf.raw_ops.StatelessWhile(input=[tf.constant(0), x], cond=cond, body=body)
        tf.identity(loop[1], name="out")
    path = tmp_path / "loop.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    model = frozen.freeze(model_file.load_model(path))
    kept = {function.signature.name for function in model.graph_def.library.function}
    assert {tf.compat.as_text(each.name) for each in (cond, body)} <= kept


def test_a_result_with_two_names_has_both(saved):
    def serve(x):
        y = tf.tanh(x, name="y")
        return {"one": y, "other": y}

    function, path = saved(serve, VECTOR)
    assert_frozen_alike(function, path, np.float32([1, 2]))


def test_of_a_call_only_the_model_s_own_nodes_are_left(saved):
    @tf.function
    def block(x):
        return tf.matmul(x, x, name="product")

    def serve(x):
        return {"out": block(block(x))}

    _, path = saved(serve, tf.TensorSpec([2, 2], tf.float32, name="x"))
    model = frozen.freeze(model_file.load_model(path))
    products = [node.name for node in model.graph_def.node if node.op == "MatMul"]
    assert len(products) == 2
    assert [model.origins[name] for name in products] == ["product", "product"]
    assert not any("input/_" in node.name for node in model.graph_def.node if node.op == "Identity")


def test_what_a_call_yields_is_not_lowered_a_second_time(saved):
    _, path = saved(lambda x: {"out": tf.tanh(x)}, VECTOR)
    model = frozen.freeze(model_file.load_model(path))
    _, ledger = npu_precision.rewrite_graph_def(
        model.graph_def, list(model.outputs), precision_mode="allow_mix_precision", all_white=True
    )
    (result,) = (node for node in ledger.nodes if node.name in model.outputs)
    assert (result.decision, result.reason) == ("kept", "keep_dtype_scope")
    assert any(node.op == "Tanh" and node.decision == "lowered" for node in ledger.nodes)
