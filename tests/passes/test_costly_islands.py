"""keep_costly_islands keeps nodes in float32 if their Casts would take more time than they save.

Nodes that compute much for each cast element stay lowered. So do nodes of unknown cost, and nodes
that the user puts on the white list.
"""

from __future__ import annotations

import json

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite
from support.text_graph import placed, read_graph
from support.tf_versions import needs_gpu_kernels, needs_kernels, needs_onednn_in_bfloat16

BF16 = "allow_mix_precision_bf16"
COSTLY = ("kept", "casts_cost_more", "")
WHITE = ("lowered", "white_list", "")

# Between float32 ops: 16 operations for each of 16 + 16 elements.
ALONE = """
    x = Placeholder(shape=8x2)
    before = Exp(x)
    w = Const(value=[[1.0, 0.5], [0.25, 2.0]])
    product = MatMul(before, w)
    positive = Relu(product)
    end = LogSoftmax(positive)
    """
LOWERED = """
    before = Exp[float32](x)
    product = MatMul[bfloat16](before/npu_cast_0_bfloat16, w/npu_cast_0_bfloat16)
    positive = Relu[bfloat16](product)
    end = LogSoftmax[float32](positive/npu_cast_0_float32)
    """


def check(graph, expected, **options):
    return check_rewrite(graph, expected, mode=BF16, keep_costly_islands=True, **options)


def test_a_small_product_between_float32_ops_keeps_float32():
    result = check(ALONE, UNCHANGED)
    assert result.reasons["product"] == COSTLY
    assert result.reasons["positive"] == COSTLY


def test_without_the_option_the_lists_decide():
    check_rewrite(ALONE, LOWERED, mode=BF16)


def test_a_large_product_is_lowered():
    """1,024 operations for each element of three tensors that are cast."""
    result = check(
        """
        x = Placeholder(shape=256x256)
        before = Exp(x)
        product = MatMul(before, x)
        end = LogSoftmax(product)
        """,
        """
        before = Exp[float32](x)
        product = MatMul[bfloat16](before/npu_cast_0_bfloat16, x/npu_cast_0_bfloat16)
        end = LogSoftmax[float32](product/npu_cast_0_float32)
        """,
    )
    assert result.reasons["product"] == WHITE


@pytest.mark.parametrize("between", ["LogSoftmax", "Relu"])
def test_products_are_judged_with_those_that_they_share_casts_with(between):
    """A Relu follows both products, so that they are one island; a LogSoftmax makes two of them."""
    graph = f"""
        x = Placeholder(shape=256x256)
        w = Const(value={[[0.01] * 2] * 256})
        large = MatMul(x, x)
        middle = {between}(large)
        small = MatMul(middle, w)
        end = LogSoftmax(small)
        wide = LogSoftmax(middle)
        """
    result = check(graph, None, fetches=["end", "wide"])
    assert result.reasons["large"] == WHITE
    assert result.reasons["middle"][0] == ("kept" if between == "LogSoftmax" else "lowered")
    assert result.reasons["small"] == (COSTLY if between == "LogSoftmax" else WHITE)


def test_the_size_of_the_batch_does_not_matter():
    result = check(ALONE.replace("8x2", "?x2"), UNCHANGED, run=False)
    assert result.reasons["product"] == COSTLY


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        ("MatMul", "?x?"),
        pytest.param("BatchMatMulV2", "?x?x2", marks=needs_kernels("bfloat16", "BatchMatMulV2")),
    ],
)
def test_where_shapes_are_not_known_the_lists_decide(op, shape):
    graph, lowered = (text.replace("MatMul", op) for text in (ALONE, LOWERED))
    check(graph.replace("8x2", shape), lowered, run=False)


@pytest.mark.parametrize(
    "edit", [{"white-list": {"to-add": ["node:positive"]}}, {"white-list": {"to-add": ["MatMul"]}}]
)
def test_what_the_user_whitens_is_lowered(edit, tmp_path):
    path = tmp_path / "mixlist.json"
    path.write_text(json.dumps(edit))
    check(ALONE, LOWERED, modify_mixlist=str(path))


def test_constants_cost_no_cast():
    """TensorFlow casts them once: 128 operations for each element of the result alone."""
    graph = f"""
        w = Const(value={[[0.01] * 128] * 2})
        v = Const(value={[[0.01] * 64] * 128})
        product = MatMul(w, v)
        end = LogSoftmax(product)
        """
    assert check(graph, None).reasons["product"] == WHITE
    varying = graph.replace("v = Const", "u = Const").replace(
        "product =", "v = Exp(u)\n        product ="
    )
    assert check(varying, None).reasons["product"] == COSTLY


def convolution(filters):
    return f"""
        x = Placeholder(shape=2x8x8x2)
        before = Exp(x)
        w = Placeholder(shape={filters})
        y = %s(before, w, padding=SAME, strides=[1, 1, 1, 1])
        end = Exp(y)
        """


