"""Functions that nodes call: rewrites in a body, at its boundary, and in its caller.

The optimizer decides about each body alone: arguments are neutral sources and results keep their
dtype, so signatures and callers do not change. One case is also in TensorFlow's tests: a Defun that
is not inlined. PartitionedCall and StatefulPartitionedCall are added. While, If and Case are in
test_functional_control_flow.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE, UNCHANGED, check_rewrite
from support.text_functions import read_graph_with_functions
from support.text_graph import random_values
from tensorflow.python.framework import function as legacy_function

import npu_precision

tf1 = tf.compat.v1
each_mode = pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
@each_mode
def test_a_called_function_keeps_its_signature_and_its_caller_its_dtypes(op, mode, low):
    """White on both sides of the boundary meets in float32 there."""
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        before = MatMul(x, x)
        call = {op}(before, x, f=layer)
        after = MatMul(call, call:1)
        end = LogSoftmax(after)
        def layer(y, x) -> (relu, product):
            product = MatMul(y, x)
            relu = Relu(product)
        """,
        f"""
        before = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
        call = {op}[float32,float32,float32,float32](before/npu_cast_0_float32, x)
        after = MatMul[{low}](call/npu_cast_0_{low}, call/npu_cast_1_{low})
        end = LogSoftmax[float32](after/npu_cast_0_float32)
        def layer(y, x) -> (relu/npu_cast_0_float32, product/npu_cast_0_float32):
            product = MatMul[{low}](y/npu_cast_0_{low}, x/npu_cast_0_{low})
            relu = Relu[{low}](product)
        """,
        mode=mode,
    )


def test_a_function_called_twice_is_rewritten_once():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        once = PartitionedCall(x, f=square)
        twice = PartitionedCall(once, f=square)
        end = Relu(twice)
        def square(x) -> (product):
            product = MatMul(x, x)
        """,
        """
        once = PartitionedCall[float32,float32](x)
        twice = PartitionedCall[float32,float32](once)
        end = Relu[float32](twice)
        def square(x) -> (product/npu_cast_0_float32):
            product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        """,
    )


def test_results_that_are_one_tensor_share_its_cast_and_an_argument_goes_through():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        call = PartitionedCall(x, f=three_results)
        sum = AddN(call, call:1, call:2)
        def three_results(x) -> (product, product, x):
            product = MatMul(x, x)
        """,
        """
        call = PartitionedCall[float32,float32,float32,float32](x)
        sum = AddN[float32](call, call:1, call:2)
        def three_results(x) -> (product/npu_cast_0_float32, product/npu_cast_0_float32, x):
            product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        """,
    )


def test_arguments_and_results_in_half_stay_so():
    """A body that was written in half is left alone; so is a signature that mixes dtypes."""
    check_rewrite(
        """
        x = Placeholder[float16](shape=4x4)
        y = Placeholder(shape=4x4)
        call = PartitionedCall(x, y, f=mixed)
        end = Exp(call:1)
        def mixed(x[float16], y) -> (product, sum):
            product = MatMul(x, x)
            wide = Cast[float16,float32](product)
            other = MatMul(y, y)
            sum = AddV2(wide, other)
        """,
        """
        call = PartitionedCall[float16,float32,float16,float32](x, y)
        end = Exp[float32](call:1)
        def mixed(x[float16], y) -> (product, sum/npu_cast_0_float32):
            product = MatMul[float16](x, x)
            wide = Cast[float16,float32](product)
            other = MatMul[float16](y/npu_cast_0_float16, y/npu_cast_0_float16)
            sum = AddV2[float16](product, other)
        """,
    )


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (
            "force_fp16",
            """
            call = PartitionedCall[float16,float32,float16,float32](h, x)
            end/npu_changed = LogSoftmax[float16](call/npu_cast_1_float16)
            end = Cast[float16,float32](end/npu_changed)
            def layer(h[float16], x) -> (half, black/npu_cast_0_float32):
                half = MatMul[float16](h, h)
                product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
                black = LogSoftmax[float16](product)
            """,
        ),
        (
            "force_fp32",
            """
            call = PartitionedCall[float16,float32,float16,float32](h, x)
            end = LogSoftmax[float32](call:1)
            def layer(h[float16], x) -> (half/npu_cast_0_float16, black):
                half = MatMul[float32](h/npu_cast_0_float32, h/npu_cast_0_float32)
                product = MatMul[float32](x, x)
                black = LogSoftmax[float32](product)
            """,
        ),
        (
            "cube_fp16in_fp32out",
            """
            call = PartitionedCall[float16,float32,float16,float32](h, x)
            end = LogSoftmax[float32](call:1)
            def layer(h[float16], x) -> (half, black):
                half = MatMul[float16](h, h)
                product = MatMul[float32](x/npu_cast_0_float16/npu_cast_0_float32,
                    x/npu_cast_0_float16/npu_cast_0_float32)
                black = LogSoftmax[float32](product)
            """,
        ),
        ("must_keep_origin_dtype", UNCHANGED),
        ("allow_fp32_to_fp16", UNCHANGED),
    ],
)
def test_no_mode_changes_a_signature(mode, expected):
    check_rewrite(
        """
        h = Placeholder[float16](shape=4x4)
        x = Placeholder(shape=4x4)
        call = PartitionedCall(h, x, f=layer)
        end = LogSoftmax(call:1)
        def layer(h[float16], x) -> (half, black):
            half = MatMul(h, h)
            product = MatMul(x, x)
            black = LogSoftmax(product)
        """,
        expected,
        ["call", "end"],
        mode=mode,
    )


