"""Fused ops, which Grappler's remapper makes of Conv2D + BiasAdd + Relu and similar ops.

Whether the remapper ran before must not change a decision. A fused node is lowered whole if all its
parts are lowered and the fused op has a kernel; otherwise it is replaced by its parts. On CPU,
_FusedMatMul, _FusedBatchNormEx and _FusedDepthwiseConv2dNative have bfloat16 kernels; _FusedConv2D
has none, and no fused op has a float16 kernel.
"""

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import UNCHANGED, check_rewrite, run
from support.sessions_by_hand import by_hand
from support.text_graph import random_values, read_graph
from support.tf_versions import need_kernels, needs_kernels, needs_onednn
from tensorflow.core.protobuf import rewriter_config_pb2

import npu_precision
from npu_precision._tf_compat import op_definition

tf1 = tf.compat.v1
needs_fused_bfloat16 = needs_kernels("bfloat16", "_FusedConv2D", "_FusedMatMul")
BF16 = {"mode": "allow_mix_precision_bf16"}
CONV = "strides=[1, 1, 1, 1], padding=SAME"


def fused_conv(name, inputs, *ops, extra=""):
    fused = ", ".join(f"'{op}'" for op in ops)
    count = sum(not name.startswith("^") for name in inputs.split(", ")) - 2
    return f"{name} = _FusedConv2D({inputs}, num_args={count}, {CONV}, fused_ops=[{fused}]{extra})"


IMAGE = """
    x = Placeholder(shape=2x4x4x3)
    f = Const(shape=3x3x3x4)
    b = Const(shape=4)
    s = Const(value=[1.0, 0.5, 1.5, 2.0])
    """


DENSE = """
    x = Placeholder(shape=4x3)
    w = Const(shape=3x5)
    b = Const(shape=5)
    tanh = _FusedMatMul(x, w, b, fused_ops=['BiasAdd', 'Tanh'])
    end = LogSoftmax(tanh)
    """


@needs_onednn
@needs_fused_bfloat16
def test_parts_that_are_all_lowered_stay_one_node():
    result = check_rewrite(
        DENSE,
        """
        tanh = _FusedMatMul[bfloat16](x/npu_cast_0_bfloat16, w/npu_cast_0_bfloat16,
            b/npu_cast_0_bfloat16)
        end = LogSoftmax[float32](tanh/npu_cast_0_float32)
        """,
        **BF16,
    )
    assert result.reasons["tanh"] == ("lowered", "white_list", "")


@needs_onednn
@needs_fused_bfloat16
def test_parts_are_written_out_where_the_fused_op_has_no_kernel():
    check_rewrite(
        DENSE,
        """
        tanh/npu_part_0 = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        tanh/npu_part_1 = BiasAdd[float16](tanh/npu_part_0, b/npu_cast_0_float16)
        tanh = Tanh[float16](tanh/npu_part_1)
        end = LogSoftmax[float32](tanh/npu_cast_0_float32)
        """,
    )


def test_the_first_part_has_the_control_inputs():
    result = check_rewrite(
        f"""
        {IMAGE}
        {fused_conv("relu", "x, f, b, ^s", "BiasAdd", "Relu")}
        end = Exp(relu, ^relu)
        """,
        """
        relu/npu_part_0 = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16, ^s)
        relu/npu_part_1 = BiasAdd[float16](relu/npu_part_0, b/npu_cast_0_float16)
        relu = Relu[float16](relu/npu_part_1)
        end = Exp[float32](relu/npu_cast_0_float32, ^relu)
        """,
    )
    assert result.reasons["relu"] == ("lowered", "gray_follows_lowered", "relu/npu_part_1")


@needs_fused_bfloat16
def test_parts_are_written_out_where_they_differ(mixlist):
    check_rewrite(
        f"""
        {IMAGE}
        {fused_conv("relu", "x, f, b", "BiasAdd", "Relu")}
        end = Exp(relu)
        """,
        """
        relu/npu_part_0 = Conv2D[bfloat16](x/npu_cast_0_bfloat16, f/npu_cast_0_bfloat16)
        relu/npu_part_1 = BiasAdd[bfloat16](relu/npu_part_0, b/npu_cast_0_bfloat16)
        relu = Relu[float32](relu/npu_part_1/npu_cast_0_float32)
        end = Exp[float32](relu)
        """,
        modify_mixlist=mixlist(black=["Relu"]),
        **BF16,
    )


