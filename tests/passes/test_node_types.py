"""Type groups: one type attribute of a node changes together with all ports bound to it.

TensorFlow's tests have these cases too: FusedBatchNorm, V2 and V3 with their gradients, the list
attributes of IdentityN and AddN, BatchMatMul.
"""

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite
from support.text_graph import read_graph
from support.tf_versions import need_kernels, needs_ops


@pytest.mark.parametrize("version", ["V2", "V3"])
@pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)
def test_the_image_of_a_batch_norm_is_lowered_and_its_statistics_are_not(version, mode, low):
    need_kernels(low, "Conv2D", f"FusedBatchNorm{version}")
    check_rewrite(
        f"""
        x = Placeholder(shape=2x4x4x2)
        f = Const(shape=1x1x2x2)
        s = Const(value=[1.0, 0.5])
        white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        norm = FusedBatchNorm{version}(white, s, s, s, s, is_training=False)
        gray = Relu(norm)
        end = Exp(gray)
        """,
        f"""
        white = Conv2D[{low}](x/npu_cast_0_{low}, f/npu_cast_0_{low})
        norm = FusedBatchNorm{version}[{low},float32](white, s, s, s, s)
        gray = Relu[{low}](norm)
        end = Exp[float32](gray/npu_cast_0_float32)
        """,
        mode=mode,
    )


def test_statistics_of_a_training_batch_norm_reach_their_variables_in_float32():
    check_rewrite(
        """
        x = Placeholder(shape=2x4x4x2)
        f = Const(shape=1x1x2x2)
        s = Const(value=[1.0, 0.5])
        none = Const(value=[])
        white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        norm = FusedBatchNormV3(white, s, s, none, none, is_training=True)
        moving = Mul(norm:1, s)
        end = Exp(norm)
        """,
        """
        white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        norm = FusedBatchNormV3[float16,float32](white, s, s, none, none)
        moving = Mul[float32](norm:1, s)
        end = Exp[float32](norm/npu_cast_0_float32)
        """,
        ["end", "moving"],
    )


@pytest.mark.parametrize("version", ["V2", "V3"])
def test_the_gradient_of_a_batch_norm_follows_the_gradient_that_comes_in(version):
    reserve = "norm:3, norm:4" + (", norm:5" if version == "V3" else "")
    check_rewrite(
        f"""
        x = Placeholder(shape=2x4x4x2)
        dy = Placeholder(shape=2x4x4x2)
        f = Const(shape=1x1x2x2)
        s = Const(value=[1.0, 0.5])
        none = Const(value=[])
        white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        norm = FusedBatchNorm{version}(white, s, s, none, none, is_training=True)
        back = Conv2D(dy, f, strides=[1, 1, 1, 1], padding=SAME)
        grad = FusedBatchNormGrad{version}(back, white, s, {reserve}, is_training=True)
        scale = Mul(grad:1, s)
        end = Exp(grad)
        """,
        f"""
        white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        norm = FusedBatchNorm{version}[float16,float32](white, s, s, none, none)
        back = Conv2D[float16](dy/npu_cast_0_float16, f/npu_cast_0_float16)
        grad = FusedBatchNormGrad{version}[float16,float32](back, white, s, {reserve})
        scale = Mul[float32](grad:1, s)
        end = Exp[float32](grad/npu_cast_0_float32)
        """,
        ["end", "scale"],
    )


def test_the_first_batch_norm_and_its_gradient_keep_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=2x4x4x2)
        f = Const(shape=1x1x2x2)
        s = Const(value=[1.0, 0.5])
        none = Const(value=[])
        white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        norm = FusedBatchNorm(white, s, s, none, none, is_training=True)
        grad = FusedBatchNormGrad(white, white, s, norm:3, norm:4, is_training=True)
        end = AddV2(norm, grad)
        """,
        """
        white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        norm = FusedBatchNorm[float32](white/npu_cast_0_float32, s, s, none, none)
        grad = FusedBatchNormGrad[float32](white/npu_cast_0_float32, white/npu_cast_0_float32, s,
            norm:3, norm:4)
        end = AddV2[float32](norm, grad)
        """,
    )
    assert result.reasons["norm"] == ("kept", "no_kernel", "")


def test_all_inputs_of_a_list_of_one_type_change_together():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        c = Const(shape=4x4)
        axis = Const[int32](value=0)
        white = MatMul(x, x)
        sum = AddN(white, c, x)
        all = ConcatV2(sum, c, axis)
        pack = Pack(all, all)
        parts = Unpack(pack, num=2)
        end = Exp(parts:1)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        sum = AddN[float16](white, c/npu_cast_0_float16, x/npu_cast_0_float16)
        all = ConcatV2[float16](sum, c/npu_cast_0_float16, axis)
        pack = Pack[float16](all, all)
        parts = Unpack[float16](pack)
        end = Exp[float32](parts/npu_cast_1_float32)
        """,
    )


