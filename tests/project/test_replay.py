"""`make replay` finds the cases that are rewritten differently, and shows the differences."""

import json
import os
import subprocess
import sys

import pytest
from replay import rewrite_sides
from replay.compare import report
from replay.corpus import Case, Corpus
from replay.record_rewrites import rewriting_input
from replay.rewrite_corpus import Rewriter, config_of
from replay.variants import variants
from support import ROOT
from support.text_graph import read_graph

import npu_precision
from npu_precision import _library

TEXT = """
x = Placeholder(shape=4x4)
w = Const(shape=4x4)
product = MatMul(x, w)
relu = Relu(product)
"""
MIX = {"precision_mode": "allow_mix_precision"}
KEEP = {"precision_mode": "allow_fp32_to_fp16"}


@pytest.fixture
def corpus(tmp_path):
    """A corpus with the graph of TEXT and no case."""
    corpus = Corpus(tmp_path / "corpus")
    graph_def = read_graph(TEXT)
    corpus.graph = corpus.add_graph(
        rewriting_input(lambda: npu_precision.rewrite_graph_def(graph_def, "relu"))
    )
    return corpus


@pytest.fixture
def side(corpus, tmp_path, monkeypatch):
    """side(name, *options) -> a Side that rewrote the graph with each of these options."""
    monkeypatch.setattr(rewrite_sides, "shares", lambda: 1)
    monkeypatch.setattr("replay.compare.shares", lambda: 1)
    known = {*_library.describe()["parameters"]}

    def rewrite(name, *given, known=known, **added):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        rewriter = Rewriter(corpus, known, added)
        results = [rewriter.result(case) for case in cases(corpus, *given)]
        side = rewrite_sides.Side(name, tmp_path, folder, added)
        side.results(0).write_text("".join(json.dumps(result) + "\n" for result in results))
        return side

    return rewrite


def cases(corpus, *given):
    """A case for each of the options."""
    return [Case(f"case {i}", corpus.graph, "graph", options) for i, options in enumerate(given)]


def test_the_same_rewrites_are_identical(corpus, side, capsys):
    given = [MIX, KEEP, {"precision_mode": "no_such_mode"}]
    assert report(cases(corpus, *given), side("HEAD", *given), side("tree", *given)) == 0
    assert "1 graphs, 3 rewrites on each side: 3 identical, 0 differing" in capsys.readouterr().out


def test_a_rewrite_in_another_mode_differs_in_nodes_and_ledger(corpus, side, capsys):
    status = report(cases(corpus, MIX, MIX), side("HEAD", MIX, MIX), side("tree", MIX, KEEP))
    printed = capsys.readouterr().out
    assert status == 1
    assert "2 rewrites on each side: 1 identical, 1 differing" in printed
    assert "\ncase 1 (precision_mode=allow_mix_precision)\ngraph:\n" in printed
    lines = printed.splitlines()
    for sign, operand, dtype in (("-", "x/npu_cast_0_float16", "HALF"), ("+", "x", "FLOAT")):
        start = f"  {sign}product = MatMul({operand}, "
        assert any(line.startswith(start) and f"T=type: DT_{dtype}" in line for line in lines)
    assert "ledger graph-0001.json:" in lines
    assert any(line.startswith("  -") and "white_list" in line for line in lines)
    assert "    1 case 1" in lines


def test_an_option_that_one_side_does_not_know_is_left_out_there_and_named(corpus, side, capsys):
    given = {**MIX, "fold_constants": False}
    known = {"precision_mode", "report_dir"}
    reference = side("HEAD", given, known=known)
    assert report(cases(corpus, given), reference, side("tree", given)) == 0
    printed = capsys.readouterr().out
    assert "HEAD does not know fold_constants: left out there of 1 rewrites" in printed


def test_an_option_may_be_set_on_one_side_alone(corpus, side, capsys):
    reference = side("HEAD", MIX, fold_constants=True)
    assert report(cases(corpus, MIX), reference, side("tree", MIX)) == 1
    printed = capsys.readouterr().out
    assert "-w/npu_cast_0_float16 = Const" in printed
    assert '"fold_constants"' not in printed


def test_files_that_options_name_come_into_the_corpus(corpus, mixlist, tmp_path):
    for name in ("first", "second"):
        given = {**MIX, "modify_mixlist": mixlist(black=["MatMul"])}
        corpus.add_case(Case(name, corpus.graph, "graph", given))
    (case,) = corpus.cases()
    path = case.options["modify_mixlist"]
    assert path.startswith("files/")
    assert path.endswith("/mixlist.json")
    assert (corpus.folder / path).read_text() == (tmp_path / "mixlist.json").read_text()


def test_variants_have_every_mode_and_target_and_are_accepted():
    described = _library.describe()
    found = [options for options, _ in variants()]
    for options in found:
        _library.check_options(
            config_of(options).graph_options.rewrite_options.custom_optimizers[0]
        )
    modes = {(options.get("precision_mode"), options.get("target")) for options in found}
    assert {(m, t) for m in described["modes"] for t in described["targets"]} <= modes
    assert {*described["modes_v2"]} <= {options.get("precision_mode_v2") for options in found}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "REF: got none, expected a branch, a tag or a hash, as in REF=main"),
        (["no_such"], "REF: 'no_such' is no commit of this repository; give a branch, a tag or a"),
    ],
)
def test_a_mistake_in_ref_is_told_before_tensorflow_is_imported(arguments, message):
    code = (
        "import sys\n"
        "sys.modules['tensorflow'] = None  # To import it is an error.\n"
        "from replay.__main__ import main\n"
        "sys.exit(main())"
    )
    process = subprocess.run(
        [sys.executable, "-B", "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 2
    assert message in process.stderr
