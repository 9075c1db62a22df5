"""loop_constants: a loop variable that every iteration passes on unchanged is hoisted."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from support.check_rewrite import DTYPES_ONLY, UNCHANGED, check_rewrite
from support.executions import run_counted
from support.loop_text import counter
from support.random_graphs import random_graph
from support.text_graph import read_graph
from support.tiers import corpus_seeds

import npu_precision
from npu_precision.npu_init import tf as tf1

check = functools.partial(check_rewrite, loop_constants=True)


def loop(body, before="", behind=""):
    """A loop with the variable x, whose next value is `turn`, and w, which w_next passes on."""
    return f"""
        x = Placeholder(shape=4x4)
        w = Placeholder(shape=4x4)
        {before}
        {counter(3)}
        enter = Enter(x, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        w_enter = Enter(w, frame_name=loop)
        w_merge = Merge(w_enter, w_next)
        w_switch = Switch(w_merge, cond)
        {body}
        next = NextIteration(turn)
        exit = Exit(switch)
        {behind}
        end = LogSoftmax(exit)
        """


def rewrites(result):
    return [(rewrite.node, rewrite.before, rewrite.after) for rewrite in result.ledger.rewrites]


def inputs(result, name):
    (node,) = (node for node in result.graph.node if node.name == name)
    return list(node.input)


def test_the_body_reads_a_weight_from_outside():
    result = check(
        loop(
            """
            weight = Identity(w_switch:1)
            w_next = NextIteration(weight)
            product = MatMul(switch:1, weight)
            turn = Tanh(product)
            """
        ),
        """
        enter = Enter[float16](x/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        w_enter = Enter[float16](w/npu_cast_0_float16)
        w_switch = Switch[float16](w_enter, cond)  # nothing reads it: TensorFlow prunes it
        weight = Identity[float16](w_switch:1)
        product = MatMul[float16](switch:1, w_enter)
        turn = Tanh[float16](product)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = LogSoftmax[float32](exit/npu_cast_0_float32)
        """,
    )
    assert rewrites(result) == [("w_enter", "variable w_merge", "constant")]
    (enter,) = (node for node in result.graph.node if node.name == "w_enter")
    assert enter.attr["is_constant"].b


def test_what_reads_nothing_else_of_the_body_reads_the_switch():
    """Otherwise, it would run once more when the loop is over, and iterations would never end."""
    result = check(
        loop(
            """
            w_next = NextIteration(w_switch:1)
            turn = MatMul(w_switch:1, w_switch:1)
            """
        ),
        None,
    )
    assert inputs(result, "w_switch") == ["w_enter", "cond"]
    assert inputs(result, "turn") == ["w_switch:1", "w_switch:1"]


def test_the_condition_of_a_loop_reads_from_outside():
    """The limit is a loop variable, as in tf.while_loop, which has one for each tensor it gets."""
    result = check(
        """
        x = Placeholder(shape=4x4)
        zero = Const[int32](value=0)
        one = Const[int32](value=1)
        three = Const[int32](value=3)
        i_enter = Enter(zero, frame_name=loop)
        i = Merge(i_enter, i_next)
        limit_enter = Enter(three, frame_name=loop)
        limit = Merge(limit_enter, limit_next)
        less = Less(i, limit)
        cond = LoopCond(less)
        limit_switch = Switch(limit, cond)
        limit_next = NextIteration(limit_switch:1)
        i_switch = Switch(i, cond)
        one_enter = Enter(one, frame_name=loop, is_constant=True)
        i_add = AddV2(i_switch:1, one_enter)
        i_next = NextIteration(i_add)
        enter = Enter(x, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        turn = MatMul(switch:1, switch:1)
        next = NextIteration(turn)
        exit = Exit(switch)
        """,
        None,
    )
    assert rewrites(result) == [("limit_enter", "variable limit", "constant")]
    assert inputs(result, "less") == ["i", "limit_enter"]


def test_a_constant_leaves_the_loop_as_before():
    result = check(
        loop(
            """
            w_next = NextIteration(w_switch:1)
            w_exit = Exit(w_switch)
            turn = MatMul(switch:1, w_switch:1)
            """
        ),
        None,
        ["end", "w_exit"],
    )
    assert inputs(result, "w_switch") == ["w_enter", "cond"]
    assert rewrites(result) == [("w_enter", "variable w_merge", "constant")]


def test_a_constant_of_an_inner_loop_is_read_from_the_outer_one():
    result = check(
        loop(
            f"""
            w_next = NextIteration(w_switch:1)
            {counter(2, "j_", "inner", "switch:1")}
            v_enter = Enter(w_switch:1, frame_name=inner)
            v = Merge(v_enter, v_next)
            v_switch = Switch(v, j_cond)
            v_next = NextIteration(v_switch:1)
            y_enter = Enter(switch:1, frame_name=inner)
            y = Merge(y_enter, y_next)
            y_switch = Switch(y, j_cond)
            product = MatMul(y_switch:1, v_switch:1)
            squashed = Tanh(product)
            y_next = NextIteration(squashed)
            turn = Exit(y_switch)
            """.replace("^switch:1", "^switch")
        ),
        None,
    )
    assert sorted(rewrites(result)) == [
        ("v_enter", "variable v", "constant"),
        ("w_enter", "variable w_merge", "constant"),
    ]
    assert inputs(result, "product")[1].startswith("v_enter")
    assert inputs(result, "v_enter")[0].startswith("w_switch")


def test_what_was_placed_with_the_variable_is_placed_with_what_enters():
    """Sessions of TensorFlow 1 colocate the Switch with the Merge."""
    text = loop("w_next = NextIteration(w_switch:1) \n turn = MatMul(switch:1, w_switch:1)")
    graph = read_graph(text)
    placed = [node for node in graph.node if node.name in ("w", "w_switch")]
    for node in placed:
        node.attr["_class"].list.s.append(b"loc:@w_merge")
    result = check(graph, None)
    assert rewrites(result) == [("w_enter", "variable w_merge", "constant")]
    for node in result.graph.node:
        if node.name in ("w", "w_switch"):
            assert list(node.attr["_class"].list.s) == [b"loc:@w_enter"]


def test_a_control_dependency_that_says_no_more_than_that_the_loop_goes_on_is_dropped():
    """TensorFlow fuses no node with control inputs."""
    result = check(
        loop(
            """
            pivot = Identity(i_switch:1)
            number = Const(shape=4x4, ^pivot)
            w_next = NextIteration(w_switch:1, ^pivot)
            product = MatMul(switch:1, w_switch:1, ^pivot)
            turn = Mul(product, number)
            """
        ),
        None,
    )
    assert rewrites(result) == [
        ("w_enter", "variable w_merge", "constant"),
        ("product", "^pivot", ""),
    ]
    assert "^pivot" not in inputs(result, "product")
    assert inputs(result, "number") == ["^pivot"]


@pytest.mark.parametrize(
    "body",
    [
        # The value changes in the next iteration.
        "w_next = NextIteration(other) \n other = Neg(w_switch:1)",
        # The next iteration depends on a node that may have an effect.
        "effect = Exp(w_switch:1) \n w_next = NextIteration(w_switch:1, ^effect)",
        "effect = Exp(w_switch:1) \n kept = Identity(w_switch:1, ^effect) \n"
        "w_next = NextIteration(kept)",
        # A node of the variable is a control input.
        "w_next = NextIteration(w_switch:1) \n late = Exp(switch:1, ^w_merge)",
        # A branch may pass the value on.
        "last = Equal(i, one_enter) \n fork = Switch(w_switch:1, last) \n"
        "either = Merge(fork, fork:1) \n w_next = NextIteration(either)",
        # A node reads which input of the Merge arrived.
        "w_next = NextIteration(w_switch:1) \n which = Less(w_merge:1, one_enter)",
    ],
)
def test_where_it_may_make_a_difference_a_variable_stays(body):
    result = check(loop(body + "\nturn = MatMul(switch:1, w_switch:1)"), None)
    assert rewrites(result) == []


def test_a_loop_with_no_other_variable_stays():
    """Nothing would begin the next iteration."""
    check(
        """
        w = Placeholder(shape=4x4)
        enter = Enter(w, frame_name=loop)
        merge = Merge(enter, next)
        shape_enter = Enter(shape, frame_name=loop, is_constant=True)
        number = RandomUniform[float32,int32](shape_enter)
        shape = Const[int32](value=[1])
        half = Const(value=0.5)
        half_enter = Enter(half, frame_name=loop, is_constant=True)
        above = Greater(number, half_enter)
        cond = LoopCond(above)
        switch = Switch(merge, cond)
        next = NextIteration(switch:1)
        exit = Exit(switch)
        """,
        UNCHANGED,
        run=False,
    )


@pytest.mark.parametrize("mode", ["allow_mix_precision", "force_fp16"])
def test_random_graphs_compute_the_same(mode):
    """Except in TensorFlow 1.15, whose kernels may differ by one bit at other addresses."""

    def rewrite(graph, graph_def, loop_constants):
        options = {**DTYPES_ONLY, "loop_constants": loop_constants, "precision_mode": mode}
        return npu_precision.rewrite_graph_def(
            graph_def, graph.fetches, feeds=graph.fed_inside, **options
        )

    hoisted = 0
    seeds = corpus_seeds(60)
    for seed in seeds:
        graph = random_graph(seed, 5 + seed * 37 % 100, control_flow=True)
        plain, _ = rewrite(graph, graph.graph_def, False)
        result, ledger = rewrite(graph, graph.graph_def, True)
        hoisted += any(part.rewrites for part in ledger)
        assert rewrite(graph, result, True)[0] == result, "a second run changes something"
        want, got = graph.run(plain), graph.run(result)
        for name, value in got.items():
            value, wanted = (np.asarray(array, np.float64) for array in (value, want[name]))
            atol = 4e-3 * np.abs(wanted).max(initial=1)
            np.testing.assert_allclose(value, wanted, 0, atol, err_msg=f"{seed}: {name}")
    assert hoisted >= len(seeds) // 6


@pytest.mark.parametrize("option", [None, False])
def test_a_session_reads_a_weight_from_outside(form, option):
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf1.float32, [4, 4], name="x")
        w = tf1.placeholder(tf1.float32, [4, 4], name="w")
        _, y, _ = tf1.while_loop(
            lambda i, y, w: i < 5,
            lambda i, y, w: (i + 1, tf1.tanh(tf1.matmul(y, w)), w),
            [0, x, w],
        )
        tf1.identity(y, name="y")
    random = np.random.RandomState(0)
    feeds = {"x:0": random.uniform(-1, 1, [4, 4]), "w:0": random.uniform(-1, 1, [4, 4])}

    def run(mode, **options):
        config = npu_precision.npu_config_proto(precision_mode=mode, strict=True, **options)
        with tf1.Session(graph=graph, config=config) as session:
            return run_counted(session, "y:0", feeds)

    want = run("must_keep_origin_dtype")
    got = run("allow_mix_precision", loop_constants=option, float16_compute="native")
    np.testing.assert_allclose(got.values, want.values, rtol=0, atol=1e-2)
    assert sum(got.of("MatMul").values()) == 5
    low = {dtype: count for (_, dtype), count in got.of("NextIteration").items()}
    assert low["float16"] == (10 if option is False else 5)
