"""Runs the passes on graphs that hypothesis damages at random: they answer and never crash.

An unchanged graph is returned to the byte. A changed graph is checked here, by rules that do not
come from the optimizer: every input exists, and no edge has two dtypes.
"""

from __future__ import annotations

import collections
import json
import re
import select
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.check_rewrite import to_bytes
from support.graph_mutations import mutate
from support.node_dtypes import attribute_value, output_dtypes
from support.random_graphs import random_graph
from support.text_graph import read_graph, tensor_name
from support.tf_versions import needs_ops_without_python
from support.tiers import corpus_seeds, corpus_settings, corpus_size
from tensorflow.core.framework import graph_pb2

from npu_precision._tf_compat import op_definition

pytestmark = needs_ops_without_python

GRAPHS = 300
MODES = ["allow_mix_precision", "force_fp16", "force_fp32", "cube_fp16in_fp32out"]

WHITE = "MatMul Conv2D _FusedMatMul _FusedConv2D".split()
BLACK = "Exp Softmax Sum Mean".split()
GRAY = "AddN AddV2 Enter Exit Identity IdentityN Merge NextIteration Relu Split Switch Tanh".split()
LISTS = {
    **{op: {"precision_reduce": {"flag": "true"}} for op in WHITE},
    **{op: {"precision_reduce": {"flag": "false"}} for op in BLACK},
    **{op: {} for op in GRAY},
}

LOOP = """
    x = Placeholder(shape=4x4)
    limit = Const[int32](value=3)
    zero = Const[int32](value=0)
    one = Const[int32](value=1)
    i_enter = Enter(zero, frame_name=loop)
    limit_enter = Enter(limit, frame_name=loop, is_constant=True)
    one_enter = Enter(one, frame_name=loop, is_constant=True)
    x_enter = Enter(x, frame_name=loop)
    w_enter = Enter(x, frame_name=loop, is_constant=True)
    i = Merge[int32](i_enter, i_next)
    state = Merge(x_enter, state_next)
    less = Less(i, limit_enter)
    go = LoopCond(less)
    i_switch = Switch(i, go)
    state_switch = Switch(state, go)
    i_add = AddV2(i_switch:1, one_enter)
    i_next = NextIteration(i_add)
    product = MatMul(state_switch:1, w_enter)
    state_add = Tanh(product)
    state_next = NextIteration(state_add)
    state_exit = Exit(state_switch)
    end = Exp(state_exit)
    """
SMALL = """
    x = Placeholder(shape=4x4)
    axis = Const[int32](value=0)
    w = Const(shape=4x4)
    white = MatMul(x, w)
    gray = Relu(white)
    two = IdentityN(gray, x)
    list = AddN(gray, two:1)
    parts = Split(axis, list, num_split=2)
    black = Exp(parts:1)
    end = Softmax(black)
    """
HALF = """
    x = Placeholder[float16](shape=4x4)
    white = MatMul(x, x)
    gray = Relu(white)
    black = Exp(gray)
    single = Cast[float16,float32](black)
    end = Softmax(single)
    """