@pytest.mark.parametrize("entry", ["Conv2D", "node:relu"])
def test_parts_that_are_all_kept_stay_one_node(mixlist, entry):
    check_rewrite(
        f"""
        {IMAGE}
        {fused_conv("relu", "x, f, b", "BiasAdd", "Relu")}
        end = Exp(relu)
        """,
        UNCHANGED,
        modify_mixlist=mixlist(black=[entry]),
        **BF16,
    )


@needs_fused_bfloat16
def test_the_parts_carry_what_the_fused_op_was_told():
    check_rewrite(
        f"""
        {IMAGE}
        {fused_conv("leaky", "x, f, b", "BiasAdd", "LeakyRelu", extra=", leakyrelu_alpha=0.7")}
        end = Exp(leaky)
        """,
        """
        leaky/npu_part_0 = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        leaky/npu_part_1 = BiasAdd[float16](leaky/npu_part_0, b/npu_cast_0_float16)
        leaky = LeakyRelu[float16](leaky/npu_part_1)
        end = Exp[float32](leaky/npu_cast_0_float32)
        """,
    )


def test_every_part_has_all_attributes_of_its_op():
    """TensorFlow's passes read attributes without asking whether they are there."""
    result = check_rewrite(
        f"""
        {IMAGE}
        {fused_conv("relu", "x, f, s, b, b, s", "FusedBatchNorm", "Relu")}
        end = Exp(relu)
        """,
        None,
        **BF16,
    )
    for node in result.graph.node:
        for attribute in op_definition(node.op).attr:
            assert attribute.name in node.attr, f"{node.name} ({node.op}) has no {attribute.name}"


@pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)
def test_a_batch_norm_fused_into_a_convolution_keeps_its_statistics(mode, low):
    need_kernels(low, "Conv2D", "FusedBatchNormV3")
    """The fused op has one dtype for image and statistics, so it is always written out."""
    check_rewrite(
        f"""
        {IMAGE}
        {fused_conv("relu", "x, f, s, b, b, s", "FusedBatchNorm", "Relu", extra=", epsilon=0.01")}
        end = Exp(relu)
        """,
        f"""
        relu/npu_part_0 = Conv2D[{low}](x/npu_cast_0_{low}, f/npu_cast_0_{low})
        relu/npu_part_1 = FusedBatchNormV3[{low},float32](relu/npu_part_0, s, b, b, s)
        relu = Relu[{low}](relu/npu_part_1)
        end = Exp[float32](relu/npu_cast_0_float32)
        """,
        mode=mode,
    )


@needs_onednn
@needs_fused_bfloat16
def test_a_batch_norm_with_its_activation_is_lowered_whole_but_for_its_statistics():
    check_rewrite(
        f"""
        {IMAGE}
        conv = Conv2D(x, f, {CONV})
        relu = _FusedBatchNormEx(conv, s, b, b, s, activation_mode=Relu, is_training=False)
        end = Exp(relu)
        """,
        """
        conv = Conv2D[bfloat16](x/npu_cast_0_bfloat16, f/npu_cast_0_bfloat16)
        relu = _FusedBatchNormEx[bfloat16,float32](conv, s, b, b, s)
        end = Exp[float32](relu/npu_cast_0_float32)
        """,
        **BF16,
    )


@needs_onednn
def test_the_further_outputs_of_a_batch_norm_are_those_of_its_first_part():
    check_rewrite(
        f"""
        {IMAGE}
        none = Const(value=[])
        conv = Conv2D(x, f, {CONV})
        relu = _FusedBatchNormEx(conv, s, b, none, none, activation_mode=Relu, is_training=True)
        moving = Mul(relu:1, s)
        variance = Mul(relu:2, s)
        end = Exp(relu)
        """,
        """
        conv = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        relu/npu_part_0 = FusedBatchNormV3[float16,float32](conv, s, b, none, none)
        relu = Relu[float16](relu/npu_part_0)
        moving = Mul[float32](relu/npu_part_0:1, s)
        variance = Mul[float32](relu/npu_part_0:2, s)
        end = Exp[float32](relu/npu_cast_0_float32)
        """,
        ["end", "moving", "variance"],
    )


