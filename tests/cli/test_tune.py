"""npu-precision tune: a mixlist that keeps a model accurate enough, and keeps little else."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from support.model_files import input_name
from support.overflowing import EMULATED, OVERFLOW, normal
from support.report_files import data_in, needs_page
from support.tf_versions import needs_frozen_loops

from npu_precision.cli import main as cli
from npu_precision.cli.plots import check as check_plots


@pytest.fixture
def error_of(command):
    """error_of(mixlist, model, "--inputs", ...) -> the error, as compare measures it."""

    def run(mixlist, model, *arguments):
        path = ("--mixlist-edits", json.dumps(mixlist)) if mixlist else ()
        printed = json.loads(command("compare", model, *EMULATED, *path, *arguments, "--json"))
        return float(printed["error"])

    return run


@pytest.mark.parametrize("options", [EMULATED, EMULATED[:-1]], ids=["emulated", "kernels"])
def test_the_op_that_overflows_is_found_and_nothing_else(options, overflow, tune):
    printed, mixlist = tune(*overflow, "--max-error", "0.01", options=options)
    assert mixlist == {"black-list": {"to-add": ["node:large/product"]}}
    (kept,) = printed["kept"]
    assert (kept["node"], kept["op"], kept["risk"]) == ("large/product", "MatMul", "Infinity")
    assert re.match(r"yields values up to \d\.\de\+05$", kept["why"][0])
    assert printed["start"]["error"] == "Infinity"
    assert 0 < printed["found"]["error"] < 0.01
    # The op itself and the Tanh that follows it are kept.
    assert printed["found"]["lowered"] == printed["start"]["lowered"] - 2
    assert len(printed["trials"]) <= 6


@pytest.mark.parametrize("more", [(), ("--overflow", "saturate")], ids=["default", "given"])
def test_on_a_device_that_saturates_the_op_is_found_as_well(more, overflow, tune):
    options = (*EMULATED, "--target", "ascend910", *more)
    printed, mixlist = tune(*overflow, "--max-error", "0.01", options=options)
    assert mixlist == {"black-list": {"to-add": ["node:large/product"]}}
    assert printed["start"]["error"] == "Infinity"


def test_what_reads_values_that_are_too_large_is_kept_too(graph_file, arrays, tune, error_of):
    text = """
        x = Placeholder(shape=4x4)
        small = Placeholder(shape=4x4)
        first = MatMul(x, x)
        second = Relu(first)
        third = MatMul(second, small)
        w = Const(shape=4x4)
        out = MatMul(third, w)
        """
    small = np.eye(4, dtype=np.float32) / 1e5
    inputs = ("--inputs", arrays(x=1e3 * normal(4, 4), small=small))
    model = graph_file(text)
    _, mixlist = tune(model, *inputs, "--max-error", "0.01")
    assert mixlist == {"black-list": {"to-add": ["node:first", "node:third"]}}
    assert error_of(mixlist, model, *inputs) < 0.01


@pytest.mark.parametrize(
    ("model", "name", "shape", "fetch", "prefix"),
    [
        ("cnn", None, (6, 12, 12, 3), (), "node:(.*/)?"),
        pytest.param("lstm", None, (6, 5, 4), (), "node:", marks=needs_frozen_loops),
        ("frozen", "x", (4, 8), (), "node:"),
        ("checkpoint", "x", (6, 8), ("--fetch", "logits"), "node:"),
    ],
)
def test_every_kind_of_model_is_tuned(
    model, name, shape, fetch, prefix, tune, error_of, model_files, arrays
):
    path = getattr(model_files, model)
    name = name or input_name(path)
    arguments = (path, "--inputs", arrays(**{name: normal(*shape)}), *fetch)
    limit = error_of(None, *arguments) / 2
    assert limit > 0
    printed, mixlist = tune(*arguments, "--max-error", limit, "--held-out", "0")
    entries = mixlist["black-list"]["to-add"]
    assert entries
    assert all(entry.startswith(prefix) for entry in entries)
    assert printed["found"]["error"] <= limit
    # The written mixlist is the one that was tried.
    assert error_of(mixlist, *arguments) == pytest.approx(printed["found"]["error"])


def test_a_mixlist_for_a_saved_model_is_one_for_converting_it(
    tune, model_files, arrays, command, tmp_path
):
    inputs = ("--inputs", arrays(**{input_name(model_files.cnn): normal(6, 12, 12, 3)}))
    printed, _ = tune(model_files.cnn, *inputs, "--max-error", "0")
    kept = {each["node"] for each in printed["kept"]}
    arguments = (*EMULATED[:2], "--mixlist", tmp_path / "mixlist.json", "--json")
    explained = json.loads(command("explain", model_files.cnn, *arguments))
    by_mixlist = {
        node["name"]
        for node in explained["nodes"]
        if node["listed_by"].startswith(str(tmp_path / "mixlist.json"))
    }
    assert kept & by_mixlist == kept


class Twice(tf.Module):
    """A block that overflows, called twice; no call is inlined when it is saved."""

    def __init__(self):
        self.w = tf.Variable(normal(8, 8), name="w")

    @tf.function
    def block(self, x):
        large = tf.matmul(x, 3e4 * self.w, name="large")
        return tf.matmul(tf.tanh(large), self.w, name="small")

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
    def serve(self, x):
        return {"out": tf.tanh(self.block(tf.tanh(self.block(x))))}


def test_what_a_function_does_is_one_node_wherever_it_is_called(tune, command, arrays, tmp_path):
    model = Twice()
    tf.saved_model.save(model, str(tmp_path / "twice"), signatures=model.serve)
    x = normal(16, 8)
    options = ("--mode", "allow_mix_precision")
    printed, mixlist = tune(
        tmp_path / "twice", "--inputs", arrays(x=x), "--max-error", "0.01", options=options
    )
    assert mixlist == {"black-list": {"to-add": ["node:(.*/)?large"]}}
    # The same for the model itself: its calls are not inlined, so its names are shorter.
    more = ("--mixlist", tmp_path / "mixlist.json", "-o", tmp_path / "lowered")
    command("convert", tmp_path / "twice", *options, *more)
    lowered = tf.compat.v2.saved_model.load(str(tmp_path / "lowered"))
    with_mixlist = lowered.signatures["serving_default"](x=tf.constant(x))["out"]
    reference = model.serve(tf.constant(x))["out"]
    error = tf.norm(with_mixlist - reference) / tf.norm(reference)
    assert float(error) == pytest.approx(printed["found"]["error"], rel=0.2)


def test_a_model_that_is_good_enough_needs_no_mixlist(tune, command, model_files, arrays):
    inputs = ("--inputs", arrays(x=normal(4, 8)))
    printed, mixlist = tune(model_files.frozen, *inputs, "--max-error", "0.5")
    assert mixlist == {"black-list": {"to-add": []}}
    assert len(printed["trials"]) == 1
    arguments = (model_files.frozen, *EMULATED, *inputs, "--max-error", "0.5")
    text = command("tune", *arguments, "-o", "/dev/null", "--force", status=2)
    assert "is no file" in text


def test_no_error_at_all_lowers_only_what_makes_none(graph_file, arrays, tune):
    text = """
        x = Placeholder(shape=4x4)
        y = Placeholder(shape=4x4)
        exact = MatMul(x, x)
        rounded = MatMul(y, y)
        one = Exp(exact)
        other = Exp(rounded)
        out = AddV2(one, other)
        """
    inputs = arrays(x=np.eye(4, dtype=np.float32), y=normal(4, 4))
    _, mixlist = tune(graph_file(text), "--inputs", inputs, "--max-error", "0")
    assert mixlist == {"black-list": {"to-add": ["node:rounded"]}}


METRIC = """
import numpy as np

