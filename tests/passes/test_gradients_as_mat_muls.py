"""gradients_as_mat_muls: gradients of lowered 1x1 convolutions of small images are MatMuls."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.live_rewrite import rewrite_and_run
from support.text_graph import read_graph
from support.tf_versions import needs_functions_by_default, needs_onednn_in_bfloat16

import npu_precision

BF16 = "allow_mix_precision_bf16"
PASS = "gradients_as_mat_muls"
pytestmark = needs_onednn_in_bfloat16


def dims(*sizes):
    return "x".join("?" if size is None else str(size) for size in sizes)


def filter_gradient(images=(8, 4, 6), channels=16, kernel=(1, 1, 16, 32), shape=None, more=""):
    """The gradient of a filter; `shape` is the image's as the graph knows it."""
    return f"""
        x = Placeholder(shape={shape or dims(*images, channels)})
        y = Placeholder(shape={dims(*images, kernel[3])})
        sizes = Const[int32](value={list(kernel)})
        gradient = Conv2DBackpropFilter(x, sizes, y, strides=[1, 1, 1, 1], padding=SAME{more})
        end = Cast[float32,float64](gradient)
        """


def input_gradient(images=(2, 4, 6), kernel=(1, 1, 16, 32), more=""):
    return f"""
        w = Placeholder(shape={dims(*kernel)})
        y = Placeholder(shape={dims(*images, kernel[3])})
        sizes = Const[int32](value={[*images, kernel[2]]})
        gradient = Conv2DBackpropInput(sizes, w, y, strides=[1, 1, 1, 1], padding=SAME{more})
        end = Cast[float32,float64](gradient)
        """


@pytest.fixture
def live(tmp_path):
    """Rewrites and runs a text graph in bfloat16, with this pass alone."""

    def run(text, fetches=("end",), feeds=None, **options):
        report_dir = tmp_path / str(len(list(tmp_path.iterdir())))
        options = {"precision_mode": BF16, "rewrites": f"none,{PASS}", **options}
        return rewrite_and_run(read_graph(text), list(fetches), report_dir, feeds=feeds, **options)

    return run


def check_product(text, op, live, feeds=None):
    """The gradient is a product, and as near to float32's as the convolution's own."""
    run = live(text, feeds=feeds)
    (entry,) = run.rewrites
    assert (entry.by, entry.node, entry.before, entry.after) == (PASS, "gradient", op, "MatMul")
    ops = run.ops()
    assert op not in ops.values()
    assert (ops["gradient/npu_mat_mul"], ops["gradient"]) == ("MatMul", "Reshape")
    assert run.nodes["gradient/npu_mat_mul"].attr["T"].type == tf.bfloat16.as_datatype_enum
    exact = live(text, feeds=feeds, precision_mode="force_fp32", rewrites=None).values[0]
    convolution = live(text, feeds=feeds, rewrites="none")
    assert convolution.ops()["gradient"] == op
    assert run.values[0].shape == exact.shape
    # One rounding of each operand and of the result.
    bound = 3 * 2**-8 * np.abs(exact).max(initial=0)
    np.testing.assert_allclose(run.values[0], exact, rtol=0, atol=bound)
    np.testing.assert_allclose(run.values[0], convolution.values[0], rtol=0, atol=bound)
    return run


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("images", [(8, 4, 6), (1, 1, 1), (32, 16, 16)])
def test_the_gradient_of_a_filter_is_a_product(images, padding, live):
    text = filter_gradient(images).replace("SAME", padding)
    check_product(text, "Conv2DBackpropFilter", live)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("images", [(2, 4, 6), (1, 1, 1), (8, 8, 8)])
def test_the_gradient_of_an_image_is_a_product(images, padding, live):
    check_product(input_gradient(images).replace("SAME", padding), "Conv2DBackpropInput", live)