def test_an_entry_about_a_node_reaches_into_bodies(mixlist):
    """The entry has the names of the body's own nodes."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        call = PartitionedCall(product, f=layer)
        end = LogSoftmax(call)
        def layer(x) -> (second):
            first = MatMul(x, x)
            second = MatMul(first, x)
        """,
        """
        product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        call = PartitionedCall[float32,float32](product/npu_cast_0_float32)
        end = LogSoftmax[float32](call)
        def layer(x) -> (second):
            first = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
            second = MatMul[float32](first/npu_cast_0_float32, x)
        """,
        modify_mixlist=mixlist(black=["node:second"]),
    )


def test_a_variable_read_and_written_in_a_body_stays_float32():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        start = Const(shape=4x4)
        v = VarHandleOp(shape=4x4)
        assign = AssignVariableOp(v, start)
        call = StatefulPartitionedCall(v, x, f=accumulate)
        end = Relu(call)
        def accumulate(v[resource], x) -> (again):
            read = ReadVariableOp(v)
            product = MatMul(x, read)
            add = AssignAddVariableOp(v, product)
            again = ReadVariableOp(v, ^add)
        """,
        """
        v = VarHandleOp[float32]()
        assign = AssignVariableOp[float32](v, start)
        call = StatefulPartitionedCall[resource,float32,float32](v, x)
        end = Relu[float32](call)
        def accumulate(v[resource], x) -> (again):
            read = ReadVariableOp[float32](v)
            product = MatMul[float16](x/npu_cast_0_float16, read/npu_cast_0_float16)
            add = AssignAddVariableOp[float32](v, product/npu_cast_0_float32)
            again = ReadVariableOp[float32](v, ^add)
        """,
        init=["assign"],
    )


def test_a_defun_that_is_not_inlined():
    """The call has the function's name as its op, and the dtypes of its signature."""

    @legacy_function.Defun(tf.float32, func_name="layer", noinline=True)
    def layer(x):
        x.set_shape([4, 4])
        return tf.nn.relu(tf.matmul(x, x, name="product"), name="relu")

    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        called = layer(tf.matmul(x, x, name="before"), name="called")
        called.set_shape([4, 4])
        tf.matmul(called, called, name="after")
    check_rewrite(
        graph.as_graph_def(),
        """
        before = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        called = layer(before/npu_cast_0_float32)
        called/npu_cast_0_float16 = Cast[float32,float16](called)
        after/npu_changed = MatMul[float16](called/npu_cast_0_float16, called/npu_cast_0_float16)
        after = Cast[float16,float32](after/npu_changed)
        def layer(x) -> (relu_0/npu_cast_0_float32):
            product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
            relu_0 = Relu[float16](product)
        """,
    )


def test_a_defun_that_is_fetched_keeps_its_dtypes():
    """Each graph that a pass makes has the library, which says what such an op yields."""
    text = """
        x = Placeholder(shape=4x4)
        before = MatMul(x, x)
        called = PartitionedCall(before, f=layer)
        def layer(x) -> (squashed):
            squashed = Tanh(x)
        """
    graph = read_graph_with_functions(text)
    called = graph.node[-1]
    called.op = "layer"
    called.attr.clear()
    check_rewrite(
        graph,
        """
        before = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        called = layer(before/npu_cast_0_float32)
        def layer(x) -> (squashed):
            squashed = Tanh[float32](x)
        """,
    )


IN_A_SESSION = """
    x = Placeholder(shape=4x4)
    zero = Const[int32](value=0)
    loop = While(zero, x, cond=less_than_three, body=step)
    end = Relu(loop:1)
    def less_than_three(n[int32], x) -> (less):
        three = Const[int32](value=3)
        less = Less(n, three)
    def step(n[int32], x) -> (next, squashed):
        one = Const[int32](value=1)
        next = AddV2(n, one)
        product = PartitionedCall(x, f=square)
        squashed = Tanh(product)
    def square(x) -> (product):
        product = MatMul(x, x)
    """


def test_functions_that_a_session_does_not_inline_are_lowered(run_graph, ledgers, tmp_path):
    """The session's optimizers get each body as a graph of its own."""
    graph = read_graph_with_functions(IN_A_SESSION)
    feeds = {"x:0": random_values("x", [4, 4])}
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision", report_dir=str(tmp_path), strict=True
    )
    want = run_graph(graph, "end:0", feeds)
    got = run_graph(graph, "end:0", feeds, config)
    assert 0 < np.abs(got - want).max() < TOLERANCE["float16"] * np.abs(want).max()
    lowered = {
        node.op
        for ledger in ledgers(tmp_path)
        for node in ledger.nodes
        if node.decision == "lowered"
    }
    assert "MatMul" in lowered
