"""autocast() in a graph: its ops have their own mixed mode, in any mode of the other ops."""

import pytest
import tensorflow as tf
from support.check_ledger import AUTOCAST_MARK
from support.check_rewrite import UNCHANGED, check_rewrite

from npu_precision import PrecisionOptions, autocast, keep_dtype_scope

tf1 = tf.compat.v1
KEEPS = "must_keep_origin_dtype"


@pytest.fixture
def graph():
    """before -> [ marked -> relu ] -> after"""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        before = tf.matmul(x, x, name="before")
        with autocast(dtype="bfloat16"):
            marked = tf.matmul(before, x, name="marked")
            relu = tf.nn.relu(marked, name="relu")
        tf.nn.relu(relu, name="after")
    return graph.as_graph_def()


@pytest.mark.parametrize("mode", [KEEPS, "allow_fp32_to_fp16"])
def test_ops_of_the_scope_are_lowered_where_the_mode_lowers_nothing(graph, mode):
    result = check_rewrite(
        graph,
        """
        before = MatMul[float32](x, x)
        marked = MatMul[bfloat16](before/npu_cast_0_bfloat16, x/npu_cast_0_bfloat16)
        relu = Relu[bfloat16](marked)
        after = Relu[float32](relu/npu_cast_0_float32)
        """,
        mode=mode,
    )
    assert result.reasons["marked"] == ("lowered", "white_list", "")
    assert result.reasons["relu"] == ("lowered", "gray_follows_lowered", "marked")


def test_a_mixed_mode_of_another_type_goes_on_around_the_scope(graph):
    result = check_rewrite(graph, None)
    dtypes = {
        node.name: tf.as_dtype(node.attr["T"].type).name
        for node in result.graph.node
        if node.op in ("MatMul", "Relu")
    }
    assert dtypes == {
        "before": "float16",
        "marked": "bfloat16",
        "relu": "bfloat16",
        "after": "float32",
    }
    assert result.reasons["before"] == ("lowered", "white_list", "")
    assert result.reasons["after"] == ("kept", "gray_follows_kept", "relu")


def test_a_second_application_keeps_what_followed_the_scope():
    """In the second one, what `after` reads is bfloat16. It does not follow its reader instead."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        with autocast(dtype="bfloat16"):
            marked = tf.matmul(x, x, name="marked")
        after = tf.transpose(marked, name="after")
        tf.matmul(after, after, name="end")
    result = check_rewrite(graph.as_graph_def(), None)
    assert result.reasons["after"] == ("kept", "gray_follows_kept", "marked")


def test_in_the_mode_of_the_scope_nothing_is_special_about_it(graph):
    result = check_rewrite(
        graph,
        """
        before = MatMul[bfloat16](x/npu_cast_0_bfloat16, x/npu_cast_0_bfloat16)
        marked = MatMul[bfloat16](before, x/npu_cast_0_bfloat16)
        relu = Relu[bfloat16](marked)
        after/npu_changed = Relu[bfloat16](relu)
        after = Cast[bfloat16,float32](after/npu_changed)
        """,
        mode="allow_mix_precision_bf16",
    )
    assert result.reasons["after"] == ("lowered", "gray_follows_lowered", "relu")


def nested(*scopes):
    """A MatMul in each of the scopes, all within one of bfloat16."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        with autocast(dtype="bfloat16"):
            y = tf.matmul(x, x, name="outer")
            for number, scope in enumerate(scopes):
                with scope:
                    y = tf.matmul(y, x, name=f"inner{number}")
            tf.matmul(y, x, name="end")
    return graph.as_graph_def()


def test_the_innermost_scope_decides():
    result = check_rewrite(
        nested(autocast(enabled=False), keep_dtype_scope(), autocast(dtype="float16")),
        """
        outer = MatMul[bfloat16](x/npu_cast_0_bfloat16, x/npu_cast_0_bfloat16)
        inner0 = MatMul[float32](outer/npu_cast_0_float32, x)
        inner1 = MatMul[float32](inner0, x)
        inner2 = MatMul[float16](inner1/npu_cast_0_float16, x/npu_cast_0_float16)
        end/npu_changed = MatMul[bfloat16](inner2/npu_cast_0_bfloat16, x/npu_cast_0_bfloat16)
        end = Cast[bfloat16,float32](end/npu_changed)
        """,
        mode=KEEPS,
        float16_compute="native",
    )
    assert result.reasons["inner0"] == ("kept", "autocast_disabled", "")
    assert result.reasons["inner1"] == ("kept", "keep_dtype_scope", "")


