"""Graphs from an earlier run: its Casts and marks are reused, undone, or left alone."""

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.text_graph import read_graph
from support.tf_versions import needs_onednn

import npu_precision

tf1 = tf.compat.v1

DENSE = """
    x = Placeholder(shape=4x8)
    w = Const(shape=8x8)
    logits = MatMul(x, w)
    end = Exp(logits)
    """


def rewrite(graph_def, fetches, mode, **options):
    return npu_precision.rewrite_graph_def(
        graph_def, fetches, precision_mode=mode, fold_constants=False, **options
    )


def run(graph_def, fetch, feeds):
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf1.Session(graph=graph) as session:
            return session.run(fetch, feeds)


def test_force_fp32_undoes_the_rounding_of_a_lowered_fetch():
    graph_def = read_graph(DENSE)
    low, _ = rewrite(graph_def, ["logits", "end"], "force_fp16")
    raised, _ = rewrite(low, ["logits", "end"], "force_fp32")
    x = {"x:0": np.random.default_rng(0).normal(size=[4, 8]).astype("f")}
    assert np.abs(run(low, "logits:0", x) - run(graph_def, "logits:0", x)).max() > 0
    np.testing.assert_allclose(
        run(raised, "logits:0", x), run(graph_def, "logits:0", x), rtol=0, atol=2e-3
    )
    dtypes = {
        (tf.as_dtype(node.attr["SrcT"].type).name, tf.as_dtype(node.attr["DstT"].type).name)
        for node in raised.node
        if node.op == "Cast" and node.name == "logits"
    }
    assert dtypes == {("float32", "float32")}, "the fetch no longer passes through float16"


def test_cube_mode_rounds_what_force_fp32_raised():
    low, _ = rewrite(read_graph(DENSE), ["end"], "allow_mix_precision")
    raised, _ = rewrite(low, ["end"], "force_fp32")
    _, ledger = rewrite(raised, ["end"], "cube_fp16in_fp32out")
    assert (ledger.node("logits").decision, ledger.node("logits").reason) == (
        "kept",
        "inputs_rounded",
    )


def test_a_fed_cast_of_an_earlier_run_is_not_read_past(mixlist):
    low, _ = rewrite(read_graph(DENSE), ["logits", "end"], "allow_mix_precision")
    path = mixlist(white=["Exp"])
    again, _ = rewrite(low, ["end"], "allow_mix_precision", feeds=["logits"], modify_mixlist=path)
    value = run(again, "end:0", {"x:0": np.ones([4, 8], "f"), "logits:0": np.zeros([4, 8], "f")})
    np.testing.assert_allclose(value, np.ones([4, 8]), rtol=0, atol=1e-3)


def test_cube_mode_names_casts_of_any_output():
    graph_def = read_graph("""
        h = Placeholder[half](shape=4x8)
        axis = Const[int32](value=1)
        parts = Split(axis, h, num_split=2)
        wide = Cast[half,float32](parts:1)
        w = Const(shape=4x4)
        product = MatMul(wide, w)
        end = Exp(product)
        """)
    result, ledger = rewrite(graph_def, ["end"], "cube_fp16in_fp32out")
    assert ledger.node("product").reason == "inputs_rounded"
    assert not [node.name for node in result.node if ":" in node.name]


def test_next_to_an_op_tensorflow_does_not_know_nothing_changes():
    graph_def = read_graph(DENSE)
    graph_def.node.add(name="custom", op="NobodyKnowsMe", input=["logits"])
    after = graph_def.node.add(name="after", op="MatMul", input=["custom", "custom"])
    after.attr["T"].type = 1
    _, ledger = rewrite(graph_def, ["after", "end"], "allow_mix_precision")
    assert {ledger.node(name).reason for name in ("logits", "after")} == {"unknown_neighbour"}


def test_a_reference_is_read_after_the_control_inputs_of_its_reader():
    """In float32 `y` sees the assignment every time; so it must behind a Cast."""
    with tf.Graph().as_default():
        variable = tf1.Variable(np.zeros([4, 4], "f"), use_resource=False)
        x = tf1.placeholder(tf.float32, [4, 4])
        assign = variable.assign_add(np.ones([4, 4], "f"))
        with tf.control_dependencies([assign]):
            y = tf.reduce_max(tf.matmul(x, variable._ref()))
        config = npu_precision.npu_config_proto(precision_mode="allow_mix_precision")
        with tf1.Session(config=config) as session:
            session.run(tf1.global_variables_initializer())
            seen = [session.run(y, {x: np.eye(4, dtype="f")}) for _ in range(20)]
    assert seen == list(range(1, 21))


