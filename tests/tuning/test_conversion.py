"""What npu-precision tune writes, convert --verify accepts with the same limit."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from support.model_files import input_name
from support.overflowing import EMULATED, OVERFLOW, normal
from support.step_times import by_kept, took
from support.tf_versions import needs_frozen_loops

from npu_precision.tuning.conversion import Checked, Conversion
from npu_precision.tuning.objective import MaxError, Metric, apart, limit_text

BFLOAT16 = ("--mode", "allow_mix_precision_bf16")


@pytest.mark.parametrize(
    ("model", "shape", "share"),
    [
        ("cnn", (8, 12, 12, 3), 0.9),
        ("cnn", (8, 12, 12, 3), 0.03),
        pytest.param("lstm", (8, 5, 4), 0.9, marks=[needs_frozen_loops, pytest.mark.full]),
        pytest.param("lstm", (8, 5, 4), 0.3, marks=needs_frozen_loops),
        ("frozen", (4, 8), 0.9),
        ("frozen", (4, 8), 0.3),
    ],
)
def test_convert_accepts_what_tune_writes(
    model, shape, share, tune, command, model_files, arrays, tmp_path
):
    path = getattr(model_files, model)
    name = "x" if model == "frozen" else input_name(path)
    inputs = arrays(**{name: normal(*shape)})
    verified = command("convert", path, *BFLOAT16, "--verify", inputs, "-o", tmp_path / "first")
    # A share of the error of the conversion, which differs from that of the trials.
    limit = share * float(re.search(r"^output \S+: error (\S+),", verified, re.MULTILINE)[1])
    printed, _ = tune(path, "--inputs", inputs, "--max-error", limit, options=BFLOAT16)
    mixlist = ("--mixlist", tmp_path / "mixlist.json", "-o", tmp_path / "second")
    checked = ("--verify", inputs, "--max-error", limit)
    verified = command("convert", path, *BFLOAT16, *mixlist, *checked)
    error = float(re.search(r"^output \S+: error (\S+) \(at most", verified, re.MULTILINE)[1])
    assert error == pytest.approx(printed["converted"]["error"], rel=0.05, abs=1e-6)


@pytest.fixture
def judged(monkeypatch):
    """judged(function): conversions get the error that it returns for the added entries."""

    def replace(error_of):
        def run(self, options):
            entries = json.loads(options.mixlist_edits or "{}").get("black-list", {})
            error = error_of(entries.get("to-add", []))
            return Checked(error, None, None, self._objective.is_met(error, None, None))

        monkeypatch.setattr(Conversion, "run", run)

    return replace


def test_the_search_goes_on_if_convert_would_refuse_what_it_found(judged, overflow, tune):
    judged(lambda entries: 0.001 if any("small/" in each for each in entries) else 0.02)
    printed, mixlist = tune(*overflow, "--max-error", "0.01")
    # The first alone is good enough for the trials.
    assert set(mixlist["black-list"]["to-add"]) == {"node:large/product", "node:small/product"}
    assert printed["converted"] == {"error": 0.001, "metric": None, "good": True}
    assert printed["complete"]


def test_the_margin_counts_for_conversions_too(judged, overflow, tune):
    judged(lambda entries: 0.0085 if any("small/" in each for each in entries) else 0.0095)
    _, mixlist = tune(*overflow, "--max-error", "0.01")
    assert "node:small/product" in mixlist["black-list"]["to-add"]


def test_the_reason_is_told_if_no_mixlist_is_good_enough_for_convert(
    judged, overflow, command, tmp_path
):
    judged(lambda entries: 0.0100001)
    arguments = ("tune", *overflow, *EMULATED, "--margin", "0", "--max-error", "0.01")
    text = command(*arguments, "-o", tmp_path / "m.json", status=2)
    assert "what convert writes has error 1.00001e-02. Its rewrites for speed also change" in text
    assert not (tmp_path / "m.json").exists()


def test_a_conversion_that_fails_on_what_was_held_out_is_not_written(
    graph_file, arrays, command, tmp_path, monkeypatch
):
    limits = []

    def run(self, options):
        # The limit without a margin is that of all inputs.
        limits.append(self._objective.margin)
        error = 0.02 if self._objective.margin == 0 else 0.0
        return Checked(error, None, None, error < 0.01)

    monkeypatch.setattr(Conversion, "run", run)
    model = graph_file("x = Placeholder(shape=?x4)\nw = Const(shape=4x4)\nout = MatMul(x, w)")
    arguments = ("--inputs", arrays(x=normal(8, 4)), *EMULATED, "--max-error", "0.01")
    text = command("tune", model, *arguments, "-o", tmp_path / "m.json", status=1)
    assert "NOT ACCEPTED, for what convert makes of it. The mixlist would be" in text
    assert limits == [0.1, 0]
    assert not (tmp_path / "m.json").exists()


def test_the_fastest_mixlist_is_one_that_convert_accepts(judged, overflow, tune, timed):
    judged(lambda entries: 0.001 if len(entries) > 1 or "node:.*" in entries else 0.02)
    timed(by_kept({1: took(0.5), 3: took(0.7)}))
    options = ("--max-error", "0.01", "--objective", "time")
    printed, _ = tune(*overflow, *options, options=EMULATED[:-1])
    assert printed["converted"]["good"]
    assert len(printed["kept"]) == 3


def test_random_outputs_are_tuned_and_never_verified(graph_file, arrays, command, capsys, tmp_path):
    text = """
        shape = Const[int32](value=[4, 4])
        noise = RandomStandardNormal(shape)
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        out = AddV2(product, noise)
        """
    model, inputs = graph_file(text), arrays(x=normal(4, 4))
    told = "draws random numbers without a seed (noise), so output out:0 differs from run to run"
    arguments = (model, *BFLOAT16, "-o", tmp_path / "out")
    assert told in command("convert", *arguments, "--verify", inputs, status=2)
    printed = command("tune", *arguments, "--inputs", inputs, "--max-error", "0.1", "--json")
    assert json.loads(printed)["converted"] is None


class _Unread(tf.Module):
    """A model with an input that nothing reads."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(normal(4, 4), name="w")

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 4], tf.float32, name="x"),
            tf.TensorSpec([None, 4], tf.float32, name="unread"),
        ]
    )
    def serve(self, x, unread):
        return {"out": tf.matmul(x, self.w)}


