"""Damaged graphs as input of the passes alone, of a function's body, and of a session.

Offline rewrites are in test_graph_view.py. TensorFlow checks a graph, and in newer versions each
body, before a session gets it, but it checks the structure of loops only in the run. So both bodies
and loops are damaged here, and a session must report the same as without the optimizer.
"""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE, to_bytes
from support.damaged_graphs import DAMAGED, damage
from support.text_graph import random_values, read_graph, tensor_name
from support.tf_versions import needs_ops_without_python
from tensorflow.core.framework import graph_pb2

import npu_precision
from npu_precision import _tf_compat

tf1 = tf.compat.v1
FLOAT = tf.float32.as_datatype_enum
MODES = ["allow_mix_precision", "force_fp16"]

# TensorFlow itself throws std::bad_alloc for such a function, and then hangs.
BREAKS_TENSORFLOW = {"a negative count"}


@needs_ops_without_python
@pytest.mark.parametrize("mode", ["allow_mix_precision", "force_fp32"])
def test_the_passes_alone_refuse_damage_or_leave_it_as_it_was(mode, pipeline_driver, tmp_path):
    """The passes get graphs that TensorFlow, in this version or another, would refuse before."""
    lists = tmp_path / "lists.json"
    lists.write_text('{"MatMul": {"precision_reduce": {"flag": "true"}}, "Relu": {}}')
    files = []
    for number, change in enumerate(DAMAGED.values()):
        files.append((tmp_path / f"{number}.pb", tmp_path / f"{number}.out.pb"))
        files[-1][0].write_bytes(damage(change).SerializeToString())
    process = subprocess.run(
        [str(pipeline_driver), "-", str(lists), mode, "end", "", "-"],
        input="".join(f"{graph} {out}\n" for graph, out in files),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert len(lines) == len(DAMAGED)
    answers = {name: lines[number] for number, name in enumerate(DAMAGED)}
    for number, (name, answer) in enumerate(answers.items()):
        out = files[number][1]
        done = answer.startswith("done: ")
        assert done != answer.startswith("error: "), name
        assert out.exists() == done, name
        if done and answer.startswith("done: no node has a dtype"):
            after = graph_pb2.GraphDef.FromString(out.read_bytes())
            assert to_bytes(after) == to_bytes(damage(DAMAGED[name])), name
    told = {name: answer for name, answer in answers.items() if answer.startswith("error: ")}
    assert told["two nodes of one name"] == "error: two nodes are named 'white'"
    assert told["no type"] == "error: node 'white' ('MatMul'): attribute 'T' is not a type"
    assert told["an input that is no node"].endswith("input 'nowhere' is not a node of the graph")
    assert told["one input too few"] == "error: node 'white' (MatMul) has 1 data inputs, expected 2"
    assert "an op that TensorFlow does not know" not in told


def called_function(graph, result):
    """A graph whose y is a call of the function of `graph` from its node x to the node `result`."""
    ops = {node.name: node.op for node in graph.node}

    def in_a_body(tensor):
        try:
            name, port = tensor_name(tensor)
        except ValueError:
            return tensor
        if name == "x" or name not in ops or port < 0:
            return tensor
        definition = _tf_compat.op_definition(ops[name])
        outputs = definition.output_arg if definition else ()
        return f"{name}:{outputs[0].name if outputs else 'y'}:{port}"

    calling = read_graph("x = Placeholder(shape=4x4)")
    body = calling.library.function.add()
    body.signature.name = "body"
    body.signature.input_arg.add(name="x", type=FLOAT)
    body.signature.output_arg.add(name="y", type=FLOAT)
    body.attr["_noinline"].b = True
    for node in graph.node:
        if node.name != "x":
            body.node_def.add().CopyFrom(node)
            body.node_def[-1].input[:] = [in_a_body(tensor) for tensor in node.input]
    body.ret["y"] = in_a_body(result)
    call = calling.node.add(name="y", op="PartitionedCall", input=["x"])
    call.attr["f"].func.name = "body"
    call.attr["Tin"].list.type.append(FLOAT)
    call.attr["Tout"].list.type.append(FLOAT)
    return calling


def outcome(graph_def, fetch, config):
    """The result of a session for the tensor: its value, or the error and its text."""
    options = tf1.RunOptions(timeout_in_ms=8_000)
    try:
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
        with tf1.Session(graph=graph, config=config) as session:
            return session.run(fetch, {"x:0": random_values("x", [4, 4])}, options)
    except (ValueError, tf.errors.OpError) as error:
        return type(error), str(error)


def words_but_node_names(text):
    """An error's words without node names: TensorFlow lists nodes near the fault, our Casts too."""
    text = re.sub(r"Detected at node.*\n|Node: .*\n|^\t ?\[\[.*\n?", "", text, flags=re.MULTILINE)
    named = r"\{\{node [^}]*\}\}|\bnode \S+ \(defined at [^)]*\)"
    return sorted(re.sub(named, "", text).split())


def check_outcome(graph_def, fetch, same_words=True):
    """Asserts that a session has the same outcome with and without the optimizer; returns it."""
    expected = outcome(graph_def, fetch, tf1.ConfigProto())
    for mode in MODES:
        got = outcome(graph_def, fetch, npu_precision.npu_config_proto(precision_mode=mode))
        if isinstance(expected, tuple):
            assert got[0] == expected[0]
            words = words_but_node_names(expected[1])
            assert not same_words or words_but_node_names(got[1]) == words
        else:
            largest = np.abs(expected).max()
            np.testing.assert_allclose(got, expected, atol=TOLERANCE["float16"] * largest)
    return expected


def test_a_sound_body_runs():
    """This shows that failures of damaged bodies come from the damage."""
    assert isinstance(
        check_outcome(called_function(damage(lambda *_: None), "end"), "y:0"), np.ndarray
    )


@pytest.mark.parametrize("name", sorted(set(DAMAGED) - BREAKS_TENSORFLOW))
def test_a_damaged_body_gets_tensorflows_own_error(name):
    # TensorFlow 1.15 finds this fault after the rewrite, and quotes the rewritten node.
    same_words = name != "a device that is no device"
    body = called_function(damage(DAMAGED[name]), "end")
    assert isinstance(check_outcome(body, "y:0", same_words), tuple)


LOOP = """
    x = Placeholder(shape=4x4)
    limit = Const[int32](value=3)
    zero = Const[int32](value=0)
    one = Const[int32](value=1)
    i_enter = Enter(zero, frame_name=loop)
    limit_enter = Enter(limit, frame_name=loop, is_constant=True)
    one_enter = Enter(one, frame_name=loop, is_constant=True)
    enter = Enter(x, frame_name=loop)
    w_enter = Enter(x, frame_name=loop, is_constant=True)
    i = Merge[int32](i_enter, i_next)
    state = Merge(enter, next)
    less = Less(i, limit_enter)
    go = LoopCond(less)
    i_switch = Switch(i, go)
    switch = Switch(state, go)
    i_add = AddV2(i_switch:1, one_enter)
    i_next = NextIteration(i_add)
    product = MatMul(switch:1, w_enter)
    gray = Relu(product)
    next = NextIteration(gray)
    exit = Exit(switch)
    end = Exp(exit)
    """


def reads(node, index, tensor):
    def change(nodes):
        nodes[node].input[index] = tensor

    return change


def in_frame(node, frame):
    def change(nodes):
        nodes[node].attr["frame_name"].s = frame

    return change


def becomes(node, op, *inputs):
    def change(nodes):
        nodes[node].op = op
        nodes[node].input[:] = inputs
        nodes[node].attr.pop("frame_name", None)
        nodes[node].attr.pop("is_constant", None)

    return change


ODD_LOOPS = {
    # An Exit without an Enter is left out: TensorFlow's own optimizers crash on it.
    "two Exits in a row": reads("end", 0, "exit"),
    "an Enter of another frame": in_frame("enter", b"other"),
    "a constant Enter of another frame": in_frame("w_enter", b"other"),
    "a tensor from outside that does not enter": reads("product", 1, "x"),
    "a tensor that leaves without an Exit": reads("end", 0, "gray"),
    "a NextIteration that is read as a value": reads("end", 0, "next"),
    "a Merge of two Enters": reads("state", 1, "w_enter"),
    "a Switch by another tensor than the loop's": reads("switch", 1, "less"),
    "a Switch instead of the Exit": reads("end", 0, "switch"),
    "the body on the side that leaves": reads("product", 0, "switch"),
    "an Identity instead of the Enter": becomes("enter", "Identity", "x"),
    "an Identity instead of the Exit": becomes("exit", "Identity", "switch"),
    "an Exit instead of the NextIteration": becomes("next", "Exit", "gray"),
    "no way back": becomes("next", "Identity", "x"),
}


@pytest.mark.parametrize("name", ODD_LOOPS)
def test_an_odd_loop_does_what_it_does_without_us(name):
    graph = read_graph(LOOP)
    ODD_LOOPS[name]({node.name: node for node in graph.node})
    check_outcome(graph, "end:0")


def test_an_exit_from_the_side_that_stays_leaves_with_the_value_of_some_iteration():
    """The Exit sends one value per iteration; the value that is fetched depends on chance."""
    graph = read_graph(LOOP)
    reads("exit", 0, "switch:1")({node.name: node for node in graph.node})
    x = random_values("x", [4, 4])
    sent = [x]
    for _ in range(2):
        sent.append(np.maximum(sent[-1] @ x, 0))
    configs = [npu_precision.npu_config_proto(precision_mode=mode) for mode in MODES]
    for config in [tf1.ConfigProto(), *configs]:
        got = outcome(graph, "end:0", config)
        assert any(
            np.allclose(got, value, rtol=0, atol=TOLERANCE["float16"] * value.max())
            for value in map(np.exp, sent)
        )
