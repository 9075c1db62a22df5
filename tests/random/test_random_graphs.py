"""Random graphs in every mode: the result runs, keeps its contract and agrees with float32.

error_bounds.py computes for each tensor how closely it must agree. test_random_graph_checks.py
shows that the checks notice wrong rewrites.
"""

import dataclasses
import json
import random
import zlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from support.check_ledger import AUTOCAST_MARK, LIST_MARK, check_nodes, check_totals
from support.check_rewrite import to_bytes
from support.error_bounds import ErrorBounds
from support.random_graphs import random_graph
from support.rewritten_graph import MATRIX_OPS, RewrittenGraph, type_attributes
from support.tiers import corpus_settings

import npu_precision

SIZES = 5, 195  # a graph may have a few nodes more
SHARE_OF_CONTROL_FLOW = 0.15


@dataclasses.dataclass(frozen=True)
class Case:
    """Options, the number of graphs to try with them, and additions to each graph.

    The additions are a mixlist, marks, or the dtypes of some nodes.
    """

    graphs: int
    mode: str
    target: str = "host"
    mixlist: bool = False
    autocast: bool = False
    dtypes: bool = False
    white_only: bool = False

    def __str__(self):
        additions = ("mixlist", "autocast", "dtypes", "white_only")
        given = [name for name in additions if getattr(self, name)]
        return "-".join([self.mode, self.target, *given])

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
    Case(150, "allow_mix_precision", white_only=True),
    Case(100, "allow_mix_precision_bf16", mixlist=True, white_only=True),
    Case(400, "force_fp16"),
    Case(200, "cube_fp16in_fp32out"),
    Case(150, "force_fp32"),
    Case(50, "must_keep_origin_dtype"),
    Case(50, "allow_fp32_to_fp16"),
    Case(50, "allow_fp32_to_bf16"),
    *(Case(50, mode) for mode in V2_MODES),
    Case(200, "must_keep_origin_dtype", autocast=True),
    Case(200, "allow_mix_precision", autocast=True),
    Case(200, "allow_mix_precision_bf16", mixlist=True, autocast=True),
    Case(100, "force_fp16", autocast=True),
    Case(50, "force_fp32", autocast=True),
    Case(200, "allow_mix_precision", dtypes=True),
    Case(100, "allow_mix_precision_bf16", mixlist=True, dtypes=True),
    Case(50, "force_fp16", dtypes=True),
    Case(100, "force_fp32", dtypes=True),
    Case(100, "must_keep_origin_dtype", dtypes=True),
    Case(100, "cube_fp16in_fp32out", dtypes=True),
    Case(100, "allow_mix_precision", autocast=True, dtypes=True),
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
    # Add and Select are also names of Ascend, which include AddV2 and SelectV2.
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


def random_dtypes(graph, chooser):
    """Lines of customize_dtypes for some nodes."""
    names = [node.name for node in graph.graph_def.node]
    for name in chooser.sample(names, min(len(names), 8)):
        inputs, outputs = (
            ",".join(chooser.choices(["float16", "bfloat16", "float32"], [3, 1, 3], k=count))
            for count in (chooser.randint(1, 3), 1)
        )
        yield f"{name}::InputDtype:{inputs},OutputDtype:{outputs}\n"


OFF = tf.float32.as_datatype_enum


def mark_at_random(graph, chooser):
    """Marks runs of nodes as scopes of autocast() and decorators of amp would."""
    mark = color = None
    for node in graph.graph_def.node:
        if chooser.random() < 0.2:
            mark = chooser.choice([None, tf.bfloat16, tf.float16, tf.float32])
        if chooser.random() < 0.2:
            color = chooser.choice([None, None, b"white", b"black", b"gray"])
        if mark is not None:
            node.attr[AUTOCAST_MARK].type = mark.as_datatype_enum
        if color is not None:
            node.attr[LIST_MARK].s = color


