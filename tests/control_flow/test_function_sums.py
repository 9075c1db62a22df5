"""Values that accumulate in the body of a While, or over calls of a function, keep float32."""

import pytest
import tensorflow as tf

import npu_precision

tf1 = tf.compat.v1


def decisions(graph_def, fetches, **options):
    """The set of (decision, reason) of the functions' nodes, by op type."""
    mode = {"precision_mode": "allow_mix_precision", **options}
    _, ledger = npu_precision.rewrite_graph_def(graph_def, fetches, **mode)
    found = {}
    for function in ledger.functions:
        for node in function.nodes:
            found.setdefault(node.op, set()).add((node.decision, node.reason))
    return found


def while_loop(step):
    """A functional While whose body adds a product to its state, by `step`."""
    with tf.Graph().as_default() as graph, tf1.variable_scope("", use_resource=True):
        was_v2 = tf1.control_flow_v2_enabled()
        tf1.enable_control_flow_v2()
        try:
            x = tf1.placeholder(tf.float32, [4, 4], name="x")
            _, end = tf1.while_loop(
                lambda i, _: i < 5, lambda i, state: (i + 1, step(state, x)), [0, tf.zeros([4, 4])]
            )
        finally:
            if not was_v2:
                tf1.disable_control_flow_v2()
        tf.identity(end, name="end")
    return graph.as_graph_def()


def test_the_body_of_a_while_adds_in_float32():
    found = decisions(while_loop(lambda state, x: state + tf.matmul(x, x)), ["end"])
    assert found["AddV2"] == {("kept", "sums_iterations")}
    assert found["MatMul"] == {("lowered", "white_list")}


def test_a_recurrent_cell_is_lowered():
    found = decisions(while_loop(lambda state, x: tf.tanh(tf.matmul(state, x) + x)), ["end"])
    assert found["AddV2"] == {("lowered", "gray_follows_lowered")}
    assert found["Tanh"] == {("lowered", "gray_follows_lowered")}


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "allow_mix_precision_fp16"])
def test_a_state_that_goes_out_of_a_function_and_in_again_is_added_up_exactly(mode):
    """In bfloat16 the state would stop growing at 256, in float16 at 2048."""

    @tf.function
    def step(total, x):
        return total + tf.matmul(x, x)

    x = tf.ones([1, 1])
    with npu_precision.autocast(precision_mode=mode):
        total = tf.fill([1, 1], 3000.0)
        for _ in range(5):
            total = step(total, x)
    assert total.numpy() == 3005.0
