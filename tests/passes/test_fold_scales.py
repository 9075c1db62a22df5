"""fold_scales: a convolution's weights take the scales that its result is multiplied by."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.devices import decided_for
from support.norm_text import STATISTICS
from support.text_graph import read_graph
from support.tf_versions import needs_gpu_kernels, needs_kernels

import npu_precision

tf1 = tf.compat.v1
BF16 = "allow_mix_precision_bf16"
check = functools.partial(check_rewrite, rewrites="none,fold_scales")
pytestmark = needs_kernels("bfloat16", "Conv2D")

CONVOLUTION = """
    x = Placeholder(shape=2x8x8x4)
    w = Placeholder(shape=3x3x4x8)
    s = Placeholder(shape=8)
    t = Placeholder(shape=8)
    conv = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)
    """
NORM = f"""
    {STATISTICS}
    scaled = Mul(conv, scale)
    norm = AddV2(scaled, shift)
    relu = Relu(norm)
    end = LogSoftmax(relu)
    """


def written(result):
    """The op before and what is there now, by node."""
    assert {rewrite.by for rewrite in result.ledger.rewrites} <= {"fold_scales"}
    return {rewrite.node: (rewrite.before, rewrite.after) for rewrite in result.ledger.rewrites}


def folded(result):
    """The same, of what went into convolutions."""
    return {node: ops for node, ops in written(result).items() if " of " in ops[1]}


@pytest.mark.parametrize(("mode", "low"), [("allow_mix_precision", "float16"), (BF16, "bfloat16")])
def test_a_batch_norm_of_variables_becomes_a_bias_that_runs_in_the_low_type(mode, low):
    result = check(
        f"{CONVOLUTION}{NORM}",
        f"""
        squared = Square[float32](variance)
        guarded = AddV2[float32](squared, epsilon)
        inverse = Rsqrt[float32](guarded)
        scale = Mul[float32](inverse, gamma)
        conv/npu_folded_weights = Mul[float32](w, scale)
        conv = Conv2D[{low}](x/npu_cast_0_{low}, conv/npu_folded_weights/npu_cast_0_{low})
        moved = Mul[float32](mean, scale)
        shift = Sub[float32](beta, moved)
        norm = BiasAdd[{low}](conv, shift/npu_cast_0_{low})
        relu = Relu[{low}](norm)
        end = LogSoftmax[float32](relu/npu_cast_0_float32)
        """,
        mode=mode,
    )
    assert folded(result) == {"norm": ("AddV2", "BiasAdd of conv")}


@pytest.mark.parametrize(
    ("chain", "offset"),
    [
        ("a = Mul(s, conv)\nend = AddV2(t, a)", "t"),
        ("a = Mul(conv, s)\nend = BiasAdd(a, t)", "t"),
        ("a = Mul(conv, s)\nend = Sub(a, t)", "Neg(t)"),
        ("a = BiasAdd(conv, t)\nend = Mul(a, s)", "Mul(t, s)"),
        ("a = AddV2(conv, t)\nb = Mul(a, s)\nend = AddV2(b, u)", "AddV2(Mul(t, s), u)"),
        ("a = Mul(conv, s)\nb = AddV2(a, t)\nend = Sub(b, u)", "Sub(t, u)"),
        ("a = Mul(conv, s)\nb = AddV2(a, t)\nend = Mul(b, u)", "Mul(t, u)"),
    ],
)
def test_any_chain_of_sums_and_products_with_vectors_is_folded(chain, offset):
    result = check(f"{CONVOLUTION}u = Placeholder(shape=8)\n{chain}", None, mode=BF16)
    assert set(folded(result)) == {"end"}
    nodes = {node.name: node for node in result.graph.node}

    def text(name):
        node = nodes[name]
        if node.op == "Placeholder":
            return name
        return f"{node.op}({', '.join(text(each) for each in node.input)})"

    assert "a" not in nodes
    bias = next(node for node in nodes.values() if node.op == "BiasAdd")
    cast = nodes[bias.input[1]]
    assert text(cast.input[0]) == offset


@pytest.mark.parametrize("shape", ["1x1x1x8", "1x8"])
def test_vectors_may_have_more_dimensions(shape):
    text = CONVOLUTION.replace("shape=8)", f"shape={shape})")
    result = check(f"{text}a = Mul(conv, s)\nend = AddV2(a, t)", None, mode=BF16)
    assert set(folded(result)) == {"end"}


def test_a_scale_alone_is_folded_too():
    result = check(
        f"{CONVOLUTION}scaled = Mul(conv, s)\nend = LogSoftmax(scaled)",
        """
        conv/npu_folded_weights = Mul[float32](w, s)
        conv = Conv2D[bfloat16](x/npu_cast_0_bfloat16, conv/npu_folded_weights/npu_cast_0_bfloat16)
        scaled = Identity[bfloat16](conv)
        end = LogSoftmax[float32](scaled/npu_cast_0_float32)
        """,
        mode=BF16,
    )
    assert folded(result) == {"scaled": ("Mul", "Identity of conv")}


def test_weights_of_a_depthwise_convolution_are_scaled_by_channel():
    result = check(
        """
        x = Placeholder(shape=2x8x8x4)
        w = Placeholder(shape=3x3x4x1)
        s = Placeholder(shape=4)
        t = Placeholder(shape=4)
        conv = DepthwiseConv2dNative(x, w, strides=[1, 1, 1, 1], padding=SAME)
        scaled = Mul(conv, s)
        end = AddV2(scaled, t)
        """,
        None,
        mode=BF16,
    )
    assert set(folded(result)) == {"end"}


RESIDUAL = """
    other = Placeholder(shape=2x8x8x8)
    scaled = Mul(conv, s)
    inner = {inner}
    outer = AddV2(t, inner)
    end = LogSoftmax(outer)
    """


@pytest.mark.parametrize(
    "inner",
    ["AddN(other, scaled)", "AddN(scaled, other)", "AddV2(scaled, other)", "AddV2(other, scaled)"],
)
def test_so_is_a_norm_that_tensorflow_spread_over_a_residual_sum(inner):
    """Its arithmetic optimizer adds tensors of one shape first, and then the vectors."""
    result = check(
        CONVOLUTION + RESIDUAL.format(inner=inner),
        """
        conv/npu_folded_weights = Mul[float32](w, s)
        conv = Conv2D[bfloat16](x/npu_cast_0_bfloat16, conv/npu_folded_weights/npu_cast_0_bfloat16)
        inner = BiasAdd[bfloat16](conv, t/npu_cast_0_bfloat16)
        outer = AddV2[bfloat16](inner, other/npu_cast_0_bfloat16)
        end = LogSoftmax[float32](outer/npu_cast_0_float32)
        """,
        mode=BF16,
    )
    assert folded(result) == {"inner": (inner.partition("(")[0], "BiasAdd of conv")}


def test_of_two_norms_in_a_sum_the_first_takes_the_vector():
    result = check(
        f"""
        {CONVOLUTION}
        r = Placeholder(shape=8)
        conv_2 = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)
        scaled = Mul(conv, s)
        scaled_2 = Mul(conv_2, r)
        inner = AddN(scaled, scaled_2)
        outer = AddV2(t, inner)
        end = LogSoftmax(outer)
        """,
        None,
        mode=BF16,
    )
    assert folded(result) == {
        "inner": ("AddN", "BiasAdd of conv"),
        "scaled_2": ("Mul", "Identity of conv_2"),
    }


@pytest.mark.parametrize(
    "lines",
    [
        "scaled = Mul(conv, s)\nother = Relu(conv)\nsum = AddV2(scaled, t)\nend = Add(sum, other)",
        "one = Placeholder(shape=scalar)\nscaled = Mul(conv, one)\nend = AddV2(scaled, t)",
        "r = Placeholder(shape=?)\nscaled = Mul(conv, r)\nend = AddV2(scaled, t)",
        "r = Placeholder(shape=8x8)\nscaled = Mul(conv, r)\nend = AddV2(scaled, t)",
        "scaled = Sub(s, conv)\nend = Mul(scaled, t)",
        "moved = AddV2(conv, s)\nend = AddV2(moved, t)",
    ],
    ids=["read twice", "a number", "unknown", "rows", "taken from", "no scale"],
)
def test_other_forms_stay(lines):
    result = check(f"{CONVOLUTION}{lines}", None, mode=BF16, run="?" not in lines)
    assert folded(result) == {}


@pytest.mark.parametrize(
    ("image", "is_folded"), [("2x2x2x64", False), ("4x8x8x64", True), ("?x8x8x64", False)]
)
def test_weights_that_are_many_beside_the_result_stay(image, is_folded):
    """A product with the weights would cost more than one with the result, in each call."""
    result = check(
        f"""
        x = Placeholder(shape={image})
        w = Placeholder(shape=3x3x64x64)
        s = Placeholder(shape=64)
        conv = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)
        end = Mul(conv, s)
        """,
        None,
        mode=BF16,
        run="?" not in image,
    )
    assert bool(folded(result)) == is_folded


@pytest.mark.parametrize(
    ("mode", "epsilon", "is_folded"),
    [
        ("allow_mix_precision", 1e-6, True),
        ("allow_mix_precision", 1e-9, False),
        (BF16, 1e-9, True),
    ],
)
def test_a_scale_that_may_be_huge_is_not_folded_in_float16(mode, epsilon, is_folded):
    text = NORM.replace("0.001", str(epsilon))
    assert bool(folded(check(f"{CONVOLUTION}{text}", None, mode=mode))) == is_folded


@pytest.mark.parametrize("scale", ["Exp(s)", "Mul(s, million)", "AddV2(s, million)"])
def test_nor_is_one_of_which_nothing_is_known_or_with_a_large_number(scale):
    lines = (
        f"million = Const(value=1e6)\nr = {scale}\nscaled = Mul(conv, r)\nend = AddV2(scaled, t)"
    )
    assert not folded(check(f"{CONVOLUTION}{lines}", None, mode="allow_mix_precision"))


@pytest.mark.parametrize("node", ["conv", "scaled"])
def test_what_is_fetched_keeps_its_value(node):
    lines = "scaled = Mul(conv, s)\nend = AddV2(scaled, t)"
    result = check(f"{CONVOLUTION}{lines}", None, ["end", node], mode=BF16)
    assert folded(result) == ({} if node == "conv" else {"scaled": ("Mul", "Identity of conv")})


def test_what_a_mixlist_names_stays(tmp_path):
    lines = "scaled = Mul(conv, s)\nend = AddV2(scaled, t)"
    for name in ("conv", "scaled"):
        mixlist = {"black-list": {"to-add": [f"node:{name}"]}}
        result = check(f"{CONVOLUTION}{lines}", None, mode=BF16, modify_mixlist=mixlist)
        assert folded(result) == {}


IMAGE = """
    x = Placeholder(shape=?x8x8x4)
    w = Placeholder(shape=3x3x4x8)
    s = Placeholder(shape=8)
    t = Placeholder(shape=8)
    conv = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)
    read = Relu(conv)
    """


@pytest.mark.parametrize(
    ("lines", "offset"),
    [
        ("scaled = Mul(read, s)\nnorm = AddV2(scaled, t)", "t"),
        ("scaled = Mul(s, read)\nnorm = Sub(scaled, t)", "norm/npu_folded_offset"),
    ],
)
def test_elsewhere_a_scale_and_offset_are_one_batch_norm(lines, offset):
    """With mean 0 and variance 1: the kernel computes in float32, and reads and writes bfloat16."""
    result = check(
        f"{IMAGE}{lines}\nend = LogSoftmax(norm)",
        None,
        mode=BF16,
        run=False,
    )
    assert [*written(result).values()] == [
        ("Sub" if "Sub" in lines else "AddV2", "FusedBatchNormV3")
    ]
    (norm,) = (node for node in result.graph.node if node.name == "norm")
    mean, variance = "norm/npu_mean", "norm/npu_variance"
    assert [*norm.input] == ["read", "s", offset, mean, variance]
    assert norm.attr["epsilon"].f == 0
    assert norm.attr["T"].type == tf.bfloat16.as_datatype_enum


def test_its_values_are_those_of_the_chain():
    check(
        f"{CONVOLUTION}read = Relu(conv)\nscaled = Mul(read, s)\nnorm = AddV2(scaled, t)"
        "\nend = Tanh(norm)",
        None,
        mode=BF16,
    )


@pytest.mark.parametrize(
    "lines",
    [
        "norm = Mul(read, s)",
        "row = Mul(s, t)\nnorm = AddV2(row, s)",
        "rows = Reshape(read, sizes)\nsizes = Const[int32](value=[-1, 8])\nscaled = Mul(rows, s)"
        "\nnorm = AddV2(scaled, t)",
    ],
    ids=["no offset", "vectors", "rows"],
)
def test_what_is_no_image_with_both_stays(lines):
    assert not written(check(f"{IMAGE}{lines}\nend = Tanh(norm)", None, mode=BF16, run=False))


def test_a_batch_norm_of_the_batch_itself_stays():
    """Its gradient reads and yields float32."""
    statistics = """
        axes = Const[int32](value=[0, 1, 2])
        mean = Mean(read, axes)
        far = SquaredDifference(read, mean)
        variance = Mean(far, axes)
        inverse = Rsqrt(variance)
        scaled = Mul(read, inverse)
        norm = AddV2(scaled, t)
        end = Tanh(norm)
        """
    assert not written(check(f"{IMAGE}{statistics}", None, mode=BF16, run=False))


def test_a_fetched_end_stays():
    lines = "scaled = Mul(read, s)\nnorm = AddV2(scaled, t)"
    assert not written(check(f"{IMAGE}{lines}", None, mode=BF16, run=False))


def test_values_are_as_near_to_float64_as_without_it():
    """Statistics far from zero: the bias is added before the result is rounded."""
    random = np.random.default_rng(1)
    graph_def = read_graph(f"{CONVOLUTION}{NORM}".replace("shape=2x8", "shape=?x8"))
    feeds = {
        "x": random.normal(size=(2, 8, 8, 4)),
        "w": random.normal(size=(3, 3, 4, 8)) / 6,
        "s": np.ones(8),
        "t": np.ones(8),
        "gamma": random.uniform(0.5, 2, 8),
        "beta": random.normal(size=8),
        "mean": random.normal(size=8),
        "variance": random.uniform(0.5, 2, 8),
    }

    def run(graph_def):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
            with tf1.Session(graph=graph) as session:
                fed = {f"{name}:0": value.astype(np.float32) for name, value in feeds.items()}
                return session.run("norm:0", {k: v for k, v in fed.items() if k[0] not in "st"})

    conv = tf.nn.conv2d(feeds["x"], feeds["w"], 1, "SAME").numpy()
    scale = feeds["gamma"] / np.sqrt(feeds["variance"] ** 2 + 0.001)
    exact = (conv - feeds["mean"]) * scale + feeds["beta"]
    errors = []
    for rewrites in ("none,fold_scales", "none"):
        rewritten, _ = npu_precision.rewrite_graph_def(
            graph_def, ["norm"], precision_mode=BF16, rewrites=rewrites
        )
        errors.append(np.abs(run(rewritten) - exact).max())
    assert errors[0] < 1.5 * errors[1]


@needs_gpu_kernels
@pytest.mark.parametrize("mode", ["allow_mix_precision", BF16])
def test_on_a_gpu_it_is_folded_or_fused_too(mode):
    with decided_for(["CPU:0", "GPU:0"]):
        assert folded(check(f"{CONVOLUTION}{NORM}", None, mode=mode)) == {
            "norm": ("AddV2", "BiasAdd of conv")
        }
        lines = "read = Relu(conv)\nscaled = Mul(read, s)\nend = AddV2(scaled, t)"
        result = check(f"{CONVOLUTION}{lines}\nlast = LogSoftmax(end)", None, mode=mode)
        assert written(result) == {"end": ("AddV2", "FusedBatchNormV3")}
