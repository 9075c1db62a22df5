"""npu-precision compare: how far another precision is from float32, and where the error enters."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.loop_text import loop
from support.model_files import input_name
from support.text_graph import read_graph
from support.tf_versions import needs_frozen_loops

from npu_precision import _library, rewrite_graph_def

tf1 = tf.compat.v1
MIXED = ("--mode", "allow_mix_precision")
UNIT = 2.0**-11


@pytest.fixture
def compare(command):
    """compare(model, inputs, ...) -> the JSON; its "tensors" by name."""

    def run(model, inputs, *arguments, options=MIXED):
        data = json.loads(
            command("compare", model, *options, "--inputs", inputs, "--json", *arguments)
        )
        data["tensors"] = {row["tensor"]: row for row in data["tensors"]}
        return data

    return run


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_the_numbers_are_those_of_the_two_graphs_run_by_themselves(
    compare, graph_file, arrays, run_graph
):
    text = """
        x = Placeholder(shape=4x8)
        w = Const(shape=8x8)
        product = MatMul(x, w)
        hidden = Relu(product)
        scale = Exp(hidden)
        out = MatMul(scale, w)
        """
    x = normal(4, 8) * np.array([1e-7, 1e5, 1, 1], np.float32)[:, np.newaxis] / 4
    data = compare(graph_file(text), arrays(x=x))
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    mixed, _ = rewrite_graph_def(
        read_graph(text), "out", precision_mode="allow_mix_precision", fold_constants=False
    )
    for name in ("product", "hidden", "scale", "out"):
        row = data["tensors"][f"{name}:0"]
        a = run_graph(read_graph(text), f"{name}:0", {"x:0": x}, config).astype(np.float64)
        b = run_graph(mixed, f"{name}:0", {"x:0": x}, config).astype(np.float64)
        good = np.isfinite(a) & np.isfinite(b)
        d = abs(a - b)[good]
        assert row["max_abs"] == d.max()
        relative = d[a[good] != 0] / abs(a[good][a[good] != 0])
        assert row["max_rel"] == pytest.approx(relative.max())
        cosine = a[good] @ b[good] / np.sqrt((a[good] ** 2).sum() * (b[good] ** 2).sum())
        assert row["cosine"] == pytest.approx(cosine)
        size = abs(a[np.isfinite(a)])
        outside = ((size >= 65520) | ((size > 0) & (size < 2.0**-14))).sum() / a.size
        assert row["outside"] == pytest.approx(outside)
        assert row["bad"] == (~np.isfinite(b)).sum()
        assert row["new_bad"] == (np.isfinite(a) & ~np.isfinite(b)).sum()
        error = np.sqrt((d**2).sum() / (a[good] ** 2).sum())
        assert row["error"] == ("Infinity" if row["new_bad"] else pytest.approx(error))
    assert data["tensors"]["product:0"]["outside"] > 0


def test_error_is_ranked_by_where_it_enters_and_not_by_where_it_is_largest(
    compare, graph_file, arrays
):
    text = """
        x = Placeholder(shape=64)
        y = Placeholder(shape=64)
        product = Mul(x, y)
        out = Sub(product, x)
        """
    # The product is rounded; subtracting a nearby value from it is exact.
    white = '{"white-list": {"to-add": ["Mul", "Sub"]}}'
    x = np.full(64, 1.0, np.float32)
    y = (1 + np.linspace(0.001, 0.01, 64)).astype(np.float32)
    data = compare(graph_file(text), arrays(x=x, y=y), "--mixlist-edits", white)
    product, out = (data["tensors"][f"{name}:0"] for name in ("product", "out"))
    assert out["error"] > 20 * product["error"]
    assert out["entered"] == 0
    assert 0 < product["entered"] <= UNIT
    assert data["ranked"] == ["product:0", "out:0"]


def test_the_rounding_of_an_input_enters_at_the_op_that_reads_it(compare, graph_file, arrays):
    text = """
        x = Placeholder(shape=1x1)
        y = Placeholder(shape=1x1)
        scale = Exp(x)
        out = MatMul(scale, y)
        """
    x, y = np.log(np.float32([[1 + 2**-12]])), np.float32([[1.0]])
    data = compare(graph_file(text), arrays(x=x, y=y))
    assert data["tensors"]["scale:0"]["entered"] is None
    assert data["tensors"]["scale:0"]["error"] == 0
    assert data["tensors"]["out:0"]["entered"] == pytest.approx(2**-12, rel=0.01)


def test_the_first_infinity_is_named(compare, command, graph_file, arrays):
    text = """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        square = MatMul(product, product)
        out = Tanh(square)
        """
    inputs = arrays(x=np.full([4, 4], 10.0, np.float32))
    model = graph_file(text)
    data = compare(model, inputs)
    assert data["first_bad"] == "square:0"
    assert data["ranked"][0] == "square:0"
    assert data["tensors"]["square:0"]["outside"] == 1
    assert data["tensors"]["square:0"]["error"] == "Infinity"
    printed = command("compare", model, *MIXED, "--inputs", inputs)
    assert "first NaN or infinity: square:0 (MatMul, lowered), 16 of 16 elements" in printed
    (line,) = (line for line in printed.splitlines() if line.startswith("square:0"))
    assert line.split()[1:4] == ["MatMul", "inf", "inf"]


@pytest.mark.parametrize("emulate", [(), ("--emulate",)])
@pytest.mark.parametrize(
    ("model", "name", "shape", "fetch"),
    [
        ("cnn", None, (6, 12, 12, 3), ()),
        pytest.param("lstm", None, (6, 5, 4), (), marks=needs_frozen_loops),
        ("frozen", "x", (4, 8), ()),
        ("checkpoint", "x", (6, 8), ("--fetch", "logits")),
    ],
)
def test_every_kind_of_model_is_compared(
    model, name, shape, fetch, emulate, compare, model_files, arrays
):
    path = getattr(model_files, model)
    name = name or input_name(path)
    data = compare(path, arrays(**{name: normal(*shape)}), *fetch, *emulate)
    lowered = [row for row in data["tensors"].values() if row["decision"] == "lowered"]
    assert any(row["op"] == "MatMul" and row["entered"] > 0 for row in lowered)
    assert 0 < data["error"] < 0.2
    (output,) = (row for row in data["tensors"].values() if row["output"])
    assert output["error"] == data["error"]


def test_batches_are_compared_as_one(compare, model_files, arrays):
    inputs = arrays(x=normal(12, 8))
    arguments = ("--fetch", "logits", "--emulate")
    whole = compare(model_files.checkpoint, inputs, *arguments)
    parts = compare(model_files.checkpoint, inputs, *arguments, "--batch-size", "5")
    assert (whole["batches"], parts["batches"]) == (1, 3)
    assert whole["tensors"].keys() == parts["tensors"].keys()
    for name, row in whole["tensors"].items():
        for field in ("max_abs", "error", "cosine", "outside"):
            assert parts["tensors"][name][field] == pytest.approx(row[field], rel=1e-3), name
    first = compare(model_files.checkpoint, inputs, *arguments, "--batch-size", "5", "--batches", 2)
    assert first["batches"] == 2


@pytest.mark.parametrize(
    "text",
    [
        loop("start = MatMul(x, x)", "turn = Tanh(switch:1)"),
        """
        x = Placeholder(shape=4x4)
        axes = Const[int32](value=[0, 1])
        total = Sum(x, axes)
        zero = Const(value=0.0)
        yes = Greater(total, zero)
        product = MatMul(x, x)
        switch = Switch(product, yes)
        one = Tanh(switch:1)
        other = Neg(switch:0)
        merge = Merge(other, one)
        end = MatMul(merge, merge)
        """,
    ],
    ids=["loop", "branch"],
)
def test_what_is_in_a_loop_or_a_branch_is_run_and_not_compared(text, compare, graph_file, arrays):
    data = compare(graph_file(text), arrays(x=normal(4, 4) / 2))
    assert not {"one:0", "other:0", "turn:0"} & data["tensors"].keys()
    assert 0 < data["tensors"]["end:0"]["error"] < 0.1


def test_where_nothing_is_rounded_no_error_enters(command, graph_file, arrays):
    text = "x = Placeholder(shape=4)\nout = Exp(x)"
    printed = command("compare", graph_file(text), *MIXED, "--inputs", arrays(x=normal(4)))
    assert "output out:0: error 0, max abs 0, 1 - cosine 0" in printed
    assert "no error enters at any tensor" in printed


def test_an_infinity_in_place_of_another_is_a_new_one(compare, graph_file, arrays):
    text = """
        x = Placeholder(shape=2)
        y = Placeholder(shape=2)
        z = Mul(x, y)
        out = Log(z)
        """
    white = '{"white-list": {"to-add": ["Mul"]}}'
    # In float32 the first product is too large, in float16 the second is zero.
    x, y = np.float32([1e20, 1e-5]), np.float32([1e20, 1e-5])
    data = compare(graph_file(text), arrays(x=x, y=y), "--mixlist-edits", white)
    assert data["tensors"]["out:0"]["bad"] == 2
    assert data["tensors"]["out:0"]["bad_reference"] == 1
    assert data["first_bad"] == "out:0"


def test_shapes_that_depend_on_values_may_differ(compare, command, graph_file, arrays):
    text = """
        x = Placeholder(shape=64)
        y = Placeholder(shape=64)
        z = Mul(x, y)
        limit = Const(value=1.0)
        large = Greater(z, limit)
        where = Where[bool](large)
        out = Gather(z, where)
        """
    text = text.replace("Where[bool](large)", "Where(large)").replace("Gather(", "GatherNd(")
    white = ("--mixlist-edits", '{"white-list": {"to-add": ["Mul"]}}')
    x = np.ones(64, np.float32)
    y = (1 + np.linspace(-(2**-11), 2**-11, 64)).astype(np.float32)
    model, inputs = graph_file(text), arrays(x=x, y=y)
    data = compare(model, inputs, *white)
    assert data["tensors"]["out:0"]["misshapen"]
    assert data["tensors"]["out:0"]["error"] == "Infinity"
    assert not data["tensors"]["z:0"]["misshapen"]


def test_what_is_random_is_the_same_in_both(compare, graph_file, arrays):
    text = """
        shape = Const[int32](value=[4, 4])
        noise = RandomStandardNormal(shape)
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        out = AddV2(product, noise)
        """
    data = compare(graph_file(text), arrays(x=normal(4, 4)))
    assert 0 < data["tensors"]["out:0"]["error"] < 1e-2
    assert data["tensors"]["noise:0"]["error"] == 0


def test_where_the_device_saturates_the_tensors_are_named_that_did(
    compare, command, graph_file, arrays
):
    text = """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        hidden = Relu(product)
        out = MatMul(hidden, x)
        """
    x = np.zeros([4, 4], np.float32)
    np.fill_diagonal(x, [1.0, 300.0, 30.0, 50.0])  # squares, then cubes, on the diagonal
    options = (*MIXED, "--emulate", "--target", "ascend910")
    data = compare(graph_file(text), arrays(x=x), options=options)
    assert data["saturated"] == {"out:0": 2, "product:0": 1}
    assert data["first_bad"] is None
    printed = command("compare", graph_file(text), *options, "--inputs", arrays(x=x))
    assert "became 65504, as they did not fit: out:0 2 values, product:0 1 value\n" in printed
    other = compare(graph_file(text), arrays(x=x), options=(*options, "--overflow", "inf"))
    assert other["saturated"] == {}
    assert other["first_bad"] == "product:0"
    assert not _library.take_overflow()


def test_devices_that_are_not_here_do_not_matter(compare, graph_file, arrays):
    text = "x = Placeholder(shape=4x4)\nout = MatMul(x, x) @ /job:worker/task:3/device:GPU:7"
    assert compare(graph_file(text), arrays(x=normal(4, 4)))["error"] > 0


def test_a_model_that_was_lowered_is_no_reference(command, model_files, arrays, tmp_path):
    command("convert", model_files.frozen, *MIXED, "-o", tmp_path / "low.pb")
    arguments = ("compare", tmp_path / "low.pb", *MIXED, "--inputs", arrays(x=normal(4, 8)))
    assert "was lowered already" in command(*arguments, status=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected one of --inputs and --inputs-from"),
        (["--inputs", "a.npz", "--inputs-from", "m:f"], "expected one of --inputs and"),
        (["--inputs-from", "m:f", "--batch-size", "2"], "--batch-size goes with --inputs"),
        (["--inputs", "no.npz"], "no.npz: No such file or directory"),
        (["--inputs", "no.npz", "--batches", "0"], "Invalid value for '--batches'"),
    ],
)
def test_a_mistake_is_told_in_one_line(arguments, message, command, model_files):
    text = command("compare", model_files.frozen, *MIXED, *arguments, status=2)
    assert message in text
    assert text.count("\n") == 1


def test_variables_without_values_are_an_error(command, model_files, arrays, tmp_path):
    path = tmp_path / "alone.meta"
    with open(model_files.checkpoint + ".meta", "rb") as file:
        path.write_bytes(file.read())
    arguments = ("compare", path, *MIXED, "--fetch", "logits", "--inputs", arrays(x=normal(6, 8)))
    text = command(*arguments, status=2)
    assert "has variables without values: use its checkpoint or a SavedModel" in text


def test_a_model_whose_shapes_do_not_fit_the_inputs_is_an_error(command, graph_file, arrays):
    text = "x = Placeholder()\ny = Placeholder()\nout = MatMul(x, y)"
    inputs = arrays(x=normal(2, 3), y=normal(2, 3))
    message = command("compare", graph_file(text), *MIXED, "--inputs", inputs, status=2)
    assert "TensorFlow cannot run the model on these inputs" in message
    assert message.count("\n") == 1


def test_where_inputs_are_rounded_error_enters(compare, graph_file, arrays):
    text = """
        x = Placeholder(shape=4x4)
        y = Placeholder(shape=4x4)
        product = MatMul(x, y)
        out = Exp(product)
        """
    options = ("--mode", "cube_fp16in_fp32out")
    data = compare(graph_file(text), arrays(x=normal(4, 4), y=normal(4, 4)), options=options)
    assert data["ranked"] == ["product:0"]
    product = data["tensors"]["product:0"]
    assert 0 < product["entered"] == pytest.approx(product["error"])
    assert product["decision"] == "kept"


def test_what_comes_out_of_a_loop_is_named(compare, command, graph_file, arrays):
    model = graph_file(loop("start = MatMul(x, x)", "turn = Tanh(switch:1)"))
    inputs = arrays(x=normal(4, 4) / 2)
    data = compare(model, inputs)
    assert data["unmeasured"] == ["exit:0"]
    text = command("compare", model, *MIXED, "--inputs", inputs)
    error = data["tensors"]["exit:0"]["error"]
    assert f"\nfrom loops or functions, which are not looked into: error exit:0 {error:.1e}" in text


def test_where_nothing_is_finite_nothing_is_told_of_its_size(compare, command, graph_file, arrays):
    text = "x = Placeholder(shape=4x4)\nproduct = MatMul(x, x)\nout = Tanh(product)"
    text += "\nlog = Sub(product, product)"
    model, inputs = graph_file(text), arrays(x=np.full([4, 4], 1e3, np.float32))
    data = compare(model, inputs, options=("--mode", "force_fp16"))
    row = data["tensors"]["log:0"]
    assert (row["max_abs"], row["max_rel"], row["cosine"]) == ("NaN", "NaN", "NaN")
    printed = command("compare", model, "--mode", "force_fp16", "--inputs", inputs)
    assert "output log:0: error inf, max abs -, 1 - cosine -" in printed


def test_nothing_is_not_compared(command, graph_file, arrays):
    model = graph_file("x = Placeholder(shape=0x4)\nw = Const(shape=4x4)\nout = MatMul(x, w)")
    inputs = arrays(x=np.zeros([0, 4], np.float32))
    text = command("compare", model, *MIXED, "--inputs", inputs, status=2)
    assert "nothing was compared: no output has any elements" in text


def test_the_rounding_of_a_weight_enters_where_it_is_read(compare, model_files, arrays):
    inputs = arrays(**{input_name(model_files.cnn): normal(6, 12, 12, 3)})
    data = compare(model_files.cnn, inputs, "--emulate", options=("--mode", "force_fp16"))
    tensors = data["tensors"].items()
    assert not any("input/" in name or "ReadVariableOp" in name for name, _ in tensors)
    (product,) = (row for _, row in tensors if row["op"] == "Conv2D")
    assert product["entered"] > 0