def batches():
    random = np.random.default_rng(1)
    for _ in range(2):
        yield {"x": random.normal(size=[8, 8]), "factor": 6e4 * random.normal(size=[8, 8])}

def small_batches():
    random = np.random.default_rng(1)
    for _ in range(2):
        yield {"x": random.normal(size=[8, 8]), "factor": random.normal(size=[8, 8])}

def largest(batches):
    for inputs, outputs in batches:
        assert inputs["x"].shape == outputs["out:0"].shape == (8, 8)
    return max(outputs["out:0"].max() for _, outputs in batches)

def less(batches):
    return -largest(batches)

def not_a_number(batches):
    return "good"

def is_nan(batches):
    return float("nan")

def fails(batches):
    return batches[7]
"""


@pytest.fixture
def metrics(tmp_path, monkeypatch):
    """A module of the user's, in the working directory; its name."""
    (tmp_path / "my_metrics.py").write_text(METRIC)
    monkeypatch.chdir(tmp_path)
    return "my_metrics"


@pytest.mark.parametrize("better", ["larger", "smaller"])
def test_a_measure_of_the_users_decides(better, graph_file, tune, metrics):
    inputs = ("--inputs-from", f"{metrics}:small_batches", "--held-out", "0", "--budget", "0")
    model = graph_file(OVERFLOW)
    start = tune(model, *inputs, "--metric", f"{metrics}:largest")[0]
    is_less = start["start"]["metric"] < start["reference"]["metric"]
    # One of the two measures is worse than in float32, and one is better.
    names = {"larger": ("largest", "less"), "smaller": ("less", "largest")}[better]
    more = () if better == "larger" else ("--smaller-is-better",)
    worse, fine = names if is_less else names[::-1]
    printed, _ = tune(model, *inputs, "--metric", f"{metrics}:{worse}", *more, "--force")
    assert printed["kept"]
    metric, reference = printed["found"]["metric"], printed["reference"]["metric"]
    assert metric <= reference if more else metric >= reference
    printed, _ = tune(model, *inputs, "--metric", f"{metrics}:{fine}", *more, "--force")
    assert printed["kept"] == []


