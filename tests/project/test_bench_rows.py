"""The rows of the benchmark: their contenders, and the messages about absent ones."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import tensorflow as tf
from support import ROOT
from support.tf_versions import needs_onednn

pytest.importorskip("matplotlib", reason="the benchmarks are for the default environment")

tf1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def test_a_row_is_found_by_the_name_that_it_shows():
    import rows

    assert [rows.row(name).name for name in rows.NAMES] == [*rows.NAMES]
    assert {"convnext_tiny", "train mlp", "saved gru_keywords", "fit cnn"} <= {*rows.NAMES}


def test_rows_are_chosen_by_names_and_patterns():
    import rows

    assert rows.chosen(["train mlp", "fit *"]) == ["train mlp", *_starting("fit ")]
    assert rows.chosen(["live *"]) == _starting("live ")
    with pytest.raises(ValueError, match=r"got 'fit', expected some of resnet50, "):
        rows.chosen(["bert", "fit"])


def _starting(text):
    import rows

    return [name for name in rows.NAMES if name.startswith(text)]


CONTENDERS = {
    "bert": ["float32", "tf amp", "npu", "npu, dtypes", "npu, force_fp16"],
    "saved gru_keywords": [
        *["float32", "tf amp", "npu", "npu, dtypes", "npu, for oneDNN", "npu, frozen"],
        "npu, force_fp16",
    ],
    "fit cnn": ["float32", "tf amp", "npu", "npu, dtypes", "keras policy", "npu, force_fp16"],
    "live train lstm": [
        *["float32", "tf amp", "npu", "npu, dtypes", "keras policy", "npu, force_fp16"],
    ],
    "float16 bert": ["float32", "npu, allow_mix_precision"],
}


@pytest.mark.parametrize("name", CONTENDERS)
def test_who_makes_no_sense_in_a_row_is_left_out(name):
    import rows

    assert rows.row(name).contenders(["force_fp16"]) == CONTENDERS[name]
    assert rows.row(name).has_peers == (name == "bert")


def test_a_summary_names_the_rows_in_which_ours_is_slower_than_a_peer():
    import report

    def entry(**ratios):
        return {"contenders": {name: {"ratio": ratio} for name, ratio in ratios.items()}}

    found = {
        "slower": entry(**{"float32": 1.0, "tf amp": 2.0, "npu": 1.5}),
        "faster": entry(**{"float32": 1.0, "tf amp": 1.0, "npu": 1.5, "npu, frozen": 2.0}),
        "float16": entry(**{"float32": 1.0, "npu, allow_mix_precision": 0.5}),
    }
    assert report.slower_than_peers(found) == [
        "slower than tf amp: slower (25%)",
        "slower than keras policy: none",
        "slower than itex amp: none",
        "slower than zentf: none",
        "slower than npu, frozen: faster (25%)",
    ]


def test_a_peer_of_another_tensorflow_says_so():
    import elsewhere

    reason = elsewhere.Peer("other", "other", "1.2", {}).absence()
    assert reason == f"it is for TensorFlow 1.2, and this is {tf.__version__}"


def test_a_peer_without_an_environment_says_how_to_make_it():
    import elsewhere

    version = ".".join(tf.__version__.split(".")[:2])
    reason = elsewhere.Peer("other", "no-such", version, {}).absence()
    assert reason == "`.venv/bin/nox -s no-such` has not made its environment"


def test_a_peer_that_fails_is_reported_and_the_others_are_measured(tmp_path, monkeypatch):
    import elsewhere
    import report
    import rows
    import runners

    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho plug-in not found >&2\nexit 1\n")
    python.chmod(0o755)
    broken = types.SimpleNamespace(name="broken", python=python, environment={})
    monkeypatch.setattr(elsewhere, "PEERS", [broken])
    row = rows.row("lstm_gru")

    figures, failed = runners.measured(row, tmp_path, 0, ["float32", "npu", "broken"])

    assert list(figures) == ["float32", "npu"]
    assert figures["float32"].ratio == 1
    assert failed == {"broken": "broken: plug-in not found\n"}
    found = {"absent": {}, "left_out": {}, "graphs": {row.name: {"failed": failed}}}
    assert report.left_out(found) == ["lstm_gru: failed: broken: plug-in not found\n"]


def test_a_contender_that_fails_and_is_no_peer_ends_the_benchmark(tmp_path, monkeypatch):
    import fit_worker
    import rows
    import runners
    import worker

    script = tmp_path / "script.py"
    script.write_text("raise SystemExit('cannot be turned on')")
    monkeypatch.setattr(
        fit_worker,
        "runner",
        lambda _, name: worker.started(name, sys.executable, str(script), [], {}),
    )
    with pytest.raises(worker.WorkerFailed, match="npu: cannot be turned on"):
        runners.measured(rows.row("fit cnn"), tmp_path, 0, ["npu"])


def test_what_a_worker_prints_besides_is_no_answer(tmp_path):
    import worker

    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "import numpy as np\n"
        "import worker\n"
        "class Loud:\n"
        "    def first(self):\n"
        "        print('a progress bar', flush=True)\n"
        "        return np.float32([1, 2])\n"
        "    def step(self):\n"
        "        pass\n"
        "    def what_ran(self):\n"
        "        return 3, None, None\n"
        "worker.answer(Loud(), sys.argv[1])\n"
    )
    environment = {"PYTHONPATH": str(ROOT / "benchmarks")}
    with worker.started("loud", sys.executable, str(script), [], environment) as started:
        assert started.first().tolist() == [1, 2]
        started.step()
        assert started.what_ran() == [3, None, None]


def test_errors_are_against_a_layer_norm_with_its_own_epsilon():
    """TensorFlow's remapper would give the layer norm an epsilon of 0.001."""
    import contenders
    import task

    x = 1e-3 * np.random.default_rng(0).normal(size=[4, 8, 64]).astype(np.float32)
    with tf.Graph().as_default() as graph:
        fed = tf1.placeholder(tf.float32, x.shape, name="x")
        mean, variance = tf.nn.moments(fed, [-1], keepdims=True)
        ones = np.ones(64, np.float32)
        y = tf.nn.batch_normalization(fed, mean, variance, ones, ones, 1e-12)
        fetch = tf.identity(y, name="y").name
    exact = x.astype(np.float64)
    exact = (exact - exact.mean(-1, keepdims=True)) / exact.std(-1, keepdims=True) + 1

    running = task.GraphTask(graph, [fetch], {"x:0": x})
    with running.runner(contenders.REFERENCE) as runner:
        np.testing.assert_allclose(runner.first(), exact, atol=1e-4)