class Passes:
    """The driver as a process that rewrites one graph after the other."""

    def __init__(self, driver, folder, mode):
        self.graph, self.out = folder / "graph.pb", folder / "out.pb"
        lists = folder / "lists.json"
        lists.write_text(json.dumps(LISTS))
        self.process = subprocess.Popen(
            [str(driver), "-", str(lists), mode, "end,white", "", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )

    def rewrite(self, data):
        """The driver's line about these bytes, and the graph if it returned one."""
        self.graph.write_bytes(data)
        self.process.stdin.write(f"{self.graph} {self.out}\n")
        self.process.stdin.flush()
        answered, _, _ = select.select([self.process.stdout], [], [], 60)
        assert answered, "no answer within a minute"
        line = self.process.stdout.readline()
        assert line, f"ended with {self.process.wait()}: {self.process.stderr.read()[-2000:]}"
        if line.startswith("error: "):
            assert len(line) > len("error: .\n")
            return line, None
        assert line.startswith("done: ")
        return line, graph_pb2.GraphDef.FromString(self.out.read_bytes())

    def close(self):
        """Ends the process, which must end without errors."""
        _, complaints = self.process.communicate()
        assert self.process.returncode == 0, complaints[-2000:]


def base_graphs(mode):
    """Graphs in which the mode has something to change."""
    if mode == "force_fp32":
        return [read_graph(HALF)]
    return [read_graph(SMALL), read_graph(LOOP), *(random_graph(n, 10).graph_def for n in range(6))]


def broken_edges(graph):
    """The errors of a graph's edges, as far as the ops are known."""
    nodes = {node.name: node for node in graph.node}
    for node in graph.node:
        for number, tensor in enumerate(data_inputs(node)):
            name, port = tensor_name(tensor)
            if name not in nodes:
                yield f"{node.name}: {tensor} is no node"
            elif known(nodes[name]) and known(node):
                produced = output_dtypes(nodes[name])
                if not 0 <= port < len(produced):
                    yield f"{node.name}: {tensor} is no output"
                elif not agree(produced[port], input_dtypes(node)[number]):
                    yield f"{node.name}: input {number} has two dtypes"


def data_inputs(node):
    return [tensor for tensor in node.input if not tensor.startswith("^")]


def known(node):
    return op_definition(node.op) is not None


def agree(produced, consumed):
    """Whether two dtypes agree; a reference's number is its value's plus 100, and 0 is unknown."""
    return produced == 0 or produced % 100 == consumed % 100


def input_dtypes(node):
    definition = op_definition(node.op)
    values = {attribute.name: attribute_value(node, attribute) for attribute in definition.attr}
    dtypes = []
    for argument in definition.input_arg:
        if argument.type_list_attr:
            dtypes += values[argument.type_list_attr].list.type
            continue
        dtype = values[argument.type_attr].type if argument.type_attr else argument.type
        dtypes += [dtype] * (values[argument.number_attr].i if argument.number_attr else 1)
    return dtypes


def check(before, line, after):
    if after is None:
        return "refused"
    if to_bytes(after) == to_bytes(before):
        return "unchanged"
    assert not re.match(r"done: (no node|lowered 0 of [^;]*, 0 Casts(;|$))", line)
    assert not list(broken_edges(after))
    names = collections.Counter(node.name for node in after.node)
    assert set(names.values()) == {1}
    return "changed"


@pytest.mark.parametrize("mode", MODES)
def test_the_passes_answer_for_every_graph(mode, pipeline_driver, tmp_path):
    graphs = base_graphs(mode)
    passes = Passes(pipeline_driver, tmp_path, mode)
    answers = collections.Counter()

    @corpus_settings(GRAPHS)
    @given(
        which=st.integers(0, len(graphs) - 1),
        seeds=st.lists(st.integers(0, 2**31), min_size=1, max_size=3),
    )
    def run(which, seeds):
        graph = graph_pb2.GraphDef()
        graph.CopyFrom(graphs[which])
        for seed in seeds:
            mutate(graph, seed)
        answers[check(graph, *passes.rewrite(graph.SerializeToString()))] += 1

    run()
    passes.close()
    # Damage that always ends a run at the first check would show nothing of the later ones.
    assert min(answers["refused"], answers["changed"]) >= corpus_size(GRAPHS) // 20, answers


def test_the_passes_answer_for_bytes_that_are_hardly_a_graph(pipeline_driver, tmp_path):
    passes = Passes(pipeline_driver, tmp_path, "allow_mix_precision")
    original = np.frombuffer(read_graph(LOOP).SerializeToString(), np.uint8)
    parsed = 0
    seeds = corpus_seeds(500)
    for seed in seeds:
        random = np.random.RandomState(seed)
        data = original.copy()
        for _ in range(random.randint(1, 3)):
            data[random.randint(len(data))] ^= 1 << random.randint(8)
        line, _ = passes.rewrite(data.tobytes())
        parsed += "not a GraphDef" not in line
    passes.close()
    assert 0.1 < parsed / len(seeds) < 0.9