def test_a_cast_with_control_inputs_is_no_node_of_the_users_in_a_second_run():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        value = Const(shape=4x4)
        v = VariableV2(shape=4x4)
        assign = Assign(v, value)
        update = AssignAdd(v, x)
        read = Identity(v)
        product = MatMul(x, read, ^update)
        end = Softmax(product)
        """,
        """
        v = VariableV2[float32]()
        assign = Assign[float32](v, value)
        update = AssignAdd[float32](v, x)
        read = Identity[float32](v)
        product/npu_cast_ref_float16 = Cast[float32,float16](v, ^update)
        product = MatMul[float16](x/npu_cast_0_float16, product/npu_cast_ref_float16, ^update)
        end = Softmax[float32](product/npu_cast_0_float32)
        """,
        init=["assign"],
    )


@pytest.mark.parametrize("attributes", ["NCHW", pytest.param("dilated", marks=needs_onednn)])
def test_convolutions_whose_float16_kernel_would_fail_on_a_cpu_stay_float32(attributes):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2, 8, 8, 8], name="x")
        w = tf.constant(np.ones([3, 3, 8, 8], "f") / 72)
        if attributes == "NCHW":
            y = tf.nn.conv2d(x, w, 1, "SAME", data_format="NCHW", name="conv")
        else:
            y = tf.nn.conv2d(x, w, 1, "SAME", dilations=2, name="conv")
            y = tf.gradients(y, x)[0]
        tf.identity(y, name="end")
    result, ledger = rewrite(graph.as_graph_def(), ["end"], "force_fp16")
    assert "no_kernel" in {node.reason for node in ledger.nodes}
    if attributes == "dilated":
        x_value = np.random.default_rng(0).normal(size=[2, 8, 8, 8]).astype("f")
        want = run(graph.as_graph_def(), "end:0", {"x:0": x_value})
        np.testing.assert_allclose(run(result, "end:0", {"x:0": x_value}), want, atol=1e-2)


def test_whether_there_is_a_kernel_depends_on_the_dilations():
    result = check_rewrite(
        """
        x = Placeholder(shape=2x8x8x8)
        w = Const(shape=3x3x8x8)
        sizes = Const[int32](value=[2, 8, 8, 8])
        plain = Conv2DBackpropInput(sizes, w, x, strides=[1, 1, 1, 1], padding=SAME)
        dilated = Conv2DBackpropInput(sizes, w, x, strides=[1, 1, 1, 1], padding=SAME,
            dilations=[1, 2, 2, 1])
        end = AddN(plain, dilated)
        """,
        None,
        mode="force_fp16",
        run=False,
    )
    assert result.reasons["plain"][:2] == ("lowered", "forced")
    assert result.reasons["dilated"][:2] == ("kept", "no_kernel")


def test_what_the_dtypes_were_before_the_first_of_three_runs():
    """The first lowers one element of `both`, the second the other one."""
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        black = Exp(x)
        both = IdentityN(white, black)
        end = AddN(both, both:1)
        """
    )
    for mode in ("allow_mix_precision", "force_fp16", "force_fp16"):
        graph, ledger = rewrite(graph, ["end"], mode)
    (both,) = (node for node in ledger.nodes if node.name == "both")
    assert both.dtypes == {"T[0]": ["float32", "float16"], "T[1]": ["float32", "float16"]}


def test_gray_follows_what_an_earlier_run_lowered(mixlist):
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        gray = Relu(product)
        end = Exp(gray)
        """
    )
    mode, kept = "allow_mix_precision", mixlist(black=["Relu"])
    graph, _ = rewrite(graph, ["end"], mode, modify_mixlist=kept)
    _, ledger = rewrite(graph, ["end"], mode)
    (gray,) = (node for node in ledger.nodes if node.name == "gray")
    assert (gray.reason, gray.cause) == ("gray_follows_lowered", "product")
