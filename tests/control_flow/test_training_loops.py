"""Training steps inside a loop of the graph: variables that change while the loop runs.

TensorFlow's tests have the same case: the training loop in the graph with ref variables, an
iterator and Adam inside a while.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE, assert_same_text, run
from support.executions import run_counted
from support.loop_text import loop
from support.text_graph import random_values, read_graph, write_graph

import npu_precision

OWN = "NpuPrecisionUpdate"  # also the beginning of NpuPrecisionUpdateRef
pytestmark = pytest.mark.slow  # It trains.
tf1 = tf.compat.v1
STEPS = 20


def training_loop(use_resource):
    """The loop takes STEPS batches from an iterator; each step minimizes with Adam."""
    # A product of up to 16 terms would keep float32 before the difference with the labels.
    features = random_values("features", [STEPS, 8, 17])
    labels = np.tanh(features @ random_values("solution", [17, 2]))
    with tf.Graph().as_default() as graph:
        data = tf1.data.Dataset.from_tensor_slices((features, labels))
        iterator = tf1.data.make_initializable_iterator(data)
        tf1.get_variable_scope().set_use_resource(use_resource)
        weights = tf1.get_variable("w", initializer=random_values("w", [17, 2]))
        bias = tf1.get_variable("b", initializer=random_values("b", [2]))
        optimizer = tf1.train.AdamOptimizer(0.1)

        def step(i, losses):
            x, y = iterator.get_next()
            x.set_shape([8, 17])
            y.set_shape([8, 2])
            output = tf.tanh(tf.nn.bias_add(tf.matmul(x, weights), bias))
            loss = tf.reduce_mean(tf1.squared_difference(output, y))
            with tf.control_dependencies([optimizer.minimize(loss)]):
                return i + 1, losses.write(i, loss)

        losses = tf.TensorArray(tf.float32, STEPS, element_shape=[])
        _, losses = tf1.while_loop(lambda i, _: i < STEPS, step, [0, losses], parallel_iterations=1)
        tf.identity(losses.stack(), name="losses")
        initialize = [iterator.initializer, tf1.global_variables_initializer()]
        tf.group(*initialize, name="initialize")
    return graph


def train(graph, mode):
    config = npu_precision.npu_config_proto(precision_mode=mode, float16_compute="native")
    with tf1.Session(graph=graph, config=config) as session:
        session.run("initialize")
        step = run_counted(session, "losses:0")
        return step, session.run(graph.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES))


@pytest.mark.parametrize("use_resource", [False, True], ids=["ref", "resource"])
@pytest.mark.usefixtures("control_flow_v1")
def test_variables_change_in_every_iteration(use_resource):
    """If a Cast took a variable's value once, before the loop, the loop would stop learning."""
    graph = training_loop(use_resource)
    exact, exact_variables = train(graph, "must_keep_origin_dtype")
    lowered, lowered_variables = train(graph, "allow_mix_precision")
    assert exact.values[-1] < 0.3 * exact.values[0]
    # A forward product and a gradient in each step; the update itself is done in float32.
    assert lowered.of("MatMul") == {("MatMul", "float16"): 2 * STEPS}
    updates = ("ApplyAdam", "ResourceApplyAdam")
    left = sum(lowered.of(*updates).values())
    own = sum(lowered.counts[name] for name in lowered.nodes if OWN in lowered.nodes[name].op)
    assert own > 0
    assert own + left == sum(exact.of(*updates).values())
    np.testing.assert_allclose(lowered.values, exact.values, rtol=0.05, atol=1e-3)
    assert {variable.dtype.name for variable in lowered_variables} == {"float32"}
    for name, got in enumerate(lowered_variables):
        np.testing.assert_allclose(got, exact_variables[name], atol=0.02)


REFERENCE = loop(
    """start = Identity(x)
    value = Const(shape=4x4)
    v = VariableV2(shape=4x4)
    assign = Assign(v, value)
    read = Identity(v)
    read_enter = Enter(read, frame_name=loop, is_constant=True)
    v_enter = RefEnter(v, frame_name=loop, is_constant=True)""",
    """product = MatMul(switch:1, read_enter)
    update = AssignSub(v_enter, product)
    turn = Softmax(product)""",
    after=["update"],
)


def test_the_value_of_a_ref_variable_that_a_loop_updates_is_cast_in_every_iteration():
    """The Identity that reads it forwards the variable's own buffer, which the update changes: the
    Cast comes after the update, as the product does by its other input.
    """
    graph = read_graph(REFERENCE)
    rewritten, _ = npu_precision.rewrite_graph_def(
        graph, "end", precision_mode="allow_mix_precision", fold_constants=False
    )
    assert_same_text(
        write_graph(rewritten, graph),
        """
        v = VariableV2[float32]()
        v_enter = RefEnter[float32](v)
        start = Identity[float32](x)
        enter = Enter[float32](start)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        read = Identity[float32](v)
        read_enter = Enter[float32](read)
        product/npu_cast_ref_float16 = Cast[float32,float16](read_enter, ^switch)
        product = MatMul[float16](switch/npu_cast_1_float16, product/npu_cast_ref_float16)
        update = AssignSub[float32](v_enter, product/npu_cast_0_float32)
        assign = Assign[float32](v, value)
        turn = Softmax[float32](product/npu_cast_0_float32)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        end = Softmax[float32](exit)
        """,
        "the rewritten graph",
    )
    (want,) = run(graph, ["end"], ["assign"])
    for _ in range(5):  # A Cast without the control input is only sometimes too early.
        (got,) = run(rewritten, ["end"], ["assign"])
        np.testing.assert_allclose(got, want, rtol=TOLERANCE["float16"])
