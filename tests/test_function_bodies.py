"""Functions that nodes call: what happens in a body, at its boundary, and in its caller.

Each body is decided about by itself: arguments are neutral sources, results keep their dtype, and
so signatures and callers stay as they were. Of the cases that TensorFlow's tests cover: a Defun
that is not inlined. Wanted besides: While, StatelessWhile, If, StatelessIf, Case, StatelessCase,
PartitionedCall and StatefulPartitionedCall.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from check_rewrite import TOLERANCE, UNCHANGED, check_rewrite
from tensorflow.python.framework import function as legacy_function
from text_functions import read_graph_with_functions
from text_graph import random_values

import npu_precision

tf1 = tf.compat.v1
each_mode = pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)


@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
@each_mode
def test_a_loop_body_is_lowered_inside_and_casts_what_it_takes_and_yields(op, mode, low):
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        zero = Const[int32](value=0)
        loop = {op}(zero, x, w, cond=less_than_three, body=multiply)
        end = Relu(loop:1)
        def less_than_three(n[int32], x, w) -> (less):
            three = Const[int32](value=3)
            less = Less(n, three)
        def multiply(n[int32], x, w) -> (next, product, w):
            one = Const[int32](value=1)
            next = AddV2(n, one)
            product = MatMul(x, w)
        """,
        f"""
        loop = {op}[int32,float32,float32](zero, x, w)
        end = Relu[float32](loop:1)
        def less_than_three(n[int32], x, w) -> (less):
        def multiply(n[int32], x, w) -> (next, product/npu_cast_0_float32, w):
            product = MatMul[{low}](x/npu_cast_0_{low}, w/npu_cast_0_{low})
        """,
        mode=mode,
    )


def test_the_condition_of_a_loop_is_decided_about_as_well():
    """It goes on until the product is small."""
    check_rewrite(
        """
        x = Const(shape=2x2)
        loop = While(x, cond=is_large, body=halve)
        end = Relu(loop)
        def is_large(x) -> (large):
            product = MatMul(x, x)
            gray = Relu(product)
            axes = Const[int32](value=[0, 1])
            sum = Sum(gray, axes)
            limit = Const(value=0.01)
            large = Greater(sum, limit)
        def halve(x) -> (less):
            half = Const(value=0.5)
            less = Mul(x, half)
        """,
        """
        loop = While[float32](x)
        end = Relu[float32](loop)
        def is_large(x) -> (large):
            product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
            gray = Relu[float16](product)
            sum = Sum[float32](gray/npu_cast_0_float32, axes)
            large = Greater[float32](sum, limit)
        def halve(x) -> (less):
            less = Mul[float32](x, half)
        """,
    )


@pytest.mark.parametrize("op", ["If", "StatelessIf"])
@pytest.mark.parametrize("taken", [True, False])
def test_each_branch_of_a_condition_is_decided_about_by_itself(op, taken):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        p = Const[bool](value={taken})
        white = MatMul(x, x)
        either = {op}(p, white, then_branch=lowered, else_branch=kept)
        end = Relu(either)
        def lowered(x) -> (result):
            product = MatMul(x, x)
            result = Relu(product)
        def kept(x) -> (result):
            power = Exp(x)
            result = Relu(power)
        """,
        f"""
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        either = {op}[bool,float32,float32](p, white/npu_cast_0_float32)
        end = Relu[float32](either)
        def lowered(x) -> (result/npu_cast_0_float32):
            product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
            result = Relu[float16](product)
        def kept(x) -> (result):
            power = Exp[float32](x)
            result = Relu[float32](power)
        """,
    )
    assert result.reasons["either"] == ("kept", "never_changed", "")
    assert result.reasons["end"] == ("kept", "gray_follows_kept", "either")


@pytest.mark.parametrize("op", ["Case", "StatelessCase"])
@pytest.mark.parametrize("branch", [0, 1, 2])
def test_each_branch_of_a_case_is_decided_about_by_itself(op, branch):
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        n = Const[int32](value={branch})
        one = {op}(n, x, branches=[lowered, kept, untouched])
        end = Exp(one)
        def lowered(x) -> (product):
            product = MatMul(x, x)
        def kept(x) -> (power):
            power = Exp(x)
        def untouched(x) -> (x):
        """,
        f"""
        one = {op}[float32,float32](n, x)
        end = Exp[float32](one)
        def lowered(x) -> (product/npu_cast_0_float32):
            product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        def kept(x) -> (power):
            power = Exp[float32](x)
        def untouched(x) -> (x):
        """,
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
        end = Softmax(after)
        def layer(y, x) -> (relu, product):
            product = MatMul(y, x)
            relu = Relu(product)
        """,
        f"""
        before = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
        call = {op}[float32,float32,float32,float32](before/npu_cast_0_float32, x)
        after = MatMul[{low}](call/npu_cast_0_{low}, call/npu_cast_1_{low})
        end = Softmax[float32](after/npu_cast_0_float32)
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


