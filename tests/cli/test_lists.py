"""npu-precision lists: the built-in lists of a target, shown, searched and written."""

from __future__ import annotations

import json
import re

import pytest
from support.text_graph import read_graph

import npu_precision
from npu_precision import _library

TARGETS = _library.describe()["targets"]
# An op of each list on every target, some without an entry, and dtypes that differ by target.
GRAPH = """
    x = Placeholder(shape=1x4x4x1)
    f = Const(shape=3x3x1x2)
    s = Const[int32](value=[4, 8])
    w = Const(shape=8x3)
    conv = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
    relu = Relu(conv)
    exp = Exp(relu)
    pool = MaxPool(exp, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding=SAME)
    flat = Reshape(pool, s)
    product = MatMul(flat, w)
    softmax = Softmax(product)
    end = NextAfter(softmax, product)
    """


def lines(printed):
    return [line.split() for line in printed.splitlines()]


def test_it_shows_the_list_the_dtypes_and_ascends_names_of_each_op(command):
    printed = command("lists", "--target", "ascend910", "--op", "^(MatMul|Sum|Sigmoid|DynamicRNN)$")
    assert lines(printed) == [
        "ascend910: 2 white, 1 black, 1 gray".split(),
        "op list dtypes Ascend's names".split(),
        "DynamicRNN white float16,float32 not in this TensorFlow".split(),
        "MatMul white float16 (input0, input1, output0) MatMulV2, MatMulV3".split(),
        "Sum black float16,float32 ReduceSum, ReduceSumD".split(),
        "Sigmoid gray float16,float32".split(),
        "why Sum: sums and products over many elements keep float32, by a published list of the "
        "Ascend 910".split(),
    ]


def test_a_reason_is_shown_once_for_all_ops_of_it(command):
    printed = command("lists", "--op", "^(Log|Log1p|Exp|Expm1|Sinh|Relu)$")
    (line,) = (line for line in printed.splitlines() if line.startswith("why "))
    assert line.startswith("why Exp, Expm1, Log, Log1p and 1 more: exponentials overflow float16 ")


def test_without_a_target_it_is_the_host_with_a_table_for_each_kind_of_device(command):
    printed = command("lists", "--op", "^Softmax$")
    assert [line[0] for line in lines(printed) if line[0].startswith("host")] == [
        "host:",
        "host/cpu_onednn_bfloat16:",
        "host/gpu:",
    ]
    assert [line[1] for line in lines(printed) if line[0] == "Softmax"] == ["black", "gray", "gray"]


def test_a_target_with_anothers_lists_says_so(command):
    printed = command("lists", "--target", "ascend910b", "--op", "^MatMul$")
    assert printed.splitlines()[0] == "ascend910b (on top of ascend910): 1 white"
    assert "float16,bfloat16,float32" in printed


def test_an_op_is_found_by_ascends_name_too(command):
    data = json.loads(command("lists", "--target", "ascend910", "--op", "ReduceSumD", "--json"))
    assert data["schema"] == "npu_precision.lists/1"
    assert list(data["folders"]) == [""]
    assert list(data["folders"][""]) == ["Sum"]
    row = data["folders"][""]["Sum"]
    assert row["place"].startswith("ascend910/reductions.json:")
    assert {key: row[key] for key in ("list", "tensorflow", "ascend", "entry")} == {
        "list": "black",
        "tensorflow": True,
        "ascend": ["ReduceSum", "ReduceSumD"],
        "entry": {"precision_reduce": {"flag": "false"}},
    }


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", ["allow_mix_precision", "allow_mix_precision_bf16"])
@pytest.mark.parametrize("option", ["ops_info_dir", "ops_info_overlay"])
def test_what_is_written_decides_as_the_lists_do(command, tmp_path, target, mode, option):
    folder = tmp_path / "mine"
    command("lists", "--target", target, "--export", folder)
    graph = read_graph(GRAPH)

    def decisions(**options):
        _, ledger = npu_precision.rewrite_graph_def(
            graph, "end", precision_mode=mode, target=target, **options
        )
        assert not [warning for warning in ledger.warnings if option in warning]
        return [(node.name, node.list, node.decision) for node in ledger.nodes]

    written = decisions(**{option: str(folder)})
    assert written == decisions()
    assert {name: color for name, color, _ in written}["conv"] == "white"


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_wrong_with_what_is_written(command, tmp_path, target):
    command("lists", "--target", target, "--export", tmp_path / "mine")
    *formats, last = command("lint", tmp_path / "mine").splitlines()
    assert last == f"{tmp_path / 'mine'}: nothing to be said"
    assert all(line.endswith(".json: read as ops-info") for line in formats)


def test_a_part_that_is_written_lies_on_top_of_the_rest(command, tmp_path):
    """The way to change a few ops: write them, edit them, and give the folder as overlay."""
    folder = tmp_path / "mine"
    (file,) = command("lists", "--op", "^Exp$", "--export", folder).splitlines()
    assert file == f"written: {folder / 'aic-host-ops-info.json'}"
    path = folder / "aic-host-ops-info.json"
    assert path.read_text() == '{\n  "Exp": {"precision_reduce": {"flag": "false"}}\n}\n'
    path.write_text(path.read_text().replace("false", "true"))
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(GRAPH),
        "end",
        precision_mode="allow_mix_precision",
        ops_info_overlay=str(folder),
    )
    assert ledger.node("exp").decision == "lowered"
    assert ledger.node("product").decision == "lowered"


def test_nothing_is_replaced_unless_asked(command, tmp_path):
    file = tmp_path / "gpu" / "aic-host-ops-info.json"
    file.parent.mkdir()
    file.write_text("mine")
    error = command("lists", "--export", tmp_path, status=2)
    assert error == f"npu-precision: output '{file}' exists; --force replaces it\n"
    assert [path for path in tmp_path.rglob("*.json") if path != file] == []
    assert file.read_text() == "mine"
    command("lists", "--export", tmp_path, "--force")
    assert json.loads(file.read_text())["Softmax"] == {}
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "aic-host-ops-info.json"
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "ascend91"], "target: got 'ascend91', expected one of .*did you mean"),
        (["--op", "["], r"--op: '\[' is not a regular expression: "),
        (["--op", "Reluu"], "--op: no op of the lists of host has 'Reluu' in its name"),
        (["--force"], "--force goes with --export"),
    ],
)
def test_mistakes(command, arguments, message):
    assert re.search(message, command("lists", *arguments, status=2))
