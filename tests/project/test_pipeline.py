"""The driver of the passes: it dumps their graphs, and reports a pass that misreports a change."""

from __future__ import annotations

import pytest
from support.compiled import compile_library
from support.text_graph import read_graph

import npu_precision
from npu_precision import _library

GRAPH = """
    x = Placeholder(shape=2x2)
    w = Const(shape=2x2)
    y = MatMul(x, w)
"""
NUMBERS = {row["name"]: n for n, row in enumerate(_library.describe()["passes"], 1)}


def rewrite(mode="force_fp16", **options):
    return npu_precision.rewrite_graph_def(read_graph(GRAPH), "y", precision_mode=mode, **options)


def test_dumps_have_the_graph_after_each_pass_that_changed_it(tmp_path):
    rewrite(dump_passes_dir=tmp_path)
    rewrite("force_fp32", dump_passes_dir=tmp_path)  # changes nothing
    casts = f"graph-0001/{NUMBERS['insert_casts']:02}_insert_casts.txt"
    constants = f"graph-0001/{NUMBERS['fold_constants']:02}_fold_constants.txt"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path).as_posix() for path in files} == {
        "graph-0001/00_given.txt",
        casts,
        constants,
        "graph-0002/00_given.txt",
    }
    assert "y = MatMul(x, w) T=DT_FLOAT" in (tmp_path / "graph-0001/00_given.txt").read_text()
    after_casts = (tmp_path / casts).read_text()
    assert "MatMul(x/npu_cast_0_float16, w/npu_cast_0_float16) T=DT_HALF" in after_casts
    assert "w/npu_cast_0_float16 = Cast(w) DstT=DT_HALF SrcT=DT_FLOAT" in after_casts
    assert "w/npu_cast_0_float16 = Const() dtype=DT_HALF" in (tmp_path / constants).read_text()


def test_dumps_change_nothing_else(tmp_path):
    with_dumps, ledger = rewrite(dump_passes_dir=tmp_path, strict=True)
    assert with_dumps == rewrite()[0]
    assert ledger.options["dump_passes_dir"] == str(tmp_path)


def test_a_folder_that_cannot_be_made_is_the_users_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="dump_passes_dir: cannot write into folder '.*file'"):
        rewrite(dump_passes_dir=tmp_path / "file")


@pytest.fixture(scope="module")
def lying_library(tmp_path_factory):
    return compile_library("failing_same_padding.cc", tmp_path_factory.mktemp("lying"))


SCRIPT = """\
import sys
import npu_precision
import tensorflow as tf

with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, [2, 2])
    tf.matmul(x, x, name="y")
try:
    npu_precision.rewrite_graph_def(graph.as_graph_def(), "y", precision_mode=sys.argv[1])
    print("rewritten")
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("mode", "says"),
    [("allow_mix_precision_bf16", "changed"), ("allow_mix_precision_fp16", "did not change")],
)
def test_offline_runs_are_strict_and_notice_a_pass_that_misreports_whether_it_changed_the_graph(
    mode, says, lying_library, run_python
):
    library = {"NPU_PRECISION_LIBRARY": str(lying_library)}
    told = run_python(SCRIPT, mode, **library).stdout
    assert f"pass same_padding says that it {says} the graph, which is not so" in told
