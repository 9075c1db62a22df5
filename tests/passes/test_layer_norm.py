"""layer_norm: a LayerNorm that is written out gets the form that TensorFlow fuses."""

from __future__ import annotations

import functools
import json
import re

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import UNCHANGED, check_rewrite
from support.text_graph import read_graph
from support.tf_versions import needs_kernels, needs_onednn

import npu_precision

pytestmark = needs_kernels("bfloat16", "_MklLayerNorm")
check = functools.partial(check_rewrite, layer_norm=True, mode="allow_mix_precision_bf16")
INPUT = """
    x = Placeholder(shape=2x4x8)
    w = Const(shape=8x8)
    gamma = Const(shape=8)
    beta = Const(shape=8)
    axis = Const[int32](value=[-1])
    epsilon = Const(value=0.001)
    two = Const(value=2.0)
    white = BatchMatMulV2(x, w)
    mean = Mean(white, axis, keep_dims=True)
    """
MOMENTS = """
    fixed = StopGradient(mean)
    squares = SquaredDifference(white, fixed)
    variance = Mean(squares, axis, keep_dims=True)
    safe = AddV2(variance, epsilon)
    root = Rsqrt(safe)
    """
SCALED = """
    scale = Mul(root, gamma)
    scaled = Mul(white, scale)
    shift = Mul(mean, scale)
    offset = Sub(beta, shift)
    norm = AddV2(scaled, offset)
    """
END = "end = BatchMatMulV2(norm, w)"
GRAPH = INPUT + MOMENTS + SCALED + END
CENTERED = "centered = Sub(white, mean)\n"
ROOT = """
    variance = Mean(squares, axis, keep_dims=True)
    safe = AddV2(epsilon, variance)
    """
# By name: the lines between INPUT and END.
FORMS = {
    "tf.nn.moments and tf.nn.batch_normalization": MOMENTS + SCALED,
    "Keras 3": MOMENTS
    + """
    row = Const[int32](value=[1, 1, 8])
    wide_gamma = Reshape(gamma, row)
    wide_beta = Reshape(beta, row)
    scale = Mul(root, wide_gamma)
    scaled = Mul(white, scale)
    minus = Neg(mean)
    shift = Mul(minus, scale)
    offset = AddV2(shift, wide_beta)
    norm = AddV2(scaled, offset)
    """,
    "Keras 3 without gamma": MOMENTS
    + """
    scaled = Mul(white, root)
    minus = Neg(mean)
    shift = Mul(minus, root)
    offset = AddV2(shift, beta)
    norm = AddV2(scaled, offset)
    """,
    "Keras 3 without beta": MOMENTS
    + """
    scale = Mul(root, gamma)
    scaled = Mul(white, scale)
    minus = Neg(mean)
    shift = Mul(minus, scale)
    norm = AddV2(scaled, shift)
    """,
    "Keras 3, behind TensorFlow's arithmetic optimizer": MOMENTS
    + """
    scale = Mul(root, gamma)
    scaled = Mul(white, scale)
    minus = Neg(mean)
    shift = Mul(minus, scale)
    normal = AddN(shift, scaled)
    norm = AddV2(beta, normal)
    """,
    "by hand, with Rsqrt": CENTERED
    + "squares = Square(centered)"
    + ROOT
    + """
    root = Rsqrt(safe)
    normal = Mul(centered, root)
    scaled = Mul(normal, gamma)
    norm = AddV2(scaled, beta)
    """,
    "by hand, divided by Sqrt": CENTERED
    + "squares = Mul(centered, centered)"
    + ROOT
    + """
    root = Sqrt(safe)
    scaled = Mul(gamma, centered)
    normal = RealDiv(scaled, root)
    norm = Add(beta, normal)
    """,
    "by hand, with Pow, and without parameters": CENTERED
    + "squares = Pow(centered, two)"
    + ROOT
    + "root = Sqrt(safe)\nnorm = RealDiv(centered, root)\n",
    "a mean that is computed twice": """
    again = Mean(white, axis, keep_dims=True)
    other = Sub(white, again)
    centered = Sub(white, mean)
    squares = Square(other)
    """
    + ROOT
    + "root = Rsqrt(safe)\nnormal = Mul(centered, root)\nnorm = Mul(normal, gamma)\n",
    "a mean of squares, less the square of the mean": """
    square = Square(white)
    of_squares = Mean(square, axis, keep_dims=True)
    of_mean = Mul(mean, mean)
    variance = Sub(of_squares, of_mean)
    safe = AddV2(variance, epsilon)
    root = Rsqrt(safe)
    centered = Sub(white, mean)
    normal = Mul(centered, root)
    scaled = Mul(normal, gamma)
    norm = AddV2(scaled, beta)
    """,
    "the same, in the order of TensorFlow's arithmetic optimizer": """
    square = Square(white)
    of_squares = Mean(square, axis, keep_dims=True)
    of_mean = Square(mean)
    rest = Sub(epsilon, of_mean)
    safe = Add(of_squares, rest)
    root = Rsqrt(safe)
    centered = Sub(white, mean)
    scaled = Mul(gamma, centered)
    normal = Mul(root, scaled)
    norm = AddV2(beta, normal)
    """,
    "copies of everything": MOMENTS
    + """
    copy_of_x = Identity(white)
    copy_of_mean = Identity(mean)
    copy_of_root = Identity(root)
    centered = Sub(copy_of_x, copy_of_mean)
    normal = Mul(centered, copy_of_root)
    copy_of_normal = Identity(normal)
    scaled = Mul(copy_of_normal, gamma)
    norm = AddV2(scaled, beta)
    """,
}


