"""One session, several fetches: each fetch has its own graph, which is decided about alone.

A session keeps the kernels of ops with state, such as TensorArrays and stacks, by their names. The
elements of an array may be lowered in the graph of one fetch and kept in the graph of another.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE
from support.text_graph import random_values, read_graph
from support.tf_versions import needs_kernels

import npu_precision

tf1 = tf.compat.v1
MODES = {"allow_mix_precision": "float16", "allow_mix_precision_bf16": "bfloat16"}


def values(graph, fetches, mode, folder=None):
    """The values of the fetches, run one after the other in one session."""
    config = tf1.ConfigProto()
    if mode is not None:
        config = npu_precision.npu_config_proto(
            precision_mode=mode, report_dir=str(folder), strict=True
        )
    with tf1.Session(graph=graph, config=config) as session:
        if "initialize" in [operation.name for operation in graph.get_operations()]:
            session.run("initialize")
        return [session.run(f"{name}:0", {"x:0": random_values("x", [4, 4])}) for name in fetches]


def decisions(ledgers, name):
    """The decisions about a node in the graphs that have it."""
    return [node.decision for ledger in ledgers for node in ledger.nodes if node.name == name]


def assert_agrees(graph, fetches, mode, folder):
    expected = values(graph, fetches, None)
    for name, want, got in zip(fetches, expected, values(graph, fetches, mode, folder)):
        tolerance = TOLERANCE[MODES[mode]]
        np.testing.assert_allclose(got, want, tolerance, tolerance, err_msg=name)


def recurrent():
    """The states of a loop, and a training step on their sum."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        weights = tf1.get_variable("weights", initializer=random_values("weights", [4, 4]))

        def step(i, state, states):
            state = tf.tanh(tf.matmul(state, weights))
            return i + 1, state, states.write(i, state)

        states = tf.TensorArray(tf.float32, 3, name="states")
        _, _, states = tf1.while_loop(lambda i, *_: i < 3, step, [0, x, states])
        output = tf.reduce_sum(states.stack(), 0, name="output")
        loss = tf.reduce_mean(tf.square(output))
        with tf.control_dependencies([tf1.train.GradientDescentOptimizer(0.5).minimize(loss)]):
            tf.identity(loss, name="train")
        tf.group(tf1.global_variables_initializer(), name="initialize")
    return graph


@pytest.mark.usefixtures("control_flow_v1")
@pytest.mark.parametrize(
    "mode",
    [
        "allow_mix_precision",
        pytest.param("allow_mix_precision_bf16", marks=needs_kernels("bfloat16", "Tanh")),
    ],
)
@pytest.mark.parametrize("fetches", [("train", "output", "train"), ("output", "train", "output")])
def test_a_loop_is_trained_and_evaluated_in_one_session(mode, fetches, ledgers, tmp_path):
    assert_agrees(recurrent(), fetches, mode, tmp_path)
    # The gradient of the sum keeps the array in float32, and is not there without training.
    assert set(decisions(ledgers(tmp_path), "states")) == {"kept", "lowered"}


STACK = """
    x = Placeholder(shape=4x4)
    most = Const[int32](value=-1)
    white = MatMul(x, x)
    black = Exp(x)
    stack = StackV2(most)
    push = StackPushV2(stack, white)
    pop = StackPopV2(stack, ^push)
    low = Relu(pop)
    push_black = StackPushV2(stack, black, ^low)
    pop_black = StackPopV2(stack, ^push_black)
    kept = Relu(pop_black)
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fetches", [("low", "kept"), ("kept", "low")])
def test_a_stack_is_read_by_two_fetches(mode, fetches, ledgers, tmp_path):
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(read_graph(STACK), name="")
    assert_agrees(graph, fetches, mode, tmp_path)
    assert set(decisions(ledgers(tmp_path), "stack")) == {"kept", "lowered"}


def test_what_has_a_renamed_node_as_a_control_input_still_has_it(ledgers, tmp_path):
    """A stack has state, so it gets another name if it is lowered."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(
            read_graph(STACK + "late = Exp(x, ^stack) \n end = AddV2(late, low)"), name=""
        )
    assert_agrees(graph, ("end",), "allow_mix_precision", tmp_path)
    assert decisions(ledgers(tmp_path), "stack") == ["lowered"]


def test_a_fetched_write_keeps_its_name_and_so_its_dtype(ledgers, tmp_path):
    text = """
        x = Placeholder(shape=4x4)
        one = Const[int32](value=1)
        zero = Const[int32](value=0)
        white = MatMul(x, x)
        array = TensorArrayV3(one)
        write = TensorArrayWriteV3(array, zero, white, array:1)
        read = TensorArrayReadV3[float32](array, zero, write)
        low = Relu(read)
    """
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(read_graph(text), name="")
    mode = "allow_mix_precision"
    config = npu_precision.npu_config_proto(
        precision_mode=mode, report_dir=str(tmp_path), strict=True
    )
    with tf1.Session(graph=graph, config=config) as session:
        for fetches in (["low:0"], ["low:0", "write:0"]):
            got = session.run(fetches, {"x:0": np.eye(4)})
            np.testing.assert_array_equal(got[0], np.eye(4))
    assert decisions(ledgers(tmp_path), "array") == ["lowered", "kept"]
    reasons = [ledger.node("write").reason for ledger in ledgers(tmp_path)]
    assert reasons == ["gray_follows_lowered", "preserved_outputs"]
