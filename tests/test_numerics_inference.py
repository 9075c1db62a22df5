"""Inference in sessions: as close to float32 as the low type allows, and really lowered."""

import numeric_models
import numpy as np
import pytest
import tensorflow as tf

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


def infer(name, config):
    """Logits of three batches, and the nodes that ran in the end, oneDNN's and fused ones too."""
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        model = numeric_models.build(name)
        session.run(tf1.global_variables_initializer())
        options, metadata = tf1.RunOptions(output_partition_graphs=True), tf1.RunMetadata()
        logits = [
            session.run(model.logits, {model.inputs: inputs}, options, metadata)
            for inputs, _ in numeric_models.batches(name, 3)
        ]
        nodes = [node for graph in metadata.partition_graphs for node in graph.node]
        return np.stack(logits), nodes


def lowered_in_ledgers(folder):
    ledgers = [npu_precision.Ledger.from_json(file.read_text()) for file in folder.glob("*.json")]
    return [node for ledger in ledgers for node in ledger.nodes if node.decision == "lowered"]


def is_matrix_op(op):
    """Under any name: oneDNN's and the fused ones are _MklFusedMatMul, _FusedConv2D and so on."""
    return "MatMul" in op or "Conv2" in op


@pytest.fixture(scope="module")
def float32_logits():
    return {name: infer(name, tf1.ConfigProto())[0] for name in numeric_models.MODELS}


@pytest.mark.parametrize("way", [documented_script, helper])
@pytest.mark.parametrize("mode", LOW_TYPES)
@pytest.mark.parametrize("name", numeric_models.MODELS)
def test_logits_agree_and_matrix_ops_ran_in_the_low_type(name, mode, way, float32_logits, tmp_path):
    low, unit = LOW_TYPES[mode]
    expected = float32_logits[name]
    logits, nodes = infer(name, way(mode, tmp_path))
    assert logits.dtype == np.float32
    error = np.abs(logits - expected).max() / np.abs(expected).max()
    assert 0 < error < UNITS * unit

    ran = {node.name: tf.as_dtype(node.attr["T"].type) for node in nodes if is_matrix_op(node.op)}
    assert ran
    assert set(ran.values()) == {low}
    lowered = lowered_in_ledgers(tmp_path)
    # A fused op goes by the name of the last op in it.
    assert len({node.name for node in lowered if is_matrix_op(node.op)}) == len(ran)
    assert all(["float32", low.name] in node.dtypes.values() for node in lowered)
