"""batch_norm_v3: FusedBatchNorm, which knows float32 only, is written as FusedBatchNormV3."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from support.check_rewrite import UNCHANGED, check_rewrite, run
from support.text_functions import read_graph_with_functions
from support.text_graph import read_graph
from support.tf_versions import need_kernels

import npu_precision

check = functools.partial(check_rewrite, batch_norm_v3=True)
each_mode = pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)
NORM = "norm = FusedBatchNorm(white, scale, offset, mean, variance, epsilon=0.05"
GRADIENT = "grad = FusedBatchNormGrad(back, white, scale, norm:3, norm:4, epsilon=0.05"
BEFORE = """
    x = Placeholder(shape=2x4x4x2)
    dy = Placeholder(shape=2x4x4x2)
    f = Const(shape=1x1x2x2)
    scale = Const(value=[1.0, 0.5])
    offset = Const(value=[0.25, -1.0])
    mean = Const(value=[0.5, 0.125])
    variance = Const(value=[1.5, 2.0])
    none = Const(value=[])
    white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
    """
BACK = "back = Conv2D(dy, f, strides=[1, 1, 1, 1], padding=SAME)"
INFERENCE = f"{BEFORE}\n{NORM}, is_training=False)\nend = Exp(norm)"
TRAINING = f"""
    {BEFORE}
    {NORM.replace("mean, variance", "none, none")}, is_training=True)
    {BACK}
    {GRADIENT}, is_training=True)
    end = AddV2(norm, grad)
    """


@pytest.fixture(autouse=True)
def _needs_the_kernels():
    need_kernels("float16", "Conv2D", "FusedBatchNormV3", "FusedBatchNormGradV3")


def written(result):
    """The old and the new op of each node, by its name."""
    assert {rewrite.by for rewrite in result.ledger.rewrites} <= {"batch_norm_v3"}
    return {rewrite.node: (rewrite.before, rewrite.after) for rewrite in result.ledger.rewrites}


def ops(graph_def):
    return {node.name: node.op for node in graph_def.node}


@each_mode
def test_in_inference_the_image_is_lowered_and_the_statistics_are_not(mode, low):
    need_kernels(low, "Conv2D", "FusedBatchNormV3")
    result = check(
        INFERENCE,
        f"""
        white = Conv2D[{low}](x/npu_cast_0_{low}, f/npu_cast_0_{low})
        norm = FusedBatchNormV3[{low},float32](white, scale, offset, mean, variance)
        end = Exp[float32](norm/npu_cast_0_float32)
        """,
        mode=mode,
    )
    assert written(result) == {"norm": ("FusedBatchNorm", "FusedBatchNormV3")}
    (norm,) = (node for node in result.graph.node if node.name == "norm")
    assert norm.attr["epsilon"].f == np.float32(0.05)
    assert not norm.attr["is_training"].b


@each_mode
def test_in_training_the_gradient_reads_one_output_more(mode, low):
    need_kernels(low, "Conv2D", "FusedBatchNormV3", "FusedBatchNormGradV3")
    result = check(
        f"""
        {TRAINING.replace("norm:3, norm:4", "norm:3, norm:4, ^first")}
        first = NoOp()
        moving = Mul(norm:1, scale)
        slope = Mul(grad:2, scale)
        """,
        f"""
        white = Conv2D[{low}](x/npu_cast_0_{low}, f/npu_cast_0_{low})
        norm = FusedBatchNormV3[{low},float32](white, scale, offset, none, none)
        back = Conv2D[{low}](dy/npu_cast_0_{low}, f/npu_cast_0_{low})
        grad = FusedBatchNormGradV3[{low},float32](back, white, scale, norm:3, norm:4, norm:5,
            ^first)
        end/npu_changed = AddV2[{low}](norm, grad)
        end = Cast[{low},float32](end/npu_changed)
        moving = Mul[float32](norm:1, scale)
        slope = Mul[float32](grad:2, scale)
        """,
        ["end", "moving", "slope"],
        mode=mode,
    )
    assert written(result) == {
        "norm": ("FusedBatchNorm", "FusedBatchNormV3"),
        "grad": ("FusedBatchNormGrad", "FusedBatchNormGradV3"),
    }


def test_a_gradient_with_fixed_statistics_belongs_to_the_norm_that_reads_the_same():
    """Other norms may have the same statistics, for another image."""
    result = check(
        f"""
        {BEFORE}
        {BACK}
        other = FusedBatchNorm(back, scale, offset, mean, variance, is_training=False)
        {NORM}, is_training=False)
        {GRADIENT.replace("norm:3, norm:4", "mean, variance")}, is_training=False)
        sum = AddN(norm, other, grad)
        end = Exp(sum)
        """,
        """
        white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        back = Conv2D[float16](dy/npu_cast_0_float16, f/npu_cast_0_float16)
        other = FusedBatchNormV3[float16,float32](back, scale, offset, mean, variance)
        norm = FusedBatchNormV3[float16,float32](white, scale, offset, mean, variance)
        grad = FusedBatchNormGradV3[float16,float32](back, white, scale, mean, variance, norm:5)
        sum = AddN[float16](norm, other, grad)
        end = Exp[float32](sum/npu_cast_0_float32)
        """,
    )
    assert set(written(result)) == {"norm", "other", "grad"}


# By the obstacle: the graph, the rewritten nodes, and options.
PARTLY = {
    "a gradient of statistics from elsewhere": (
        TRAINING.replace("grad = ", "m = Mul(norm:3, scale)\ngrad = ").replace(
            "norm:3, norm:4", "m, norm:4"
        ),
        {"norm"},
        {},
    ),
    "a gradient of other outputs": (
        TRAINING.replace("norm:3, norm:4", "norm:1, norm:2"),
        {"norm"},
        {},
    ),
    "a gradient of another image": (
        TRAINING.replace("none, none", "mean, variance")
        .replace("norm:3, norm:4", "mean, variance")
        .replace("is_training=True", "is_training=False")
        .replace("Grad(back, white", "Grad(white, back"),
        {"norm"},
        {},
    ),
    "a gradient of other statistics": (
        TRAINING.replace("none, none", "mean, variance")
        .replace("norm:3, norm:4", "mean, scale")
        .replace("is_training=True", "is_training=False"),
        {"norm"},
        {},
    ),
    "a gradient that keeps its dtype": (
        TRAINING.replace("norm:4, ", "norm:4, _keep_dtype=1, "),
        {"norm"},
        {},
    ),
    "a forward op that keeps its dtype": (
        TRAINING.replace("none, none, ", "none, none, _keep_dtype=1, "),
        set(),
        {},
    ),
    "nothing": (TRAINING, {"norm", "grad"}, {}),
    "the option is off": (TRAINING, set(), {"batch_norm_v3": False}),
    "an emulated target": (
        TRAINING,
        set(),
        {"batch_norm_v3": None, "rewrites": "-fold_constants", "target": "ascend910"},
    ),
    "inputs are to be rounded": (
        TRAINING,
        set(),
        {"batch_norm_v3": None, "rewrites": "-fold_constants", "mode": "cube_fp16in_fp32out"},
    ),
}


@pytest.mark.parametrize("name", PARTLY)
def test_the_first_version_stays_where_the_third_would_not_do(name):
    graph, expected, options = PARTLY[name]
    result = check(graph, None, **options)
    assert set(written(result)) == expected
    stays = {name for name, op in ops(result.graph).items() if op.endswith(("Norm", "NormGrad"))}
    assert stays == {"norm", "grad"} - expected


def test_what_is_fetched_stays():
    """The third version has one more output, which the caller could see."""
    assert not written(check(TRAINING, None, ["norm", "end"]))


def test_what_is_fed_stays():
    graph_def, ledger = npu_precision.rewrite_graph_def(
        read_graph(INFERENCE), "end", feeds=["norm"], precision_mode="force_fp16"
    )
    assert ops(graph_def)["norm"] == "FusedBatchNorm"
    assert not ledger.rewrites


@pytest.mark.parametrize(
    "entries",
    [
        {"black": ["FusedBatchNorm"]},
        {"black": ["FusedBatchNormV3"]},
        {"black": ["BatchNorm"]},
        {"black": ["node:norm"]},
        {"white": ["FusedBatchNorm"]},
    ],
)
def test_what_the_mixlist_says_of_either_version_holds(mixlist, entries):
    result = check(INFERENCE, None, modify_mixlist=mixlist(**entries))
    assert not written(result)


@pytest.mark.parametrize("entry", ["BatchNorm", "node:norm"])
def test_white_is_both_versions(mixlist, entry):
    """The norm is after a kept node, so only the entry is a reason to lower it."""
    graph = INFERENCE.replace("Norm(white", "Norm(black").replace(
        "norm =", "black = Exp(white)\nnorm ="
    )
    result = check(graph, None, modify_mixlist=mixlist(white=[entry], black=["Exp"]))
    assert written(result)
    assert result.reasons["norm"][:2] == ("lowered", "white_list")


def test_what_the_target_does_not_list_stays(tmp_path):
    lists = {
        "Conv2D": {"precision_reduce": {"flag": "true"}},
        "FusedBatchNorm": {},
        "FusedBatchNormV3": {},
    }
    for mode in ("allow_mix_precision", "force_fp16"):
        for left_out in (None, "FusedBatchNorm", "FusedBatchNormV3"):
            listed = {op: entry for op, entry in lists.items() if op != left_out}
            (tmp_path / "ops.json").write_text(json.dumps(listed))
            result = check(INFERENCE, None, mode=mode, ops_info_dir=str(tmp_path))
            assert bool(written(result)) == (left_out is None), (mode, left_out)


def test_force_fp16_lowers_it_too():
    result = check(
        INFERENCE,
        """
        white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        norm = FusedBatchNormV3[float16,float32](white, scale, offset, mean, variance)
        end/npu_changed = Exp[float16](norm)
        end = Cast[float16,float32](end/npu_changed)
        """,
        mode="force_fp16",
    )
    assert written(result)


def test_channels_first_stay_on_a_cpu_in_float16():
    """oneDNN has a float32 kernel for it, but no float16 kernel."""
    graph = INFERENCE.replace("is_training", "data_format=NCHW, is_training")
    assert not written(check(graph, None, run=False))


def test_a_graph_without_the_first_version_stays():
    third = INFERENCE.replace("FusedBatchNorm", "FusedBatchNormV3")
    check(
        third,
        UNCHANGED,
        mode="must_keep_origin_dtype",
        batch_norm_v3=None,
        rewrites="-fold_constants",
    )
    assert not written(check(third, None))


def test_the_values_in_float32_are_the_same():
    """Nothing is lowered here, so only the versions differ."""
    graph = TRAINING.replace("padding=SAME)", "padding=SAME, _keep_dtype=1)")
    result = check(graph, None)
    assert set(written(result)) == {"norm", "grad"}
    assert not result.ledger.casts
    for before, after in zip(run(read_graph(graph), ["end"]), run(result.graph, ["end"])):
        np.testing.assert_array_equal(before, after)


def test_shapes_that_were_known_of_five_outputs_are_forgotten():
    """In a function; TensorFlow drops them from a graph that it imports."""
    graph_def = read_graph_with_functions(
        """
        x = Placeholder(shape=2x4x4x2)
        one = Const(value=[1.0, 0.5])
        call = PartitionedCall(x, one, f=layer)
        def layer(image, c) -> (norm):
            white = Conv2D(image, f, strides=[1, 1, 1, 1], padding=SAME)
            f = Const(shape=1x1x2x2)
            norm = FusedBatchNorm(white, c, c, c, c, is_training=False)
        """
    )
    (layer,) = graph_def.library.function
    (norm,) = (node for node in layer.node_def if node.op == "FusedBatchNorm")
    for _ in range(5):
        norm.attr["_output_shapes"].list.shape.add().unknown_rank = True
    (layer,) = check(graph_def, None).graph.library.function
    (norm,) = (node for node in layer.node_def if node.op == "FusedBatchNormV3")
    assert "_output_shapes" not in norm.attr


def test_what_cannot_be_folded_is_written_and_what_can_is_folded():
    result = check(
        f"""
        {INFERENCE.replace("end =", "one =")}
        free = FusedBatchNorm(one, scale, offset, mean, variance, is_training=False)
        conv = Conv2D(free, f2, strides=[1, 1, 1, 1], padding=SAME)
        f2 = Const(shape=1x1x2x2)
        again = MaxPool(conv, ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding=SAME)
        last = FusedBatchNorm(again, scale, offset, mean, variance, is_training=False)
        end = Exp(last)
        """,
        None,
        fold_batch_norms=True,
    )
    by = {entry.node: (entry.by, entry.before, entry.after) for entry in result.ledger.rewrites}
    assert by == {
        "norm": ("fold_batch_norms", "FusedBatchNorm", "BiasAdd of white"),
        "free": ("batch_norm_v3", "FusedBatchNorm", "FusedBatchNormV3"),
        "last": ("batch_norm_v3", "FusedBatchNorm", "FusedBatchNormV3"),
    }


def test_a_gradient_in_a_function_and_its_forward_op_outside():
    """The producer of a function's argument is unknown, so its gradient stays."""
    result = check(
        f"""
        {BEFORE}
        {BACK}
        {NORM.replace("mean, variance", "none, none")}, is_training=True)
        call = PartitionedCall(back, white, scale, norm:3, norm:4, f=slope)
        end = AddV2(norm, call)
        def slope(dy, x, scale, mean, variance) -> (grad):
            grad = FusedBatchNormGrad(dy, x, scale, mean, variance, is_training=True)
        """,
        None,
    )
    assert set(written(result)) == {"norm"}
    (body,) = result.graph.library.function
    assert [node.op for node in body.node_def] == ["FusedBatchNormGrad"]


