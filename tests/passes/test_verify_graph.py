"""Fetched nodes keep their name and dtype in every mode, and the graph stays valid."""

import itertools
import json

import pytest
import tensorflow as tf
from support import ROOT
from support.check_rewrite import check_rewrite
from support.compiled import compile_library
from support.loop_text import loop
from support.node_dtypes import output_dtypes
from support.text_graph import read_graph

import npu_precision

GRAPH = """
    x = Placeholder(shape=4x4)
    h = Placeholder[float16](shape=4x4)
    axis = Const[int32](value=0)
    w = Const(shape=4x4)
    read = Identity(w)
    a = MatMul(x, read)
    b = Relu(a)
    c = Cast[float16,float32](h)
    d = AddV2(b, c)
    e = Split(axis, d, num_split=2)
    f = Exp(e:1)
    g = ArgMax(d, axis)
    i = Cast[float32,float16](d)
    j = NoOp(^f)
    """
NAMES = [node.name for node in read_graph(GRAPH).node]
MODES = npu_precision._library.describe()["modes"]


def check_fetches(mode, fetches):
    before = read_graph(GRAPH)
    after, _ = npu_precision.rewrite_graph_def(before, fetches, precision_mode=mode)
    with tf.Graph().as_default():
        # Fails if the two ends of an edge disagree, or an input does not exist.
        tf.import_graph_def(after, name="")
    nodes = {node.name: node for node in after.node}
    for node in before.node:
        if node.name in fetches:
            assert output_dtypes(nodes[node.name]) == output_dtypes(node), node.name


@pytest.mark.parametrize("mode", MODES)
def test_any_single_fetch_keeps_name_and_dtypes(mode):
    for name in NAMES:
        check_fetches(mode, [name])


@pytest.mark.parametrize("mode", MODES)
def test_any_two_fetches_keep_name_and_dtypes(mode):
    for pair in itertools.combinations(["a", "b", "d", "e", "f", "i", "j"], 2):
        check_fetches(mode, pair)


@pytest.mark.parametrize("mode", MODES)
def test_all_nodes_fetched_at_once_keep_name_and_dtypes(mode):
    check_rewrite(GRAPH, None, NAMES, mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_any_node_that_is_fed_keeps_name_and_dtypes(mode):
    before = read_graph(GRAPH)
    for name in NAMES:
        after, _ = npu_precision.rewrite_graph_def(before, "f", precision_mode=mode, feeds=[name])
        with tf.Graph().as_default():
            tf.import_graph_def(after, name="")
        nodes = {node.name: node for node in [*before.node, *after.node]}
        assert nodes[name].op == {node.name: node.op for node in before.node}[name]
        assert output_dtypes(nodes[name]) == [
            dtype for node in before.node if node.name == name for dtype in output_dtypes(node)
        ]


def test_ops_on_one_handle_that_disagreed_before_are_tensorflows_to_report():
    """Otherwise, strict would report it as an internal error."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        row = Const[int32](value=[4])
        list = TensorListFromTensor(x, row)
        other = TensorListStack[float64](list, row)
        white = MatMul(x, x)
        end = Exp(white)
        """,
        """
        list = TensorListFromTensor[float32,int32](x, row)
        other = TensorListStack[float64](list, row)
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        end = Exp[float32](white/npu_cast_0_float32)
        """,
        strict=True,
        run=False,
    )


def test_a_next_iteration_that_no_merge_reads_is_tensorflows():
    """TensorFlow's optimizers leave one for a loop that never runs; other nodes are lowered."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        next = NextIteration(x)
        read = Exp(next)
        product = MatMul(x, x)
        """,
        None,
        ["product"],
        run=False,
    )
    assert result.reasons["product"][0] == "lowered"


# Damage by a pass, as attributes that tests/cc/failing_sink_reshapes.cc reads; and the error
# message.
BROKEN = {
    "x = Placeholder(shape=2x2) \n y = Exp(x, _damage_type=T)": (
        "input 0 of node 'y' is float16 but 'x' yields float32"
    ),
    "x = Placeholder(shape=2x2) \n y = Exp(x, _damage_input=z)": (
        "node 'y': input 'z' is not a node of the graph"
    ),
    "x = Placeholder(shape=2x2) \n y = Exp(x, _damage_input=x:1)": (
        "node 'y': input 'x:1' asks for an output that 'x' does not have"
    ),
    "x = Placeholder(shape=2x2) \n y = Exp(x, _damage_input=^x)": (
        "node 'y' (Exp) has 0 data inputs, expected 1"
    ),
    "x = Placeholder(shape=2x2) \n y = Mul(x, x, _damage_input=^x)": (
        "node 'y': data input 'x' stands after a control input"
    ),
    "x = Placeholder(shape=2x2) \n z = Neg(x, _damage_name=x) \n y = Exp(x)": (
        "two nodes are named 'x'"
    ),
    "x = Placeholder(shape=2x2) \n y = Exp(x, _damage_name=z)": "preserved node 'y' is gone",
    "y = Placeholder(shape=2x2, _damage_type=dtype)": "preserved node 'y' yields other dtypes",
    loop("start = Identity(x)", "turn = Relu(switch:1) \n late = Neg(turn, _damage_input=next)"): (
        "node 'late' (Neg) stands between a NextIteration and its Merge"
    ),
    """
    x = Placeholder(shape=2x2)
    row = Const[int32](value=[2])
    list = TensorListFromTensor(x, row)
    other = TensorListStack(list, row, _damage_type=element_dtype)
    y = Exp(x)
    """: "ops on one handle disagree about its elements: float16 and float32",
}
TELLS = """
import json, sys
import npu_precision
from support.text_graph import read_graph

for text in json.loads(sys.argv[1]):
    graph = read_graph(text)
    try:
        npu_precision.rewrite_graph_def(
            graph, graph.node[-1].name, precision_mode="allow_mix_precision"
        )
        print("nothing")
    except ValueError as error:
        print(error)
"""


def test_what_a_pass_breaks_is_noticed(run_python, tmp_path):
    library = compile_library("failing_sink_reshapes.cc", tmp_path)
    process = run_python(
        TELLS,
        json.dumps(list(BROKEN)),
        NPU_PRECISION_LIBRARY=str(library),
        PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}",
    )
    told = process.stdout.splitlines()
    assert told == [f"internal failure (strict is set): {text}" for text in BROKEN.values()]