def check_contract(graph, result, ledger, rounds_for, white=(), several_types=False):
    """Checks structure, Casts and marks, and the ledger on them; returns the RewrittenGraph.

    The names in `white` override the mark that keeps dtypes. With several low types, a loop
    invariant may be cast to the second type where it enters the loop, past a node that has it in
    the first.
    """
    rewritten = RewrittenGraph(graph.graph_def, result)
    if not several_types:
        assert not rewritten.violations(graph.fetches, rounds_for)
    ledgers = {"": ledger, **{told.graph: told for told in ledger.functions}}
    untouched = True
    for function, part in rewritten.functions.items():
        changed = {
            name
            for name, node in part.counterparts.items()
            if type_attributes(node) != type_attributes(part.originals[name])
        }
        nodes = ledgers[function].nodes
        assert changed == {node.name for node in nodes if node.decision in ("lowered", "raised")}
        for name in changed:
            attributes = part.originals[name].attr
            is_off = AUTOCAST_MARK in attributes and attributes[AUTOCAST_MARK].type == OFF
            assert not (is_off or "_keep_dtype" in attributes) or name in white
        untouched &= not changed and not ledgers[function].casts
    if untouched:
        assert to_bytes(result) == to_bytes(graph.graph_def)
    return rewritten


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rewritten_graphs_keep_their_contract(case, tmp_path):
    @corpus_settings(case.graphs)
    @given(seed=st.integers(0, 2**31), size=st.integers(*SIZES))
    def check(seed, size):
        # Otherwise, every case would get the same graphs.
        seed ^= zlib.crc32(str(case).encode())
        chooser = random.Random(seed)
        has_loops = chooser.random() < SHARE_OF_CONTROL_FLOW
        graph = random_graph(seed, size, control_flow=has_loops)
        fields = {"fold_constants": chooser.choice([False, True])}
        white = set()
        if case.mixlist:
            mixlist = random_mixlist(graph, chooser)
            white = {entry.replace("node:", "") for entry in mixlist["white-list"]["to-add"]}
            fields["modify_mixlist"] = tmp_path / "mixlist.json"
            fields["modify_mixlist"].write_text(json.dumps(mixlist))
            fields["all_white"] = chooser.choice([False, True]) and not case.white_only
        if case.autocast:
            mark_at_random(graph, chooser)
        if case.dtypes:
            lines = list(random_dtypes(graph, chooser))
            white |= {line.partition("::")[0] for line in lines}
            fields["customize_dtypes"] = tmp_path / "dtypes.cfg"
            fields["customize_dtypes"].write_text("".join(lines))
        if case.white_only:
            fields["white_only"] = True
        options = case.options(**fields)

        result, ledger = graph.rewrite(options)
        rounds_for = MATRIX_OPS if case.mode.startswith("cube") else set()
        several_types = case.autocast and has_loops
        rewritten = check_contract(
            graph, result, ledger, None if case.dtypes else rounds_for, white, several_types
        )
        if case.white_only:
            nodes = [node for part in (ledger, *ledger.functions) for node in part.nodes]
            lowered = [node for node in nodes if node.decision == "lowered"]
            assert {node.list for node in lowered if not node.is_of_a_file} <= {"white"}
        assert to_bytes(graph.rewrite(options)[0]) == to_bytes(result)
        again, ledger_again = graph.rewrite(options, result)
        assert to_bytes(again) == to_bytes(result)
        if "fold_constants" not in (options.rewrites or "-").split(","):
            for told in (ledger, ledger_again):
                check_totals(told, result)
                check_nodes(told, graph.graph_def, result)

        values, rewritten_values = graph.run(), graph.run(result)
        for fetch in graph.fetches:
            assert np.asarray(rewritten_values[fetch]).dtype == np.asarray(values[fetch]).dtype
            assert np.shape(rewritten_values[fetch]) == np.shape(values[fetch])
        assert not list(ErrorBounds(graph, values, rewritten).violations(rewritten_values))

    check()
