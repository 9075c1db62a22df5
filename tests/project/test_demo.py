"""`make demo` in its quick form: trains in four runs, and prints what it measured."""

import importlib
import os
import pathlib
import re
import subprocess
import sys

import pytest
from support import ROOT
from support.report_files import needs_page
from support.strict_zip import strict_zip
from support.tf_versions import needs_outputs_of_the_docs

from npu_precision import Ledger

pytestmark = needs_outputs_of_the_docs

MODES = {
    "must_keep_origin_dtype": "float32",
    "allow_mix_precision": "float16",
    "with mixlist.json": "float16_mixlist",
    "allow_mix_precision_bf16": "bfloat16",
}


def run_demo(*arguments):
    # As a user runs it: the demo itself keeps TensorFlow quiet.
    variables = {name: os.environ[name] for name in os.environ if not name.startswith("TF_CPP")}
    return subprocess.run(
        [sys.executable, "-B", str(ROOT / "examples" / "digits_demo.py"), *map(str, arguments)],
        env={**variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "out"


@pytest.fixture(scope="module")
def printed(out):
    process = run_demo("--quick", "--out", out)
    assert process.returncode == 0, process.stderr[-4000:]
    assert process.stderr == ""
    return process.stdout


@pytest.fixture(scope="module")
def table(printed):
    """The table's cells by the first column: accuracy, loss, lowered, float nodes, casts, ms."""
    row = re.compile(r"^ +(.+?) +([\d.]+)% +([\d.]+) +(\d+) of (\d+) +(\d+) +([\d.]+) ms", re.M)
    return {name: tuple(map(float, cells)) for name, *cells in row.findall(printed)}


@pytest.fixture(scope="module")
def training_ledgers(out, printed):
    """By mode, the ledger that the demo names as that of the training step."""
    files = re.findall(r"^(/.+\.json)$", printed, re.M)
    assert [pathlib.Path(file).relative_to(out).parts[0] for file in files] == [*MODES.values()]
    return {
        mode: Ledger.from_json(pathlib.Path(file).read_text())
        for mode, file in strict_zip(MODES, files)
    }


def test_the_table_has_every_mode(table):
    assert list(table) == list(MODES)


@needs_page
def test_the_report_of_the_trained_model_is_a_page_that_can_be_opened(printed, out):
    assert f"To open it: python3 -m webbrowser {out}/report.html\n" in printed
    page = (out / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Conv2DBackpropFilter" in page


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "must_keep_origin_dtype"])
def test_lower_precision_learns_as_well_as_float32(table, mode):
    accuracy, loss, *_ = table[mode]
    accuracy_in_float32, loss_in_float32, *_ = table["must_keep_origin_dtype"]
    assert accuracy_in_float32 > 90
    # Percentage points; one of the 360 held-out digits is 0.28.
    assert accuracy == pytest.approx(accuracy_in_float32, abs=2)
    assert loss == pytest.approx(loss_in_float32, rel=0.25)


def test_nodes_are_lowered_in_every_mode_but_float32(table):
    lowered = {mode: cells[2] for mode, cells in table.items()}
    casts = {mode: cells[4] for mode, cells in table.items()}
    assert lowered.pop("must_keep_origin_dtype") == casts.pop("must_keep_origin_dtype") == 0
    assert all(lowered.values())
    assert all(casts.values())
    assert lowered["with mixlist.json"] < lowered["allow_mix_precision"]


def test_the_table_repeats_the_ledgers(table, training_ledgers):
    for mode, ledger in training_ledgers.items():
        _, _, *counts, _ = table[mode]
        totals = ledger.totals
        assert counts == [totals["lowered"], totals["float_nodes"], totals["casts"]]


def test_the_low_type_is_the_modes(training_ledgers):
    for mode, low in [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]:
        convolutions = [node for node in training_ledgers[mode].nodes if node.op == "Conv2D"]
        assert len(convolutions) == 2
        for node in convolutions:
            assert node.dtypes["T"] == ["float32", low]


def test_the_moved_op_is_explained_by_its_place_in_the_mixlist(out, printed, training_ledgers):
    moved = [
        node
        for node in training_ledgers["with mixlist.json"].nodes
        if node.listed_by.startswith(str(out / "mixlist.json"))
    ]
    assert {node.op for node in moved} == {"Conv2DBackpropFilter", "Conv2DBackpropInput"}
    assert {(node.decision, node.reason) for node in moved} == {("kept", "black_list")}
    assert re.search(
        rf"^{re.escape(moved[0].name)} is kept: black_list \(black: mixlist\.json:\d+:\d+\)$",
        printed,
        re.M,
    )


@pytest.fixture
def parse_arguments(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    return importlib.import_module("digits_demo").parse_arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "3"], r"--steps: got 3, expected \d+ or more"),
        (["--steps", "0"], r"--steps: got 0, expected \d+ or more"),
        (["--steps", "many"], "argument --steps: invalid int value: 'many'"),
        (["--quick", "--steps", "30"], "--quick and --steps: got both"),
        (["--fast"], "unrecognized arguments: --fast"),
        (["--out", "/dev/null/x"], "--out: cannot make /dev/null/x: Not a directory"),
        (["--out", str(ROOT)], "--out: .* exists; name a folder that does not"),
    ],
)
def test_a_wrong_option_is_one_line(parse_arguments, capsys, arguments, message):
    with pytest.raises(SystemExit) as exit:
        parse_arguments(arguments)
    assert exit.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(rf"digits_demo: {message}.*\n", printed.err)
