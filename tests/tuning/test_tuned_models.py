"""npu-precision tune on models with inputs, outputs or variables that are not float32."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.overflowing import EMULATED, OVERFLOW, normal

METRICS = """
import numpy as np

def same_classes(batches):
    return np.mean([outputs["class:0"] == inputs["x"].argmax(1) for inputs, outputs in batches])
"""
CLASSES = """
    x = Placeholder(shape=8x4)
    y = Placeholder(shape=4x4)
    product = MatMul(x, y)
    axis = Const[int32](value=1)
    class = ArgMax(product, axis)
    """


@pytest.fixture
def classes(graph_file, arrays, tmp_path, monkeypatch):
    """A classifier: in float16, two of its products are the same and so the first is largest."""
    (tmp_path / "class_metrics.py").write_text(METRICS)
    monkeypatch.chdir(tmp_path)
    x = np.eye(8, 4, dtype=np.float32) + np.float32(1)
    inputs = arrays(x=x + np.eye(8, 4, 1, dtype=np.float32), y=1e5 * np.eye(4, dtype=np.float32))
    return (graph_file(CLASSES), "--fetch", "class", "--inputs", inputs)


def test_a_measure_may_be_of_what_is_no_float(classes, tune):
    measure = ("--metric", "class_metrics:same_classes", "--budget", "0")
    printed, mixlist = tune(*classes, *measure)
    assert mixlist == {"black-list": {"to-add": ["node:product"]}}
    assert (printed["start"]["error"], printed["found"]["metric"]) == ("NaN", 1)


def test_an_error_is_of_floats_only(classes, command, tmp_path):
    arguments = ("tune", *classes, "--max-error", "0.1", "-o", tmp_path / "m.json")
    text = command(*arguments, *EMULATED, status=2)
    assert "no output is of floats: class:0; --metric can measure others" in text


def test_inputs_of_no_rows_say_nothing(graph_file, arrays, command, tmp_path):
    model = graph_file("x = Placeholder(shape=0x4)\nw = Const(shape=4x4)\nout = MatMul(x, w)")
    inputs = ("--inputs", arrays(x=np.zeros([0, 4], np.float32)))
    text = command("tune", model, *inputs, "--max-error", "0", "-o", tmp_path / "m", status=2)
    assert "nothing was compared" in text


def test_an_op_type_on_a_list_of_the_user_s_stays_there(graph_file, arrays, command, tmp_path):
    own = tmp_path / "own.json"
    own.write_text('{"white-list": {"to-add": ["Tanh"]}}')
    text = """
        x = Placeholder(shape=4x4)
        one = Tanh(x)
        other = Tanh(one)
        out = Exp(other)
        """
    arguments = ("--inputs", arrays(x=normal(4, 4)), "--max-error", "0", "--mixlist", own)
    command("tune", graph_file(text), *arguments, *EMULATED, "-o", tmp_path / "m.json")
    mixlist = json.loads((tmp_path / "m.json").read_text())
    assert mixlist["white-list"] == {"to-add": ["Tanh"]}
    assert set(mixlist["black-list"]["to-add"]) == {"node:one", "node:other"}


def test_a_mixlist_in_another_encoding_is_read_as_the_optimizer_reads_it(
    overflow, command, tmp_path
):
    own = tmp_path / "own.json"
    own.write_bytes('{"white-list": {"to-add": ["Tanh"]}} // \xe9'.encode("latin-1"))
    arguments = (*overflow, *EMULATED, "--max-error", "0.01", "--mixlist", own)
    command("tune", *arguments, "-o", tmp_path / "m.json")
    assert "node:large/product" in (tmp_path / "m.json").read_text()


@pytest.mark.parametrize("flag", ["--ops-info-dir", "--ops-info-overlay"])
@pytest.mark.parametrize("name", ["b.json", "cpu/b.json"])
def test_a_state_is_of_one_set_of_ops_info(overflow, command, tmp_path, flag, name):
    folder = tmp_path / "ops"
    folder.mkdir()
    (folder / "a.json").write_text('{"MatMul": {"precision_reduce": {"flag": "true"}}}')
    options = (*overflow, *EMULATED, flag, folder, "-o", tmp_path / "m.json")
    first = command("tune", *options, "--max-error", "1e-6", "--max-runs", "1")
    assert "--max-runs ended the search" in first
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text('{"Tanh": {"precision_reduce": {"flag": "true"}}}')
    again = ("--max-error", "1e-6", "--resume", "--force")
    assert "is about other options" in command("tune", *options, *again, status=2)


def test_text_is_the_same_after_an_interruption(command, graph_file, arrays, tmp_path):
    text = OVERFLOW + "\n    name = Placeholder[string](shape=1)\n    same = Identity[string](name)"
    arguments = (
        graph_file(text),
        "--inputs",
        arrays(x=normal(8, 8), factor=6e4 * normal(8, 8), name=np.array(["a"], dtype="S1")),
        *("--fetch", "out", "--fetch", "same", "--max-error", "1e-6", *EMULATED),
    )
    output = ("-o", tmp_path / "m.json")
    command("tune", *arguments, "--max-runs", "1", *output)
    command("tune", *arguments, "--resume", "--force", *output)