@pytest.mark.parametrize("batch", [0, 1, 5])
def test_a_batch_of_unknown_size_may_be_of_any_size(batch, live):
    text = filter_gradient((None, 4, 6))
    random = np.random.default_rng(0)
    feeds = {"x": random.normal(size=[batch, 4, 6, 16]), "y": random.normal(size=[batch, 4, 6, 32])}
    run = check_product(text, "Conv2DBackpropFilter", live, feeds=feeds)
    assert run.values[0].any() == (batch > 0)


def test_the_graph_after_the_pass(live, tmp_path):
    live(input_gradient(), dump_passes_dir=str(tmp_path / "dumps"))
    (dump,) = (tmp_path / "dumps").rglob(f"*_{PASS}.txt")
    lines = [line.partition(" on /")[0] for line in dump.read_text().splitlines()]
    rows = {name: f"{name}/npu_cast_0_bfloat16/npu_rows_0" for name in "wy"}
    shape = "Const() dtype=DT_INT32 value=Tensor<type: int32 shape: [2] values: -1 32>"
    added = [
        "gradient = Reshape(gradient/npu_mat_mul, sizes) T=DT_BFLOAT16 Tshape=DT_INT32",
        f"gradient/npu_mat_mul = MatMul({rows['y']}, {rows['w']}) T=DT_BFLOAT16 "
        "transpose_a=false transpose_b=true",
    ]
    for name, made in rows.items():
        read = f"{name}/npu_cast_0_bfloat16, {made}/shape"
        added.append(f"{made} = Reshape({read}) T=DT_BFLOAT16 Tshape=DT_INT32")
        added.append(f"{made}/shape = {shape}")
    written = ("gradient", *rows.values())
    assert sorted(line for line in lines if line.startswith(written)) == sorted(added)


ONES = {"x": np.ones([8, 4, 6, 16], "f"), "y": np.ones([8, 4, 6, 32], "f")}
USUAL = {"x": np.ones([1, 16, 17, 16], "f"), "y": np.ones([1, 16, 17, 32], "f")}
WITHOUT_Y = filter_gradient().replace(
    "y = Placeholder(shape=8x4x6x32)", "y = Placeholder(shape={})"
)
STRIDES = ("[1, 1, 1, 1], padding", "[1, 2, 2, 1], padding")
STRIDED = WITHOUT_Y.format("8x2x3x32").replace(*STRIDES)
PADDED = WITHOUT_Y.format("8x6x8x32").replace(
    "SAME", "EXPLICIT, explicit_paddings=[0,0,1,1,1,1,0,0]"
)
CHANNELS_FIRST = """
    x = Placeholder(shape=8x16x4x6)
    y = Placeholder(shape=8x32x4x6)
    sizes = Const[int32](value=[1, 1, 16, 32])
    gradient = Conv2DBackpropFilter(x, sizes, y, strides=[1, 1, 1, 1], padding=SAME,
                                    data_format=NCHW)
    end = Cast[float32,float64](gradient)
    """