def test_a_budget_that_allows_everything_keeps_nothing(graph_file, tune, metrics):
    model = (graph_file(OVERFLOW), "--inputs-from", f"{metrics}:small_batches")
    printed, _ = tune(*model, "--metric", f"{metrics}:largest", "--budget", "100")
    assert printed["kept"] == []


def test_the_users_own_mixlist_is_part_of_what_is_written(
    overflow, tune, mixlist, command, tmp_path
):
    own = """{
      // Comments do not stay.
      "white-list": {"to-add": ["Tanh", "node:end/hidden"]},
      "black-list": {"to-remove": ["ReduceSumD"], "to-add": ["Exp"]}
    }"""
    arguments = (*overflow, "--max-error", "0.01", "--mixlist", mixlist(own))
    found = tmp_path / "found.json"
    command("tune", *arguments, *EMULATED, "-o", found)
    assert json.loads(found.read_text()) == {
        "white-list": {"to-add": ["Tanh", "node:end/hidden"]},
        "black-list": {"to-remove": ["ReduceSumD"], "to-add": ["Exp", "node:large/product"]},
    }
    linted = command("lint", found, "--mode", EMULATED[1])
    assert re.findall("warning: (.*)", linted) == [
        "'Exp' is on the target's black-list already [redundant]"
    ]


def test_what_the_users_mixlist_says_of_a_node_stays(overflow, command, mixlist, tmp_path):
    own = mixlist(white=["node:large/product"])
    arguments = (*overflow, "--max-error", "0.01", "--mixlist", own)
    text = command("tune", *arguments, *EMULATED, "-o", tmp_path / "found.json", status=2)
    assert "no mixlist is good enough: with all " in text
    assert "1 are lowered (large/product); the error is inf" in text
    assert not (tmp_path / "found.json.state").exists()


def test_all_of_a_scope_is_one_entry(graph_file, arrays, tune):
    text = """
        x = Placeholder(shape=4x4)
        eye = Placeholder(shape=4x4)
        a/one = MatMul(x, x)
        a/two = BatchMatMulV2(x, x)
        b/two = BatchMatMulV2(eye, eye)
        c/one = MatMul(x, eye)
        a/one/exp = Exp(a/one)
        a/two/exp = Exp(a/two)
        b/two/exp = Exp(b/two)
        c/one/exp = Exp(c/one)
        out = AddN(a/one/exp, a/two/exp, b/two/exp, c/one/exp)
        """
    inputs = arrays(x=normal(4, 4), eye=np.eye(4, dtype=np.float32))
    _, mixlist = tune(graph_file(text), "--inputs", inputs, "--max-error", "0")
    assert mixlist == {"black-list": {"to-add": ["node:a/.*", "node:c/one"]}}


