"""Tests of the random graphs with control flow: they run; their checks find wrong rewrites."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.error_bounds import ErrorBounds
from support.error_rules import INF
from support.graph_builder import attr_value
from support.random_graphs import random_graph
from support.rewritten_graph import RewrittenGraph, is_inserted
from support.text_graph import read_graph

import npu_precision


def graphs(count):
    return (random_graph(seed, 5 + seed * 37 % 100, control_flow=True) for seed in range(count))


def rewrite(graph, mode="allow_mix_precision"):
    return graph.rewrite(npu_precision.PrecisionOptions(mode, fold_constants=False))


@pytest.mark.slow
def test_graphs_have_loops_handles_and_functions_and_lowering_reaches_them():
    ops, lowered, reasons, carriers = set(), set(), set(), set()
    for graph in graphs(60):
        ops |= {node.op for node in graph.graph_def.node}
        for mode in ("allow_mix_precision", "force_fp16"):
            result, ledger = rewrite(graph, mode)
            carriers |= {node.op for node in result.node if is_inserted(node)}
            for part in (ledger, *ledger.functions):
                lowered |= {node.op for node in part.nodes if node.decision == "lowered"}
                reasons |= {node.reason for node in part.nodes}
    loops = {"Enter", "Merge", "Switch", "NextIteration", "Exit"}
    handles = {"StackPushV2", "TensorArrayWriteV3", "TensorArrayReadV3", "TensorListSetItem"}
    handles |= {"TensorListFromTensor", "TensorListGetItem", "TensorListStack"}
    assert loops | handles <= ops & lowered
    assert {"LoopCond", "PartitionedCall", "StatefulPartitionedCall", "function_1"} <= ops
    assert {"If", "StatelessIf", "While", "StatelessWhile"} <= ops
    assert {"sums_iterations", "handle_leaves_graph", "shares_dtype"} <= reasons
    assert {"Cast", "Enter", "Switch", "Identity"} == carriers


@pytest.mark.slow
def test_the_unrolled_graph_computes_the_same():
    """The error bounds rely on this. Kernels may differ by one bit at other addresses."""
    for seed, graph in enumerate(graphs(60)):
        values, unrolled = graph.run(), graph.run_unrolled()
        for tensor in graph.tensors:
            value = np.asarray(values[tensor.name], np.float64)
            assert value.shape == tensor.shape
            assert (value >= tensor.low - 0.05).all(), (seed, tensor)
            assert (value <= tensor.high + 0.05).all(), (seed, tensor)
            if unrolled:
                same = np.asarray(unrolled[tensor.name], np.float64)
                np.testing.assert_allclose(value, same, 1e-5, 1e-5, err_msg=tensor.name)


@pytest.mark.slow
def test_bounds_are_tight_for_most_tensors_that_rounding_reaches():
    tight = []
    for graph in graphs(60):
        result, _ = rewrite(graph)
        values = graph.run()
        bounds = ErrorBounds(graph, values, RewrittenGraph(graph.graph_def, result))
        names = [tensor.name for tensor in graph.tensors if tensor.dtype.is_floating]
        reached = [name for name in names if bounds[name] > 0]
        tight += [bounds[name] < 0.1 * max(1, np.abs(values[name]).max()) for name in reached]
    assert np.mean(tight) >= 0.85


def one_iteration_less(result):
    """The graph with loops that end early, and whether it has any."""
    wrong = type(result).FromString(result.SerializeToString())
    nodes = {node.name: node for node in wrong.node}
    shortened = set()
    for condition in [node for node in wrong.node if node.op == "LoopCond"]:
        limit = nodes[nodes[nodes[condition.input[0]].input[1]].input[0]]
        trips = limit.attr["value"].tensor.int_val
        if limit.op == "Const" and trips[0] > 1:
            trips[0] -= 1
            shortened.add(limit.name)
    return wrong, bool(shortened)


@pytest.mark.slow
def test_a_loop_that_ends_early_is_noticed_by_its_values():
    noticed = []
    for graph in graphs(60):
        result, _ = rewrite(graph)
        wrong, shortened = one_iteration_less(result)
        if not shortened:
            continue
        values, rewritten_values = graph.run(), graph.run(result)
        bounds = ErrorBounds(graph, values, RewrittenGraph(graph.graph_def, result))
        assert not list(bounds.violations(rewritten_values))
        try:
            wrong_values = graph.run(wrong)
        except tf.errors.OpError:
            continue  # an element that nothing wrote cannot be read
        moved = [
            np.abs(np.subtract(wrong_values[name], value, dtype=np.float64)).max(initial=0)
            for name, value in rewritten_values.items()
            if bounds[name] < INF
        ]
        if max(moved) > 0.1:
            noticed.append(any(bounds.violations(wrong_values)))
    assert len(noticed) >= 10
    assert all(noticed)


LOOP = """
    x = Placeholder(shape=4x4)
    w = Placeholder(shape=4x4)
    zero = Const[int32](value=0)
    one = Const[int32](value=1)
    three = Const[int32](value=3)
    i_enter = Enter(zero, frame_name=loop)
    one_enter = Enter(one, frame_name=loop, is_constant=True)
    three_enter = Enter(three, frame_name=loop, is_constant=True)
    i = Merge(i_enter, i_next)
    less = Less(i, three_enter)
    cond = LoopCond(less)
    i_switch = Switch(i, cond)
    i_add = AddV2(i_switch:1, one_enter)
    i_next = NextIteration(i_add)
    enter = Enter(x, frame_name=loop)
    merge = Merge(enter, next)
    switch = Switch(merge, cond)
    w_enter = Enter(w, frame_name=loop, is_constant=True)
    v_enter = Enter(w, frame_name=loop)
    v = Merge(v_enter, v_next)
    v_switch = Switch(v, cond)
    v_body = Identity(v_switch:1)
    v_next = NextIteration(v_body)
    a = MatMul(switch:1, w_enter)
    b = MatMul(a, v_body)
    c = MatMul(b, v_switch:1)
    w_black = Exp(w_enter)
    v_black = Exp(v_body)
    turn = Softmax(c)
    next = NextIteration(turn)
    end = Exit(switch)