@needs_onednn
@needs_fused_bfloat16
def test_a_fused_depthwise_convolution():
    text = f"""
        {IMAGE}
        d = Const(shape=3x3x3x1)
        v = Const(shape=3)
        relu = _FusedDepthwiseConv2dNative(x, d, v, {CONV}, fused_ops=['BiasAdd', 'Relu6'])
        end = Exp(relu)
        """
    check_rewrite(
        text,
        """
        relu = _FusedDepthwiseConv2dNative[bfloat16](x/npu_cast_0_bfloat16, d/npu_cast_0_bfloat16,
            v/npu_cast_0_bfloat16)
        end = Exp[float32](relu/npu_cast_0_float32)
        """,
        **BF16,
    )
    check_rewrite(
        text,
        """
        relu/npu_part_0 = DepthwiseConv2dNative[float16](x/npu_cast_0_float16, d/npu_cast_0_float16)
        relu/npu_part_1 = BiasAdd[float16](relu/npu_part_0, v/npu_cast_0_float16)
        relu = Relu6[float16](relu/npu_part_1)
        end = Exp[float32](relu/npu_cast_0_float32)
        """,
    )


@needs_onednn
@needs_fused_bfloat16
def test_a_fused_op_without_op_types_of_its_own_is_decided_as_a_whole():
    """No op computes the exact Gelu, so it cannot be replaced by its parts."""
    text = """
        x = Placeholder(shape=4x3)
        w = Const(shape=3x5)
        b = Const(shape=5)
        gelu = _FusedMatMul(x, w, b, fused_ops=['BiasAdd', 'GeluExact'])
        end = LogSoftmax(gelu)
        """
    check_rewrite(
        text,
        """
        gelu = _FusedMatMul[bfloat16](x/npu_cast_0_bfloat16, w/npu_cast_0_bfloat16,
            b/npu_cast_0_bfloat16)
        end = LogSoftmax[float32](gelu/npu_cast_0_float32)
        """,
        **BF16,
    )
    result = check_rewrite(text, UNCHANGED)
    assert result.reasons["gelu"] == ("kept", "no_kernel", "")


@needs_onednn
@needs_fused_bfloat16
def test_a_fetched_fused_node_keeps_name_and_dtype():
    check_rewrite(
        DENSE,
        """
        tanh/npu_changed = _FusedMatMul[bfloat16](x/npu_cast_0_bfloat16, w/npu_cast_0_bfloat16,
            b/npu_cast_0_bfloat16)
        tanh = Cast[bfloat16,float32](tanh/npu_changed)
        end = LogSoftmax[float32](tanh)
        """,
        ["tanh", "end"],
        **BF16,
    )
    check_rewrite(
        DENSE,
        """
        tanh/npu_part_0 = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        tanh/npu_part_1 = BiasAdd[float16](tanh/npu_part_0, b/npu_cast_0_float16)
        tanh/npu_changed = Tanh[float16](tanh/npu_part_1)
        tanh = Cast[float16,float32](tanh/npu_changed)
        end = LogSoftmax[float32](tanh)
        """,
        ["tanh", "end"],
    )


@needs_onednn
def test_a_fetched_batch_norm_with_several_outputs_keeps_float32():
    result = check_rewrite(
        f"""
        {IMAGE}
        conv = Conv2D(x, f, {CONV})
        norm = _FusedBatchNormEx(conv, s, b, b, s, activation_mode=Relu, is_training=False)
        """,
        """
        conv = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        norm = _FusedBatchNormEx[float32,float32](conv/npu_cast_0_float32, s, b, b, s)
        """,
    )
    assert result.reasons["norm"] == ("kept", "preserved_outputs", "")


@needs_fused_bfloat16
def test_cube_rounds_image_and_filter_of_a_fused_convolution_and_not_its_bias():
    check_rewrite(
        f"""
        {IMAGE}
        {fused_conv("relu", "x, f, b", "BiasAdd", "Relu")}
        end = Exp(relu)
        """,
        """
        relu = _FusedConv2D[float32,float32](x/npu_cast_0_float16/npu_cast_0_float32,
            f/npu_cast_0_float16/npu_cast_0_float32, b)
        end = Exp[float32](relu)
        """,
        mode="cube_fp16in_fp32out",
    )


@needs_onednn
@needs_fused_bfloat16
def test_force_fp32_raises_a_fused_product_whole():
    check_rewrite(
        """
        x = Placeholder[bfloat16](shape=4x3)
        w = Const[bfloat16](shape=3x5)
        b = Const[bfloat16](shape=5)
        tanh = _FusedMatMul(x, w, b, fused_ops=['BiasAdd', 'Tanh'])
        """,
        """
        tanh/npu_changed = _FusedMatMul[float32](x/npu_cast_0_float32, w/npu_cast_0_float32,
            b/npu_cast_0_float32)
        tanh = Cast[float32,bfloat16](tanh/npu_changed)
        """,
        mode="force_fp32",
    )