@needs_onednn_in_bfloat16
@needs_kernels("bfloat16", "Conv2D", "DepthwiseConv2dNative")
def test_a_convolution_adds_up_over_its_kernel_and_the_channels():
    few, many = "3x3x2x8", "7x7x2x64"
    assert check(convolution(few) % "Conv2D", None).reasons["y"] == COSTLY
    assert check(convolution(many) % "Conv2D", None).reasons["y"] == WHITE
    by_channel = convolution("7x7x2x32") % "DepthwiseConv2dNative"
    assert check(by_channel, None).reasons["y"] == WHITE
    assert check(by_channel.replace("7x7", "3x3"), None).reasons["y"] == COSTLY


@needs_kernels("bfloat16", "Conv2DBackpropInput", "Conv2DBackpropFilter")
def test_the_gradients_of_a_convolution_compute_as_much():
    def gradients(channels):
        return f"""
            x = Placeholder(shape=2x8x8x2)
            dy = Placeholder(shape=2x8x8x{channels})
            g = Exp(dy)
            w = Placeholder(shape=7x7x2x{channels})
            x_shape = Const[int32](value=[2, 8, 8, 2])
            w_shape = Const[int32](value=[7, 7, 2, {channels}])
            dx = Conv2DBackpropInput(x_shape, w, g, padding=SAME, strides=[1, 1, 1, 1])
            end_x = Exp(dx)
            dw = Conv2DBackpropFilter(x, w_shape, dy, padding=SAME, strides=[1, 1, 1, 1])
            end_w = Exp(dw)
            """

    result = check(gradients(32), None, fetches=["end_x", "end_w"])
    assert result.reasons["dx"] == result.reasons["dw"] == WHITE
    result = check(gradients(32).replace("7", "3"), None, fetches=["end_x", "end_w"])
    assert result.reasons["dx"] == result.reasons["dw"] == COSTLY


def test_a_transposed_operand_is_summed_over_its_other_dimension():
    graph = """
        x = Placeholder(shape=512x4)
        y = Exp(x)
        product = MatMul(y, y, transpose_a=True)
        end = LogSoftmax(product)
        """
    # 4 x 4 sums of 512 products, for 2,048 elements: 8 operations each.
    assert check(graph, UNCHANGED).reasons["product"] == COSTLY
    wide = graph.replace("512x4", "512x64")
    assert check(wide, None).reasons["product"] == WHITE


def test_what_is_fetched_is_cast_as_well():
    graph = """
        x = Placeholder(shape=64x64)
        y = Exp(x)
        product = MatMul(y, y)
        """
    # 128 operations for each element of the product, 64 if both tensors are cast; 42 for three.
    assert check(graph, None).reasons["product"] == WHITE
    third = graph.replace("MatMul(y, y)", "MatMul(y, x)")
    assert check(third, UNCHANGED).reasons["product"] == COSTLY


@needs_kernels("bfloat16", "Einsum")
def test_an_einsum_is_not_judged():
    graph = read_graph(
        """
        x = Placeholder(shape=2x2x2)
        y = Exp(x)
        product = Einsum(y, y)
        end = LogSoftmax(product)
        """
    )
    graph.node[2].attr["equation"].s = b"abc,acd->abd"
    assert check(graph, None, einsums_as_mat_muls=False).reasons["product"] == WHITE


def square(size, batch=1, device="/device:GPU:0"):
    """Between float32 ops, a product of `batch` matrices with themselves, on a GPU."""
    return placed(
        f"""
        x = Placeholder(shape={batch}x{size}x{size})
        before = Exp(x)
        product = BatchMatMulV2(before, before)
        end = LogSoftmax(product)
        """,
        device,
    )


def on_gpu(graph, **options):
    options = {"mode": "allow_mix_precision", "keep_costly_islands": True, **options}
    return check_rewrite(graph, None, run=False, **options).reasons["product"]


@needs_gpu_kernels
def test_on_a_gpu_the_launch_of_a_cast_counts():
    """2 * size**3 operations, against two launches and 900 for each of the 2 * size**2 elements."""
    assert on_gpu(square(64)) == COSTLY
    assert on_gpu(square(1024)) == COSTLY
    assert on_gpu(square(2048)) == WHITE
    assert on_gpu(square(64), keep_costly_islands=False) == WHITE
    assert on_gpu(square(64, device="/device:CPU:0"), mode=BF16) == WHITE


@needs_gpu_kernels
def test_on_a_gpu_a_batch_of_unknown_size_hides_the_launches():
    """Only what grows with the batch is weighed: 2 * 1024**3 against 1,800 * 1024**2."""
    assert on_gpu(square(1024, "?")) == WHITE
    assert on_gpu(square(512, "?")) == COSTLY


@needs_gpu_kernels
def test_an_island_on_several_devices_is_not_judged():
    graph = """
        x = Placeholder(shape=16x16) @ /device:GPU:0
        before = Exp(x) @ /device:GPU:0
        product = MatMul(before, before) @ /device:GPU:0
        again = MatMul(product, product) @ {device}
        end = LogSoftmax(again) @ {device}
        """
    assert on_gpu(graph.format(device="/device:GPU:0"), mode=BF16) == COSTLY
    assert on_gpu(graph.format(device="/device:CPU:0"), mode=BF16) == WHITE
