"""Random graphs under every mode: the result runs, keeps its contract and agrees with float32.

How closely it has to agree is worked out for each tensor by error_bounds.py; that the checks would
notice a wrong rewrite is shown by wrong rewrites.
"""

import dataclasses
import json
import random
import zlib

import numpy as np
import pytest
import tensorflow as tf
from check_ledger import check_nodes, check_totals
from check_rewrite import to_bytes
from error_bounds import INF, ErrorBounds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import random_graph
from rewritten_graph import (
    RewrittenGraph,
    canonical,
    is_inserted_cast,
    node_of,
    type_attributes,
)
from text_graph import read_graph

import npu_precision

SIZES = 5, 195  # a graph may have a few nodes more


@dataclasses.dataclass(frozen=True)
class Case:
    """Options, how many graphs to try under them, and whether each graph gets a mixlist."""

    graphs: int
    mode: str
    target: str = "host"
    mixlist: bool = False

    def __str__(self):
        return "-".join([self.mode, self.target, *["mixlist"] * self.mixlist])

    def options(self, **fields):
        name = "precision_mode_v2" if self.mode in V2_MODES else "precision_mode"
        return npu_precision.PrecisionOptions(
            **{name: self.mode}, target=self.target, strict=True, **fields
        )


V2_MODES = ["fp16", "origin", "mixed_float16", "mixed_bfloat16"]

CASES = [
    Case(400, "allow_mix_precision"),
    Case(400, "allow_mix_precision", mixlist=True),
    Case(300, "allow_mix_precision_bf16"),
    Case(300, "allow_mix_precision_bf16", mixlist=True),
    Case(150, "allow_mix_precision_fp16"),
    Case(400, "force_fp16"),
    Case(200, "cube_fp16in_fp32out"),
    Case(150, "force_fp32"),
    Case(50, "must_keep_origin_dtype"),
    Case(50, "allow_fp32_to_fp16"),
    Case(50, "allow_fp32_to_bf16"),
    *(Case(50, mode) for mode in V2_MODES),
    Case(200, "allow_mix_precision", "ascend910"),
    Case(100, "allow_mix_precision", "ascend910", mixlist=True),
    Case(150, "allow_fp32_to_fp16", "ascend910"),
    Case(100, "force_fp16", "ascend910"),
    Case(50, "force_fp32", "ascend910"),
    Case(50, "cube_fp16in_fp32out", "ascend910"),
    Case(50, "allow_mix_precision_bf16", "ascend910"),
]


# Names of Ascend for op types of the graphs, which a mixlist may use instead.
ASCEND_NAMES = {"MatMul": "MatMulV2", "Softmax": "SoftmaxV2", "Sum": "ReduceSumD"}


def random_mixlist(graph, chooser):
    """A mixlist without contradictions, of op types and node names of the graph and beyond."""
    # As names of Ascend, Add and Select mean AddV2 and SelectV2 too.
    ops = sorted({node.op for node in graph.graph_def.node} - {"Add", "Select"})
    ops += ["NoSuchOp"] * (chooser.random() < 0.1)
    chooser.shuffle(ops)
    ops = [ASCEND_NAMES.get(op, op) if chooser.random() < 0.5 else op for op in ops]
    names = [node.name for node in graph.graph_def.node if not node.name.startswith("tower_1/")]
    chooser.shuffle(names)
    white, black, gray = ([ops.pop() for _ in range(min(len(ops), 5))] for _ in range(3))
    return {
        "white-list": {
            "to-add": [*white, *(f"node:{name}" for name in names[:2])],
            "to-remove": ops[:2],
        },
        "black-list": {
            "to-add": [*black, "node:tower_1/block/.*_[1-4].*", *(f"node:{n}" for n in names[2:4])]
        },
        "gray-list": {"to-add": gray},
    }


def run(graph_def, names, feeds):
    """Values of the tensors that the graph has, by name, as the kernels alone make them."""
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    nodes = {node.name for node in graph_def.node}
    names = [name for name in names if node_of(name) in nodes]
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        return dict(zip(names, session.run(names, feeds), strict=True))


