"""Tries an installed wheel with one TensorFlow, as the README shows it; `make test-wheel`.

Usage: try_out.py RESULT.json

Runs each of STEPS, and writes which passed. The status is 1 if one did not.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import readme
import tensorflow as tf

import npu_precision

tf1 = tf if tf.__version__.startswith("1.") else tf.compat.v1
MODE = "allow_mix_precision"
TOLERANCE = 2e-2  # of sums of 64 products in float16, of numbers around 1
IMAGES = np.random.RandomState(1).rand(32, 64).astype(np.float32)
WEIGHTS = np.random.RandomState(2).randn(64, 10).astype(np.float32)


def has_no_compiler() -> None:
    """What is tried was not built here."""
    found = [name for name in ("g++", "gcc", "cc", "c++", "node") if shutil.which(name)]
    assert not found, f"found {found}"
    package = pathlib.Path(npu_precision.__file__).parent
    assert (package / "_lib" / "report_page.html").exists()


def session() -> None:
    """A TF1 session with a ConfigProto of ours lowers, and says so in a ledger."""
    with tempfile.TemporaryDirectory() as ledgers, tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, 64])
        logits = tf.matmul(x, tf.constant(WEIGHTS), name="logits")
        config = npu_precision.npu_config_proto(precision_mode=MODE, report_dir=ledgers)
        with tf1.Session(config=config) as sess:
            found = sess.run(logits, {x: IMAGES})
        lowered = [
            node["name"]
            for file in pathlib.Path(ledgers).glob("*.json")
            for node in json.loads(file.read_text())["nodes"]
            if node["decision"] == "lowered"
        ]
    assert lowered == ["logits"], lowered
    expected = IMAGES @ WEIGHTS
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()
    assert np.abs(found - expected).max() > 0


def function() -> None:
    """A tf.function lowers within autocast, and is what it was outside."""

    @tf.function
    def logits(x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(x, tf.constant(WEIGHTS))

    @tf.function
    def scopes(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        with npu_precision.autocast(dtype="float16"):
            inside = logits(x)
            for _ in tf.range(1):
                looped = logits(x)
        return inside, looped, logits(x)

    images = tf.constant(IMAGES)
    kept = logits(images)
    with npu_precision.autocast(precision_mode=MODE):
        lowered = logits(images)
    inside, looped, outside = scopes(images)
    expected = IMAGES @ WEIGHTS
    for result in (kept, outside):
        assert np.abs(result - expected).max() <= 1e-5 * np.abs(expected).max()
    for result in (lowered, inside, looped):
        assert 1e-5 < np.abs(result - expected).max() / np.abs(expected).max() <= TOLERANCE


def compiled() -> None:
    """A function that XLA compiles is lowered in a mode, and is what it was outside of it."""

    @tf.function(jit_compile=True)
    def logits(x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(x, tf.constant(WEIGHTS))

    images, expected = tf.constant(IMAGES), IMAGES @ WEIGHTS
    kept = logits(images)
    with npu_precision.autocast(precision_mode=MODE):
        lowered = logits(images)
    errors = [np.abs(each - expected).max() / np.abs(expected).max() for each in (kept, lowered)]
    assert errors[0] <= 1e-5 < errors[1] <= TOLERANCE, errors
    np.testing.assert_array_equal(logits(images), kept)


def gradient() -> None:
    """A gradient has the scope of its forward op, which no value is asked of."""
    of_logits = np.random.RandomState(3).rand(32, 10).astype(np.float32)

    @tf.function
    def of_images(x: tf.Tensor, of_logits: tf.Tensor, recompute: bool) -> tf.Tensor:
        def logits(x: tf.Tensor) -> tf.Tensor:
            with npu_precision.autocast(dtype="float16"):
                return tf.matmul(x, tf.constant(WEIGHTS))

        with tf.GradientTape() as tape:
            tape.watch(x)
            found = (tf.recompute_grad(logits) if recompute else logits)(x)
            loss = tf.reduce_sum(found * of_logits)
        return tape.gradient(loss, x)

    expected = of_logits @ WEIGHTS.T
    for recompute in False, True:
        found = of_images(tf.constant(IMAGES), tf.constant(of_logits), recompute)
        error = np.abs(found - expected).max() / np.abs(expected).max()
        assert 1e-5 < error <= TOLERANCE, (recompute, error)


def training_step() -> None:
    """A step with loss scaling changes the variables by about as much as in float32."""
    lowered, kept = (_trained(mode) for mode in (MODE, "must_keep_origin_dtype"))
    assert abs(lowered - kept) <= TOLERANCE * kept, (lowered, kept)


def _trained(mode: str) -> float:
    """The loss after ten steps."""
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, 64])
        w = tf1.get_variable("w", initializer=tf.zeros([64, 10]))
        target = tf.constant(IMAGES @ WEIGHTS)
        loss = tf.reduce_mean(tf1.squared_difference(tf.matmul(x, w), target))
        optimizer = npu_precision.NPULossScaleOptimizer(
            tf1.train.GradientDescentOptimizer(0.01),
            npu_precision.FixedLossScaleManager(loss_scale=8.0),
        )
        step = optimizer.minimize(loss)
        config = npu_precision.npu_config_proto(precision_mode=mode)
        with tf1.Session(config=config) as sess:
            sess.run(tf1.global_variables_initializer())
            first = sess.run(loss, {x: IMAGES})
            for _ in range(10):
                sess.run(step, {x: IMAGES})
            last = float(sess.run(loss, {x: IMAGES}))
    assert last < 0.9 * first, (first, last)
    return last


def offline() -> None:
    """A GraphDef is rewritten, and its ledger explains it."""
    graph_def, ledger = npu_precision.rewrite_graph_def(_graph(), "logits", precision_mode=MODE)
    (product,) = (node for node in graph_def.node if node.op == "MatMul")
    assert product.attr["T"].type == tf.float16.as_datatype_enum
    assert ledger.node("logits").decision == "lowered"


def _graph() -> tf1.GraphDef:
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 64], name="x")
        tf.matmul(x, tf.constant(WEIGHTS), name="logits")
    return graph.as_graph_def()


def command() -> None:
    """Of a SavedModel: explain, convert, report; and its result runs without npu_precision."""
    with tempfile.TemporaryDirectory() as folder:
        _save(f"{folder}/model")
        assert "MatMul" in _run("explain", f"{folder}/model", "--mode", MODE)
        _run("convert", f"{folder}/model", "--mode", MODE, "-o", f"{folder}/lowered")
        _run("report", f"{folder}/model", "--mode", MODE, "-o", f"{folder}/report.html")
        assert "<html" in pathlib.Path(f"{folder}/report.html").read_text(encoding="utf-8")
        code = "import sys, tensorflow as tf\ntf.compat.v1.enable_eager_execution()\n"
        code += "model = tf.compat.v2.saved_model.load(sys.argv[1])\n"
        code += "print('npu_precision' in sys.modules, list(model.signatures))"
        printed = _python("-c", code, f"{folder}/lowered")
        assert printed.splitlines()[-1].startswith("False ['serving_default'"), printed


def _save(path: str) -> None:
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, 64], name="x")
        w = tf1.get_variable("w", initializer=WEIGHTS)
        logits = tf.matmul(x, w, name="logits")
        with tf1.Session() as sess:
            sess.run(tf1.global_variables_initializer())
            tf1.saved_model.simple_save(sess, path, {"x": x}, {"logits": logits})


def follow_readme() -> None:
    """The README's scripts and commands run, in their order."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        readme.follow(
            folder,
            lambda code: _python("-c", code, folder=folder),
            lambda arguments: _run(*arguments, folder=folder),
        )


