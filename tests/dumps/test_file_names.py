"""The names of a dump's files say what a tensor is."""

from __future__ import annotations

import pytest

from npu_precision.dumps.file_names import FileName, parse

TIME = 1700000000123456


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            f"MatMul.dense_MatMul.3.0.{TIME}.output.0.4x8.npy",
            FileName("MatMul", "dense_MatMul", TIME, 3, "output", 0, (4, 8)),
        ),
        (
            f"Conv2D.conv1.12.5.{TIME}.input.1.1x3x224x224.bin",
            FileName("Conv2D", "conv1", TIME, 12, "input", 1, (1, 3, 224, 224)),
        ),
        # An NPU with several slices of an op has more numbers.
        (
            f"Add.sum_lxslice0.7.3.{TIME}.1.0.2.0.output.0.16.npy",
            FileName("Add", "sum_lxslice0", TIME, 7, "output", 0, (16,)),
        ),
        # Without a shape, as older versions of the tools write it.
        (
            f"Relu.relu.3.0.{TIME}.output.0.npy",
            FileName("Relu", "relu", TIME, 3, "output", 0, None),
        ),
        (f"dense_MatMul.0.{TIME}.npy", FileName("", "dense_MatMul", TIME, 0, "output", 0, None)),
        (f"MatMul.logits.3.0.{TIME}.csv", FileName("MatMul", "logits", TIME, 3, "", 0, None)),
    ],
    ids=["DumpConfig", "bin", "slices", "no shape", "of a CPU", "statistics"],
)
def test_a_name_says_op_time_and_output(name, expected):
    assert parse(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "weights.npy",
        "mapping.csv",
        "graph.pb",
        "MatMul.logits.3.0.x.output.0.4.npy",
        "MatMul.logits.3.0.17.result.0.4.npy",
        "MatMul.logits.3.0.17.output.zero.4.npy",
        "a.b.c.npy",
        "12345678901234567890.npy",
        "",
        ".npy",
    ],
)
def test_other_names_are_of_no_dump(name):
    assert parse(name) is None
