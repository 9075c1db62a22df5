"""npu-precision compare: the files that it writes."""

from __future__ import annotations

import csv
import pathlib

import numpy as np
import pytest

from npu_precision.cli.plots import check as check_plots

MIXED = ("--mode", "allow_mix_precision")


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_all_tensors_go_to_a_csv_file_in_the_order_of_computation(
    command, model_files, arrays, tmp_path
):
    file = tmp_path / "tensors.csv"
    arguments = ("compare", model_files.frozen, *MIXED, "--inputs", arrays(x=normal(4, 8) / 4))
    command(*arguments, "--csv", file)
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    names = [row["tensor"] for row in rows]
    for first, then in (("product", "lowered"), ("scale", "both"), ("both", "after")):
        assert names.index(f"{first}:0") < names.index(f"{then}:0")
    assert (len(names), names[-1]) == (6, "out:0")
    by_name = {row["tensor"]: row for row in rows}
    assert float(by_name["product:0"]["entered"]) > 0
    assert by_name["scale:0"]["entered"] == ""
    assert "exists; --force replaces it" in command(*arguments, "--csv", file, status=2)


def test_a_plot_is_a_picture(command, model_files, arrays, tmp_path):
    try:
        check_plots("plot.png")
    except ValueError as error:
        pytest.skip(str(error))
    file = tmp_path / "plot.png"
    arguments = ("compare", model_files.frozen, *MIXED, "--inputs", arrays(x=normal(4, 8) / 4))
    command(*arguments, "--plot", file)
    assert file.read_bytes().startswith(b"\x89PNG")
    assert "draws no 'doc'" in command(*arguments, "--plot", tmp_path / "a.doc", status=2)


def test_no_output_takes_the_place_of_what_is_read(command, model_files, arrays, tmp_path):
    inputs = arrays(x=normal(4, 8))
    before = {path: pathlib.Path(path).read_bytes() for path in (inputs, model_files.frozen)}
    arguments = ("compare", model_files.frozen, *MIXED, "--inputs", inputs, "--force")
    for path in before:
        assert "is, is in, or holds what is read" in command(*arguments, "--csv", path, status=2)
    checkpoint = model_files.checkpoint
    training = ("compare", checkpoint, *MIXED, "--inputs", inputs, "--fetch", "logits", "--force")
    text = command(*training, "--csv", checkpoint + ".index", status=2)
    assert "is, is in, or holds what is read" in text
    inside = ("compare", model_files.cnn, *MIXED, "--inputs", inputs)
    text = command(*inside, "--csv", f"{model_files.cnn}/t.csv", status=2)
    assert "is, is in, or holds what is read" in text
    assert before == {path: pathlib.Path(path).read_bytes() for path in before}


def test_two_outputs_have_two_names(command, model_files, arrays, tmp_path):
    file = tmp_path / "a.png"
    arguments = ("compare", model_files.frozen, *MIXED, "--inputs", arrays(x=normal(4, 8)))
    text = command(*arguments, "--csv", file, "--plot", file, status=2)
    assert "is, is in, or holds another output; expected names apart" in text
    assert "is no file, expected the name of one" in command(*arguments, "--csv", "-", status=2)
    folder = f"{tmp_path}/new/"
    assert "is no file, expected the name" in command(*arguments, "--csv", folder, status=2)
