"""tf.while_loop and tf.cond in both of their forms, in sessions: what runs, and how often.

TensorFlow 1's form is Switch and Merge from the start. TensorFlow 2's is While and If with function
bodies, which a session turns into Switch and Merge before the optimizer sees them. In both forms,
the products run in the low type, and loop invariants are cast once.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE, check_rewrite
from support.control_flow_programs import PROGRAMS, case, cond, loop_in_cond, with_gradients
from support.executions import run_counted
from support.text_graph import random_values

import npu_precision

tf1 = tf.compat.v1


def graph_of(program):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        w = tf1.placeholder(tf.float32, [4, 4], name="w")
        tf.identity(program(x, w), name="y")
    return graph


X, W = np.abs(random_values("x", [4, 4])), random_values("w", [4, 4])


def run(graph, mode, x=X):
    config = npu_precision.npu_config_proto(
        precision_mode=mode, strict=True, float16_compute="native"
    )
    with tf1.Session(graph=graph, config=config) as session:
        return run_counted(session, "y:0", {"x:0": x, "w:0": W})


def run_both(graph):
    """Runs a graph in float32 and mixed precision, compares the values, returns the latter run."""
    want, got = run(graph, "must_keep_origin_dtype"), run(graph, "allow_mix_precision")
    assert got.values.dtype == np.float32
    error = np.abs(got.values - want.values).max()
    assert 0 < error < TOLERANCE["float16"] * np.abs(want.values).max()
    return got


# How often a product runs, and how often Casts run, by the op whose result they cast. A fed value
# counts as an argument: x and w are cast once, however often a loop reads them or their slices.
FORWARD = {
    "loop": (5, {"_Arg": 2, "Exit": 1}),
    "cond": (1, {"Switch": 2, "Tanh": 1}),
    "case": (1, {"_SwitchN": 2, "Tanh": 1}),
    "loop_in_loop": (15, {"_Arg": 1, "Switch": 15, "Tanh": 15}),
    "cond_in_loop": (2, {"_Arg": 1, "Switch": 2, "Tanh": 2}),
    "loop_in_cond": (5, {"Switch": 2, "Exit": 1}),
    "tensor_array_loop": (4, {"_Arg": 2, "Squeeze": 1}),
    "scan": (3, {"_Arg": 2, "stack": 1}),
    "read_back": (4, {"_Arg": 2, "read": 1}),
    "lstm": (4, {"_Arg": 2, "Squeeze": 1}),
}
# The op that reads from a TensorArray in each form.
OPS = {
    "v1": {"read": "TensorArrayReadV3", "stack": "TensorArrayGatherV3"},
    "v2": {"read": "TensorListGetItem", "stack": "TensorListStack"},
}
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)


@each_program
def test_products_run_lowered_and_invariants_are_cast_once(form, program):
    got = run_both(graph_of(program))
    products, casts = FORWARD[program.__name__]
    assert got.of("MatMul") == {("MatMul", "float16"): products}
    assert got.casts_by_op() == {OPS[form].get(op, op): count for op, count in casts.items()}


@each_program
def test_products_of_gradients_run_lowered(form, program):
    """In the backward pass, w is one of the two operands again: it is still cast only once."""
    got = run_both(graph_of(with_gradients(program)))
    assert got.of("MatMul") == {("MatMul", "float16"): 3 * FORWARD[program.__name__][0]}
    assert got.casts_by_op().get("_Arg", 0) <= 2


@pytest.mark.parametrize("program", [cond, case, loop_in_cond])
def test_nothing_of_a_branch_that_is_not_taken_runs(form, program):
    graph = graph_of(program)
    want = run(graph, "must_keep_origin_dtype", -X)
    got = run(graph, "allow_mix_precision", -X)
    np.testing.assert_array_equal(got.values, want.values)
    assert got.of("MatMul", "Tanh", "NextIteration") == {}


@each_program
@pytest.mark.parametrize("gradients", [False, True])
def test_graphs_of_either_form_are_rewritten_offline(form, program, gradients):
    """Functions in the library are rewritten too; the check compares the values of both graphs."""
    transform = with_gradients if gradients else lambda program: program
    result = check_rewrite(graph_of(transform(program)).as_graph_def(), None)
    products = [
        node.dtypes["T"][1]
        for ledger in result.ledger
        for node in ledger.nodes
        if node.op == "MatMul"
    ]
    assert set(products) == {"float16"}
