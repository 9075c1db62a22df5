"""Gray nodes follow their predecessors: lowered iff one votes "lowered" and none votes "kept".

With allow_mix_precision on CPU, MatMul and Conv2D are white; Exp and Softmax black; Relu, AddV2,
Identity and their like gray; NextAfter is on no list.

TensorFlow's tests have these cases too: the chain black, gray, white, gray, black with exactly two
Casts; several paths into one node; an existing Cast from bool. Loops and conditions have files of
their own.
"""

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite


def test_gray_after_white_is_lowered():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x8)
        w = Const(shape=8x4)
        white = MatMul(x, w)
        gray = Relu(white)
        black = Exp(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        gray = Relu[float16](white)
        black = Exp[float32](gray/npu_cast_0_float32)
        """,
    )
    assert result.reasons == {
        "white": ("lowered", "white_list", ""),
        "gray": ("lowered", "gray_follows_lowered", "white"),
        "black": ("kept", "black_list", ""),
    }


def test_gray_after_black_keeps_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        black = Exp(x)
        gray = Relu(black)
        white = MatMul(gray, gray)
        end = Softmax(white)
        """,
        """
        black = Exp[float32](x)
        gray = Relu[float32](black)
        white = MatMul[float16](gray/npu_cast_0_float16, gray/npu_cast_0_float16)
        end = Softmax[float32](white/npu_cast_0_float32)
        """,
    )
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "black")


def test_gray_after_sources_alone_keeps_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        c = Const(shape=4x4)
        gray = AddV2(x, c)
        white = MatMul(gray, gray)
        end = Softmax(white)
        """,
        """
        gray = AddV2[float32](x, c)
        white = MatMul[float16](gray/npu_cast_0_float16, gray/npu_cast_0_float16)
        end = Softmax[float32](white/npu_cast_0_float32)
        """,
    )
    assert result.reasons["gray"] == ("kept", "gray_no_votes", "")


def test_black_gray_white_gray_black_has_exactly_two_casts():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        black1 = Exp(x)
        gray1 = Relu(black1)
        white = MatMul(gray1, gray1)
        gray2 = Relu(white)
        black2 = Exp(gray2)
        """,
        """
        black1 = Exp[float32](x)
        gray1 = Relu[float32](black1)
        white = MatMul[float16](gray1/npu_cast_0_float16, gray1/npu_cast_0_float16)
        gray2 = Relu[float16](white)
        black2 = Exp[float32](gray2/npu_cast_0_float32)
        """,
    )
    assert result.ledger.totals["casts"] == 2


def test_one_kept_predecessor_outvotes_the_lowered_one():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        black = Exp(x)
        gray = AddV2(white, black)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        gray = AddV2[float32](white/npu_cast_0_float32, black)
        end = Softmax[float32](gray)
        """,
    )
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "black")


def test_sources_do_not_outvote_a_lowered_predecessor():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        bias = Const(shape=4)
        white = MatMul(x, x)
        gray = BiasAdd(white, bias)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        gray = BiasAdd[float16](white, bias/npu_cast_0_float16)
        end = Softmax[float32](gray/npu_cast_0_float32)
        """,
    )


def test_gray_without_votes_has_none_itself():
    """An Identity between a constant and its reader must not count as a float32 producer."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        bias = Const(shape=4)
        read = Identity(bias)
        white = MatMul(x, x)
        gray = AddV2(white, read)
        end = Softmax(gray)
        """,
        """
        read = Identity[float32](bias)
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        gray = AddV2[float16](white, read/npu_cast_0_float16)
        end = Softmax[float32](gray/npu_cast_0_float32)
        """,
    )


def test_an_op_in_no_file_votes_kept():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        unlisted = NextAfter(white, x)
        gray = AddV2(white, unlisted)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        unlisted = NextAfter(white/npu_cast_0_float32, x)
        gray = AddV2[float32](white/npu_cast_0_float32, unlisted)
        end = Softmax[float32](gray)
        """,
    )
    assert result.reasons["unlisted"] == ("kept", "unlisted", "")
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "unlisted")


def test_several_paths_into_one_node():
    """All paths from one white op are lowered, so they meet without a Cast."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        left = Relu(white)
        middle = Tanh(white)
        right = Neg(left)
        sum = AddN(left, middle, right)
        white2 = MatMul(sum, white)
        end = Exp(white2)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        left = Relu[float16](white)
        middle = Tanh[float16](white)
        right = Neg[float16](left)
        sum = AddN[float16](left, middle, right)
        white2 = MatMul[float16](sum, white)
        end = Exp[float32](white2/npu_cast_0_float32)
        """,
    )


def test_a_black_op_on_one_of_several_paths_keeps_where_they_meet():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        left = Relu(white)
        middle = Exp(white)
        sum = AddN(left, middle)
        after = Relu(sum)
        end = Softmax(after)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        left = Relu[float16](white)
        middle = Exp[float32](white/npu_cast_0_float32)
        sum = AddN[float32](left/npu_cast_0_float32, middle)
        after = Relu[float32](sum)
        end = Softmax[float32](after)
        """,
    )


