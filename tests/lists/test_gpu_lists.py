"""Nodes placed on a GPU are decided by the GPU's lists and its kernels.

The tensorflow wheel registers its GPU kernels even without a GPU, so these rewrites can be tested
on any machine. The tests check only the structure of a graph and do not run it.
"""

import pytest
from support.check_rewrite import check_rewrite
from support.tf_versions import needs_gpu_kernels

pytestmark = needs_gpu_kernels
GPU = "/device:GPU:0"
CPU = "/device:CPU:0"


@pytest.mark.parametrize(
    "device",
    [GPU, "/gpu:1", "/job:localhost/replica:0/task:0/device:GPU:0", "/job:worker/task:1/gpu:0"],
)
def test_softmax_is_gray_on_a_gpu_and_black_on_a_cpu(device):
    """The CUDA kernel adds in float32 and its result lies in [0, 1]."""
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        product = MatMul(x, x) @ {device}
        on_gpu = Softmax(product) @ {device}
        on_cpu = Softmax(product) @ {CPU}
        anywhere = Softmax(product)
        a = Exp(on_gpu) @ {device}
        b = Exp(on_cpu) @ {CPU}
        c = Exp(anywhere)
        """,
        f"""
        product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16) @ {device}
        on_gpu = Softmax[float16](product) @ {device}
        on_cpu = Softmax[float32](product/npu_cast_0_float32) @ {CPU}
        anywhere = Softmax[float32](product/npu_cast_0_float32)
        a = Exp[float32](on_gpu/npu_cast_0_float32) @ {device}
        b = Exp[float32](on_cpu) @ {CPU}
        c = Exp[float32](anywhere)
        """,
        ["a", "b", "c"],
        run=False,
    )
    assert result.reasons["on_gpu"] == ("lowered", "gray_follows_lowered", "product")
    assert result.reasons["on_cpu"] == ("kept", "black_list", "")


def test_mean_is_gray_on_a_gpu_and_sum_is_black():
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4) @ {GPU}
        axis = Const[int32](value=[1])
        product = MatMul(x, x) @ {GPU}
        mean = Mean(product, axis) @ {GPU}
        sum = Sum(product, axis) @ {GPU}
        end = Exp(mean) @ {GPU}
        """,
        f"""
        product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16) @ {GPU}
        mean = Mean[float16](product, axis) @ {GPU}
        sum = Sum[float32](product/npu_cast_0_float32, axis) @ {GPU}
        end = Exp[float32](mean/npu_cast_0_float32) @ {GPU}
        """,
        ["sum", "end"],
        run=False,
    )


def test_a_cast_between_devices_is_on_the_producers_so_that_half_the_bytes_cross():
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4) @ {CPU}
        on_cpu = Exp(x) @ {CPU}
        on_gpu = MatMul(on_cpu, on_cpu) @ {GPU}
        end = Softmax(on_gpu) @ {CPU}
        """,
        f"""
        on_cpu = Exp[float32](x) @ {CPU}
        on_gpu = MatMul[float16](on_cpu/npu_cast_0_float16, on_cpu/npu_cast_0_float16) @ {GPU}
        end = Softmax[float32](on_gpu/npu_cast_0_float32) @ {CPU}
        """,
        run=False,
    )


def test_fused_ops_of_a_gpu_are_lowered_whole_in_float16():
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4) @ {GPU}
        w = Const(shape=4x4) @ {GPU}
        b = Const(shape=4) @ {GPU}
        relu = _FusedMatMul(x, w, b, fused_ops=['BiasAdd', 'Relu']) @ {GPU}
        end = Exp(relu) @ {GPU}
        """,
        f"""
        relu = _FusedMatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16,
            b/npu_cast_0_float16) @ {GPU}
        end = Exp[float32](relu/npu_cast_0_float32) @ {GPU}
        """,
        run=False,
    )


def test_a_batch_norm_fused_into_a_convolution_keeps_its_statistics():
    """The GPU's fused op has float16, but one dtype for image and statistics: it is written out."""
    conv = "strides=[1, 1, 1, 1], padding=SAME, num_args=4, fused_ops=['FusedBatchNorm', 'Relu']"
    check_rewrite(
        f"""
        x = Placeholder(shape=2x4x4x2) @ {GPU}
        f = Const(shape=1x1x2x2) @ {GPU}
        s = Const(value=[1.0, 0.5]) @ {GPU}
        relu = _FusedConv2D(x, f, s, s, s, s, {conv}) @ {GPU}
        end = Exp(relu) @ {GPU}
        """,
        f"""
        relu/npu_part_0 = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16) @ {GPU}
        relu/npu_part_1 = FusedBatchNormV3[float16,float32](relu/npu_part_0, s, s, s, s) @ {GPU}
        relu = Relu[float16](relu/npu_part_1) @ {GPU}
        end = Exp[float32](relu/npu_cast_0_float32) @ {GPU}
        """,
        run=False,
    )


def test_a_mixlist_is_about_all_devices(mixlist):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        product = MatMul(x, x) @ {GPU}
        on_gpu = Softmax(product) @ {GPU}
        on_cpu = Softmax(product) @ {CPU}
        end = NextAfter(on_gpu, on_cpu) @ {CPU}
        """,
        None,
        modify_mixlist=mixlist(white=["Softmax"]),
        run=False,
    )
    assert result.reasons["on_gpu"][1] == result.reasons["on_cpu"][1] == "white_list"


@pytest.mark.parametrize(
    ("color", "on_cpu"), [("black", "gray_follows_lowered"), ("gray", "black_list")]
)
def test_removing_from_a_list_is_about_the_devices_whose_list_it_is(mixlist, color, on_cpu):
    """Softmax is always gray on the GPU; on the CPU only if it is taken off the black list."""
    path = mixlist(f'{{"{color}-list": {{"to-remove": ["Softmax"]}}}}')
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        product = MatMul(x, x) @ {GPU}
        on_gpu = Softmax(product) @ {GPU}
        on_cpu = Softmax(product) @ {CPU}
        end = NextAfter(on_gpu, on_cpu) @ {CPU}
        """,
        None,
        modify_mixlist=path,
        run=False,
    )
    assert result.reasons["on_gpu"][1] == "gray_follows_lowered"
    assert result.reasons["on_cpu"][1] == on_cpu
    # What it was not taken off still has its list from the built-in one.
    assert result.ledger.node("on_gpu").listed_by == "built-in"
    # What is gray when it is on no list cannot be taken off the gray list.
    stays = ["is gray when it is on no other list" in line for line in result.ledger.warnings]
    assert stays == ([True] if color == "gray" else [])