@needs_onednn
def test_a_saved_model_runs_next_to_its_frozen_graph(tmp_path):
    import task

    random = np.random.default_rng(0)
    weights = random.normal(size=[16, 8]).astype(np.float32)
    x = random.normal(size=[4, 16]).astype(np.float32)
    module = tf.Module()
    module.weights = tf.Variable(weights)
    spec = tf.TensorSpec([None, 16], tf.float32, name="x")
    module.serve = tf.function(lambda x: tf.matmul(x, module.weights), input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    with tf.Graph().as_default() as graph:
        fed = tf1.placeholder(tf.float32, x.shape, name="x")
        fetch = tf.matmul(fed, tf.constant(weights)).name
    frozen = task.GraphTask(graph, [fetch], {"x:0": x})

    running = task.SavedModelTask(tmp_path, x, frozen)
    low = {}
    for name in ("float32", "tf amp", "npu", "npu, frozen"):
        with running.runner(name) as runner:
            # A product of rounded factors: within 2 ** -8 of the largest one.
            np.testing.assert_allclose(runner.first(), x @ weights, atol=0.1)
            _, _, shares = runner.what_ran()
            low[name] = np.abs(runner.first() - x @ weights).max() > 1e-4
            assert any("MatMul" in op for op in shares), shares
    assert low == {"float32": False, "tf amp": True, "npu": True, "npu, frozen": True}


def test_a_graph_holds_no_attribute_that_an_older_tensorflow_may_not_know(tmp_path):
    """Newer versions give MatMul an attribute about gradients, which is false by default."""
    import inference_graphs

    graph_def = inference_graphs.frozen_graph("lstm_gru", tmp_path).graph_def()
    bodies = [function.node_def for function in graph_def.library.function]
    nodes = [node for body in [graph_def.node, *bodies] for node in body]
    products = [node for node in nodes if node.op == "MatMul"]
    assert products
    public = {name for node in products for name in node.attr if not name.startswith("_")}
    assert public == {"T"}


@pytest.mark.parametrize(("name", "keras"), [("keras2_transformer", 2), ("keras3_transformer", 3)])
def test_a_graph_of_another_keras_is_left_out_unless_it_is_there(name, keras, tmp_path):
    import inference_graphs

    reason = inference_graphs.obstacle(name, tmp_path)
    here = 2 if hasattr(tf1.keras.backend, "set_session") else 3
    assert (reason is None) == (keras == here)
    if reason is not None:
        assert reason.startswith(f"only Keras {keras} builds it, as in `")
        with pytest.raises(RuntimeError, match=f"{name}: only Keras {keras} builds it"):
            inference_graphs.frozen_graph(name, tmp_path)
    for suffix in ("pb", "npy"):
        (tmp_path / f"{name}.{suffix}").touch()
    assert inference_graphs.obstacle(name, tmp_path) is None
