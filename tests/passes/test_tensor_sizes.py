"""Sizes are estimated where TensorFlow does not know shapes: what a loop pops from its lists.

Here, they decide whether a Sigmoid keeps float32, which it does only if its size is known.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.live_rewrite import rewrite_and_run
from support.text_graph import read_graph
from support.tf_versions import needs_functions_by_default, needs_onednn_in_bfloat16

import npu_precision

pytestmark = needs_onednn_in_bfloat16
BF16 = "allow_mix_precision_bf16"
# "popped" and "weights" have 256 x 256 elements, and TensorFlow does not know their shapes.
POPPED = """
    x = Placeholder(shape=256x256)
    any = Const[int32](value=-1)
    most = Const[int32](value=3)
    zero = Const[int32](value=0)
    one = Const[int32](value=1)
    w = Placeholder(shape=256x256)
    a = MatMul(x, w)
    list = EmptyTensorList(any, most)
    push = TensorListPushBack(list, a)
    pop = TensorListPopBack(push, any)
    popped = Identity(pop:1)
    other_list = EmptyTensorList(any, one)
    other_push = TensorListPushBack(other_list, w)
    other_pop = TensorListPopBack(other_push, any)
    weights = Identity(other_pop:1)
    true = Const[bool](value=True)
    """
FORMS = {
    "popped": "b = Sigmoid(popped)",
    "joined": "all = ConcatV2(popped, popped, zero) \n b = Sigmoid(all)",
    "joined before it": "all = Concat(zero, popped, popped) \n b = Sigmoid(all)",
    "a part": "parts = Split(zero, popped, num_split=2) \n b = Sigmoid(parts:1)",
    "a product with popped weights": "product = MatMul(x, weights) \n b = Sigmoid(product)",
    "a product of popped tensors": "product = MatMul(popped, weights) \n b = Sigmoid(product)",
    "a branch": "branch = Switch(popped, true) \n b = Sigmoid(branch:1)",
}


def reasons(text, folder):
    """By node: the reason of its decision."""
    graph = read_graph(text)
    rewrite_and_run(graph, ["end"], folder, precision_mode=BF16, rewrites="none")
    (file,) = folder.glob("*.json")
    return {
        node.name: node.reason
        for node in npu_precision.Ledger.from_json(file.read_text(encoding="utf-8")).nodes
    }


@pytest.mark.parametrize("form", FORMS)
def test_a_size_is_found(form, tmp_path):
    found = reasons(POPPED + FORMS[form] + "\n end = MatMul(b, w)", tmp_path)
    assert (found["b"], found["end"]) == ("slow_kernel", "white_list")


def test_an_unknown_size_leaves_the_node_lowered(tmp_path):
    text = "product = BatchMatMulV2(popped, weights) \n b = Sigmoid(product) \n end = MatMul(b, w)"
    assert reasons(POPPED + text, tmp_path)["b"] == "gray_follows_lowered"


@needs_functions_by_default
def test_gates_of_a_recurrent_cell_keep_float32_in_the_loop_of_the_gradient(tmp_path):
    """Their gradient pops from lists, in a cycle: a size may depend on one that is asked for."""
    random = np.random.default_rng(0)
    weights = tf.Variable(random.normal(size=[128, 512], scale=0.1).astype(np.float32))
    x = tf.constant(random.normal(size=[32, 8, 512]).astype(np.float32))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            state, cell = tf.zeros([32, 128]), tf.zeros([32, 128])
            for i in tf.range(8):
                gates = x[:, i] + tf.matmul(state, weights)
                keep, take, value, show = tf.split(gates, 4, axis=1)
                cell = tf.sigmoid(keep) * cell + tf.sigmoid(take) * tf.tanh(value)
                state = tf.sigmoid(show) * tf.tanh(cell)
            loss = tf.reduce_sum(tf.square(state))
        return tape.gradient(loss, weights)

    options = npu_precision.PrecisionOptions(precision_mode=BF16, report_dir=str(tmp_path))
    with npu_precision.autocast(options):
        step()
    nodes = [
        node
        for path in tmp_path.rglob("*.json")
        for node in npu_precision.Ledger.from_json(path.read_text(encoding="utf-8")).nodes
    ]
    gates = [node for node in nodes if node.op in ("Sigmoid", "SigmoidGrad", "TanhGrad")]
    products = [node for node in nodes if node.op == "MatMul"]
    assert {(node.op, node.reason) for node in gates} == {
        ("Sigmoid", "slow_kernel"),
        ("SigmoidGrad", "slow_kernel"),
        ("TanhGrad", "slow_kernel"),
    }
    assert {node.reason for node in products} == {"white_list"}
