"""npu-precision compare: the files that it writes."""

from __future__ import annotations

import csv
import json
import pathlib

import numpy as np
import pytest
from support.model_files import input_name
from support.report_files import data_in, needs_page
from support.tf_versions import needs_frozen_loops

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


@needs_page
def test_the_page_has_the_error_that_enters_at_each_node(command, model_files, arrays, tmp_path):
    file = tmp_path / "page.html"
    given = arrays(**{input_name(model_files.cnn): normal(2, 12, 12, 3)})
    arguments = ("compare", model_files.cnn, *MIXED, "--inputs", given, "--report", file)
    compared = json.loads(command(*arguments, "--json"))
    data = data_in(file.read_text(encoding="utf-8"))
    shown = {
        data["nodes"]["name"][int(row)]: error for row, error in data["some"]["entered"].items()
    }
    measured = {
        row["tensor"].rpartition(":")[0]: row["entered"]
        for row in compared["tensors"]
        if row["entered"] is not None and row["op"]
    }
    assert shown == pytest.approx(measured)
    assert len(shown) > 2
    assert data["options"] == {"precision_mode": "allow_mix_precision"}
    assert "exists; --force replaces it" in command(*arguments, status=2)


@needs_page
def test_an_infinite_error_is_in_the_page_too(command, graph_file, arrays, tmp_path):
    model = graph_file("x = Placeholder(shape=2x2)\nproduct = MatMul(x, x)\nend = Exp(product)")
    file = tmp_path / "page.html"
    large = arrays(x=np.full([2, 2], 6e4, np.float32))
    command("compare", model, *MIXED, "--emulate", "--inputs", large, "--report", file)
    data = data_in(file.read_text(encoding="utf-8"))
    assert data["some"]["entered"][str(data["nodes"]["name"].index("product"))] is None


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


@needs_frozen_loops
def test_an_entry_that_is_followed_here_and_not_in_the_model_is_a_warning(
    command, model_files, arrays, tmp_path
):
    """`compare` inlines functions, so their nodes have longer names than in the model."""
    given = arrays(**{input_name(model_files.lstm): normal(6, 5, 4)})
    arguments = ("compare", model_files.lstm, *MIXED, "--inputs", given)
    nodes = {
        row["tensor"]: row["op"] for row in json.loads(command(*arguments, "--json"))["tensors"]
    }
    assert "MatMul" in nodes.values()

    def warned(entry):
        mixlist = tmp_path / "m.json"
        mixlist.write_text(json.dumps({"black-list": {"to-add": [entry]}}))
        printed = command(*arguments, "--mixlist", mixlist)
        return [line for line in printed.splitlines() if "matches" in line]

    (line,) = warned("node:.+/while/.*MatMul.*")
    assert "which explain and convert call 'while/" in line
    nowhere, line = warned("node:while/.*MatMul.*")
    assert "matches no node of the graph" in nowhere
    assert "matches 'while/" in line
    assert "where it is not followed" in line
    assert warned("node:(.*/)?while/.*MatMul.*") == []