def edits(color, *names):
    return {"mixlist_edits": json.dumps({f"{color}-list": {"to-add": [*names]}})}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        pytest.param(filter_gradient(kernel=(3, 1, 16, 32)), {}, id="3x1"),
        pytest.param(filter_gradient(kernel=(1, 3, 16, 32)), {}, id="1x3"),
        pytest.param(input_gradient(kernel=(3, 3, 16, 32)), {}, id="3x3"),
        pytest.param(STRIDED, {}, id="strides"),
        pytest.param(PADDED, {}, id="padding that is written out"),
        pytest.param(CHANNELS_FIRST, {}, id="channels first"),
        pytest.param(filter_gradient(kernel=(1, 1, 8, 32)), {}, id="groups"),
        pytest.param(filter_gradient((33, 16, 16)), {}, id="large images"),
        pytest.param(input_gradient((9, 8, 8)), {}, id="large gradients of images"),
        pytest.param(filter_gradient((None, 16, 17)), {"feeds": USUAL}, id="large if usual"),
        pytest.param(filter_gradient(shape="8x?x6x16"), {"feeds": ONES}, id="height unknown"),
        pytest.param(filter_gradient(shape="8x4x?x16"), {"feeds": ONES}, id="width unknown"),
        pytest.param(filter_gradient(shape="8x4x6x?"), {"feeds": ONES}, id="channels unknown"),
        pytest.param(filter_gradient(more=", _keep_dtype=1"), {}, id="kept by its scope"),
        pytest.param(filter_gradient(), edits("white", "node:gradient"), id="named"),
        pytest.param(filter_gradient(), edits("gray", "MatMul"), id="MatMul on another list"),
        pytest.param(filter_gradient(), {"precision_mode": "allow_mix_precision"}, id="float16"),
        pytest.param(filter_gradient(), {"emulate": True}, id="emulated"),
        pytest.param(filter_gradient(), {"rewrites": "none"}, id="off"),
    ],
)
def test_other_gradients_stay(text, options, live):
    run = live(text, **options)
    assert run.ops()["gradient"].startswith("Conv2DBackprop")
    assert not run.rewrites


@pytest.mark.parametrize(
    ("known", "y"),
    [
        pytest.param("?x4x6x32", (7, 4, 6), id="another batch"),
        pytest.param("?x?x?x32", (8, 6, 4), id="as many rows"),
        pytest.param("8x6x4x32", (8, 6, 4), id="as many rows, known"),
    ],
)
def test_a_gradient_of_another_size_is_an_error_still(known, y, live):
    text = filter_gradient().replace("8x4x6x32", known)
    with pytest.raises(tf.errors.OpError):
        live(text, feeds={"y": np.ones([*y, 32], "f")})


def test_a_gradient_of_all_pixels_is_an_error_where_strides_leave_some_out(live):
    with pytest.raises(tf.errors.OpError):
        live(WITHOUT_Y.format("8x4x6x32").replace(*STRIDES))


def step_of(model, optimizer, **fields):
    """A training step of the model with SGD, in the mode."""
    options = npu_precision.PrecisionOptions(precision_mode=BF16, **fields)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.keras.losses.sparse_categorical_crossentropy(y, model(x), from_logits=True)
            loss = tf.reduce_mean(losses)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    def call(x, y):
        with npu_precision.autocast(options):
            return float(step(x, y))

    return call


def narrow_network():
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(0)
    return tf.keras.Sequential(
        [
            layers.InputLayer([8, 8, 16]),
            layers.Conv2D(32, 1, activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 1, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )


@needs_functions_by_default
def test_a_network_learns_the_same(tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=[8, 8, 8, 16]).astype(np.float32)
    y = np.arange(8) % 4
    losses, bodies = {}, {}
    for rewrites in ("all", f"-{PASS}"):
        folder = tmp_path / rewrites
        folder.mkdir()
        fields = {"rewrites": rewrites, "report_dir": str(folder)}
        step = step_of(narrow_network(), tf.keras.optimizers.SGD(0.1), **fields)
        losses[rewrites] = [step(x, y) for _ in range(10)]
        ledgers = [
            npu_precision.Ledger.from_json(path.read_text()) for path in folder.glob("*.json")
        ]
        bodies[rewrites] = [body for ledger in ledgers for body in ledger]
    written = {
        entry.before for body in bodies["all"] for entry in body.rewrites if entry.by == PASS
    }
    assert written == {"Conv2DBackpropFilter", "Conv2DBackpropInput"}
    # Updates read these gradients without a Cast, too.
    casts = {name: sum(len(body.casts) for body in found) for name, found in bodies.items()}
    assert casts["all"] <= casts[f"-{PASS}"]
    assert losses["all"][-1] < losses["all"][0] - 0.05
    np.testing.assert_allclose(losses["all"], losses[f"-{PASS}"], rtol=0.02)
