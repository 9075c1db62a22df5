"""hoist_loop_invariants does not change the order or the number of a loop's effects."""

from __future__ import annotations

import time

import numpy as np
import pytest
from support.check_rewrite import check_rewrite
from support.loop_text import counter

import npu_precision
from npu_precision.npu_init import tf as tf1


def depends_on_token(y, token, effect):
    """The effect of an iteration depends on that of the one before, and passes the token on."""
    with tf1.control_dependencies([token]):
        done = effect(y)
    with tf1.control_dependencies([done]):
        return tf1.identity(token), y


def hands_on_after_token(y, token, effect):
    """The input of an effect is passed on after the effect of the iteration before."""
    with tf1.control_dependencies([token]):
        later = tf1.identity(y)
    done = effect(y)
    with tf1.control_dependencies([done]):
        return tf1.identity(token), later


def log_of_effects(step):
    """The iterations in the order of their effects; the effect of the first takes the longest."""
    log = []

    def effect(value, number):
        if number == 0:
            time.sleep(0.2)
        log.append(int(number))
        return np.int32(number)

    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf1.float32, [2, 2], name="x")

        def body(i, token, y, z):
            def of_iteration(value):
                return tf1.numpy_function(effect, [value, i], tf1.int32)

            token, y = step(y, token, of_iteration)
            return i + 1, token, y, tf1.tanh(tf1.matmul(z, z))

        start = [0, tf1.constant(0.0), x, x]
        fetches = tf1.while_loop(lambda i, *_: i < 6, body, start)[1:]
    config = npu_precision.npu_config_proto(precision_mode="allow_mix_precision", strict=True)
    with tf1.Session(graph=graph, config=config) as session:
        session.run(fetches, {"x:0": np.full([2, 2], 0.1)})
    return log


def test_effects_that_depend_on_a_token_stay_in_order(control_flow_v1):
    assert log_of_effects(depends_on_token) == list(range(6))


def test_a_variable_that_is_passed_on_after_an_effect_stays(control_flow_v1):
    """An effect comes after its input, and so after the effect two iterations before."""
    log = log_of_effects(hands_on_after_token)
    assert sorted(log) == list(range(6))
    assert all(log.index(number) > log.index(number - 2) for number in range(2, 6))


def test_a_node_behind_references_does_not_run_once_more():
    """The Merge of references is not dead if only one of its inputs is."""
    result = check_rewrite(
        f"""
        zero_f = Const(value=0.0)
        one_f = Const(value=1.0)
        v = VariableV2[float32](shape=scalar)
        u = VariableV2[float32](shape=scalar)
        init_v = Assign(v, zero_f)
        init_u = Assign(u, zero_f)
        {counter(3, after=["shifted"])}
        v_enter = RefEnter[float32](v, frame_name=loop, is_constant=True)
        u_enter = RefEnter[float32](u, frame_name=loop, is_constant=True)
        one_c = Enter(one_f, frame_name=loop, is_constant=True)
        pivot = Identity(i_switch:1)
        first = Less(i, one_enter)
        u_fork = RefSwitch[float32](u_enter, first)
        v_fork = RefSwitch[float32](v_enter, first)
        number = Cast[int32,float32](i_switch:1)
        set = Assign(v_fork:1, number)
        either = RefMerge[float32](set, u_fork)
        shifted = Add(either, one_c, ^pivot)
        i_exit = Exit(i_switch)
        """,
        None,
        ["i_exit"],
        init=["init_v", "init_u"],
        loop_constants=True,
    )
    (shifted,) = (node for node in result.graph.node if node.name == "shifted")
    assert "^pivot" in shifted.input


@pytest.mark.parametrize("read", ["", "i_exit"])
def test_a_loop_whose_condition_reads_no_variable_keeps_them_all(read):
    """The fetches determine which other variable, if any, begins the next iteration."""
    result = check_rewrite(
        """
        w = Placeholder(shape=4x4)
        enter = Enter(w, frame_name=loop)
        merge = Merge(enter, next)
        shape = Const[int32](value=[1])
        shape_enter = Enter(shape, frame_name=loop, is_constant=True)
        number = RandomUniform[float32,int32](shape_enter)
        half = Const(value=0.5)
        half_enter = Enter(half, frame_name=loop, is_constant=True)
        above = Greater(number, half_enter)
        cond = LoopCond(above)
        switch = Switch(merge, cond)
        next = NextIteration(switch:1)
        exit = Exit(switch)
        zero = Const[int32](value=0)
        i_enter = Enter(zero, frame_name=loop)
        i = Merge(i_enter, i_next)
        i_switch = Switch(i, cond)
        i_add = AddV2(i_switch:1, i_switch:1)
        i_next = NextIteration(i_add)
        i_exit = Exit(i_switch)
        """,
        None,
        ["exit", *([read] if read else [])],
        run=False,
        loop_constants=True,
    )
    assert result.ledger.rewrites == ()


def test_a_control_dependency_on_an_identity_that_has_one_keeps_both():
    """If the Identity lost its own, a second run would take it for another pivot."""
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        {counter(3)}
        enter = Enter(x, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        pivot = Identity(i_switch:1)
        same = Identity(switch:1, ^pivot)
        turn = MatMul(switch:1, switch:1, ^same)
        next = NextIteration(turn)
        exit = Exit(switch)
        end = LogSoftmax(exit)
        """,
        None,
        loop_constants=True,
    )
    assert result.ledger.rewrites == ()
