"""Eight threads at once: each gets the values and the ledger that it would get alone."""

from __future__ import annotations

import concurrent.futures
import threading

import numpy as np
import pytest
import tensorflow as tf

import npu_precision

tf1 = tf.compat.v1
THREADS = 8
# The modes differ between threads, so that shared state would cause a failure.
MODES = [
    "allow_mix_precision",
    "allow_mix_precision_bf16",
    "force_fp16",
    "cube_fp16in_fp32out",
    "must_keep_origin_dtype",
]
BLACK = ["Relu", "MatMul", "AddV2"]
ROUNDS = 5


def at_once(work):
    """[work(number)] of all threads, which begin together and go through ROUNDS rounds."""
    barrier = threading.Barrier(THREADS)

    def rounds(number):
        results = []
        for _ in range(ROUNDS):
            barrier.wait(60)
            results.append(work(number))
        return results

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(rounds, range(THREADS)))


def value(seed, *shape):
    return np.random.RandomState(seed).normal(size=shape).astype(np.float32)


def model(x, number):
    """As many layers as the thread's number and one more, so that no two ledgers are alike."""
    for layer in range(number + 1):
        x = tf.nn.relu(tf.matmul(x, value(layer, 16, 16), name=f"product_{number}_{layer}") + 0.5)
    return tf.nn.softmax(x, name=f"end_{number}")


X = value(99, 4, 16)


@pytest.fixture
def options(tmp_path):
    """options(number, report_dir) of a thread: a mode, and in a mixed one a mixlist of its own."""

    def make(number, report_dir):
        mode = MODES[number % len(MODES)]
        fields = {"precision_mode": mode, "report_dir": str(report_dir), "strict": True}
        if mode.startswith("allow_mix"):
            mixlist = tmp_path / f"mixlist_{number}.json"
            mixlist.write_text(f'{{"black-list": {{"to-add": ["{BLACK[number % len(BLACK)]}"]}}}}')
            fields["modify_mixlist"] = str(mixlist)
        return npu_precision.PrecisionOptions(**fields)

    return make


def of_thread(number, ledgers):
    """The ledgers of a thread's graphs, each as sorted rows, in a fixed order."""
    told = []
    for ledger in ledgers:
        if any(node.name.endswith(f"end_{number}") for node in ledger.nodes):
            nodes = [(n.name, n.list, n.decision, n.reason, n.cause) for n in ledger.nodes]
            told.append((sorted(nodes), sorted(cast.name for cast in ledger.casts)))
    return sorted(told)


def test_sessions_built_at_once_agree_with_one_built_alone(options, ledgers, tmp_path):
    def run(number, report_dir):
        config = npu_precision.npu_config_proto(options=options(number, report_dir))
        with tf.Graph().as_default() as graph:
            x = tf1.placeholder(tf.float32, X.shape, name="x")
            y = model(x, number)
        with tf1.Session(graph=graph, config=config) as session:
            return session.run(y, {x: X})

    alone = [run(number, tmp_path / "alone") for number in range(THREADS)]
    together = at_once(lambda number: run(number, tmp_path / "together"))

    told_alone, told = ledgers(tmp_path / "alone"), ledgers(tmp_path / "together")
    assert len(told) == ROUNDS * len(told_alone)
    assert not list((tmp_path / "together").glob(".*"))
    for number in range(THREADS):
        for result in together[number]:
            np.testing.assert_array_equal(result, alone[number])
        once = of_thread(number, told_alone)
        assert len(once) == 1
        assert of_thread(number, told) == sorted(ROUNDS * once)
    # Otherwise, they would agree in any case.
    assert len({str(of_thread(number, told_alone)) for number in range(THREADS)}) == THREADS


def test_functions_called_at_once_under_autocast_agree_with_one_called_alone(
    options, ledgers, tmp_path
):
    def run(number, report_dir):
        function = tf.function(lambda x: model(x, number))
        with npu_precision.autocast(options(number, report_dir)):
            return function(tf.constant(X)).numpy()

    alone = [run(number, tmp_path / "alone") for number in range(THREADS)]
    together = at_once(lambda number: run(number, tmp_path / "together"))

    told_alone, told = ledgers(tmp_path / "alone"), ledgers(tmp_path / "together")
    for number in range(THREADS):
        for result in together[number]:
            np.testing.assert_array_equal(result, alone[number])
        once = of_thread(number, told_alone)
        assert once
        assert of_thread(number, told) == sorted(ROUNDS * once)


def test_one_function_called_at_once_has_in_each_thread_the_options_of_its_scope():
    weights = value(1, 16, 16)
    function = tf.function(lambda x: tf.matmul(x, weights))
    exact = function(tf.constant(X)).numpy()

    def error(number):
        """The error of a thread's values: zero, float16's rounding or bfloat16's."""
        mode = ["must_keep_origin_dtype", "force_fp16", "allow_mix_precision_bf16"][number % 3]
        with npu_precision.autocast(precision_mode=mode):
            return np.abs(function(tf.constant(X)).numpy() - exact).max()

    alone = [error(number) for number in range(3)]
    assert 0 == alone[0] < alone[1] < alone[2]
    for number, errors in enumerate(at_once(error)):
        assert errors == [alone[number % 3]] * ROUNDS
