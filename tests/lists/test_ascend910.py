"""target="ascend910": the decisions for an Ascend 910, computed with TensorFlow's own kernels."""

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite

TARGET = {"target": "ascend910"}
GRAPH = """
    x = Placeholder(shape=1x4x4x1)
    f = Const(shape=3x3x1x2)
    s = Const[int32](value=[4, 8])
    w = Const(shape=8x3)
    conv = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
    relu = Relu(conv)
    exp = Exp(relu)
    pool = MaxPool(exp, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding=SAME)
    flat = Reshape(pool, s)
    product = MatMul(flat, w)
    softmax = Softmax(product)
    log = Log1p(softmax)
    """


def test_the_default_lowers_what_has_no_float32_kernel_there():
    """Convolutions, products and pools are lowered, each between Casts; all else keeps float32."""
    result = check_rewrite(
        GRAPH,
        """
        conv = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        relu = Relu[float32](conv/npu_cast_0_float32)
        exp = Exp[float32](relu)
        pool = MaxPool[float16](exp/npu_cast_0_float16)
        flat = Reshape[float32](pool/npu_cast_0_float32, s)
        product = MatMul[float16](flat/npu_cast_0_float16, w/npu_cast_0_float16)
        softmax = Softmax[float32](product/npu_cast_0_float32)
        log = Log1p[float32](softmax)
        """,
        mode="allow_fp32_to_fp16",
        **TARGET,
    )
    assert result.reasons["conv"] == ("lowered", "target_lacks_float32", "")
    assert result.reasons["relu"] == ("kept", "target_has_float32", "")


def test_the_lists_are_those_of_the_target():
    """Exp and Softmax are gray on it and black on the host. The producer of Log1p is kept."""
    result = check_rewrite(
        GRAPH,
        """
        conv = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        relu = Relu[float16](conv)
        exp = Exp[float16](relu)
        pool = MaxPool[float16](exp)
        flat = Reshape[float16](pool, s)
        product = MatMul[float16](flat, w/npu_cast_0_float16)
        softmax = Softmax[float32](product/npu_cast_0_float32)
        log = Log1p[float32](softmax)
        """,
        **TARGET,
    )
    assert result.reasons["exp"] == ("lowered", "gray_follows_lowered", "relu")
    assert result.reasons["softmax"] == ("kept", "before_magnifier", "log")
    assert result.reasons["log"] == ("kept", "black_list", "")


def test_a_gray_op_with_float16_kernels_only_is_lowered_even_after_a_black_one():
    result = check_rewrite(
        """
        x = Placeholder(shape=1x4x4x1)
        log = Log1p(x)
        pool = MaxPool(log, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding=SAME)
        end = Log1p(pool)
        """,
        """
        log = Log1p[float32](x)
        pool = MaxPool[float16](log/npu_cast_0_float16)
        end = Log1p[float32](pool/npu_cast_0_float32)
        """,
        **TARGET,
    )
    assert result.reasons["pool"] == ("lowered", "target_lacks_float32", "")


def test_origin_refuses_what_the_target_cannot_run_and_names_it():
    message = (
        r"must_keep_origin_dtype: the target does not support the dtype of 3 nodes: "
        r"conv \(Conv2D, float32\), pool \(MaxPool, float32\), product \(MatMul, float32\)"
    )
    with pytest.raises(ValueError, match=message):
        check_rewrite(GRAPH, None, mode="must_keep_origin_dtype", **TARGET)


def test_origin_names_ten_nodes_and_counts_the_rest():
    lines = ["x = Placeholder(shape=4x4)", *(f"n{i} = MatMul(x, x)" for i in range(13))]
    with pytest.raises(ValueError, match=r"13 nodes: n0 \(MatMul, float32\).* and 3 more"):
        check_rewrite("\n".join(lines), None, mode="must_keep_origin_dtype", **TARGET)


def test_origin_leaves_a_graph_alone_that_the_target_can_run():
    check_rewrite(
        """
        h = Placeholder[float16](shape=4x4)
        product = MatMul(h, h)
        wide = Cast[float16,float32](product)
        end = Exp(wide)
        """,
        UNCHANGED,
        mode="must_keep_origin_dtype",
        **TARGET,
    )


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "allow_fp32_to_bf16"])
def test_the_910_has_no_bfloat16_kernels_for_its_matrix_unit(mode):
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        end = Exp(product)
        """,
        UNCHANGED,
        mode=mode,
        **TARGET,
    )
    assert result.reasons["product"] == ("kept", "target_unsupported", "")


def test_an_op_with_float32_kernels_only_keeps_float32_when_all_are_forced():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        quantized = FakeQuantWithMinMaxArgs(product)
        relu = Relu(quantized)
        end = NextAfter(relu, x)
        """,
        """
        product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        quantized = FakeQuantWithMinMaxArgs(product/npu_cast_0_float32)
        relu = Relu[float16](quantized/npu_cast_0_float16)
        end = NextAfter(relu/npu_cast_0_float32, x)
        """,
        mode="force_fp16",
        run=False,
        **TARGET,
    )
    assert result.reasons["quantized"] == ("kept", "fixed_dtype", "")


def test_force_fp32_cannot_raise_what_has_float16_kernels_only():
    result = check_rewrite(
        """
        h = Placeholder[float16](shape=4x4)
        product = MatMul(h, h)
        relu = Relu(product)
        end = Cast[float16,float32](relu)
        """,
        """
        product = MatMul[float16](h, h)
        relu = Relu[float32](product/npu_cast_0_float32)
        end = Cast[float32,float32](relu)
        """,
        mode="force_fp32",
        **TARGET,
    )
    assert result.reasons["product"] == ("kept", "target_unsupported", "")


def test_a_node_that_keeps_a_dtype_without_a_kernel_is_warned_of():
    graph = """
        x = Placeholder(shape=1x4x4x1)
        pool = MaxPool(x, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding=SAME)
        end = Log1p(pool)
        """
    edits = '{"black-list": {"to-add": ["node:pool"]}}'
    result = check_rewrite(graph, None, mixlist_edits=edits, **TARGET)
    assert result.reasons["pool"] == ("kept", "black_list", "")
    assert (
        "the target has no kernel for the float32 of 1 node that the mode keeps in it "
        "(black_list), 'pool'" in result.ledger.warnings
    )
    assert result.ledger.node("pool").lacks_kernel
    assert not result.ledger.node("end").lacks_kernel
    assert not check_rewrite(graph, None, **TARGET).ledger.warnings