@needs_fused_bfloat16
def test_gray_neighbours_hear_the_parts_and_not_the_fused_op(mixlist):
    """A black activation in a fused node keeps its followers, though its convolution is white."""
    check_rewrite(
        f"""
        {IMAGE}
        {fused_conv("relu", "x, f, b", "BiasAdd", "Relu")}
        after = Neg(relu)
        end = Exp(after)
        """,
        """
        relu/npu_part_0 = Conv2D[bfloat16](x/npu_cast_0_bfloat16, f/npu_cast_0_bfloat16)
        relu/npu_part_1 = BiasAdd[bfloat16](relu/npu_part_0, b/npu_cast_0_bfloat16)
        relu = Relu[float32](relu/npu_part_1/npu_cast_0_float32)
        after = Neg[float32](relu)
        end = Exp[float32](after)
        """,
        modify_mixlist=mixlist(black=["Relu"]),
        **BF16,
    )


@needs_onednn
@needs_fused_bfloat16
def test_a_pattern_sees_only_the_last_name_of_a_fused_node_which_is_told(mixlist):
    result = check_rewrite(DENSE, None, modify_mixlist=mixlist(black=["node:tanh"]), **BF16)
    assert result.reasons["tanh"] == ("kept", "black_list", "")
    (warning,) = result.ledger.warnings
    assert warning.startswith("the remapper fused nodes before NpuOptimizer ran")
    # A keep_dtype_scope() mark leaves no trace in a fused node, so every user gets a warning.
    plain = check_rewrite(DENSE, None, **BF16)
    assert plain.ledger.warnings == (warning,)


NETWORK = f"""
    {IMAGE}
    g = Const(shape=3x3x4x16)
    s16 = Const(value={4 * [1.0, 0.5, 1.5, 2.0]})
    b16 = Const(shape=16)
    w = Const(shape=256x8)
    v = Const(shape=8)
    shape = Const[int32](value=[2, 256])
    conv = Conv2D(x, f, {CONV})
    bias = BiasAdd(conv, b)
    relu = Relu(bias)
    conv2 = Conv2D(relu, g, {CONV})
    norm = FusedBatchNormV3(conv2, s16, b16, b16, s16, is_training=False)
    relu2 = Relu(norm)
    flat = Reshape(relu2, shape)
    product = MatMul(flat, w)
    bias2 = BiasAdd(product, v)
    tanh = Tanh(bias2)
    end = LogSoftmax(tanh)
    """

# The possible orders of NpuOptimizer and the remapper, as fields of RewriterConfig.
PLACEMENTS = {
    "after all others": {},
    "without the remapper": {"remapping": rewriter_config_pb2.RewriterConfig.OFF},
    "before the remapper": {"optimizers": ["NpuOptimizer", "remap"]},
    "after the remapper": {"optimizers": ["remap", "NpuOptimizer"]},
    "between two of them": {"optimizers": ["remap", "NpuOptimizer", "remap"]},
}


def run_session(graph_def, options, **fields):
    """Fetches "end" in a session whose RewriterConfig has these fields."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf1.Session(graph=graph, config=by_hand(options, **fields)) as session:
            return session.run("end:0", {"x:0": random_values("x", [2, 4, 4, 3])})


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("mode", ["allow_mix_precision", "allow_mix_precision_bf16"])
@pytest.mark.parametrize("black", ["", "Relu", "BiasAdd", "FusedBatchNormV3", "node:relu2?"])
def test_decisions_do_not_depend_on_the_remapper(
    placement, mode, black, mixlist, ledgers, tmp_path
):
    """The decision about each node, by name, is the same as without fusions."""
    path = mixlist(black=[black] if black else [])
    plain = check_rewrite(NETWORK, None, mode=mode, modify_mixlist=path)
    expected = {node.name: node.decision for node in plain.ledger.nodes}
    options = npu_precision.PrecisionOptions(
        precision_mode=mode,
        modify_mixlist=path,
        report_dir=tmp_path / "report",
        fold_batch_norms=False,
    )
    value = run_session(read_graph(NETWORK), options, **PLACEMENTS[placement])
    (ledger,) = ledgers(tmp_path / "report")
    got = {node.name: node.decision for node in ledger.nodes}
    shared = expected.keys() & got.keys() - {"x"}
    assert {"flat", "relu2", "tanh", "end"} <= shared
    assert {name: got[name] for name in shared} == {name: expected[name] for name in shared}
    want = run(plain.graph, ["end"])[0]
    tolerance = 5e-2 if mode.endswith("bf16") else 2e-2
    np.testing.assert_allclose(value, want, rtol=0, atol=tolerance * np.abs(want).max())
