"""means_as_pools: a mean over an image is an average pool where Mean may not be lowered."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support import ROOT
from support.check_rewrite import check_rewrite
from support.live_rewrite import rewrite_and_run
from support.text_graph import random_values, read_graph
from support.tf_versions import needs_inexact_means, needs_onednn_in_bfloat16

BF16 = "allow_mix_precision_bf16"
needs_it = [needs_onednn_in_bfloat16, needs_inexact_means]
pytestmark = needs_it


def mean(axes="[1, 2]", more=", keep_dims=True", shape="2x8x6x4", dtype="int32"):
    return f"""
        x = Placeholder(shape={shape})
        w = Const(shape=1x1x4x4)
        axes = Const[{dtype}](value={axes})
        conv = Conv2D(x, w, strides=[1, 1, 1, 1], padding=VALID)
        mean = Mean(conv, axes{more})
        {"end = Conv2D(mean, w, strides=[1, 1, 1, 1], padding=VALID)" if "keep" in more else ""}
        """


@pytest.fixture
def live(tmp_path):
    """Rewrites and runs a text graph in bfloat16, with this pass alone."""

    def run(text, fetches=("end",), **options):
        report_dir = tmp_path / str(len(list(tmp_path.iterdir())))
        only = {"rewrites": "none", "lower_collectives": False}
        options = {"precision_mode": BF16, **only, "means_as_pools": True, **options}
        graph_def = read_graph(text) if isinstance(text, str) else text
        return rewrite_and_run(graph_def, list(fetches), report_dir, **options)

    return run


def casts(run):
    return sum(op == "Cast" for op in run.ops().values())


@pytest.mark.parametrize("axes", ["[1, 2]", "[2, 1]", "[-3, -2]", "[1, -2]"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_mean_over_height_and_width_is_a_pool_of_the_image(axes, dtype, live):
    run = live(mean(axes, dtype=dtype))
    (entry,) = run.rewrites
    assert (entry.node, entry.before, entry.after) == ("mean", "Mean", "AvgPool")
    pool = run.nodes["mean"]
    assert run.ops()["mean"] == "AvgPool"
    assert [*pool.attr["ksize"].list.i] == [1, 8, 6, 1]
    assert [*pool.attr["strides"].list.i] == [1, 1, 1, 1]
    assert (pool.attr["padding"].s, pool.attr["data_format"].s) == (b"VALID", b"NHWC")
    assert pool.attr["T"].type == tf.bfloat16.as_datatype_enum
    assert "axes" not in run.nodes
    assert casts(live(mean(), means_as_pools=False)) == casts(run) + 2


def test_the_graph_after_the_pass(live, tmp_path):
    text = mean(more="") + "        end = Exp(mean)"
    live(text, dump_passes_dir=str(tmp_path / "dumps"))
    (dump,) = (tmp_path / "dumps").rglob("*_means_as_pools.txt")
    lines = [line.partition(" on /")[0] for line in dump.read_text().splitlines()]
    assert [line for line in lines if line.startswith(("mean", "axes"))] == [
        "mean = Squeeze(mean/npu_pool) T=DT_FLOAT squeeze_dims=[1, 2]",
        'mean/npu_pool = AvgPool(conv) T=DT_FLOAT data_format="NHWC" ksize=[1, 8, 6, 1] '
        'padding="VALID" strides=[1, 1, 1, 1]',
    ]


def test_dimensions_that_go_are_squeezed(live):
    text = mean(more="") + "        end = Exp(mean)"
    run = live(text)
    assert run.ops()["mean/npu_pool"] == "AvgPool"
    assert run.ops()["mean"] == "Squeeze"
    assert run.values[0].shape == (2, 4)
    assert live(mean(more="", shape="1x8x6x4") + "        end = Exp(mean)").values[0].shape == (
        1,
        4,
    )


def test_what_is_fetched_keeps_its_name_dtype_and_shape(live):
    for more, shape in ((", keep_dims=True", (2, 1, 1, 4)), ("", (2, 4))):
        run = live(mean(more=more), ["mean"])
        assert len(run.rewrites) == 1
        assert (run.values[0].dtype, run.values[0].shape) == (np.float32, shape)


def test_control_dependencies_stay(live):
    for more in (", keep_dims=True", ""):
        text = mean(more=", ^x" + more) + "        last = Exp(mean)"
        run = live(text, ["last"])
        assert len(run.rewrites) == 1


REFUSED = {
    "over the height alone": (mean("[1]"), None),
    "over the channels too": (mean("[1, 2, 3]"), None),
    "over width and channels": (mean("[2, 3]"), None),
    "axes that are not constant": (
        mean().replace("Const[int32](value=[1, 2])", "Placeholder[int32](shape=2)"),
        {"axes": np.array([1, 2], np.int32)},
    ),
    "a kept mean": (mean(more=", keep_dims=True, _keep_dtype=1"), None),
    "an input of the graph": (
        mean().replace("Mean(conv, axes", "Mean(x, axes"),
        None,
    ),
    "an input that keeps float32": (
        mean()
        .replace("mean = Mean(conv", "sums = Cumsum(conv, axis)\n  mean = Mean(sums")
        .replace("conv = ", "axis = Const[int32](value=1)\n        conv = "),
        None,
    ),
    "three dimensions": (
        mean(more="")
        .replace("Mean(conv", "Mean(flat")
        .replace(
            "mean =",
            "shape = Const[int32](value=[2, 48, 4])\n"
            "        flat = Reshape(conv, shape)\n        mean =",
        )
        .replace("[1, 2]", "[1]")
        + "        end = Exp(mean)",
        None,
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_mean_stays_where_a_pool_is_no_better_or_not_the_same(case, live):
    text, feeds = REFUSED[case]
    text += "" if "end =" in text else "\n        end = Exp(mean)"
    run = live(text.replace("end = Conv2D(mean", "end = Conv2D(conv"), ["end", "mean"], feeds=feeds)
    assert not run.rewrites


def test_an_image_of_unknown_size_keeps_its_mean(live):
    values = {"x": random_values("x", [2, 8, 6, 4])}
    for shape in ("2x?x6x4", "2x8x?x4"):
        graph_def = read_graph(mean())
        dims = next(node for node in graph_def.node if node.name == "x").attr["shape"].shape.dim
        for dim, text in zip(dims, shape.split("x")):
            dim.size = -1 if text == "?" else int(text)
        assert not live(graph_def, feeds=values).rewrites


def test_any_batch_will_do(live):
    graph_def = read_graph(mean())
    node = next(node for node in graph_def.node if node.name == "x")
    node.attr["shape"].shape.dim[0].size = -1
    run = live(graph_def, feeds={"x": random_values("x", [3, 8, 6, 4])})
    assert len(run.rewrites) == 1
    assert run.values[0].shape == (3, 1, 1, 4)


@pytest.mark.parametrize("lists", [{"black-list": "Mean"}, {"gray-list": "node:mean"}])
def test_a_mean_that_the_mixlist_names_stays(lists, live, mixlist, tmp_path):
    ((name, op),) = lists.items()
    path = tmp_path / "mine.json"
    path.write_text(f'{{"{name}": {{"to-add": ["{op}"]}}}}')
    assert not live(mean(), modify_mixlist=str(path)).rewrites


def test_pools_that_are_on_the_black_list_are_not_written(live, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"black-list": {"to-add": ["AvgPool"]}}')
    assert not live(mean(), modify_mixlist=str(path)).rewrites


def test_a_mean_that_is_fed_stays(live):
    assert not live(mean(), feeds={"mean": random_values("mean", [2, 1, 1, 4])}).rewrites


@pytest.mark.parametrize(
    "options",
    [
        {"precision_mode": "allow_mix_precision_fp16"},
        {"means_as_pools": False},
        {"emulate": True},
        {"target": "ascend910", "means_as_pools": None, "rewrites": "-fold_constants"},
    ],
)
def test_a_mean_stays_where_nothing_runs_in_bfloat16(options, live):
    assert not live(mean(), **options).rewrites


def test_a_graph_that_is_converted_keeps_its_mean():
    """TensorFlow without oneDNN has a pool that adds in bfloat16."""
    result = check_rewrite(mean(), None, mode=BF16, rewrites="all")
    assert "means_as_pools" not in {entry.by for entry in result.ledger.rewrites}


def test_a_graph_that_is_converted_has_pools_if_that_is_asked_for_by_name():
    result = check_rewrite(mean(), None, mode=BF16, rewrites="none,means_as_pools")
    assert [entry.after for entry in result.ledger.rewrites] == ["AvgPool"]


SCRIPT = """
import pathlib
import sys

