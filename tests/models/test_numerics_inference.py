"""Inference in sessions: as close to float32 as the low type allows, and actually lowered."""

import contextlib
import functools

import numpy as np
import pytest
import tensorflow as tf
from support import numeric_models
from support.tf_versions import need_kernels
from support.tiers import mostly_full

import npu_precision
from npu_precision.npu_init import RewriterConfig

tf1 = tf.compat.v1

# How far logits may be from float32's, relative to the largest of them, in units of the low type:
# half the distance of neighbouring numbers around one. The deepest model has 20 ops that round by
# up to one unit each, and their errors are independent, so that most cancel.
UNITS = 10
LOW_TYPES = {
    "allow_mix_precision": (tf.float16, 2.0**-11),
    "allow_mix_precision_bf16": (tf.bfloat16, 2.0**-8),
    "force_fp16": (tf.float16, 2.0**-11),
}


def documented_script(mode, report_dir):
    config = tf1.ConfigProto()
    custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    custom_op.parameter_map["use_off_line"].b = True
    custom_op.parameter_map["precision_mode"].s = mode.encode()
    custom_op.parameter_map["report_dir"].s = str(report_dir).encode()
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return config


def helper(mode, report_dir):
    return npu_precision.npu_config_proto(precision_mode=mode, report_dir=report_dir)


@contextlib.contextmanager
def running(name, config):
    """A session with a model, and three batches to feed it."""
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        model = numeric_models.build(name)
        session.run(tf1.global_variables_initializer())
        yield session, model, [{model.inputs: x} for x, _ in numeric_models.batches(name, 3)]


def is_matrix_op(op):
    """Whether an op is a matrix op, also under oneDNN's and fused names like _MklFusedMatMul."""
    return "MatMul" in op or "Conv2" in op


@pytest.fixture(scope="module")
def float32_logits():
    @functools.lru_cache(maxsize=None)
    def logits(name):
        with running(name, tf1.ConfigProto()) as (session, model, feeds):
            return np.stack([session.run(model.logits, feed) for feed in feeds])

    return logits


@pytest.mark.parametrize("way", [documented_script, helper])
@pytest.mark.parametrize("mode", LOW_TYPES)
@pytest.mark.parametrize("name", mostly_full(numeric_models.MODELS, numeric_models.MODELS_OF_TEST))
def test_logits_agree_and_matrix_ops_ran_in_the_dtype_that_the_ledger_has(
    name, mode, way, float32_logits, executed_nodes, ledgers, tmp_path
):
    low, unit = LOW_TYPES[mode]
    need_kernels(low.name, "MatMul", "Conv2D")
    with running(name, way(mode, tmp_path)) as (session, model, feeds):
        logits = np.stack([session.run(model.logits, feed) for feed in feeds])
        nodes = executed_nodes(session, model.logits, feeds[0]).values()
    expected = float32_logits(name)
    error = np.abs(logits - expected).max() / np.abs(expected).max()
    assert logits.dtype == np.float32
    assert 0 < error < UNITS * unit

    decided = [node for ledger in ledgers(tmp_path) for node in ledger.nodes]
    lowered = {node.name: node for node in decided if node.decision == "lowered"}
    assert all(["float32", low.name] in node.dtypes.values() for node in lowered.values())
    dtypes = [tf.as_dtype(node.attr["T"].type) for node in nodes if is_matrix_op(node.op)]
    computes_in = {node.computes_in for node in lowered.values() if is_matrix_op(node.op)}
    assert {dtype.name for dtype in dtypes} == computes_in
    assert computes_in <= ({low.name, "float32"} if low == tf.float16 else {low.name})
    # A fused op has the name of its last part.
    assert sum(is_matrix_op(node.op) for node in lowered.values()) == len(dtypes)
