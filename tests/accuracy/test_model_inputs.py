"""The inputs that the command feeds to a model: arrays from a file, or from a user's function."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

MIXED = ("--mode", "allow_mix_precision")


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


FUNCTIONS = """
import numpy as np
import tensorflow as tf

def dataset():
    return (
        tf.data.Dataset.from_tensor_slices({"x": np.ones([8, 8], np.float32)})
        .batch(4)
        .map(lambda row: {"x": tf.random.normal([4, 8]) + row["x"]})
    )

def batches():
    for seed in range(3):
        yield {"x": np.random.default_rng(seed).normal(size=[4, 8]).astype(np.float32) / 4}

def one():
    return {"x": np.zeros([4, 8])}

def none():
    return []

def strings():
    return ["x"]

def fails():
    raise RuntimeError("no data here")

NOT_A_FUNCTION = 7

def ragged():
    yield {"x": [[1, 2], [3]]}

def talks():
    print("loading")
    for batch in batches():
        print("a batch")
        yield batch

def fails_later():
    yield {"x": np.ones([4, 8], np.float32)}
    raise RuntimeError("no more data")
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """The name of a module in the working directory."""
    name = f"functions_{os.getpid()}_{len(str(tmp_path))}_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    return name


def test_inputs_may_come_from_a_function(command, model_files, functions):
    arguments = ("compare", model_files.frozen, *MIXED, "--json", "--inputs-from")
    assert json.loads(command(*arguments, f"{functions}:batches"))["batches"] == 3
    assert json.loads(command(*arguments, f"{functions}:dataset"))["batches"] == 2
    some = command(*arguments, f"{functions}:batches", "--batches", "2")
    assert json.loads(some)["batches"] == 2


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("functions", "got 'functions', expected module:function"),
        ("no_such_module:f", "cannot be imported: ModuleNotFoundError"),
        ("MODULE:batchs", "has no function 'batchs' (did you mean 'batches'?)"),
        ("MODULE:one", "returned dict, expected an iterable of mappings"),
        ("MODULE:none", "yielded nothing, expected at least one batch"),
        ("MODULE:NOT_A_FUNCTION", "is int, expected a function"),
        ("MODULE:ragged", "input 'x'"),
        ("MODULE:strings", "yielded str, expected a mapping from the names of inputs (x)"),
        ("MODULE:fails", "raised RuntimeError: no data here"),
        ("MODULE:fails_later", "raised RuntimeError: no more data"),
    ],
)
def test_a_function_of_another_kind_is_an_error(function, message, command, model_files, functions):
    name = function.replace("MODULE", functions)
    text = command("compare", model_files.frozen, *MIXED, "--inputs-from", name, status=2)
    assert message in text
    assert text.count("\n") == 1


X = normal(4, 8)
BAD_INPUTS = {
    "missing": ({}, "input 'x' is missing, got []"),
    "misspelt": ({"X": X}, "inputs.npz: got an array 'X', but the model's input is 'x'"),
    "too many": ({"x": X, "y": X}, "got an array 'y'"),
    "shape": ({"x": X[:, :4]}, "input 'x': got shape (4, 4), expected (4, 8)"),
    "dtype": ({"x": X.astype(np.complex64)}, "input 'x': got complex64, expected float32"),
    "text": ({"x": X.astype(str)}, "expected float32"),
    "nan": ({"x": np.where(X > 1, np.nan, X)}, "that are NaN or infinite, of 32"),
    "infinite": ({"x": np.where(X > 1, np.inf, X)}, "that are NaN or infinite, of 32"),
    "too large": ({"x": X.astype(np.float64) * 1e300}, "that are NaN or infinite, of 32"),
    "twice": ({"x": X, "x:0": X}, "got 'x:0' twice, by both of its names"),
    "object": ({"x": np.array([{}, []], dtype=object)}, "is no .npz file of arrays"),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_inputs_that_the_model_does_not_take_are_an_error(name, command, model_files, arrays):
    values, message = BAD_INPUTS[name]
    text = command("compare", model_files.frozen, *MIXED, "--inputs", arrays(**values), status=2)
    assert message in text
    assert text.count("\n") == 1


@pytest.mark.parametrize(
    ("graph", "inputs"),
    [
        (
            "x = Placeholder(shape=4x4)\ny = Placeholder(shape=4x4)\nend = MatMul(x, y)",
            "inputs are 'x', 'y'",
        ),
        ("w = Const(shape=4x4)\nend = MatMul(w, w)", "has no inputs"),
    ],
)
def test_an_unknown_array_is_told_with_all_inputs(graph, inputs, command, graph_file, arrays):
    arguments = ("compare", graph_file(graph), *MIXED, "--inputs", arrays(image=X))
    text = command(*arguments, status=2)
    assert "inputs.npz: got an array 'image', but the model" in text
    assert inputs in text


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"not a zip file", b"\x93NUMPY"])
def test_a_file_that_is_no_npz_file_is_an_error(content, command, model_files, tmp_path):
    (tmp_path / "inputs.npz").write_bytes(content)
    arguments = ("compare", model_files.frozen, *MIXED, "--inputs", tmp_path / "inputs.npz")
    text = command(*arguments, status=2)
    assert "is no .npz file of arrays, as numpy.savez(path, name=array) writes" in text
    assert text.count("\n") == 1


def test_what_a_function_prints_is_no_part_of_the_result(command, model_files, functions):
    arguments = ("compare", model_files.frozen, *MIXED, "--inputs-from", f"{functions}:talks")
    assert json.loads(command(*arguments, "--json"))["batches"] == 3
