"""While, If and Case, which call functions: rewrites in their bodies and at the boundary.

TensorFlow's tests do not cover these: While, StatelessWhile, If, StatelessIf, Case and
StatelessCase, also nested. Other calls are in test_function_bodies.py.
"""

from __future__ import annotations

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite
from support.tf_versions import needs_ops

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
        def multiply(n[int32], x, w) -> (next, cell, w):
            one = Const[int32](value=1)
            next = AddV2(n, one)
            product = MatMul(x, w)
            cell = Relu(product)
        """,
        f"""
        loop = {op}[int32,float32,float32](zero, x, w)
        end = Relu[float32](loop:1)
        def less_than_three(n[int32], x, w) -> (less):
        def multiply(n[int32], x, w) -> (next, cell/npu_cast_0_float32, w):
            product = MatMul[{low}](x/npu_cast_0_{low}, w/npu_cast_0_{low})
            cell = Relu[{low}](product)
        """,
        mode=mode,
    )


def test_the_condition_of_a_loop_is_decided_about_as_well():
    """The loop continues until the product is small."""
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


@pytest.mark.parametrize(
    "op", ["Case", pytest.param("StatelessCase", marks=needs_ops("StatelessCase"))]
)
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