def test_what_is_random_is_the_same_in_all_trials(graph_file, arrays, tune):
    text = """
        shape = Const[int32](value=[4, 4])
        noise = RandomStandardNormal(shape)
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        out = AddV2(product, noise)
        """
    printed, _ = tune(graph_file(text), "--inputs", arrays(x=normal(4, 4)), "--max-error", "0")
    assert 0 < printed["start"]["error"] < 1e-2
    assert printed["found"]["error"] == 0


def test_the_curve_is_a_picture(overflow, command, tmp_path):
    try:
        check_plots("curve.png")
    except ValueError as error:
        pytest.skip(str(error))
    curve = tmp_path / "curve.png"
    arguments = ("tune", *overflow, *EMULATED, "--max-error", "0.01", "--plot", curve)
    printed = json.loads(command(*arguments, "-o", tmp_path / "m.json", "--json"))
    assert curve.read_bytes().startswith(b"\x89PNG")
    shares = [trial["share"] for trial in printed["trials"]]
    assert (min(shares), max(shares)) == (0, 1)
    # The curve has several steps, also outside of the searched part.
    assert len({round(share, 3) for share in shares}) >= 5


def test_a_curve_of_one_point_is_not_drawn(model_files, arrays, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    arguments = ["tune", model_files.frozen, *EMULATED, "--inputs", arrays(x=normal(4, 8))]
    outputs = ["-o", str(tmp_path / "m.json"), "--plot", str(tmp_path / "curve.png")]
    # Nothing has to be kept, so the search ends where it begins.
    assert cli.main([*arguments, "--max-error", "1", *outputs]) == 0
    told = capsys.readouterr().err
    name = tmp_path / "curve.png"
    assert f"npu-precision: {name}: not drawn: there is only one point\n" in told
    assert [file.name for file in tmp_path.glob("curve*")] == []


def test_what_is_printed(overflow, command, tmp_path):
    output = tmp_path / "m.json"
    arguments = ("tune", *overflow, *EMULATED, "--max-error", "0.01", "-o", output)
    text = command(*arguments)
    assert "\nwanted: error at most 0.01, searched with 0.009 (margin 0.1)\n" in text
    assert "\ninputs: nothing is held out of one batch: input 'x' always has 8 rows\n" in text
    given = r"as given: error inf; large/product:0 \(MatMul\) has a NaN"
    assert re.search(rf"\n{given} or an infinity .*; lowered: large/product\n", text)
    assert "\nKept in float32: 1 of 7 lowered nodes, and 1 that follow them" in text
    assert re.search(r"\nlarge/product +MatMul +yields values up to", text)
    assert text.endswith(
        f"{output}: 1 entry added to black-list\n"
        f"to be used with precision_mode allow_mix_precision, modify_mixlist {output}\n"
    )
    assert "exists; --force replaces it" in command(*arguments, status=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected one of --max-error and --metric"),
        (("--max-error", "1", "--metric", "m:f"), "expected one of --max-error and --metric"),
        (("--max-error", "1", "--budget", "1"), "go with --metric"),
        (("--max-error", "1", "--smaller-is-better"), "go with --metric"),
        (("--metric", "m:f"), "--metric needs --budget"),
        (("--max-error", "-1"), "--max-error: got -1, expected a number from 0 on"),
        (("--max-error", "nan"), "--max-error: got nan, expected a number from 0 on"),
        (("--metric", "m:f", "--budget", "inf"), "--budget: got inf, expected a number"),
        (("--metric", "my_metrics:f", "--budget", "1"), "has no function 'f'"),
        (("--metric", "my_metrics:fails", "--budget", "1"), "raised IndexError: list index out"),
        (("--metric", "my_metrics:not_a_number", "--budget", "1"), "returned str, expected a num"),
        (("--metric", "my_metrics:is_nan", "--budget", "1"), "with float32 it is nan"),
        (("--max-error", "1", "--resume"), "there is nothing to resume"),
        (
            ("--max-error", "1", "--mode", "force_fp16"),
            "'force_fp16', which does not use the lists",
        ),
        (("--max-error", "1", "--margin", "1"), "--margin: got 1, expected a share from 0 to less"),
        (("--max-error", "1", "--margin", "-0.1"), "--margin: got -0.1, expected a share from 0"),
        (("--max-error", "1", "--margin", "nan"), "--margin: got nan, expected a share from 0 to"),
        (("--max-error", "1", "--margin", "wide"), "Invalid value for '--margin'"),
        (("--max-error", "1", "--held-out", "25"), "--held-out: got 25, expected a share from 0"),
        (("--max-error", "1", "--held-out", "25"), "to less than 1; 25 % is 0.25"),
        (("--max-error", "1", "--max-runs", "0"), "Invalid value for '--max-runs'"),
        (("--max-error", "1", "--plot", "a.doc"), "draws no 'doc'"),
        (("--max-error", "1", "--for", "autocast"), "--for goes with --float32-nodes"),
        (
            ("--max-error", "1", "--float32-nodes", "policies.json", "--for", "keras"),
            "--for keras: expected a model that Keras saved",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(arguments, message, overflow, command, metrics, tmp_path):
    if "--plot" in arguments:
        pytest.importorskip("matplotlib")
    output = tmp_path / "m.json"
    text = command("tune", *overflow, "--emulate", *arguments, "-o", output, status=2)
    assert message in text
    assert text.count("\n") == 1
    assert not output.exists()


def test_edits_that_are_in_no_file_are_refused(overflow, command, tmp_path):
    options = tmp_path / "options.json"
    options.write_text('{"precision_mode": "allow_mix_precision", "mixlist_edits": "{}"}')
    arguments = (*overflow, "--max-error", "1", "--options", options, "-o", tmp_path / "m.json")
    text = command("tune", *arguments, status=2)
    assert "mixlist_edits cannot be tuned: put them into the file modify_mixlist" in text


@needs_page
def test_the_curve_is_in_the_report_of_the_model_with_the_mixlist(overflow, command, tmp_path):
    arguments = ("tune", *overflow, *EMULATED, "--max-error", "0.01", "-o", tmp_path / "m.json")
    command(*arguments, "--report", tmp_path / "report.html")
    data = data_in((tmp_path / "report.html").read_text())
    curve = sorted(data["curve"], key=lambda point: point["share"])
    assert (curve[0]["share"], curve[0]["error"]) == (0, 0)
    assert (curve[-1]["share"], curve[-1]["error"]) == (1, None)  # It is infinite.
    (chosen,) = (point for point in curve if point["chosen"])
    assert chosen["label"] == "1 kept"
    assert 0 < chosen["error"] < 0.01
    mode = {"precision_mode": "allow_mix_precision"}
    assert data["options"] == {**mode, "modify_mixlist": str(tmp_path / "m.json")}
    text = command(*arguments, "--report", tmp_path / "m.json", "--force", status=2)
    assert "is, is in, or holds another output" in text


@pytest.mark.parametrize("form", [(), ("--format", "customize_dtypes")], ids=["mixlist", "dtypes"])
def test_what_the_result_keeps_is_listed_for_another_runtime(form, overflow, command, tmp_path):
    written = ("--float32-nodes", tmp_path / "list.txt", "--for", "tensorrt", *form)
    arguments = ("tune", *overflow, *EMULATED, "--max-error", "0.01", "-o", tmp_path / "m.json")
    text = command(*arguments, *written)
    listed = (tmp_path / "list.txt").read_text().strip().split(",")
    assert "large/product:fp32" in listed
    assert text.endswith(f"{tmp_path / 'list.txt'}: {len(listed)} nodes stay float32\n")
    mode = ("--mode", "allow_mix_precision")
    command("explain", overflow[0], *mode, "--float32-nodes", tmp_path / "before.txt")
    assert "large/product" not in (tmp_path / "before.txt").read_text().split()


def test_the_result_as_a_customize_dtypes_file(command, overflow, tmp_path):
    """The file has the same decisions as the mixlist, and a line of the user's own stays."""
    given = tmp_path / "given.cfg"
    given.write_text("none::InputDtype:float16\n")
    file = tmp_path / "found.cfg"
    command(
        *("tune", *overflow, "--max-error", "0.01", *EMULATED, "-o", file),
        *("--format", "customize_dtypes", "--customize-dtypes", given),
    )
    assert file.read_text().splitlines() == [
        "none::InputDtype:float16",
        "large/product::InputDtype:float32,float32,OutputDtype:float32",
    ]
    compared = command(*("compare", *overflow, *EMULATED, "--customize-dtypes", file), "--json")
    assert float(json.loads(compared)["error"]) < 0.01