REWRITE_A_FILE = """
import pathlib
import npu_precision
from tensorflow.core.framework import graph_pb2
graph = graph_pb2.GraphDef.FromString(pathlib.Path("graph.pb").read_bytes())
_, ledger = npu_precision.rewrite_graph_def(
    graph, "end", precision_mode="allow_mix_precision_bf16", rewrites="none,layer_norm"
)
print("rewrites:", [entry.by for entry in ledger.rewrites])
"""


def rewrites(result):
    return [(entry.by, entry.node) for entry in result.ledger.rewrites]


def nodes(graph_def):
    return {node.name: node for node in graph_def.node}


@needs_onednn
def test_tensors_of_three_dimensions_of_an_unknown_batch():
    result = check(
        GRAPH.replace("2x4x8", "?x4x8"),
        """
        white = BatchMatMulV2[bfloat16](x/npu_cast_0_bfloat16, w/npu_cast_0_bfloat16)
        norm/npu_layer_norm/image_shape = Const[int32]()
        norm/npu_layer_norm/image = Reshape[bfloat16](white, norm/npu_layer_norm/image_shape)
        norm/npu_layer_norm/shape = Shape[bfloat16](white)
        norm/npu_layer_norm/begin = Const[int32]()
        norm/npu_layer_norm/dims = Const[int32]()
        norm/npu_layer_norm/sizes = Slice[int32,int32](norm/npu_layer_norm/shape,
            norm/npu_layer_norm/begin, norm/npu_layer_norm/dims)
        norm/npu_layer_norm/axis = Const[int32]()
        norm/npu_layer_norm/product = Prod[int32](norm/npu_layer_norm/sizes,
            norm/npu_layer_norm/axis)
        norm/npu_layer_norm/count = PlaceholderWithDefault[int32](norm/npu_layer_norm/product)
        norm/npu_layer_norm/scale_value = Const[float32]()
        norm/npu_layer_norm/scale = Fill[float32](norm/npu_layer_norm/count,
            norm/npu_layer_norm/scale_value)
        norm/npu_layer_norm/offset_value = Const[float32]()
        norm/npu_layer_norm/offset = Fill[float32](norm/npu_layer_norm/count,
            norm/npu_layer_norm/offset_value)
        norm/npu_layer_norm/none = Const[float32]()
        norm/npu_layer_norm/norm = FusedBatchNormV3[bfloat16,float32](norm/npu_layer_norm/image,
            norm/npu_layer_norm/scale, norm/npu_layer_norm/offset, norm/npu_layer_norm/none,
            norm/npu_layer_norm/none)
        norm/npu_layer_norm/back = Reshape[bfloat16](norm/npu_layer_norm/norm,
            norm/npu_layer_norm/shape)
        norm/npu_layer_norm/scaled = Mul[bfloat16](norm/npu_layer_norm/back,
            gamma/npu_cast_0_bfloat16)
        norm = AddV2[bfloat16](norm/npu_layer_norm/scaled, beta/npu_cast_0_bfloat16)
        end/npu_changed = BatchMatMulV2[bfloat16](norm, w/npu_cast_0_bfloat16)
        end = Cast[bfloat16,float32](end/npu_changed)
        """,
        run=False,
    )
    (entry,) = result.ledger.rewrites
    assert (entry.by, entry.node) == ("layer_norm", "norm")
    assert (entry.before, entry.after) == ("11 nodes", "FusedBatchNormV3")
    # Nodes that only the replaced nodes read are gone with them.
    assert {"mean", "root", "axis", "epsilon"}.isdisjoint(nodes(result.graph))
    batch_norm = nodes(result.graph)["norm/npu_layer_norm/norm"]
    assert batch_norm.attr["epsilon"].f == np.float32(0.001)
    assert batch_norm.attr["data_format"].s == b"NCHW"


