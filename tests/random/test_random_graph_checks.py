"""Tests of the random graphs: they run as promised, and their checks find wrong rewrites."""

import random

import numpy as np
import pytest
import tensorflow as tf
from support.error_bounds import ErrorBounds
from support.error_rules import INF
from support.random_graphs import random_graph
from support.rewritten_graph import RewrittenGraph, canonical, is_inserted_cast, node_of
from support.text_graph import read_graph

import npu_precision


@pytest.mark.slow
def test_graphs_are_of_many_ops_and_stay_within_their_intervals():
    """The bounds and the makers rely on this. Lowering reaches most of the ops."""
    ops, lowered = set(), set()
    for seed in range(100):
        graph = random_graph(seed, 5 + seed * 37 % 190)
        assert 5 <= len(graph.graph_def.node) <= 200
        ops |= {node.op for node in graph.graph_def.node}
        values = graph.run()
        for tensor in graph.tensors:
            value = np.asarray(values[tensor.name], np.float64)
            assert value.shape == tensor.shape
            # Intervals ignore the rounding by a graph's own half types.
            assert (value >= tensor.low - 0.05).all()
            assert (value <= tensor.high + 0.05).all()
        _, ledger = graph.rewrite(npu_precision.PrecisionOptions("force_fp16"))
        lowered |= {node.op for node in ledger.nodes if node.decision == "lowered"}
    assert len(ops) >= 100
    assert len(lowered) >= 80


def test_smaller_graphs_are_prefixes_of_larger_ones():
    small, large = random_graph(7, 20).graph_def.node, random_graph(7, 60).graph_def.node
    assert list(small) == list(large)[: len(small)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "least"),
    [
        ("allow_mix_precision", 0.85),
        pytest.param("allow_mix_precision_bf16", 0.6, marks=pytest.mark.full),
    ],
)
def test_bounds_are_tight_for_most_tensors_that_rounding_reaches(mode, least):
    tight = []
    for seed in range(100):
        graph = random_graph(seed, 5 + seed * 37 % 190)
        result, _ = graph.rewrite(npu_precision.PrecisionOptions(mode, fold_constants=False))
        values = graph.run()
        bounds = ErrorBounds(graph, values, RewrittenGraph(graph.graph_def, result))
        names = [tensor.name for tensor in graph.tensors if tensor.dtype.is_floating]
        reached = [name for name in names if bounds[name] > 0]
        tight += [bounds[name] < 0.1 * max(1, np.abs(values[name]).max()) for name in reached]
    assert np.mean(tight) >= least


# Ops whose inputs may not be swapped, and ops that change nothing.
ORDERED = "Sub RealDiv DivNoNan SelectV2 Select ConcatV2 Pack Less Greater MatMul".split()
NEUTRAL = "Identity Snapshot StopGradient PreventGradient CheckNumerics IdentityN".split()


def wrong_rewrites(graph, result):
    """Pairs of an error and a GraphDef with it: it runs, but is no rewrite of the graph."""
    imported = tf.Graph()
    with imported.as_default():
        tf.import_graph_def(result, name="")
    nodes = {node.name: node for node in result.node}
    # Tensors that could replace another, by dtype and shape: earlier ones only, so that there is no
    # cycle.
    earlier = {}
    kinds = {}
    for tensor in graph.tensors:
        if node_of(tensor.name) in nodes:
            dtype = imported.get_tensor_by_name(tensor.name).dtype
            kinds[tensor.name] = (dtype, tensor.shape)
            earlier[tensor.name] = [name for name in earlier if kinds[name] == kinds[tensor.name]]

    def kind(tensor):
        return kinds.get(canonical(tensor), tensor)

    for index, node in enumerate(result.node):
        data = [tensor for tensor in node.input if tensor[0] != "^"]
        if is_inserted_cast(node) or f"{node.name}:0" not in kinds:
            continue

        def wrong(what, changes, index=index):
            graph_def = tf.compat.v1.GraphDef.FromString(result.SerializeToString())
            for port, tensor in changes.items():
                graph_def.node[index].input[port] = tensor
            return f"{result.node[index].name}: {what}", graph_def

        pairs = ((i, j) for j in range(len(data)) for i in range(j))
        for i, j in pairs:
            if node.op in ORDERED and data[i] != data[j] and kind(data[i]) == kind(data[j]):
                yield wrong("inputs swapped", {i: data[j], j: data[i]})
        for port, tensor in enumerate(data):
            producer = nodes[node_of(tensor)]
            before = next(iter(producer.input), tensor)
            if producer.op not in NEUTRAL and kind(before) == kind(tensor) != tensor != before:
                yield wrong("input node dropped", {port: before})
            for other in earlier.get(canonical(tensor), [])[-1:]:
                yield wrong("reads another tensor", {port: other})


