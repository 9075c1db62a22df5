"""An internal error: the original graph runs, with one warning; with strict, the run fails.

There are two ways to cause one. A valid graph may exceed a limit of the optimizer: a node with more
inputs than it counts. Or the verifier of a library that is linked for this test alone refuses every
rewritten graph (tests/cc/failing_verify_graph.cc): then the rewritten graph exists already.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.compiled import compile_library
from support.loop_text import loop
from support.text_graph import read_graph
from support.tf_versions import needs_functions_by_default

import npu_precision

tf1 = tf.compat.v1
WIDTH = 32768


@pytest.fixture(scope="module")
def wide_graph():
    """matrix -> white -> sum of more tensors than the optimizer counts."""
    graph_def = read_graph("x = Placeholder(shape=2x2) \n white = MatMul(x, x)")
    sum_ = graph_def.node.add(name="sum", op="AddN", input=["white"] * WIDTH)
    sum_.attr["N"].i = WIDTH
    sum_.attr["T"].type = tf.float32.as_datatype_enum
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    return graph


X = np.array([[1 + 2**-12, 0], [0, 1]], np.float32)  # float16 would make ones of it
LIMIT = "node 'sum' ('AddN'): attribute 'N' is 32768, and 32767 ports are the most that are counted"


def run(graph, config):
    with tf1.Session(graph=graph, config=config) as session:
        return session.run("sum:0", {"x:0": X})


def test_a_node_with_more_inputs_than_we_count_runs_in_its_own_precision(wide_graph):
    result = run(wide_graph, npu_precision.npu_config_proto(precision_mode="allow_mix_precision"))
    np.testing.assert_array_equal(result, run(wide_graph, tf1.ConfigProto()))


def test_strict_fails_a_run_that_would_not_be_in_the_precision_asked_for(wide_graph):
    config = npu_precision.npu_config_proto(precision_mode="allow_mix_precision", strict=True)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        run(wide_graph, config)
    assert "npu_precision: internal failure (strict is set): " + LIMIT in str(error.value)


@pytest.mark.parametrize(
    ("op", "fetch", "text"),
    [
        ("Exit", "exit", loop("start = Identity(x)", "turn = Relu(switch:1)")),
        ("_Retval", "result", "x = Placeholder(shape=2x2) \n result = _Retval(x, index=0)"),
    ],
)
def test_strict_tells_of_a_damaged_node_that_the_failure_is_to_be_put_at(op, fetch, text):
    """The error op is put between such a node and its reader, in the dtype that the node lacks.
    Then TensorFlow is asked, which cannot read the node either.
    """
    graph_def = read_graph(text)
    for node in graph_def.node:
        if node.op == op:
            del node.attr["T"]
    with pytest.raises((ValueError, RuntimeError)) as error:
        npu_precision.rewrite_graph_def(
            graph_def, fetch, precision_mode="allow_mix_precision", strict=True
        )
    assert f"NodeDef missing attr 'T' from Op<name={op}" in str(error.value)


@pytest.fixture(scope="module")
def failing_library(tmp_path_factory):
    return compile_library("failing_verify_graph.cc", tmp_path_factory.mktemp("failing"))


SCRIPT = """\
import sys
import numpy as np
import tensorflow as tf
import npu_precision

X = np.array([[1 + 2**-20, 0], [0, 1]], np.float32)
STRICT = {"strict": True} if "strict" in sys.argv else {}
OPTIONS = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision", **STRICT)

def model(x):
    return tf.nn.relu(tf.matmul(x, x, name="product"))

def session():
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [2, 2])
        y = model(x)
    config = npu_precision.npu_config_proto(options=OPTIONS)
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        return session.run(y, {x: X})

def function():
    with npu_precision.autocast(OPTIONS):
        return tf.function(model)(tf.constant(X)).numpy()

def offline():
    with tf.Graph().as_default() as graph:
        tf.identity(model(tf.compat.v1.placeholder(tf.float32, [2, 2])), name="y")
    return npu_precision.rewrite_graph_def(graph.as_graph_def(), "y", OPTIONS)

for door in (session, session, function, offline):
    try:
        print(door.__name__, np.array_equal(door(), X @ X))
    except Exception as error:
        print(door.__name__, type(error).__name__, " ".join(str(error).split()))
"""
FAILURE = "internal failure (strict is set): a failure made by a test"


@needs_functions_by_default
def test_a_rewritten_graph_that_is_found_wrong_is_not_run(run_python, failing_library):
    """The values are those of float32 to the bit."""
    process = run_python(SCRIPT, NPU_PRECISION_LIBRARY=str(failing_library))
    told = process.stdout.splitlines()
    assert told[:3] == ["session True", "session True", "function True"]
    # An offline rewrite must not return the original graph.
    assert told[3] == f"offline ValueError {FAILURE}"
    warnings = [line for line in process.stderr.splitlines() if "internal failure" in line]
    assert len(warnings) == len({line.split("npu_precision: ")[1] for line in warnings})
    assert all("runs unchanged, in its own precision" in line for line in warnings)
    assert all(line.endswith("a failure made by a test") for line in warnings)


@needs_functions_by_default
def test_strict_fails_every_run_whose_graph_is_found_wrong(run_python, failing_library):
    process = run_python(SCRIPT, "strict", NPU_PRECISION_LIBRARY=str(failing_library))
    told = [line.split(" ", 2) for line in process.stdout.splitlines()]
    assert [door for door, _, _ in told] == ["session", "session", "function", "offline"]
    assert {error for _, error, _ in told[:3]} == {"InvalidArgumentError"}
    assert all(FAILURE in text for _, _, text in told)
    assert "runs unchanged" not in process.stderr