from support.live_rewrite import rewrite_and_run
from support.text_graph import read_graph

graph, folder, mode = sys.argv[1:]
run = rewrite_and_run(read_graph(graph), ["end"], pathlib.Path(folder), precision_mode=mode)
print("pools:", [entry.node for entry in run.rewrites if entry.by == "means_as_pools"])
"""


@pytest.mark.parametrize(("switch", "told"), [("0", "[]"), ("1", "['mean']")])
def test_it_stays_where_onednn_is_switched_off(switch, told, run_python, tmp_path):
    process = run_python(
        SCRIPT,
        mean(),
        tmp_path / "ledgers",
        BF16,
        TF_ENABLE_ONEDNN_OPTS=switch,
        PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}",
    )
    assert f"pools: {told}" in process.stdout


@pytest.mark.parametrize("size", [7, 14, 28, 56, 112])
def test_one_rounding_is_the_error_whatever_the_size(size, live):
    """A sum of positive numbers in bfloat16 stops growing, and would be far off."""
    text = f"""
        x = Placeholder(shape=2x{size}x{size}x4)
        w = Const(value=[[[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0],
            [0.0, 0.0, 0.0, 1.0]]]])
        axes = Const[int32](value=[1, 2])
        conv = Conv2D(x, w, strides=[1, 1, 1, 1], padding=VALID)
        positive = Abs(conv)
        mean = Mean(positive, axes, keep_dims=True)
        end = Identity(mean)
        """
    run = live(text)
    assert len(run.rewrites) == 1
    rounded = tf.as_dtype("bfloat16").as_numpy_dtype
    x = random_values("x", [2, size, size, 4]).astype(rounded)
    want = np.abs(x.astype(np.float64)).mean((1, 2), keepdims=True)
    assert np.abs(run.values[0] / want - 1).max() <= 2.0**-8


def test_gradients_are_untouched(live):
    with tf.Graph().as_default() as built:
        x = tf.compat.v1.placeholder(tf.float32, [2, 8, 6, 4], name="x")
        w = tf.constant(random_values("w", [1, 1, 4, 4]))
        conv = tf.nn.conv2d(x, w, [1, 1, 1, 1], "VALID")
        loss = tf.reduce_sum(tf.reduce_mean(conv, [1, 2]) ** 2)
        (gradient,) = tf.gradients(loss, [x])
    graph_def, name = built.as_graph_def(), gradient.op.name
    got, want = live(graph_def, [name]), live(graph_def, [name], means_as_pools=False)
    assert len(got.rewrites) == 1
    np.testing.assert_allclose(got.values[0], want.values[0], 5e-2, 5e-2)
    assert not [op for op in got.ops().values() if "AvgPoolGrad" in op]
