"""npu-precision flight: its output for a recorder's log, and the input that it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

import npu_precision
from npu_precision.cli.main import main
from npu_precision.flight import page, reading
from npu_precision.flight.next_steps import next_step

ONES = np.ones([4, 4], np.float32)


@tf.function
def step(x, power):
    with tf.name_scope("stays"):
        y = tf.matmul(x, x)
    with tf.name_scope("grows"):
        return tf.matmul(y * tf.pow(4.0, power), x)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Two runs; in the second, a scope grows from step to step until it overflows."""
    folder = tmp_path_factory.mktemp("flight")
    for powers in ([0.0], np.arange(8.0)):
        with npu_precision.FlightRecorder(folder, 1), npu_precision.autocast(dtype="float16"):
            for power in powers:
                step(tf.constant(ONES), tf.constant(power, tf.float32))
    return folder


def test_it_says_what_happened_first(log, capsys):
    assert main(["flight", str(log)]) == 0
    printed = capsys.readouterr().out
    assert "run 2: graph" in printed
    assert "not finite in 2 of 8 recorded steps; first in step 6, overflow of float16" in printed
    assert "the range of grows drifts, by 2^10.0 since the first steps" in printed
    assert "run 1, graph" in printed


def test_as_json_it_has_steps_and_the_first_that_was_not_finite(log, capsys):
    assert main(["flight", str(log), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "npu_precision.flight/1"
    assert [run["graphs"][0]["steps"] for run in data["runs"]] == [[0], list(range(8))]
    assert [run["graphs"][0]["first"] is None for run in data["runs"]] == [True, False]


def test_the_page_has_sections_whose_numbers_are_those_of_the_log(log, tmp_path):
    file = tmp_path / "page.html"
    assert main(["flight", str(log), "-o", str(file)]) == 0
    text = file.read_text(encoding="utf-8")
    data = json.loads(text.partition('id="report-data">')[2].partition("</script>")[0])
    *graphs, _ = data["sections"]
    assert [len(section["heat"]["columns"]) for section in graphs] == [1, 8]
    largest = data["sections"][1]["heat"]["layers"][0]
    (row,) = (at for at, name in enumerate(data["sections"][1]["heat"]["rows"]) if name == "grows")
    closeness = np.log2(16 * 4.0 ** np.arange(6) / 65504)
    np.testing.assert_allclose(largest["values"][row][:6], closeness, atol=1e-3)
    assert largest["values"][row][6:] == [0.0, 0.0]


@tf.function
def difference(x, signs):
    """Infinities in one scope, and their differences in the next."""
    with tf.name_scope("large"):
        y = tf.matmul(tf.matmul(x, x) * 1e4, x)
    with tf.name_scope("lost"):
        return tf.matmul(y, signs)


def test_a_step_of_nans_looks_like_none_that_went_well(tmp_path, capsys):
    """Its largest finite magnitudes are zeros, and no value of it is over the range."""
    with npu_precision.FlightRecorder(tmp_path, 1), npu_precision.autocast(dtype="float16"):
        signs = tf.constant(ONES * [[1], [-1], [1], [-1]], tf.float32)
        difference(tf.constant(ONES), signs)
    runs = reading.read(tmp_path)
    (section, last) = page.parts(runs)
    heat = section["heat"]
    shares = dict(zip(heat["rows"], (row[0] for row in heat["nans"])))
    assert (shares["large"], shares["lost"]) == (0.0, 1.0)
    assert max(section["charts"][0]["series"][2]["y"]) == 1.0
    assert last["heading"] == "What comes next"
    mixlist = json.loads(last["code"])
    (graph,) = runs[0].graphs.values()
    assert mixlist["black-list"]["to-add"] == [f"node:{graph.steps[0]['first']['node']}"]
    assert main(["flight", str(tmp_path)]) == 0
    assert "next: This mixlist (modify_mixlist) keeps" in capsys.readouterr().out


def test_where_nothing_is_wrong_nothing_comes_next(log):
    notes, mixlist = next_step(reading.read(log)[:1])
    assert notes == ["Nothing: no value has to be kept in float32."]
    assert mixlist == ""


def test_a_fault_of_float32_is_no_case_for_a_mixlist(log):
    runs = reading.read(log)
    for graph in runs[1].graphs.values():
        for step_with_fault in graph.steps:
            if "first" in step_with_fault:
                step_with_fault["first"]["low_type"] = "float32"
    notes, mixlist = next_step(runs)
    assert notes == ["It begins in float32: the model or its data is at fault."]
    assert mixlist == ""


def test_a_log_without_nans_of_an_earlier_version_is_read(log):
    graph = next(iter(reading.read(log)[1].graphs.values()))
    for event in graph.steps:
        del event["nans"]
    assert graph.column("nans").max() == 0


def test_many_steps_are_put_together_and_none_is_lost(log):
    graph = next(iter(reading.read(log)[1].graphs.values()))
    graph.steps = [{**graph.steps[number == 700 and -1], "step": number} for number in range(1000)]
    run = reading.RunLog(log, None, 1, {0: graph})
    (section,) = page._sections(run)
    heat = section["heat"]
    assert len(heat["columns"]) == page._MOST_COLUMNS
    over = np.array(heat["layers"][1]["values"]).max(0)
    assert [heat["columns"][at] <= 700 for at in np.flatnonzero(over)] == [True]


def test_ranks_are_read_together(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RANK_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK_ID", str(rank))
        with npu_precision.FlightRecorder(tmp_path, 1), npu_precision.autocast(dtype="float16"):
            step(tf.constant(ONES), tf.constant([1.0, 20.0][rank]))
    assert main(["flight", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "rank 1, run 1: graph" in printed
    assert "rank 0, run 1: graph" not in printed.partition("Recorded")[0]


def test_a_line_that_was_cut_off_at_the_end_is_left_out(log, tmp_path):
    file = tmp_path / "flight.jsonl"
    file.write_text((log / "flight.jsonl").read_text()[:-30])
    assert len(next(iter(reading.read(file)[1].graphs.values())).steps) == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"event": "start"}\nnonsense\n', "flight.jsonl:2: no JSON"),
        ('{"event": "lost"}\n', 'flight.jsonl:1: got \'{"event": "lost"}\', expected an event'),
        ("[1]\n", "flight.jsonl:1: got '[1]', expected an event of a FlightRecorder"),
        ('{"event": "forward", "step": 1}\n', "flight.jsonl:1: the event 'forward' has no 'graph'"),
        ("", "has no recorded step in it"),
    ],
)
def test_what_is_no_log_is_refused_with_its_line(text, message, tmp_path, capsys):
    file = tmp_path / "flight.jsonl"
    file.write_text(text)
    assert main(["flight", str(file)]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_a_log_is_refused(tmp_path, capsys):
    assert main(["flight", str(tmp_path)]) == 2
    assert "has no flight.jsonl, expected the folder of a FlightRecorder" in capsys.readouterr().err
    assert main(["flight", str(tmp_path / "nothing")]) == 2
    assert "nothing: No such file or directory" in capsys.readouterr().err


def test_a_page_is_not_replaced_unasked(log, tmp_path, capsys):
    file = tmp_path / "page.html"
    file.write_text("mine")
    assert main(["flight", str(log), "-o", str(file)]) == 2
    assert "exists; --force replaces it" in capsys.readouterr().err
    assert file.read_text() == "mine"