def disagreements(graph, values, rewritten_values, bounds):
    """Where a rewritten graph's values are further from the original's than can be explained."""
    for tensor in graph.tensors:
        if tensor.name not in rewritten_values:
            continue
        value = np.asarray(values[tensor.name], np.float64)
        rewritten = np.asarray(rewritten_values[tensor.name], np.float64)
        bound = bounds[tensor.name]
        if rewritten.shape != value.shape:
            yield f"{tensor.name} has shape {rewritten.shape}, had {value.shape}"
        elif not np.isfinite(rewritten).all():
            yield f"{tensor.name} is not finite"
        elif np.abs(rewritten - value).max(initial=0) > bound:
            yield f"{tensor.name} is off by {np.abs(rewritten - value).max()}, allowed {bound}"


def rewrite(graph, graph_def, options):
    return npu_precision.rewrite_graph_def(
        graph_def, graph.fetches, options, feeds=graph.fed_inside
    )


def check_contract(graph, result, ledger):
    """Structure, Casts and marks, and what the ledger says of them; returns the RewrittenGraph."""
    rewritten = RewrittenGraph(graph.graph_def, result)
    assert not rewritten.violations(graph.fetches)
    changed = {
        name
        for name, node in rewritten.counterparts.items()
        if type_attributes(node) != type_attributes(rewritten.originals[name])
    }
    decided = {node.name for node in ledger.nodes if node.decision in ("lowered", "raised")}
    assert changed == decided
    for name in changed:
        assert "_keep_dtype" not in rewritten.originals[name].attr
    if not changed and not ledger.casts:
        assert to_bytes(result) == to_bytes(graph.graph_def)
    return rewritten


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rewritten_graphs_keep_their_contract(case, tmp_path):
    @settings(
        max_examples=case.graphs,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 2**31), size=st.integers(*SIZES))
    def check(seed, size):
        # Else every case would get the same graphs.
        seed ^= zlib.crc32(str(case).encode())
        chooser = random.Random(seed)
        graph = random_graph(seed, size)
        fields = {"fold_constants": chooser.choice([False, True])}
        if case.mixlist:
            fields["modify_mixlist"] = tmp_path / "mixlist.json"
            fields["modify_mixlist"].write_text(json.dumps(random_mixlist(graph, chooser)))
        options = case.options(**fields)

        result, ledger = rewrite(graph, graph.graph_def, options)
        rewritten = check_contract(graph, result, ledger)
        assert to_bytes(rewrite(graph, graph.graph_def, options)[0]) == to_bytes(result)
        again, ledger_again = rewrite(graph, result, options)
        assert to_bytes(again) == to_bytes(result)
        if not options.fold_constants:
            check_totals(ledger, result)
            check_nodes(ledger, graph.graph_def, result)
            check_totals(ledger_again, result)
            check_nodes(ledger_again, graph.graph_def, result)

        names = [tensor.name for tensor in graph.tensors]
        values = run(graph.graph_def, names, graph.feeds)
        rewritten_values = run(result, names, graph.feeds)
        for fetch in graph.fetches:
            assert np.asarray(rewritten_values[fetch]).dtype == np.asarray(values[fetch]).dtype
        bounds = ErrorBounds(graph, values, rewritten)
        assert not list(disagreements(graph, values, rewritten_values, bounds))

    check()


def test_graphs_are_of_many_ops_and_stay_within_their_intervals():
    """What the bounds and the makers rely on; and that lowering reaches most of the ops."""
    ops, lowered = set(), set()
    for seed in range(100):
        graph = random_graph(seed, 5 + seed * 37 % 190)
        assert 5 <= len(graph.graph_def.node) <= 200
        ops |= {node.op for node in graph.graph_def.node}
        values = run(graph.graph_def, [tensor.name for tensor in graph.tensors], graph.feeds)
        for tensor in graph.tensors:
            value = np.asarray(values[tensor.name], np.float64)
            assert value.shape == tensor.shape
            # Intervals leave out the rounding to half types that graphs have of their own.
            assert (value >= tensor.low - 0.05).all()
            assert (value <= tensor.high + 0.05).all()
        _, ledger = rewrite(graph, graph.graph_def, Case(0, "force_fp16").options())
        lowered |= {node.op for node in ledger.nodes if node.decision == "lowered"}
    assert len(ops) >= 100
    assert len(lowered) >= 80


