"""npu-precision explain --float32-nodes: the nodes that stay float32, for another runtime."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.text_graph import read_graph
from support.tf_versions import needs_functions_by_default, needs_onednn_in_bfloat16

from npu_precision import rewrite_graph_def, tensorflow_lists
from npu_precision.offline import model_file

MIXED = ("--mode", "allow_mix_precision")


@pytest.fixture
def listed(command, tmp_path):
    """listed(model, ...) -> the content of the list."""
    file = tmp_path / "float32.txt"

    def run(*arguments):
        command("explain", *arguments, "--float32-nodes", file)
        return file.read_text()

    return run


@pytest.fixture
def ledger(model_files, tmp_path):
    """ledger(mode) -> the file of the ledger of a frozen model."""

    def write(mode):
        meta_graph = model_file.load_model(model_files.frozen).meta_graph
        _, found = rewrite_graph_def(meta_graph.graph_def, "out", precision_mode=mode)
        file = tmp_path / "ledger.json"
        file.write_text(found.to_json())
        return file

    return write


def test_the_nodes_that_stay_float32_are_listed_without_constants_and_inputs(listed, model_files):
    assert listed(model_files.frozen, *MIXED) == "scale\nboth\nafter\n"


def test_trtexec_gets_them_as_layer_precisions(listed, model_files):
    found = listed(model_files.frozen, *MIXED, "--for", "tensorrt")
    assert found == "scale:fp32,both:fp32,after:fp32\n"


def test_autocast_gets_them_as_regular_expressions(listed, model_files):
    found = listed(model_files.frozen, *MIXED, "--for", "autocast")
    assert found == "^scale$\n^both$\n^after$\n"


def variables(text):
    return dict(line.split("=") for line in text.splitlines())


def test_tensorflow_gets_the_op_types_in_the_variables_that_its_pass_reads(listed, model_files):
    found = variables(listed(model_files.frozen, *MIXED, "--for", "tensorflow"))
    prefix = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_"
    assert found == {
        f"{prefix}DENYLIST_ADD": "Exp",
        f"{prefix}ALLOWLIST_ADD": "MatMul",
        f"{prefix}DENYLIST_REMOVE": "MatMul",
        f"{prefix}ALLOWLIST_REMOVE": "Exp",
        f"{prefix}INFERLIST_REMOVE": "Exp,MatMul",
        f"{prefix}CLEARLIST_REMOVE": "Exp,MatMul",
    }
    edits = json.loads(tensorflow_lists.options_from(found)["mixlist_edits"])
    assert edits == {"white-list": {"to-add": ["MatMul"]}, "black-list": {"to-add": ["Exp"]}}


@needs_functions_by_default
@needs_onednn_in_bfloat16
@pytest.mark.parametrize("kept", ["MatMul", "Relu", "Exp"])
def test_tensorflows_pass_keeps_what_the_list_says(kept, listed, tmp_path, monkeypatch):
    x = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)

    def compute(x):
        batches = tf.reshape(x, [4, 16, 64])
        others = tf.matmul(batches, batches, transpose_b=True)  # a BatchMatMulV2
        return tf.matmul(tf.nn.relu(tf.matmul(x, x)), x), others

    with tf.Graph().as_default() as graph:
        results = compute(tf.compat.v1.placeholder(tf.float32, x.shape))
        tf.identity_n(results, "out")
    tf.io.write_graph(graph, str(tmp_path), "model.pb", as_text=False)
    arguments = ["--mode", "allow_mix_precision_bf16", "--fetch", "out", "--for", "tensorflow"]
    edits = json.dumps({"black-list": {"to-add": [kept]}})
    text = listed(tmp_path / "model.pb", *arguments, "--mixlist-edits", edits)
    for name, value in variables(text).items():
        monkeypatch.setenv(name, value)
    option = "auto_mixed_precision_onednn_bfloat16"
    tf.config.optimizer.set_experimental_options({option: True})
    try:
        function = tf.function(compute)
        found = function(x)[0].numpy()
    finally:
        tf.config.optimizer.set_experimental_options({option: False})
    error = np.abs(found - np.maximum(x @ x, 0) @ x).max()
    assert (error < 1e-4) == (kept == "MatMul")


def test_what_lists_of_op_types_cannot_say_is_told(command, tmp_path):
    graph = read_graph("x = Placeholder(shape=8x8)\na = MatMul(x, x)\nb = MatMul(a, x)\nc = Exp(b)")
    (tmp_path / "model.pb").write_bytes(graph.SerializeToString())
    edits = '{"black-list": {"to-add": ["node:b"]}}'
    printed = command(
        *("explain", tmp_path / "model.pb", *MIXED, "--mixlist-edits", edits),
        *("--float32-nodes", tmp_path / "lists.env", "--for", "tensorflow"),
    )
    assert "lists of op types cannot say that 1 of 2 MatMul stay float32" in printed
    assert "MatMul" not in variables((tmp_path / "lists.env").read_text()).values()


def test_the_names_of_a_saved_model_are_those_of_its_inlined_signature(listed, model_files):
    names = listed(
        model_files.cnn, *MIXED, "--mixlist-edits", '{"black-list": {"to-add": ["Relu"]}}'
    )
    relu = [name for name in names.split() if name.endswith("Relu")]
    assert len(relu) == 1
    assert relu[0].startswith("StatefulPartitionedCall/")
    assert "ReadVariableOp" not in names


def test_a_batch_norm_that_convert_would_fold_is_listed_under_its_own_name(listed, model_files):
    edits = json.dumps({"black-list": {"to-add": ["FusedBatchNormV3", "Conv2D"]}})
    names = listed(model_files.cnn, *MIXED, "--mixlist-edits", edits)
    assert any(name.endswith("FusedBatchNormV3") for name in names.split())


def test_a_ledger_has_the_names_of_its_graph(listed, ledger):
    assert listed(ledger("allow_mix_precision")) == "scale\nboth\nafter\n"


def test_a_list_of_everything_is_refused(command, model_files, ledger, tmp_path):
    file = tmp_path / "list.txt"
    for what in ((model_files.frozen, "--mode", "force_fp32"), (ledger("must_keep_origin_dtype"),)):
        said = command("explain", *what, "--float32-nodes", file, status=2)
        assert "no node is lowered" in said
        assert not file.exists()


def test_an_existing_file_is_replaced_only_if_asked_for(command, model_files, tmp_path):
    file = tmp_path / "list.txt"
    file.write_text("mine")
    arguments = ("explain", model_files.frozen, *MIXED, "--float32-nodes", file)
    assert "--force replaces it" in command(*arguments, status=2)
    assert file.read_text() == "mine"
    assert command(*arguments, "--force") == f"{file}: 3 nodes stay float32\n"
    assert file.read_text().startswith("scale\n")


def test_the_model_itself_is_never_replaced(command, model_files):
    model = model_files.frozen
    said = command("explain", model, *MIXED, "--float32-nodes", model, "--force", status=2)
    assert "is, is in, or holds what is read" in said


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--for", "tensorrt"], "--for goes with --float32-nodes"),
        (["--force"], "--force goes with --float32-nodes"),
        (["--float32-nodes", "LIST", "--json"], "--float32-nodes and --json: expected one"),
        (["--float32-nodes", "LIST", "--node", "x"], "--float32-nodes and --node: expected one"),
        (["--float32-nodes", "LIST", "--for", "onnx"], "'onnx' is not one of 'names', 'tensorrt'"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(command, model_files, flags, error):
    assert error in command("explain", model_files.frozen, *MIXED, *flags, status=2)