@needs_onednn
def test_tensors_of_four_dimensions_become_rows_and_get_their_shape_back():
    result = check(GRAPH.replace("2x4x8", "?x3x4x8"), None, run=False)
    after = nodes(result.graph)
    assert after["norm"].op == "Reshape"
    assert list(after["norm"].input) == [
        "norm/npu_layer_norm/sum",
        "norm/npu_layer_norm/shape_of_x",
    ]
    assert after["norm/npu_layer_norm/image"].input[0] == "norm/npu_layer_norm/rows"
    assert after["norm/npu_layer_norm/rows"].op == "Squeeze"


@needs_onednn
def test_what_is_a_reshape_becomes_rows_too():
    """TensorFlow merges the Reshape with the Reshape that reads it."""
    rows = "shape = Const[int32](value=[2, 4, 8])\nreshaped = Reshape({}, shape)"
    graph = GRAPH.replace(
        "white = BatchMatMulV2(x, w)", rows.format("x") + "\nwhite = Identity(reshaped)"
    )
    after = nodes(check(graph, None).graph)
    assert after["norm"].op == "Reshape"
    assert after["norm/npu_layer_norm/rows"].op == "Squeeze"


@needs_onednn
def test_known_shapes_are_constants():
    for shape, dims in (("3x8", [3, 8]), ("2x4x8", [2, 4, 8]), ("2x3x4x8", [2, 3, 4, 8])):
        after = nodes(check(GRAPH.replace("2x4x8", shape), None).graph)
        assert after["norm/npu_layer_norm/rows_known"].op == "Const"
        assert "norm/npu_layer_norm/product" not in after
        name = "shape_of_x" if len(dims) == 4 else "shape"
        value = tf.make_ndarray(after[f"norm/npu_layer_norm/{name}"].attr["value"].tensor)
        assert value.tolist() == dims


@needs_onednn
def test_rows_are_counted_by_the_first_dimension_of_two():
    after = nodes(check(GRAPH.replace("2x4x8", "?x8"), None, run=False).graph)
    assert after["norm/npu_layer_norm/count"].input[0] == "norm/npu_layer_norm/sizes"


@needs_onednn
@pytest.mark.parametrize("form", FORMS)
def test_each_form(form):
    result = check(INPUT + FORMS[form] + END, None)
    assert rewrites(result) == [("layer_norm", "norm")]
    after = nodes(result.graph)
    assert after["norm"].op == "AddV2"
    assert not {"Mean", "Rsqrt", "Sqrt"} & {node.op for node in result.graph.node}
    assert not [node.name for node in result.graph.node if node.name.startswith("norm/npu_cast")]


@needs_onednn
@pytest.mark.parametrize("axis", ["[-1]", "-1", "[2]", "2"])
def test_each_notation_of_the_axis(axis):
    assert rewrites(check(GRAPH.replace("[-1]", axis), None)) == [("layer_norm", "norm")]


@needs_onednn
def test_parameters_may_have_other_dimensions_of_one():
    graph = GRAPH.replace("gamma = Const(shape=8)", "gamma = Const(shape=1x1x8)")
    after = nodes(check(graph, None).graph)
    assert after["norm/npu_layer_norm/gamma"].op == "Reshape"


@needs_onednn
def test_the_result_may_be_fetched_and_read_by_many():
    ends = "\n".join(f"end_{k} = BatchMatMulV2(norm, w)" for k in range(30))
    for text in (GRAPH, GRAPH + "\n" + ends):
        result = check(text, None, ["norm", "end"])
        assert rewrites(result) == [("layer_norm", "norm")]


