"""float16 is slow on most CPUs: a log line says so once, and names the fast dtype."""

from __future__ import annotations

import pytest
from support.tf_versions import EMULATES_FLOAT16, HAS_FAST_BFLOAT16

SCRIPT = """
import sys

import numpy as np

import npu_precision
from npu_precision.npu_init import tf

mode, compute = sys.argv[1:]
with tf.Graph().as_default() as graph:
    x = tf.placeholder(tf.float32, [2, 4], name="x")
    y = tf.nn.relu(tf.matmul(x, tf.ones([4, 4])), name="y")
    z = tf.nn.tanh(y, name="z")
config = npu_precision.npu_config_proto(precision_mode=mode, float16_compute=compute)
with tf.Session(graph=graph, config=config) as session:
    for fetch in "y:0", "z:0":
        session.run(fetch, {"x:0": np.ones([2, 4])})
"""
ADVICE = {
    "native": "TensorFlow emulates matrix products and convolutions in float16",
    "auto": "float32 takes its place, on values rounded to float16",
}


@pytest.mark.parametrize(
    ("mode", "compute"),
    [
        ("allow_mix_precision", "auto"),
        ("force_fp16", "native"),
        pytest.param("allow_mix_precision", "native", marks=pytest.mark.full),
        pytest.param("force_fp16", "auto", marks=pytest.mark.full),
    ],
)
def test_it_is_said_once_and_names_the_fast_dtype(mode, compute, run_python):
    log = run_python(SCRIPT, mode, compute).stderr
    for name, sentence in ADVICE.items():
        assert log.count(sentence) == int(EMULATES_FLOAT16 and name == compute)
    fast = EMULATES_FLOAT16 and HAS_FAST_BFLOAT16
    assert ("bfloat16 is the fast choice here" in log) == fast


@pytest.mark.parametrize(
    "mode",
    [
        "allow_mix_precision_bf16",
        pytest.param("must_keep_origin_dtype", marks=pytest.mark.full),
        "cube_fp16in_fp32out",
    ],
)
def test_it_is_not_said_where_nothing_is_emulated(mode, run_python):
    log = run_python(SCRIPT, mode, "auto").stderr
    assert not any(sentence in log for sentence in ADVICE.values())


def test_the_line_of_a_graph_and_the_advice_are_omitted_with_information(run_python):
    log = run_python(SCRIPT, "allow_mix_precision", "auto", TF_CPP_MIN_LOG_LEVEL="1").stderr
    assert "npu_precision" not in log