def test_a_body_without_a_white_op_is_unchanged():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        p = Const[bool](value=True)
        either = If(p, x, then_branch=yes, else_branch=no)
        end = Relu(either)
        def yes(x) -> (result):
            power = Exp(x)
            result = Relu(power)
        def no(x) -> (x):
        """,
        UNCHANGED,
    )


def test_a_condition_in_a_loop_and_a_call_in_the_condition():
    """Three levels of bodies, each with float32 at its boundary."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        zero = Const[int32](value=0)
        loop = While(zero, x, cond=less_than_four, body=alternate)
        end = Softmax(loop:1)
        def less_than_four(n[int32], x) -> (less):
            four = Const[int32](value=4)
            less = Less(n, four)
        def alternate(n[int32], x) -> (next, either):
            one = Const[int32](value=1)
            two = Const[int32](value=2)
            next = AddV2(n, one)
            remainder = FloorMod(n, two)
            odd = Equal(remainder, one)
            white = MatMul(x, x)
            either = If(odd, white, then_branch=call, else_branch=squash)
        def call(x) -> (result):
            called = PartitionedCall(x, f=square)
            result = Relu(called)
        def squash(x) -> (result):
            result = Tanh(x)
        def square(x) -> (product):
            product = MatMul(x, x)
        """,
        """
        loop = While[int32,float32](zero, x)
        end = Softmax[float32](loop:1)
        def less_than_four(n[int32], x) -> (less):
        def alternate(n[int32], x) -> (next, either):
            white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
            either = If[bool,float32,float32](odd, white/npu_cast_0_float32)
        def call(x) -> (result):
            called = PartitionedCall[float32,float32](x)
            result = Relu[float32](called)
        def squash(x) -> (result):
            result = Tanh[float32](x)
        def square(x) -> (product/npu_cast_0_float32):
            product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        """,
    )


def test_a_loop_in_a_branch():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        p = Const[bool](value=True)
        either = If(p, x, then_branch=repeat, else_branch=leave)
        end = Relu(either)
        def repeat(x) -> (loop:1):
            zero = Const[int32](value=0)
            white = MatMul(x, x)
            loop = While(zero, white, cond=less_than_two, body=multiply)
        def leave(x) -> (x):
        def less_than_two(n[int32], x) -> (less):
            two = Const[int32](value=2)
            less = Less(n, two)
        def multiply(n[int32], x) -> (next, gray):
            one = Const[int32](value=1)
            next = AddV2(n, one)
            product = MatMul(x, x)
            gray = Tanh(product)
        """,
        """
        either = If[bool,float32,float32](p, x)
        end = Relu[float32](either)
        def repeat(x) -> (loop:1):
            white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
            loop = While[int32,float32](zero, white/npu_cast_0_float32)
        def leave(x) -> (x):
        def less_than_two(n[int32], x) -> (less):
        def multiply(n[int32], x) -> (next, gray/npu_cast_0_float32):
            product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
            gray = Tanh[float16](product)
        """,
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
    """Its optimizers see each body as a graph of its own."""
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