@needs_onednn
def test_one_behind_the_other():
    second = (MOMENTS + SCALED).replace(" =", "_2 =").replace("(mean", "(mean_2")
    for name in ("fixed", "squares", "variance", "safe", "root", "scale", "shift", "offset"):
        second = second.replace(f"{name},", f"{name}_2,").replace(f"{name})", f"{name}_2)")
    second = second.replace("scaled,", "scaled_2,").replace("white", "norm")
    mean = "mean_2 = Mean(norm, axis, keep_dims=True)"
    text = INPUT + MOMENTS + SCALED + mean + second + "end = BatchMatMulV2(norm_2, w)"
    assert sorted(rewrites(check(text, None))) == [("layer_norm", "norm"), ("layer_norm", "norm_2")]


@needs_onednn
def test_a_residual_sum_behind_it_is_no_parameter():
    graph = GRAPH.replace("BatchMatMulV2(norm, w)", "AddV2(norm, white)")
    assert rewrites(check(graph, None)) == [("layer_norm", "norm")]
    without_beta = INPUT + FORMS["Keras 3 without beta"] + "end = AddV2(norm, white)"
    assert rewrites(check(without_beta, None)) == [("layer_norm", "norm")]
    # Of another tensor: white again would be a second x.
    of_other = without_beta.replace("AddV2(norm, white)", "AddV2(norm, x)")
    assert rewrites(check(of_other, None)) == [("layer_norm", "norm")]


@needs_onednn
def test_a_product_with_a_number_behind_it_is_no_parameter():
    form = "by hand, with Pow, and without parameters"
    graph = INPUT + FORMS[form] + "end = Mul(norm, two)"
    assert rewrites(check(graph, None)) == [("layer_norm", "norm")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "axis = Const[int32](value=[-1])", "axis = Const[int32](value=[1])", id="axis"
        ),
        pytest.param("value=[-1]", "value=[1, 2]", id="several axes"),
        pytest.param("value=[-1]", "value=[-1, 1]", id="several axes, the last one first"),
        pytest.param(
            "(white, axis, keep_dims=True)", "(white, axis)", id="a mean without its axis"
        ),
        pytest.param("epsilon = Const(value=0.001)", "epsilon = Const(value=0.0)", id="no epsilon"),
        pytest.param("value=0.001", "value=-0.001", id="a negative epsilon"),
        pytest.param("value=0.001", "shape=8", id="an epsilon for each column"),
        pytest.param("SquaredDifference(white, fixed)", "SquaredDifference(white, beta)", id="sq"),
        pytest.param("SquaredDifference(white, fixed)", "Square(white)", id="RMS"),
        pytest.param("Rsqrt(safe)", "Exp(safe)", id="no root"),
        pytest.param("Rsqrt(safe)", "Sqrt(safe)", id="the root itself"),
        pytest.param("AddV2(variance, epsilon)", "Sub(variance, epsilon)", id="less epsilon"),
        pytest.param("AddV2(variance, epsilon)", "Mul(variance, epsilon)", id="times epsilon"),
        pytest.param("AddV2(variance, epsilon)", "AddV2(mean, epsilon)", id="of the mean"),
        pytest.param("Mul(mean, scale)", "Mul(mean, root)", id="gamma only for x"),
        pytest.param("Mul(mean, scale)", "Mul(mean, gamma)", id="a mean that is not divided"),
        pytest.param("Mul(white, scale)", "Mul(white, gamma)", id="an x that is not divided"),
        pytest.param("AddV2(scaled, offset)", "Sub(scaled, offset)", id="a mean that is added"),
        pytest.param("Sub(beta, shift)", "AddV2(beta, shift)", id="a mean that is added to beta"),
        pytest.param("AddV2(scaled, offset)", "Sub(offset, scaled)", id="a negative x"),
        pytest.param("Sub(beta, shift)", "Sub(shift, beta)", id="less beta, and the mean added"),
        pytest.param("AddV2(scaled, offset)", "Mul(scaled, offset)", id="a product"),
        pytest.param("gamma = Const(shape=8)", "gamma = Const(shape=4x1)", id="gamma for each row"),
        pytest.param(
            INPUT,
            INPUT.replace("2x4x8", "2x8x8").replace(
                "gamma = Const(shape=8)", "gamma = Const(shape=8x1)"
            ),
            id="gamma for each of as many rows as columns",
        ),
        pytest.param("beta = Const(shape=8)", "beta = Const(shape=4x8)", id="beta for each value"),
        pytest.param("gamma = Const(shape=8)", "gamma = Const(shape=1)", id="one number as gamma"),
        pytest.param("beta = Const(shape=8)", "beta = Const(value=2.0)", id="a scalar as beta"),
        pytest.param("Mul(root, gamma)", "Mul(root, gamma, ^x)", id="a control input inside"),
        pytest.param("Const(value=0.001)", "Const(^x, value=0.001)", id="an epsilon of a loop"),
        pytest.param("AddV2(scaled, offset)", "AddV2(scaled, offset, ^x)", id="or of the last"),
        pytest.param(END, "end = BatchMatMulV2(norm, w, ^scale)", id="a control producer inside"),
        pytest.param(
            END, "read = Exp(root)\nend = Mul(norm, root)", id="another reader of the root"
        ),
        pytest.param(END, "other = Neg(scale)\nend = Mul(norm, other)", id="of the scale"),
        pytest.param(END, "end = AddV2(norm, mean)", id="of the mean"),
        pytest.param(
            "Mul(root, gamma)", "Mul(root, gamma, _keep_dtype=1)", id="a mark on a part of it"
        ),
        pytest.param(
            "Mul(root, gamma)", "Mul(root, gamma) @ /device:CPU:1", id="a part on another device"
        ),
    ],
)
def test_it_stays_where_it_is_something_else_or_another_node_needs_a_part_of_it(before, after):
    assert before in GRAPH
    graph = GRAPH.replace(before, after)
    # Some cannot be run: roots of negative values, shapes that do not fit, an absent device.
    assert not rewrites(check(graph, None, run=False))