def test_elements_of_a_list_of_types_change_one_by_one():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        flag = Const[bool](value=True)
        white = MatMul(x, x)
        gray = IdentityN(x, white, flag, white)
        a = Relu(gray:1)
        b = AddV2(gray:3, a)
        c = AddV2(gray, x)
        end = Exp(b)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        gray = IdentityN[float32,float16,bool,float16](x, white, flag, white)
        a = Relu[float16](gray:1)
        b = AddV2[float16](gray:3, a)
        c = AddV2[float32](gray, x)
        end = Exp[float32](b/npu_cast_0_float32)
        """,
        ["end", "c"],
    )
    assert result.ledger.node("gray").dtypes == {
        "T[0]": ["float32", "float32"],
        "T[1]": ["float32", "float16"],
        "T[2]": ["bool", "bool"],
        "T[3]": ["float32", "float16"],
    }


@pytest.mark.parametrize("op", ["BatchMatMul", "BatchMatMulV2"])
def test_batch_mat_mul(op):
    check_rewrite(
        f"""
        x = Placeholder(shape=2x3x4)
        y = Placeholder(shape=2x5x4)
        white = {op}(x, y, adj_y=True)
        end = Exp(white)
        """,
        f"""
        white = {op}[float16](x/npu_cast_0_float16, y/npu_cast_0_float16)
        end = Exp[float32](white/npu_cast_0_float32)
        """,
    )


@needs_ops("BatchMatMulV3")
def test_types_that_only_change_together_do():
    """These ops have kernels for one dtype in all places, and on CPU for no float16."""
    products = """
        x = Placeholder(shape=2x3x4)
        y = Placeholder(shape=2x5x4)
        white = BatchMatMulV3(x, y, adj_y=True)
        end = Exp(white)
        """
    check_rewrite(
        products,
        """
        white = BatchMatMulV3[bfloat16,bfloat16,bfloat16](x/npu_cast_0_bfloat16,
            y/npu_cast_0_bfloat16)
        end = Exp[float32](white/npu_cast_0_float32)
        """,
        mode="allow_mix_precision_bf16",
    )
    check_rewrite(products, UNCHANGED)
    window = "ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding=SAME"
    check_rewrite(
        f"""
        x = Placeholder(shape=1x4x4x4x1)
        f = Const(shape=1x1x1x1x1)
        conv = Conv3D(x, f, strides=[1, 1, 1, 1, 1], padding=SAME)
        pool = MaxPool3D(conv, {window})
        grad = MaxPool3DGrad(conv, pool, pool, {window})
        end = Exp(grad)
        """,
        """
        conv = Conv3D[bfloat16](x/npu_cast_0_bfloat16, f/npu_cast_0_bfloat16)
        pool = MaxPool3D[bfloat16](conv)
        grad = MaxPool3DGrad[bfloat16,bfloat16](conv, pool, pool)
        end = Exp[float32](grad/npu_cast_0_float32)
        """,
        mode="allow_mix_precision_bf16",
    )


def test_a_type_left_out_because_it_has_its_default_is_written_out_where_it_changes():
    """SavedModels strip attributes that have their default."""
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        gray = LeakyRelu(white)
        black = NextAfter(gray, x)
        """
    )
    for node in graph.node[2:]:
        del node.attr["T"]
    check_rewrite(
        graph,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        gray = LeakyRelu[float16](white)
        black = NextAfter(gray/npu_cast_0_float32, x)
        """,
    )


def test_integer_products_are_none_of_our_business():
    check_rewrite(
        """
        x = Placeholder[int32](shape=4x4)
        product = MatMul(x, x)
        relu = Relu(product)
        """,
        UNCHANGED,
    )


def test_a_choice_between_tensors_ignores_what_it_is_made_by():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        zero = Const(value=0.0)
        white = MatMul(x, x)
        black = Exp(x)
        positive = Greater(black, zero)
        gray = SelectV2(positive, white, zero)
        end = Softmax(gray)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        positive = Greater[float32](black, zero)
        gray = SelectV2[float16](positive, white, zero/npu_cast_0_float16)
        end = Softmax[float32](gray/npu_cast_0_float32)
        """,
    )


def test_the_indices_of_a_top_k_stay_integers():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        k = Const[int32](value=2)
        white = MatMul(x, x)
        top = TopKV2(white, k)
        end = Exp(top)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        top = TopKV2[float16](white, k)
        end = Exp[float32](top/npu_cast_0_float32)
        """,
    )