def test_all_commands_take_the_same_inputs(command, tune, arrays, tmp_path):
    model = _Unread()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)
    inputs = arrays(x=normal(8, 4), unread=normal(8, 4))
    given = ("--inputs", inputs)
    command("compare", tmp_path / "model", *EMULATED, *given)
    tune(tmp_path / "model", *given, "--max-error", "1")
    verify = (*EMULATED, "--verify", inputs, "--batch-size", "3", "--max-error", "1")
    command("convert", tmp_path / "model", *verify, "-o", tmp_path / "out")
    fewer = arrays(x=normal(8, 4))
    for arguments in (("compare", "--inputs"), ("convert", "-o", tmp_path / "o", "--verify")):
        more = (*arguments[1:], fewer)
        text = command(arguments[0], tmp_path / "model", *EMULATED, *more, status=2)
        assert "input 'unread' is missing" in text


@pytest.mark.parametrize("name", ["float64", "float16"])
def test_outputs_of_all_float_dtypes_count(name, graph_file, arrays, command, tmp_path):
    model = graph_file(
        f"""
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        out = Cast[float32,{name}](product)
        """
    )
    inputs = arrays(x=normal(4, 4))
    arguments = (model, "--fetch", "out", *BFLOAT16)
    compared = json.loads(command("compare", *arguments, "--inputs", inputs, "--json"))
    tuned = command(
        *("tune", *arguments, "--inputs", inputs, "--max-error", "1", "-o", tmp_path / "m"),
        "--json",
    )
    verified = command("convert", *arguments, "--verify", inputs, "-o", tmp_path / "out.pb")
    assert 1e-4 < compared["error"] < 1e-2
    assert json.loads(tuned)["start"]["error"] == pytest.approx(compared["error"])
    assert re.search(r"\noutput out:0: error [1-9]", verified)


def test_a_printed_number_never_contradicts_the_verdict():
    random = np.random.default_rng(0)
    for limit in (0.002, 0.009, 1e-5, 0.3):
        for scale in (1e-1, 1e-3, 1e-6, 1e-12):
            for value in limit * (1 + scale * random.normal(size=20)):
                text = apart(value, limit)
                assert (float(text) <= float(limit_text(limit))) == (value <= limit)
                assert float(text) == pytest.approx(value, rel=0.06)
    assert apart(0.00204, 0.002) == "2.04e-03"
    assert apart(0.0031, 0.002) == "3.1e-03"
    assert apart(np.inf, 0.002) == "inf"
    assert MaxError(0.002, 0.1).texts(0.00181, None, None) == ("1.81e-03", None)


def test_a_metric_that_rounds_to_its_limit_says_how_much_worse_it_is():
    objective = Metric("m:f", 0.25)
    assert objective.texts(0.5, 0.9, 1.0) == ("5.0e-01", "0.9")
    error, metric = objective.texts(0.5, 0.749999999, 1.0)
    assert metric == "0.75, worse by 2.50000001e-01"


def test_a_mixlist_that_lowers_nothing_is_told(graph_file, arrays, command, tmp_path):
    model = graph_file("x = Placeholder(shape=4x4)\nout = MatMul(x, x)")
    arguments = (model, *EMULATED, "--inputs", arrays(x=normal(4, 4)), "--max-error", "0")
    text = command("tune", *arguments, "-o", tmp_path / "m.json")
    assert "NOTHING IS LOWERED: this mixlist keeps the whole model in float32" in text
    assert "Try a larger --max-error, or another low type" in text
    text = command("tune", *arguments[:-1], "1", "-o", tmp_path / "n.json")
    assert "NOTHING IS LOWERED" not in text


def test_the_rewrites_count_in_what_is_verified(graph_file, arrays, tune, monkeypatch):
    """The trials change dtypes alone; --rewrites is of the model that convert would write."""
    model = graph_file(OVERFLOW)
    inputs = arrays(x=normal(8, 8), factor=normal(8, 8))
    seen = []
    run = Conversion.run

    def noted(self, options):
        seen.append(options.rewrites)
        return run(self, options)

    monkeypatch.setattr(Conversion, "run", noted)
    tune(model, "--inputs", inputs, "--max-error", "1", "--rewrites", "none")
    assert set(seen) == {"none"}