def largest_move(values, others, bounds):
    """The largest difference between two runs, among tensors with a finite bound."""
    return max(
        np.abs(np.subtract(others[name], value, dtype=np.float64)).max(initial=0)
        for name, value in values.items()
        if bounds[name] < INF
    )


@pytest.mark.slow
def test_wrong_rewrites_are_noticed():
    """All are noticed by structure; those that move a value by more than 0.1 also by values."""
    chooser = random.Random(0)
    options = npu_precision.PrecisionOptions("allow_mix_precision", fold_constants=False)
    noticed = {"inputs swapped": [], "input node dropped": [], "reads another tensor": []}
    for seed in range(30):
        graph = random_graph(seed, 100)
        result, _ = graph.rewrite(options)
        values, rewritten_values = graph.run(), graph.run(result)
        bounds = ErrorBounds(graph, values, RewrittenGraph(graph.graph_def, result))

        found = list(wrong_rewrites(graph, result))
        chooser.shuffle(found)
        for kind in noticed:
            for what, wrong in [(w, g) for w, g in found if w.endswith(kind)][:2]:
                assert RewrittenGraph(graph.graph_def, wrong).violations(graph.fetches), what
                wrong_values = graph.run(wrong)
                if largest_move(rewritten_values, wrong_values, bounds) > 0.1:
                    noticed[kind].append(any(bounds.violations(wrong_values)))
    for kind, found in noticed.items():
        assert len(found) >= 20, kind
        assert all(found), kind


SMALL = """
    x = Placeholder(shape=4x4)
    n = Const[int32](value=[1])
    minus = Neg[int32](n)
    exp = Exp(x)
    a = MatMul(x, x, transpose_a=True)
    b = Relu(a, ^n)
    end = Tanh(b)
"""


def add_cast(graph, nodes, name, tensor, source, target):
    cast = graph.node.add()
    cast.CopyFrom(nodes["x/npu_cast_0_float16"])
    cast.name, cast.input[0] = name, tensor
    cast.attr["SrcT"].type = source.as_datatype_enum
    cast.attr["DstT"].type = target.as_datatype_enum


def cast_twice(graph, nodes):
    add_cast(graph, nodes, "again", "x", tf.float32, tf.float16)


def through_float32(graph, nodes):
    add_cast(graph, nodes, "wide", "a", tf.float16, tf.float32)
    add_cast(graph, nodes, "narrow", "wide", tf.float32, tf.float16)
    nodes["b"].input[0] = "narrow"


def through_float16(graph, nodes):
    add_cast(graph, nodes, "rounded", "x/npu_cast_0_float16", tf.float16, tf.float32)
    nodes["exp"].input[0] = "rounded"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda graph, nodes: setattr(nodes["end"], "name", "e"), "the fetched node end is gone"),
        (lambda graph, nodes: graph.node.remove(nodes["minus"]), "minus (Neg) is gone"),
        (lambda graph, nodes: setattr(nodes["b"], "op", "Elu"), "b: is Elu on '', was Relu on ''"),
        (
            lambda graph, nodes: setattr(nodes["b"], "device", "/cpu:0"),
            "b: is Relu on '/cpu:0', was Relu on ''",
        ),
        (lambda graph, nodes: nodes["b"].input.pop(), "b: has other control inputs"),
        (lambda graph, nodes: nodes["a"].input.pop(), "a: has another number of inputs"),
        (
            lambda graph, nodes: nodes["a"].attr.pop("transpose_a"),
            "a: attribute transpose_a differs",
        ),
        (
            lambda graph, nodes: nodes["minus"].attr["T"].CopyFrom(nodes["a"].attr["T"]),
            "minus: T is float16, was int32",
        ),
        (lambda graph, nodes: nodes["b"].input.__setitem__(0, "x"), "b: input 0 is x:0, was a:0"),
        (cast_twice, "2 Casts of x:0 to float16"),
        (through_float32, "narrow casts float16 -> float32 -> float16"),
        (through_float16, "rounded casts float32 -> float16 -> float32"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_rule_of_a_rewrite_is_checked(damage, message):
    original = read_graph(SMALL)
    result, _ = npu_precision.rewrite_graph_def(
        original, "end", precision_mode="allow_mix_precision"
    )
    assert RewrittenGraph(original, result).violations(["end:0"]) == []
    damage(result, {node.name: node for node in result.node})
    assert RewrittenGraph(original, result).violations(["end:0"])[:1] == [message]