@needs_onednn
@pytest.mark.parametrize("number", ["epsilon", "two"])
def test_it_stays_where_a_number_brings_a_dimension_of_its_own(number):
    """x has two dimensions; the result of the sum, or of the power, has three."""
    graph = INPUT + FORMS["by hand, with Pow, and without parameters"] + "end = Exp(norm)"
    graph = graph.replace("2x4x8", "4x8").replace("BatchMatMulV2", "MatMul")
    assert rewrites(check(graph, None)) == [("layer_norm", "norm")]
    wide = re.sub(rf"({number} = Const)\(value=(.*?)\)", r"\1(value=[[[\2]]])", graph)
    assert wide != graph
    assert not rewrites(check(wide, None))


def test_it_stays_where_a_row_has_one_value():
    """Its variance is 0, so the root magnifies every rounding error."""
    graph = GRAPH.replace("w = Const(shape=8x8)", "w = Const(shape=8x1)").replace("=8)", "=1)")
    assert not rewrites(check(graph.replace(END, "end = Exp(norm)"), None, run=False))


def test_sums_of_one_number_end_the_search(run_python, tmp_path):
    """Each sum adds the one before it 100 times: six levels are two million million terms.

    With more levels, the limit of levels would end the search at its first term.
    """
    sums = ["sum0 = AddN(epsilon, epsilon)"]
    sums += [f"sum{n} = AddN({', '.join(100 * [f'sum{n - 1}'])})" for n in range(1, 7)]
    graph = GRAPH.replace("safe =", "\n".join(sums) + "\nsafe =")
    graph = read_graph(graph.replace("(variance, epsilon)", "(variance, sum6)"))
    (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())
    # In a process of its own, which can be ended if the search goes on.
    assert "rewrites: []" in run_python(REWRITE_A_FILE, timeout=60).stdout


@pytest.mark.parametrize("shape", ["?", "?x?x?"])
def test_it_stays_where_the_width_is_not_known(shape):
    graph = GRAPH.replace("white = BatchMatMulV2(x, w)", "white = Relu(x)")
    graph = graph.replace("(shape=2x4x8)", "()" if shape == "?" else f"(shape={shape})")
    assert not rewrites(check(graph, None, run=False))


@pytest.mark.parametrize("inside", ["mean", "root", "scale", "offset"])
def test_it_stays_where_the_caller_fetches_or_feeds_a_part_of_it(inside):
    assert not rewrites(check(GRAPH, None, ["end", inside]))
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(GRAPH), "end", feeds=[inside], precision_mode="allow_mix_precision_bf16"
    )
    assert "layer_norm" not in {entry.by for entry in ledger.rewrites}


