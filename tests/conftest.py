"""Fixtures for tests in several rooms; a fixture of one room is in that room's conftest.py."""

import functools
import json
import os
import pathlib
import subprocess
import sys

import pytest
from support import ROOT, python_path, warm_python, workers
from support.compiled import compile_program

# TensorFlow's start-up messages would bury the output of a failing test.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Each session gets the threads that it asks for. Otherwise, all sessions of the process run their
# kernels on as many threads as the first session had.
os.environ.setdefault("TF_OVERRIDE_GLOBAL_THREADPOOL", "1")
# The workers of pytest-xdist share a GPU, and the first would take all of its memory.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

import tensorflow as tf
from support.model_files import write_all

import npu_precision

pytest_plugins = [
    "pytester",
    "support.accept",
    "support.commands",
    "support.dense_graph",
    "support.gpu",
    "support.results",
    "support.seconds",
    "support.step_times",
    "support.tiers",
]
tf1 = tf.compat.v1

# TensorFlow 1.15 has eager execution and functional control flow only if they are enabled. Tests
# run with both. Scripts run in a Python process of their own, which this does not change.
if not tf.executing_eagerly():
    tf1.enable_v2_behavior()


@pytest.fixture(autouse=True)
def _no_precision_left_behind():
    yield
    npu_precision.disable()


@pytest.fixture(autouse=True)
def _no_generator_of_keras_left_behind():
    """After set_random_seed(), Keras 2 draws from a generator that tf.random.set_seed() leaves."""

    def held():
        return getattr(sys.modules.get("keras.src.backend"), "_SEED_GENERATOR", None)

    before = getattr(held(), "generator", None)
    yield
    if held() is not None:
        held().generator = before


@pytest.fixture
def mixlist(tmp_path):
    """Writes a modify_mixlist file and returns its path: mixlist(black=["Relu"]) or a text."""

    def write(text=None, **add_by_list):
        lists = {f"{name}-list": {"to-add": ops} for name, ops in add_by_list.items()}
        path = tmp_path / "mixlist.json"
        path.write_text(json.dumps(lists) if text is None else text)
        return str(path)

    return write


@pytest.fixture
def run_python(tmp_path):
    """Runs a script in a process of its own, in an empty folder; returns the finished process.

    It begins with TensorFlow imported, unless cold=True or one of the variables asks for a Python
    that has imported nothing. After `timeout` seconds it is ended, which is an error.
    """

    def run(script, *args, check=True, cold=False, timeout=300, **environment):
        path = tmp_path / "script.py"
        path.write_text(script)
        own = {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "0", **environment}
        own["PYTHONPATH"] = python_path(own["PYTHONPATH"])
        command = [str(path), *map(str, args)]
        options = {"cwd": tmp_path, "env": {**os.environ, **own}, "timeout": timeout}
        if cold or not warm_python.fits(environment):
            start = [sys.executable, "-B", *command]
            process = subprocess.run(start, capture_output=True, text=True, **options)
        else:
            process = subprocess.CompletedProcess(command, *warm_python.run(command, **options))
        assert not check or process.returncode == 0, process.stderr[-4000:]
        return process

    return run


@pytest.fixture
def run_cold_python(run_python):
    """Like run_python, for tests of imports: a Python that has imported nothing."""
    return functools.partial(run_python, cold=True)


@pytest.fixture
def run_workers(tmp_path):
    """Runs a script as each worker of a cluster; returns what each printed."""
    return functools.partial(workers.run_workers, tmp_path)


@pytest.fixture(scope="session")
def model_files(tmp_path_factory):
    """Models in files that no test changes: model_files.cnn, .frozen, ..."""
    return write_all(tmp_path_factory.mktemp("models"))


@pytest.fixture
def run_graph():
    """Runs a GraphDef on TensorFlow as it is: run_graph(graph_def, "y:0", {"x:0": ...})."""

    def run(graph_def, fetches, feed_dict, config=None):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
            with tf1.Session(graph=graph, config=config) as session:
                return session.run(fetches, feed_dict)

    return run


@pytest.fixture
def executed_nodes():
    """The nodes that a session executes, by name, as Grappler leaves them."""

    def run(session, fetches, feed_dict=None):
        options = tf1.RunOptions(output_partition_graphs=True)
        metadata = tf1.RunMetadata()
        session.run(fetches, feed_dict, options=options, run_metadata=metadata)
        return {node.name: node for graph in metadata.partition_graphs for node in graph.node}

    return run


def _set_control_flow(v2):
    (tf1.enable_control_flow_v2 if v2 else tf1.disable_control_flow_v2)()


@pytest.fixture
def control_flow_v1():
    """tf.cond and tf.while_loop make Switch and Merge from the beginning."""
    was_v2 = tf1.control_flow_v2_enabled()
    _set_control_flow(False)
    yield
    _set_control_flow(was_v2)


@pytest.fixture(params=["references", "resources"])
def use_resource(request):
    """References in the branches of v1's conds, and resources in v2's, which are functions."""
    resources, was_v2 = request.param == "resources", tf1.control_flow_v2_enabled()
    switch = {True: tf1.enable_control_flow_v2, False: tf1.disable_control_flow_v2}
    switch[resources]()
    yield resources
    switch[was_v2]()


@pytest.fixture(params=["v1", "v2"])
def form(request):
    """One form of control flow after the other, for tf.while_loop and tf.cond in graphs."""
    was_v2 = tf1.control_flow_v2_enabled()
    _set_control_flow(request.param == "v2")
    yield request.param
    _set_control_flow(was_v2)


@pytest.fixture
def ledgers():
    """The ledgers in a report_dir, in the order of their file names."""

    def read(report_dir):
        return [
            npu_precision.Ledger.from_json(file.read_text())
            for file in sorted(pathlib.Path(report_dir).glob("*.json"))
        ]

    return read


@pytest.fixture(scope="session")
def pipeline_driver(tmp_path_factory):
    """The passes alone, as a program: tests/cc/pipeline_driver.cc. Bazel builds it beforehand."""
    if "NPU_PRECISION_PIPELINE_DRIVER" in os.environ:
        return pathlib.Path(os.environ["NPU_PRECISION_PIPELINE_DRIVER"])
    return compile_program("pipeline_driver.cc", tmp_path_factory.mktemp("driver"))
