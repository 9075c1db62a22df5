"""float16 on a CPU is correct first; that it is slow there is said, once, and what is fast."""

from __future__ import annotations

import pytest
from support.tf_versions import EMULATES_FLOAT16, HAS_FAST_BFLOAT16

SCRIPT = """
import sys

import numpy as np

import npu_precision
from npu_precision.npu_init import tf

mode, quiet = sys.argv[1], sys.argv[2] == "quiet"
with tf.Graph().as_default() as graph:
    x = tf.placeholder(tf.float32, [2, 4], name="x")
    y = tf.nn.relu(tf.matmul(x, tf.ones([4, 4])), name="y")
    z = tf.nn.tanh(y, name="z")
config = npu_precision.npu_config_proto(precision_mode=mode, quiet=quiet)
with tf.Session(graph=graph, config=config) as session:
    for fetch in "y:0", "z:0":
        session.run(fetch, {"x:0": np.ones([2, 4])})
"""
ADVICE = "TensorFlow emulates matrix products and convolutions in float16"


@pytest.mark.parametrize("mode", ["allow_mix_precision", "force_fp16"])
def test_it_is_said_once_and_names_the_fast_dtype(mode, run_python):
    log = run_python(SCRIPT, mode, "").stderr
    assert log.count(ADVICE) == int(EMULATES_FLOAT16)
    fast = EMULATES_FLOAT16 and HAS_FAST_BFLOAT16
    assert ("bfloat16 is the fast choice here" in log) == fast


@pytest.mark.parametrize(
    ("mode", "quiet"),
    [
        ("allow_mix_precision_bf16", ""),
        ("must_keep_origin_dtype", ""),
        ("cube_fp16in_fp32out", ""),
        ("allow_mix_precision", "quiet"),
    ],
)
def test_it_is_not_said_where_nothing_is_emulated_or_nobody_wants_to_know(mode, quiet, run_python):
    assert ADVICE not in run_python(SCRIPT, mode, quiet).stderr