def test_a_scope_that_is_off_keeps_its_ops_in_every_mode():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        with autocast(enabled=False):
            tf.matmul(x, x, name="kept")
    for mode in ("allow_mix_precision", "force_fp16", KEEPS):
        result = check_rewrite(graph.as_graph_def(), UNCHANGED, mode=mode)
        assert result.reasons["kept"] == ("kept", "autocast_disabled", "")


def test_the_mixlist_decides_by_name_and_by_type_in_the_scope(graph, mixlist):
    path = mixlist(black=["node:relu"], white=["node:after"])
    result = check_rewrite(graph, None, modify_mixlist=path)
    assert result.reasons["relu"] == ("kept", "black_list", "")
    assert result.reasons["after"] == ("lowered", "white_list", "")
    path = mixlist(black=["MatMul"])
    result = check_rewrite(graph, None, modify_mixlist=path)
    assert result.reasons["before"] == result.reasons["marked"] == ("kept", "black_list", "")


def test_a_name_in_the_mixlist_lowers_what_the_scope_switched_off(mixlist):
    graph = nested(autocast(enabled=False))
    result = check_rewrite(graph, None, modify_mixlist=mixlist(white=["node:inner0"]))
    assert result.reasons["inner0"] == ("lowered", "white_list", "")
    (inner,) = (node for node in result.graph.node if node.name == "inner0")
    assert inner.attr["T"].type == tf.float16.as_datatype_enum  # that of the mode


def test_gradients_follow_their_forward_op():
    """Also those that have no mark of their own, as in graphs of other programs."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        first = tf.matmul(x, x, name="first")
        with autocast(dtype="bfloat16"):
            marked = tf.matmul(first, x, name="marked")
        (gradient,) = tf.gradients(marked, x)
        tf.identity(gradient, name="end")
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        if node.name.startswith("gradients/"):
            node.attr.pop(AUTOCAST_MARK, None)
    result = check_rewrite(graph_def, None, ["end", "marked"], mode=KEEPS)
    lowered = {name for name, (decision, *_) in result.reasons.items() if decision == "lowered"}
    assert lowered == {
        "marked",
        "gradients/marked_grad/MatMul",
        "gradients/marked_grad/MatMul_1",
    }


def test_autocast_only_leaves_all_else_alone(graph):
    result = check_rewrite(graph, None, mode=None, autocast_only=True)
    assert result.reasons["marked"] == ("lowered", "white_list", "")
    assert result.reasons["before"] == ("kept", "outside_autocast", "")
    assert result.ledger.totals["lowered"] == 2
    with tf.Graph().as_default() as plain:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        tf.matmul(x, x, name="end")
    check_rewrite(plain.as_graph_def(), UNCHANGED, mode=None, autocast_only=True)


def test_autocast_only_says_what_was_switched_off():
    result = check_rewrite(nested(autocast(enabled=False)), None, mode=None, autocast_only=True)
    assert result.reasons["inner0"] == ("kept", "autocast_disabled", "")


@pytest.mark.parametrize(
    "given", [{"precision_mode": "allow_mix_precision"}, {"precision_mode_v2": "fp16"}]
)
def test_autocast_only_and_a_mode_contradict_each_other(given):
    (name, value) = next(iter(given.items()))
    with pytest.raises(ValueError, match=f"autocast_only: got true with {name} '{value}'"):
        PrecisionOptions(autocast_only=True, **given)


def test_loop_bodies_and_branches_are_in_the_scope():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        with autocast(dtype="bfloat16"):
            _, looped = tf1.while_loop(
                lambda i, _: i < 2,
                lambda i, y: (i + 1, tf.tanh(tf.matmul(y, x, name="in_loop"))),
                (tf.constant(0), x),
                name="loop",
            )
            chosen = tf1.cond(
                tf.reduce_sum(x) > 0.0, lambda: tf.matmul(looped, x, name="in_branch"), lambda: x
            )
        tf.identity(chosen, name="end")
    result = check_rewrite(graph.as_graph_def(), None, mode=KEEPS)
    lowered = {
        node.name
        for function in [result.ledger, *result.ledger.functions]
        for node in function.nodes
        if node.decision == "lowered"
    }
    for name in ("in_loop", "in_branch"):
        assert any(name in each for each in lowered), lowered