"""


def cast_inside(graph, nodes):
    cast = graph.node.add()
    cast.CopyFrom(nodes["w/npu_cast_0_float16"])
    cast.name, cast.input[0] = "inside", "w_enter"
    nodes["a"].input[1] = "inside"


def set_input(node, index, tensor):
    return lambda graph, nodes: nodes[node].input.__setitem__(index, tensor)


def alter(node, attribute, value):
    return lambda graph, nodes: nodes[node].attr[attribute].CopyFrom(attr_value(value))


W, V = "w_enter/npu_cast_0_float16", "v_enter/npu_cast_0_float16"
BODY, SWITCH = "v_body/npu_cast_0_float16", "v_switch/npu_cast_1_float16"
NOT_W = "a: input 1 is w:0, was w_enter:0"
NOT_BODY = "b: input 1 is w:0, was v_body:0"
NOT_SWITCH = "c: input 1 is w:0, was v_switch:1"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cast_inside, "inside converts the same tensor in every iteration"),
        (set_input("w/npu_cast_0_float16", 0, "x"), "a: input 1 is x:0, was w_enter:0"),
        (alter(W, "is_constant", False), NOT_W),
        (alter(W, "frame_name", "other"), NOT_W),
        (alter(W, "parallel_iterations", 1), NOT_W),
        (lambda graph, nodes: nodes[BODY].input.pop(), NOT_BODY),
        (set_input(BODY, 1, "^turn"), NOT_BODY),
        (set_input("b", 1, V), NOT_BODY),
        (set_input(SWITCH, 1, "other"), NOT_SWITCH),
        (set_input("c", 1, SWITCH), NOT_SWITCH),
        (set_input("c", 1, V), NOT_SWITCH),
        (set_input("c", 1, BODY), NOT_SWITCH),
    ],
)
def test_each_rule_of_what_brings_a_cast_into_a_loop_is_checked(damage, message):
    original = read_graph(LOOP)
    options = {"precision_mode": "allow_mix_precision", "fold_constants": False}
    options["loop_constants"] = False
    result, _ = npu_precision.rewrite_graph_def(original, "end", **options)
    assert RewrittenGraph(original, result).violations(["end:0"]) == []
    damage(result, {node.name: node for node in result.node})
    assert message in RewrittenGraph(original, result).violations(["end:0"])


def test_another_signature_of_a_function_is_noticed():
    for graph in graphs(20):
        if not graph.graph_def.library.function:
            continue
        result, _ = rewrite(graph)
        assert not RewrittenGraph(graph.graph_def, result).violations(graph.fetches)
        result.library.function[0].signature.output_arg[0].type = tf.float16.as_datatype_enum
        found = RewrittenGraph(graph.graph_def, result).violations(graph.fetches)
        assert "the signatures of functions differ" in found
        return
    pytest.fail("no graph has a function")