def test_smaller_graphs_are_prefixes_of_larger_ones():
    small, large = random_graph(7, 20).graph_def.node, random_graph(7, 60).graph_def.node
    assert list(small) == list(large)[: len(small)]


@pytest.mark.parametrize(
    ("mode", "least"), [("allow_mix_precision", 0.85), ("allow_mix_precision_bf16", 0.6)]
)
def test_bounds_are_tight_for_most_tensors_that_rounding_reaches(mode, least):
    tight = []
    for seed in range(100):
        graph = random_graph(seed, 5 + seed * 37 % 190)
        result, _ = rewrite(graph, graph.graph_def, Case(0, mode).options(fold_constants=False))
        names = [tensor.name for tensor in graph.tensors if tensor.dtype.is_floating]
        values = run(graph.graph_def, names, graph.feeds)
        bounds = ErrorBounds(graph, values, RewrittenGraph(graph.graph_def, result))
        reached = [name for name in names if bounds[name] > 0]
        tight += [bounds[name] < 0.1 * max(1, np.abs(values[name]).max()) for name in reached]
    assert np.mean(tight) >= least


# Ops of whose inputs no two may change places, and ops that change nothing.
ORDERED = "Sub RealDiv DivNoNan SelectV2 Select ConcatV2 Pack Less Greater MatMul".split()
NEUTRAL = "Identity Snapshot StopGradient PreventGradient CheckNumerics IdentityN".split()


def wrong_rewrites(graph, result):
    """Pairs of what is wrong and a GraphDef that runs but is no rewrite of the graph."""
    imported = tf.Graph()
    with imported.as_default():
        tf.import_graph_def(result, name="")
    nodes = {node.name: node for node in result.node}
    # What could take a tensor's place, by its dtype and shape: earlier ones, so that no cycle ends
    # the run.
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
    """The largest difference between two runs, where the bounds claim anything."""
    return max(
        np.abs(np.subtract(others[name], value, dtype=np.float64)).max(initial=0)
        for name, value in values.items()
        if bounds[name] < INF
    )


def test_wrong_rewrites_are_noticed():
    """All by their structure, and by their values all that move one by more than 0.1."""
    chooser = random.Random(0)
    noticed = {"inputs swapped": [], "input node dropped": [], "reads another tensor": []}
    for seed in range(30):
        graph = random_graph(seed, 100)
        options = Case(0, "allow_mix_precision").options(fold_constants=False)
        result, _ = rewrite(graph, graph.graph_def, options)
        names = [tensor.name for tensor in graph.tensors]
        values = run(graph.graph_def, names, graph.feeds)
        bounds = ErrorBounds(graph, values, RewrittenGraph(graph.graph_def, result))
        rewritten_values = run(result, names, graph.feeds)

        found = list(wrong_rewrites(graph, result))
        chooser.shuffle(found)
        for kind in noticed:
            for what, wrong in [(w, g) for w, g in found if w.endswith(kind)][:2]:
                assert RewrittenGraph(graph.graph_def, wrong).violations(graph.fetches), what
                wrong_values = run(wrong, names, graph.feeds)
                if largest_move(rewritten_values, wrong_values, bounds) > 0.1:
                    differs = list(disagreements(graph, values, wrong_values, bounds))
                    noticed[kind].append(bool(differs))
    for kind, found in noticed.items():
        assert len(found) >= 20, kind
        assert all(found), kind


SMALL = """
    x = Placeholder(shape=4x4)
    n = Const[int32](value=[1])
    minus = Neg[int32](n)
    a = MatMul(x, x, transpose_a=True)
    b = Relu(a, ^n)
    end = Tanh(b)
"""


def through_float32(graph, nodes):
    for name, tensor, dtype in (("wide", "a", tf.float32), ("narrow", "wide", tf.float16)):
        cast = graph.node.add()
        cast.CopyFrom(nodes["x/npu_cast_0_float16"])
        cast.name, cast.input[0] = name, tensor
        cast.attr["SrcT"].type = (tf.float16 if tensor == "a" else tf.float32).as_datatype_enum
        cast.attr["DstT"].type = dtype.as_datatype_enum
    nodes["b"].input[0] = "narrow"


def cast_twice(graph, nodes):
    graph.node.add().CopyFrom(nodes["x/npu_cast_0_float16"])
    graph.node[-1].name = "again"


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
