"""Conditions of TensorFlow 1: Switch, two branches, one of them dead, and Merge."""

from __future__ import annotations

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite

each_way = pytest.mark.parametrize("taken", [True, False])


@each_way
def test_the_branches_of_a_cond_meet_in_a_cast_where_they_differ(taken):
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        p = Const[bool](value={taken})
        fork = Switch(x, p)
        no = Exp(fork)
        yes = MatMul(fork:1, fork:1)
        join = Merge(no, yes)
        end = Softmax(join)
        """,
        """
        fork = Switch[float32](x, p)
        no = Exp[float32](fork)
        yes = MatMul[float16](fork/npu_cast_1_float16, fork/npu_cast_1_float16)
        join = Merge[float32](no, yes/npu_cast_0_float32)
        end = Softmax[float32](join)
        """,
    )


@each_way
def test_branches_that_are_both_lowered_meet_in_the_low_type(taken):
    """The Cast behind each side of the Switch runs only where that side is taken."""
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        p = Const[bool](value={taken})
        fork = Switch(x, p)
        no = MatMul(fork, fork, transpose_b=True)
        yes = MatMul(fork:1, fork:1)
        join = Merge(no, yes)
        gray = Relu(join)
        end = Softmax(gray)
        """,
        """
        fork = Switch[float32](x, p)
        no = MatMul[float16](fork/npu_cast_0_float16, fork/npu_cast_0_float16)
        yes = MatMul[float16](fork/npu_cast_1_float16, fork/npu_cast_1_float16)
        join = Merge[float16](no, yes)
        gray = Relu[float16](join)
        end = Softmax[float32](gray/npu_cast_0_float32)
        """,
    )


@each_way
def test_a_switch_behind_a_white_op_is_lowered_and_each_branch_goes_its_way(taken):
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        p = Const[bool](value={taken})
        white = MatMul(x, x)
        fork = Switch(white, p)
        no = Softmax(fork)
        yes = Relu(fork:1)
        join = Merge(no, yes)
        end = Exp(join)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        fork = Switch[float16](white, p)
        no = Softmax[float32](fork/npu_cast_0_float32)
        yes = Relu[float16](fork:1)
        join = Merge[float32](no, yes/npu_cast_0_float32)
        end = Exp[float32](join)
        """,
    )


@each_way
def test_a_branch_that_hands_a_constant_on_has_no_vote(taken):
    """The zeros of a gradient are such a constant if the branch was not taken."""
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        p = Const[bool](value={taken})
        fork = Switch(x, p)
        pivot = Identity(fork)
        zeros = Const(^pivot, shape=4x4)
        yes = MatMul(fork:1, fork:1)
        join = Merge(zeros, yes)
        end = Softmax(join)
        """,
        """
        fork = Switch[float32](x, p)
        pivot = Identity[float32](fork)
        zeros = Const[float32](^pivot)
        yes = MatMul[float16](fork/npu_cast_1_float16, fork/npu_cast_1_float16)
        join = Merge[float16](zeros/npu_cast_0_float16, yes)
        end = Softmax[float32](join/npu_cast_0_float32)
        """,
    )


@each_way
@pytest.mark.parametrize("inner_taken", [True, False])
def test_a_cond_in_a_cond(taken, inner_taken):
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        p = Const[bool](value={taken})
        q = Const[bool](value={inner_taken})
        fork = Switch(x, p)
        q_fork = Switch(q, p)
        inner_fork = Switch(fork:1, q_fork:1)
        inner_no = Softmax(inner_fork)
        inner_yes = MatMul(inner_fork:1, inner_fork:1)
        inner_join = Merge(inner_no, inner_yes)
        no = MatMul(fork, fork, transpose_b=True)
        join = Merge(no, inner_join)
        end = Tanh(join)
        """,
        """
        fork = Switch[float32](x, p)
        inner_fork = Switch[float32](fork:1, q_fork:1)
        inner_no = Softmax[float32](inner_fork)
        inner_yes = MatMul[float16](inner_fork/npu_cast_1_float16, inner_fork/npu_cast_1_float16)
        inner_join = Merge[float32](inner_no, inner_yes/npu_cast_0_float32)
        no = MatMul[float16](fork/npu_cast_0_float16, fork/npu_cast_0_float16)
        join = Merge[float32](no/npu_cast_0_float32, inner_join)
        end = Tanh[float32](join)
        """,
    )


@each_way
def test_which_branch_was_taken_stays_an_integer(taken):
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        p = Const[bool](value={taken})
        fork = Switch(x, p)
        no = MatMul(fork, fork, transpose_b=True)
        yes = MatMul(fork:1, fork:1)
        join = Merge(no, yes)
        branch = Identity[int32](join:1)
        end = Softmax(join)
        """,
        """
        fork = Switch[float32](x, p)
        no = MatMul[float16](fork/npu_cast_0_float16, fork/npu_cast_0_float16)
        yes = MatMul[float16](fork/npu_cast_1_float16, fork/npu_cast_1_float16)
        join = Merge[float16](no, yes)
        end = Softmax[float32](join/npu_cast_0_float32)
        """,
        ["branch", "end"],
    )


@each_way
def test_a_cond_of_black_branches_is_unchanged(taken):
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        p = Const[bool](value={taken})
        fork = Switch(x, p)
        no = Softmax(fork)
        yes = Exp(fork:1)
        join = Merge(no, yes)
        end = Relu(join)
        """,
        UNCHANGED,
    )