def test_both_in_a_function():
    check(
        """
        x = Placeholder(shape=2x4x4x2)
        f = Const(shape=1x1x2x2)
        scale = Const(value=[1.0, 0.5])
        none = Const(value=[])
        call = PartitionedCall(x, f, scale, none, f=layer)
        end = Exp(call)
        means = Exp(call:1)
        def layer(x, f, scale, none) -> (grad, norm:1):
            white = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
            norm = FusedBatchNorm(white, scale, scale, none, none, is_training=True)
            grad = FusedBatchNormGrad(norm, white, scale, norm:3, norm:4, is_training=True)
        """,
        """
        call = PartitionedCall[float32,float32,float32,float32,float32,float32](x, f, scale, none)
        end = Exp[float32](call)
        means = Exp[float32](call:1)
        def layer(x, f, scale, none) -> (grad/npu_cast_0_float32, norm:1):
            white = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
            norm = FusedBatchNormV3[float16,float32](white, scale, scale, none, none)
            grad = FusedBatchNormGradV3[float16,float32](norm, white, scale, norm:3, norm:4, norm:5)
        """,
        ["end", "means"],
    )


def test_it_is_on_by_default():
    graph_def = read_graph(INFERENCE.replace("f = Const", "f = Placeholder"))
    _, ledger = npu_precision.rewrite_graph_def(
        graph_def, "end", precision_mode="allow_mix_precision"
    )
    assert [entry.by for entry in ledger.rewrites] == ["batch_norm_v3"]
