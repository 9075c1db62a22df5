"""`make demo` in its quick form: trains in five runs, and prints its measurements."""

import importlib
import os
import pathlib
import re
import subprocess
import sys

import pytest
from support import ROOT
from support.report_files import data_in, needs_page
from support.strict_zip import strict_zip
from support.tf_versions import needs_functions_by_default, needs_onednn

from npu_precision import Ledger

# Without oneDNN, convolutions in bfloat16 take ten minutes.
pytestmark = [needs_functions_by_default, needs_onednn]

# The folders of the runs that have a ledger, by their title in the table.
RUNS = {
    "float32": "float32",
    "bfloat16": "bfloat16",
    "with mixlist.json": "bfloat16_mixlist",
    "float16, emulated": "float16",
}
# TensorFlow 2.16 and newer print these lines when they are imported, whatever the log level.
OF_TENSORFLOW = re.compile(r"^(WARNING: All log messages before absl|I0000 .* port\.cc:).*\n", re.M)
LOWERED = [title for title in RUNS if title != "float32"]


def run_demo(*arguments):
    # As a user runs it: the demo itself keeps TensorFlow quiet.
    variables = {name: os.environ[name] for name in os.environ if not name.startswith("TF_CPP")}
    return subprocess.run(
        [sys.executable, "-B", str(ROOT / "examples" / "digits_demo.py"), *map(str, arguments)],
        env={**variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        # A processor without instructions for bfloat16 takes minutes.
        timeout=1800,
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "out"


@pytest.fixture(scope="module")
def printed(out):
    process = run_demo("--quick", "--out", out)
    assert process.returncode == 0, process.stderr[-4000:]
    assert not OF_TENSORFLOW.sub("", process.stderr)
    return process.stdout


@pytest.fixture(scope="module")
def table(printed):
    """By run: accuracy, loss, lowered, float nodes, casts; for timed runs, also time and speed."""
    counts = r"([\d.]+)% +([\d.]+) +(\d+) of (\d+) +(\d+)"
    row = re.compile(rf"^ *(\S.*?) +{counts}(?: +([\d.]+) ms +([\d.]+))? *$", re.M)
    rows = (match.groups() for match in row.finditer(printed))
    return {name: [float(cell) for cell in cells if cell] for name, *cells in rows}


@pytest.fixture(scope="module")
def training_ledgers(out, printed):
    """The ledger that the demo names for the training step, by run."""
    files = re.findall(r"^(/.+\.json)$", printed, re.M)
    assert [pathlib.Path(file).relative_to(out).parts[0] for file in files] == [*RUNS.values()]
    return {
        title: Ledger.from_json(pathlib.Path(file).read_text())
        for title, file in strict_zip(RUNS, files)
    }


def test_the_table_has_every_run_and_times_what_is_not_emulated(table):
    assert list(table) == list(RUNS)
    assert [len(cells) for cells in table.values()] == [7, 7, 7, 5]
    float32_ms = table["float32"][5]
    for *_, step_ms, speed in list(table.values())[:3]:
        assert speed == pytest.approx(float32_ms / step_ms, rel=0.05)


def test_the_table_fits_a_terminal(printed):
    head, *_ = printed.partition("Accuracy:")
    assert max(map(len, head.splitlines())) <= 80
    assert "…" not in head


@needs_page
def test_the_report_of_the_trained_model_is_a_page_that_can_be_opened(printed, out):
    assert f"To open it: python3 -m webbrowser {out}/report.html\n" in printed
    page = (out / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Conv2DBackpropFilter" in page


@needs_page
def test_the_page_counts_what_the_console_counts(printed, table, training_ledgers, out):
    (counted,) = re.findall(r"^the training step: (.*)$", printed, re.M)
    data = data_in((out / "report.html").read_text())
    assert data["counts"] == f"the graph that ran: {counted}"
    totals = training_ledgers["with mixlist.json"].totals
    assert data["totals"]["float_nodes"] == totals["float_nodes"] == table["with mixlist.json"][3]


@pytest.mark.parametrize("run", LOWERED)
def test_lower_precision_learns_as_well_as_float32(table, run):
    accuracy, loss, *_ = table[run]
    accuracy_in_float32, loss_in_float32, *_ = table["float32"]
    assert accuracy_in_float32 > 90
    # Percentage points; one of the 360 held-out digits is 0.28.
    assert accuracy == pytest.approx(accuracy_in_float32, abs=2)
    assert loss == pytest.approx(loss_in_float32, rel=0.25)


def test_tensorflows_own_mixed_precision_makes_the_loss_nan(printed):
    """Where oneDNN has bfloat16, on which its pass depends."""
    if "avx512" not in pathlib.Path("/proc/cpuinfo").read_text():
        pytest.skip("TensorFlow's pass lowers nothing on this CPU")
    assert re.search(r"^ *TensorFlow's bfloat16 +nan *$", printed, re.M)
    text = " ".join(printed.split())
    assert re.search(r"TensorFlow's bfloat16: the loss is nan in step \d+ of 40,", text)


def test_what_keeps_the_loss_finite_here_is_explained(printed, training_ledgers):
    for name, reason in (
        ("loss/clip_by_value/Minimum", "guard_constant"),
        ("loss/sub_1", "before_magnifier"),
    ):
        assert f"\n{name} is kept: {reason}, because of loss/" in printed
        (node,) = (each for each in training_ledgers["bfloat16"].nodes if each.name == name)
        assert (node.decision, node.reason) == ("kept", reason)


def test_nodes_are_lowered_in_every_run_but_float32(table):
    lowered = {run: cells[2] for run, cells in table.items()}
    casts = {run: cells[4] for run, cells in table.items()}
    assert lowered.pop("float32") == casts.pop("float32") == 0
    assert all(lowered.values())
    assert all(casts.values())
    assert lowered["with mixlist.json"] < lowered["bfloat16"]


def test_the_table_repeats_the_ledgers(table, training_ledgers):
    for run, ledger in training_ledgers.items():
        totals = ledger.totals
        counts = [totals["lowered"], totals["float_nodes"], totals["casts"]]
        assert table[run][2:5] == counts


def test_the_low_type_is_the_modes(training_ledgers):
    for run, low in [("float16, emulated", "float16"), ("bfloat16", "bfloat16")]:
        convolutions = [node for node in training_ledgers[run].nodes if node.op == "Conv2D"]
        assert len(convolutions) == 4
        for node in convolutions:
            assert node.dtypes["T"] == ["float32", low]


def test_the_moved_op_is_explained_by_its_place_in_the_mixlist(out, printed, training_ledgers):
    moved = [
        node
        for node in training_ledgers["with mixlist.json"].nodes
        if node.listed_by.startswith(str(out / "mixlist.json"))
    ]
    (name,) = (node.name for node in moved)
    assert re.fullmatch(r"digits(_\d+)?/logits(_\d+)?/MatMul", name)  # Keras 3 numbers scopes.
    assert {(node.decision, node.reason) for node in moved} == {("kept", "black_list")}
    assert re.search(
        rf"^{re.escape(name)} is kept: black_list \(black: mixlist\.json:\d+:\d+\)$",
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