def environment() -> None:
    """A program that knows nothing of the project runs in the mode that its environment names."""
    code = """
import numpy as np, tensorflow as tf
tf1 = tf.compat.v1
with tf.Graph().as_default(), tf1.Session() as session:
    x = tf1.placeholder(tf.float32, [None, 64])
    session.run(tf.matmul(x, tf.constant(np.ones([64, 10], "f"))), {x: np.ones([32, 64])})
"""
    os.environ["NPU_PRECISION_MODE"] = MODE
    try:
        printed = _python("-c", code)
    finally:
        del os.environ["NPU_PRECISION_MODE"]
    assert f"{MODE} lowered 1 of " in printed, printed[-2000:]


def error() -> None:
    """A mistake is told in one line, with what was probably meant."""
    message = "no error"
    try:
        npu_precision.rewrite_graph_def(_graph(), "logits", precision_mode="allow_mix_precison")
    except ValueError as raised:
        message = str(raised)
    assert "did you mean 'allow_mix_precision'?" in message, message
    printed = _run("explain", "no-such-model", status=2)
    assert "no-such-model" in printed
    assert "Traceback" not in printed


def _run(*arguments: str, status: int = 0, folder: pathlib.Path | None = None) -> str:
    """What the command npu-precision of this environment prints."""
    program = pathlib.Path(sys.executable).parent / "npu-precision"
    return _python(str(program), *arguments, status=status, folder=folder)


def _python(*arguments: str, status: int = 0, folder: pathlib.Path | None = None) -> str:
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.returncode == status, process.stdout[-2000:]
    return process.stdout


STEPS = (
    has_no_compiler,
    session,
    function,
    compiled,
    gradient,
    training_step,
    offline,
    command,
    follow_readme,
    environment,
    error,
)
# tf.function of TensorFlow 1.15 needs eager execution, with which its sessions do not run; that of
# 2.4 has no jit_compile.
LACKS = {"1.15": (function, compiled, gradient, follow_readme), "2.4": (compiled,)}


def main() -> int:
    """Runs the steps; returns the exit status."""
    minor = ".".join(tf.__version__.split(".")[:2])
    results = {}
    for step in STEPS:
        if step in LACKS.get(minor, ()):
            results[step.__name__] = "not there"
            continue
        try:
            step()
        except Exception as raised:
            traceback.print_exc()
            results[step.__name__] = f"{type(raised).__name__}: {raised}".splitlines()[0]
        else:
            results[step.__name__] = "passed"
        print(f"{tf.__version__} {step.__name__}: {results[step.__name__]}", flush=True)
    python = ".".join(map(str, sys.version_info[:2]))
    found = {"tensorflow": tf.__version__, "python": python, "steps": results}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
    return int(any(result not in ("passed", "not there") for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