def test_each_element_of_a_list_of_types_hears_its_own_producer():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        n = Const[int32](value=7)
        white = MatMul(x, x)
        black = Exp(x)
        gray = IdentityN(white, black, n, x)
        a = Relu(gray)
        b = Relu(gray:1)
        c = Relu(gray:3)
        end = AddN(a, b, c)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        gray = IdentityN[float16,float32,int32,float32](white, black, n, x)
        a = Relu[float16](gray)
        b = Relu[float32](gray:1)
        c = Relu[float32](gray:3)
        end = AddN[float32](a/npu_cast_0_float32, b, c)
        """,
    )


def test_only_tensors_bound_to_the_type_vote():
    """A float32 scale (U) of a batch norm says nothing about its image (T)."""
    check_rewrite(
        """
        x = Placeholder(shape=2x4x4x2)
        s = Placeholder(shape=2)
        f = Const(shape=1x1x2x2)
        scale = Exp(s)
        white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        gray = FusedBatchNormV3(white, scale, s, s, scale, is_training=False)
        end = Exp(gray)
        """,
        """
        scale = Exp[float32](s)
        white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        gray = FusedBatchNormV3[float16,float32](white, scale, s, s, scale)
        end = Exp[float32](gray/npu_cast_0_float32)
        """,
    )


def test_a_shape_carries_no_vote():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        half = Const(value=0.5)
        white = MatMul(x, x)
        shape = Shape(white)
        gray = Fill(shape, half)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        shape = Shape[float16](white)
        gray = Fill[float32](shape, half)
        end = Softmax[float32](gray)
        """,
    )
    assert result.reasons["gray"] == ("kept", "gray_no_votes", "")


def test_a_control_input_carries_no_vote():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        black = Exp(x)
        gray = Relu(white, ^black)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        gray = Relu[float16](white, ^black)
        end = Softmax[float32](gray/npu_cast_0_float32)
        """,
    )


@pytest.mark.parametrize("source", ["int32", "float64"])
def test_a_cast_of_the_user_from_another_dtype_has_no_vote(source):
    """The result of the Cast to float32 joins the lowered side; the user's Cast does not change."""
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        m = Placeholder[{source}](shape=4x4)
        mask = Cast[{source},float32](m)
        white = MatMul(x, x)
        gray = Mul(white, mask)
        end = Softmax(gray)
        """,
        f"""
        mask = Cast[{source},float32](m)
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        gray = Mul[float16](white, mask/npu_cast_0_float16)
        end = Softmax[float32](gray/npu_cast_0_float32)
        """,
    )


def test_a_cast_of_the_user_to_half_is_no_lowered_vote():
    """Only this optimizer's lowering counts: a graph that mixes dtypes itself is not changed."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        half = Cast[float32,float16](x)
        float = Cast[float16,float32](half)
        gray = Relu(float)
        end = Softmax(gray)
        """,
        UNCHANGED,
    )


def test_gray_that_knows_only_float32_votes_kept():
    """FusedBatchNorm, the first version, has no other dtype."""
    result = check_rewrite(
        """
        x = Placeholder(shape=2x4x4x2)
        s = Const(value=[1.0, 0.5])
        f = Const(shape=1x1x2x2)
        white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        norm = FusedBatchNorm(white, s, s, s, s, is_training=False)
        gray = Relu(norm)
        end = Exp(gray)
        """,
        """
        white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        norm = FusedBatchNorm[float32](white/npu_cast_0_float32, s, s, s, s)
        gray = Relu[float32](norm)
        end = Exp[float32](gray)
        """,
    )
    assert result.reasons["norm"] == ("kept", "no_kernel", "")
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "norm")


def test_an_output_that_is_always_float32_votes_kept():
    result = check_rewrite(
        """
        x = Placeholder(shape=2x4x4x2)
        f = Const(shape=1x1x2x2)
        size = Const[int32](value=[2, 2])
        white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        resized = ResizeBilinear(white, size)
        gray = Relu(resized)
        end = Exp(gray)
        """,
        """
        white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        resized = ResizeBilinear[float16](white, size)
        gray = Relu[float32](resized)
        end = Exp[float32](gray)
        """,
    )
    assert result.reasons["gray"] == ("kept", "gray_follows_kept", "resized")


def test_a_long_gray_chain_follows_its_far_head():
    chain = "".join(f"g{i} = Relu(g{i - 1})\n" for i in range(1, 300))
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        g0 = MatMul(x, x)
        {chain}
        end = Exp(g299)
        """,
        "\n".join(
            [
                "g0 = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)",
                *(f"g{i} = Relu[float16](g{i - 1})" for i in range(1, 300)),
                "end = Exp[float32](g299/npu_cast_0_float32)",
            ]
        ),
    )
    assert result.ledger.totals["casts"] == 2
