"""npu-precision tune: inputs that the search does not see, and the margin left for them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.overflowing import EMULATED, normal

from npu_precision.accuracy import frozen
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.cli.main import main
from npu_precision.offline import model_file
from npu_precision.tuning.held_out import split

ROWS = """
    x = Placeholder(shape=?x2)
    y = Placeholder(shape=2x2)
    product = MatMul(x, y)
    out = Exp(product)
    """


@pytest.fixture
def model_of(graph_file):
    """model_of(text) -> the frozen model."""
    return lambda text: frozen.freeze(model_file.load_model(graph_file(text)))


X_ONLY = ROWS.replace("y = Placeholder(shape=2x2)", "y = Const(shape=2x2)")


def batches_of(count):
    return [{"x:0": np.full([3, 2], number, np.float32)} for number in range(count)]


NO_MODEL = FrozenModel({}, None, (), {}, {})


@given(st.integers(2, 200), st.floats(0, 1, exclude_max=True, exclude_min=True))
def test_each_batch_is_searched_or_held_out_and_both_have_some(count, share):
    found = split(batches_of(count), NO_MODEL, share)
    numbers = [
        [int(batch["x:0"][0, 0]) for batch in part] for part in (found.searched, found.held_out)
    ]
    assert sorted(numbers[0] + numbers[1]) == list(range(count))
    assert min(map(len, numbers)) >= 1
    wanted = count * share
    assert abs(len(numbers[1]) - wanted) <= 0.5 or len(numbers[1]) in (1, count - 1)
    # Spread evenly: no two of them are nearer than half of the mean distance.
    gaps = np.diff(numbers[1])
    assert all(gap >= count / len(numbers[1]) - 1 for gap in gaps)


def test_the_rows_of_one_batch_are_split(model_of):
    x = np.arange(32, dtype=np.float32).reshape(16, 2)
    found = split([{"x:0": x}], model_of(X_ONLY), 0.25)
    (searched,), (held_out,) = found.searched, found.held_out
    assert held_out["x:0"][:, 0].tolist() == [4, 12, 20, 28]
    assert sorted([*searched["x:0"][:, 0], *held_out["x:0"][:, 0]]) == x[:, 0].tolist()
    assert found.words == "4 of 16 rows held out"


def test_a_scalar_input_is_the_same_for_all_rows(model_of):
    text = X_ONLY + "\n    rate = Placeholder(shape=scalar)\n    scaled = Mul(out, rate)"
    feed = {"x:0": normal(4, 2), "rate:0": np.float32(0.5)}
    found = split([feed], model_of(text), 0.5)
    assert found.words == "2 of 4 rows held out"
    assert [part[0]["rate:0"] for part in (found.searched, found.held_out)] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("text", "shapes", "share", "words"),
    [
        (X_ONLY, {"x": (1, 2)}, 0.25, "nothing is held out of one batch: it has 1 row"),
        (X_ONLY, {"x": (4, 2)}, 0, "nothing is held out: the share is 0"),
        (ROWS, {"x": (4, 2), "y": (2, 2)}, 0.25, "one batch: input 'y' always has 2 rows"),
        (
            ROWS.replace("2x2", "?x2"),
            {"x": (4, 2), "y": (2, 2)},
            0.25,
            "its inputs differ in their rows: 'x' 4 and 'y' 2",
        ),
        (
            X_ONLY.replace("?x2", "scalar").replace("MatMul(x, y)", "Mul(x, y)"),
            {"x": ()},
            0.25,
            "nothing is held out of one batch: no input has rows",
        ),
    ],
)
def test_why_nothing_is_held_out_is_told(text, shapes, share, words, model_of):
    feed = {f"{name}:0": np.ones(shape, np.float32) for name, shape in shapes.items()}
    found = split([feed], model_of(text), share)
    assert found.held_out == []
    assert found.searched == [feed]
    assert found.words.endswith(words)


def test_a_batch_that_cannot_be_divided_is_told_how_to_run_whole(
    graph_file, arrays, command, tmp_path
):
    text = "x = Placeholder(shape=?x2)\n w = Const(shape=2x8)\n out = MatMul(w, x)"
    arguments = ("tune", graph_file(text), "--inputs", arrays(x=normal(8, 2)), "--max-error", "1")
    told = command(*arguments, *EMULATED, "-o", tmp_path / "m.json", status=2)
    assert "(2 of 8 rows held out; --held-out 0 runs the batch as it is)" in told
    command(*arguments, *EMULATED, "--held-out", "0", "-o", tmp_path / "m.json")


# The product of x and y is cancelled in the rows (1, 1), and large in the rows (1, 0).
CANCELLED = """
    x = Placeholder(shape=?x2)
    flat = Const(value=[1000.0, 500.0, -999.4, -499.7])
    square = Const[int32](value=[2, 2])
    y = Reshape(flat, square)
    product = MatMul(x, y)
    out = Tanh(product)
    """
EASY, HARD = (1.0, 0.0), (1.0, 1.0)


def rows_with(row, at, count=8):
    return np.array([row if number in at else EASY for number in range(count)], np.float32)


def test_an_error_on_what_was_held_out_is_measured_and_shown(graph_file, arrays, command, tmp_path):
    x = normal(16, 2)
    arguments = ("tune", graph_file(X_ONLY), "--inputs", arrays(x=x), *EMULATED, "--max-error", "1")
    text = command(*arguments, "-o", tmp_path / "m.json")
    assert "\ninputs: 4 of 16 rows held out\n" in text
    assert "\nheld out: error " in text
    printed = json.loads(command(*arguments, "-o", tmp_path / "other.json", "--json"))
    assert printed["inputs"] == "4 of 16 rows held out"
    assert printed["held_out"]["good"]
    assert printed["accepted"]
    # The error is that of these rows only.
    held_out = x[[2, 6, 10, 14]]
    inputs = ("--inputs", arrays(x=held_out))
    compared = json.loads(command("compare", arguments[1], *inputs, *EMULATED, "--json"))
    assert printed["held_out"]["error"] == pytest.approx(compared["error"])
    assert printed["held_out"]["error"] != printed["found"]["error"]


def test_a_mixlist_that_is_not_good_enough_for_what_was_held_out_is_not_written(
    graph_file, arrays, capsys, command, tmp_path
):
    # Rows 2 and 6 of 8 are held out.
    output, report = tmp_path / "m.json", tmp_path / "curve.html"
    inputs = ("--inputs", arrays(x=rows_with(HARD, at=(2, 6))))
    arguments = ("tune", graph_file(CANCELLED), *inputs, *EMULATED, "--max-error", "0.01")
    text = command(*arguments, "-o", output, status=1)
    assert "\nheld out: error " in text
    assert "\nNOT ACCEPTED, for what was held out. The mixlist would be:\n{" in text
    assert not output.exists()
    assert not report.exists()
    assert not (tmp_path / "m.json.state").exists()
    printed = json.loads(command(*arguments, "-o", output, "--json", status=1))
    assert not printed["accepted"]
    assert printed["found"]["good"]
    assert printed["held_out"]["error"] > 0.01
    # If the search sees these rows, the node is kept.
    printed = json.loads(command(*arguments, "--held-out", "0", "-o", output, "--json"))
    assert [each["node"] for each in printed["kept"]] == ["product"]
    assert printed["held_out"] is None
    assert output.exists()


def test_a_ruined_tensor_in_what_was_held_out_is_not_accepted(graph_file, arrays, capsys, tmp_path):
    inputs = ("--inputs", arrays(x=rows_with((200.0, 0.0), at=(2, 6))))
    output = str(tmp_path / "m.json")
    arguments = ("tune", graph_file(CANCELLED), *inputs, *EMULATED, "--max-error", "1")
    assert main([*arguments, "-o", output]) == 1
    printed = capsys.readouterr()
    assert "held out: error 0.0e+00; product:0 (MatMul) has a NaN or an infinity" in printed.out
    assert f"npu-precision: {output!r} is not written: 2 of 8 rows held out, and" in printed.err
    assert "Search on more inputs, or with a larger --margin" in printed.err
    assert printed.err.count("\n") == 1


def test_a_metric_is_of_what_was_held_out_and_compared_with_float32_there(
    graph_file, command, tmp_path, monkeypatch
):
    (tmp_path / "row_metrics.py").write_text(
        "import numpy as np\n"
        "def batches():\n"
        "    for number in range(4):\n"
        "        yield {'x': [[1.0, 1.0 if number == 2 else 0.0]]}\n"
        "def mean(batches):\n"
        "    return float(np.mean([outputs['out:0'] for _, outputs in batches]))\n"
    )
    monkeypatch.chdir(tmp_path)
    inputs = ("--inputs-from", "row_metrics:batches", *EMULATED)
    measure = ("--metric", "row_metrics:mean", "--budget", "0.01", "--json", "-o", "m.json")
    printed = json.loads(command("tune", graph_file(CANCELLED), *inputs, *measure, status=1))
    assert printed["inputs"] == "1 of 4 batches held out"
    assert printed["reference"]["metric"] == 1
    expected = np.mean(np.tanh([0.6, 0.3]))
    assert printed["held_out"]["reference"]["metric"] == pytest.approx(expected, abs=1e-3)
    assert printed["held_out"]["metric"] < expected - 0.01


def test_a_margin_is_kept_in_the_search_alone(graph_file, arrays, tune, command, tmp_path):
    model, inputs = graph_file(X_ONLY), ("--inputs", arrays(x=normal(16, 2)))
    error = tune(model, *inputs, "--max-error", "1", "--held-out", "0")[0]["start"]["error"]
    limit = ("--max-error", error / 0.95, "--force", "--held-out", "0")
    kept = [
        len(tune(model, *inputs, *limit, *margin)[0]["kept"])
        for margin in (("--margin", "0"), ("--margin", "0.04"), (), ("--margin", "0.9"))
    ]
    assert kept == [0, 0, 1, 1]
    # The held-out inputs may use the margin.
    model, inputs = graph_file(CANCELLED), ("--inputs", arrays(x=rows_with(HARD, at=(2, 6))))
    printed, _ = tune(model, *inputs, "--max-error", "1", "--force")
    assert printed["found"]["error"] < printed["held_out"]["error"]
    printed, _ = tune(model, *inputs, "--max-error", printed["held_out"]["error"] / 0.95, "--force")
    assert printed["margin"] == 0.1
    assert printed["accepted"]


def test_results_of_another_margin_or_other_inputs_are_not_continued(
    graph_file, arrays, command, tmp_path
):
    text = """
        x = Placeholder(shape=?x4)
        one = MatMul(x, w)
        w = Const(shape=4x4)
        two = MatMul(one, w)
        three = MatMul(two, w)
        out = Exp(three)
        """
    inputs = ("--inputs", arrays(x=normal(16, 4)))
    arguments = ("tune", graph_file(text), *inputs, *EMULATED, "--max-error", "1e-4")
    output = ("-o", tmp_path / "m.json")
    text = command(*arguments, *output, "--max-runs", "1")
    assert "--max-runs ended the search" in text
    again = (*output, "--resume", "--force")
    told = command(*arguments, *again, "--margin", "0.2", status=2)
    assert "is about other --margin: without --resume, --force begins anew" in told
    told = command(*arguments, *again, "--held-out", "0.5", status=2)
    assert "is about other inputs or --held-out" in told
    assert "held out" in command(*arguments, *again)