def test_an_epsilon_that_the_caller_feeds_is_no_constant():
    for fed in ("epsilon", "axis"):
        _, ledger = npu_precision.rewrite_graph_def(
            read_graph(GRAPH), "end", feeds=[fed], precision_mode="allow_mix_precision_bf16"
        )
        assert "layer_norm" not in {entry.by for entry in ledger.rewrites}


def test_what_the_caller_feeds_in_its_place_is_not_replaced():
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(GRAPH), "end", feeds=["norm"], precision_mode="allow_mix_precision_bf16"
    )
    assert "layer_norm" not in {entry.by for entry in ledger.rewrites}


@pytest.mark.parametrize("entry", ["node:norm", "node:root", "Rsqrt", "Mean"])
def test_a_name_in_the_mixlist_is_obeyed(tmp_path, entry):
    path = tmp_path / "mixlist.json"
    path.write_text(json.dumps({"black-list": {"to-add": [entry]}, "gray-list": {}}))
    if entry in ("Rsqrt", "Mean"):
        path.write_text(json.dumps({"white-list": {"to-add": [entry]}}))
    assert not rewrites(check(GRAPH, None, modify_mixlist=str(path)))


@needs_onednn
def test_under_a_mark_that_keeps_the_dtype_it_is_written_in_float32():
    marked = INPUT.split("mean =", 1)
    graph = marked[0] + "\n".join(
        line.replace(")", ", _keep_dtype=1)") if "=" in line else line
        for line in ("    mean =" + marked[1] + MOMENTS + SCALED).splitlines()
    )
    result = check(graph + "\n" + END, None)
    assert rewrites(result) == [("layer_norm", "norm")]
    of_it = [name for name in result.reasons if name.startswith("norm")]
    assert len(of_it) > 5
    assert {result.reasons[name][0] for name in of_it} == {"kept"}


@needs_onednn
def test_float32_around_it_keeps_it_in_float32_in_one_piece():
    graph = GRAPH.replace("white = BatchMatMulV2(x, w)", "white = Exp(x)")
    result = check(graph, None)
    assert rewrites(result) == [("layer_norm", "norm")]
    assert result.reasons["norm/npu_layer_norm/norm"][0] == "kept"
    assert result.reasons["norm"][0] == "kept"
    assert "/npu_layer_norm/image/npu_cast" not in result.text


@needs_onednn
def test_in_float16_only_the_axis_changes_which_tensorflow_would_fuse_wrongly():
    graph = GRAPH.replace("[-1]", "[2]")
    result = check(graph, None, mode="allow_mix_precision")
    assert sorted(rewrites(result)) == [("layer_norm", "mean"), ("layer_norm", "variance")]
    after = nodes(result.graph)
    for name in ("mean", "variance"):
        axis = after[after[name].input[1]].attr["value"].tensor
        assert tf.make_ndarray(axis).tolist() == [-1]
    assert not rewrites(check(GRAPH, None, mode="allow_mix_precision"))


@needs_onednn
def test_an_axis_of_int64_stays_one():
    graph = GRAPH.replace("axis = Const[int32](value=[-1])", "axis = Const[int64](value=[2])")
    after = nodes(check(graph, None, mode="allow_mix_precision").graph)
    axis = after[after["mean"].input[1]].attr["value"].tensor
    assert tf.make_ndarray(axis).tolist() == [-1]
    assert axis.dtype == tf.int64.as_datatype_enum


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "must_keep_origin_dtype", "layer_norm": None, "rewrites": "-fold_constants"},
        {"mode": "force_fp32", "layer_norm": None, "rewrites": "-fold_constants"},
        {"target": "ascend910b", "layer_norm": None, "rewrites": "-fold_constants"},
        {"layer_norm": False},
    ],
)
def test_it_stays_where_it_was_not_asked_for(options):
    assert not check(GRAPH, None, run=False, **options).ledger.rewrites


def test_an_emulated_graph_would_not_be_faster_by_it():
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(GRAPH), "end", precision_mode="allow_mix_precision_bf16", emulate=True
    )
    assert "layer_norm" not in {entry.by for entry in ledger.rewrites}


def test_a_graph_without_float32_stays():
    graph = GRAPH.replace("x = Placeholder(", "x = Placeholder[bfloat16](").replace(
        "Const(", "Const[bfloat16]("
    )
    check(graph, UNCHANGED)
