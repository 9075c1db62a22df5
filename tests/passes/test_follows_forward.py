"""The gradient of an op that the user kept in float32 by its name or scope is kept too."""

import json

import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite

from npu_precision import keep_dtype_scope

tf1 = tf.compat.v1


def of_graph(scope=""):
    """x -> first -> kept -> loss, with tf.gradients, which are built in a name scope."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        with tf.name_scope("layer"):
            first = tf.matmul(x, x, name="first")
        with keep_dtype_scope():
            kept = tf.matmul(first, x, name="layer/kept")
        with tf1.name_scope(scope or None):
            (gradient,) = tf.gradients(kept, x)
        tf.identity(gradient, name="end")
    return graph.as_graph_def()


@pytest.mark.parametrize("scope", ["", "train"])
def test_gradients_of_tf_gradients(scope):
    result = check_rewrite(of_graph(scope), None, ["layer/kept", "end"])
    begin = f"{scope}/gradients" if scope else "gradients"
    for name in ("MatMul", "MatMul_1"):
        kept = result.reasons[f"{begin}/layer/kept_grad/{name}"]
        assert kept == ("kept", "keep_dtype_scope", "")
        lowered = result.reasons[f"{begin}/layer/first_grad/{name}"]
        assert lowered == ("lowered", "white_list", "")


# Names as given by GradientTape, by inlining, and by a second derivative.
GRADIENT_NAMES = [
    "gradient_tape/model/dense/MatMul/MatMul_1",
    "gradient_tape/model/dense/MatMul/scope/MatMul",
    "gradient_tape_1/model/dense/MatMul/MatMul",
    "gradients/model/dense/MatMul_grad/MatMul",
    "gradients_2/model/dense/MatMul_grad/MatMul",
    "step/gradients/model/dense/MatMul_grad/MatMul",
]


def by_name(forward, gradient):
    return f"""
        x = Placeholder(shape=4x4)
        {forward} = MatMul(x, x)
        {gradient} = MatMul({forward}, x)
        end = MatMul({gradient}, x)
        """


def kept_by_name(graph, name, **more):
    edits = json.dumps({"black-list": {"to-add": [f"node:{name}"]}, **more})
    return check_rewrite(graph, None, mixlist_edits=edits).reasons


@pytest.mark.parametrize("gradient", GRADIENT_NAMES)
def test_a_gradient_goes_by_its_name(gradient):
    forward = "model/dense/MatMul"
    reasons = kept_by_name(by_name(forward, gradient), forward)
    assert reasons[gradient] == ("kept", "follows_forward", forward)
    assert reasons["end"][0] == "lowered"


def test_an_inlined_function_puts_its_scope_before_both():
    forward, gradient = "call/dense/MatMul", "call/gradient_tape/dense/MatMul/MatMul"
    reasons = kept_by_name(by_name(forward, gradient), forward)
    assert reasons[gradient] == ("kept", "follows_forward", forward)


def test_a_gradient_of_a_gradient_follows_as_well():
    first = "gradients/dense/MatMul_grad/MatMul"
    graph = f"""
        x = Placeholder(shape=4x4)
        dense/MatMul = MatMul(x, x)
        {first} = MatMul(dense/MatMul, x)
        gradients_1/{first}_grad/MatMul = MatMul({first}, x)
        """
    reasons = kept_by_name(graph, "dense/MatMul")
    assert reasons[first][1:] == ("follows_forward", "dense/MatMul")
    assert reasons[f"gradients_1/{first}_grad/MatMul"][1:] == ("follows_forward", first)


@pytest.mark.parametrize("second", ["MatMul", "MatMul_1"])
def test_a_tape_s_gradient_of_a_gradient_has_the_scope_of_that_one_and_another_name(second):
    first = "gradient_tape/dense/MatMul/MatMul"
    gradient = f"gradient_tape/gradient_tape/dense/MatMul/{second}"
    graph = f"""
        x = Placeholder(shape=4x4)
        dense/MatMul = MatMul(x, x)
        {first} = MatMul(dense/MatMul, x)
        {gradient} = MatMul({first}, x)
        """
    reasons = kept_by_name(graph, "dense/MatMul")
    assert reasons[gradient] == ("kept", "follows_forward", first)


@pytest.mark.parametrize(
    "gradient",
    [
        "gradients_of/model/dense/MatMul_grad/MatMul",
        "gradients2/model/dense/MatMul_grad/MatMul",
        "gradient_tape/model/dense_1/MatMul/MatMul",
        "gradients/dense/MatMul_grad/MatMul",
        "graded/MatMul",
    ],
)
def test_a_gradient_of_another_op_does_not_follow(gradient):
    reasons = kept_by_name(by_name("model/dense/MatMul", gradient), "model/dense/MatMul")
    assert reasons[gradient] == ("lowered", "white_list", "")


def test_an_entry_for_the_gradient_beats_it():
    forward, gradient = "model/dense/MatMul", GRADIENT_NAMES[0]
    more = {"white-list": {"to-add": [f"node:{gradient}"]}}
    reasons = kept_by_name(by_name(forward, gradient), forward, **more)
    assert reasons[gradient] == ("lowered", "white_list", "")


def test_an_op_type_on_a_list_says_nothing_about_gradients():
    graph = by_name("dense/Tanh", "gradients/dense/Tanh_grad/MatMul").replace(
        "dense/Tanh = MatMul(x, x)", "dense/Tanh = Tanh(x)"
    )
    edits = '{"black-list": {"to-add": ["Tanh"]}}'
    reasons = check_rewrite(graph, None, mixlist_edits=edits).reasons
    assert reasons["dense/Tanh"] == ("kept", "black_list", "")
    assert reasons["gradients/dense/Tanh_grad/MatMul"] == ("lowered", "white_list", "")
