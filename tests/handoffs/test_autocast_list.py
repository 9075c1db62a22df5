"""A list that explain wrote for AutoCast: what it names stays float32 in the ONNX model."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from support.packages import skip_without

LOW = {"fp16": "FLOAT16", "bf16": "BFLOAT16"}
PRODUCTS = ["Conv", "MatMul", "MatMul"]


def classifier():
    tf.keras.utils.set_random_seed(0)
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input([16, 16, 3], name="image"),
            layers.Conv2D(8, 3, padding="same", activation="relu", name="filters"),
            layers.GlobalAveragePooling2D(name="pool"),
            layers.Dense(32, activation="relu", name="hidden"),
            layers.Dense(10, activation="softmax", name="digits"),
        ]
    )


def run(folder, *arguments):
    subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
        check=True,
        capture_output=True,
        timeout=600,
    )


def computed(model):
    """By the name of a node that computes: its type and the type of its output."""
    import onnx

    inferred = onnx.shape_inference.infer_shapes(model)
    values = [*inferred.graph.value_info, *inferred.graph.output]
    types = {each.name: each.type.tensor_type.elem_type for each in values}
    name_of = onnx.TensorProto.DataType.Name
    return {
        node.name: (node.op_type, name_of(types[node.output[0]]))
        for node in inferred.graph.node
        if node.op_type != "Cast"
    }


@pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "fp16"), ("allow_mix_precision_bf16", "bf16")]
)
def test_autocast_keeps_what_the_list_names_and_lowers_the_rest(mode, low, command, tmp_path):
    skip_without(("modelopt", "tf2onnx", "onnx"), "backends")
    import onnx

    tf.saved_model.save(classifier(), str(tmp_path / "classifier"))
    mixlist = tmp_path / "keep.json"
    mixlist.write_text('{"black-list": {"to-add": ["node:.*/hidden(_1)?/MatMul"]}}')
    wanted = ("--float32-nodes", tmp_path / "list.txt", "--for", "autocast")
    command("explain", tmp_path / "classifier", "--mode", mode, "--mixlist", mixlist, *wanted)
    files = ("--saved-model", "classifier", "--output", "classifier.onnx")
    run(tmp_path, "tf2onnx.convert", "--opset", "17", *files)
    excluded = (tmp_path / "list.txt").read_text().split()
    files = ("--onnx_path", "classifier.onnx", "--output_path", "low.onnx", "--keep_io_types")
    flags = ("--low_precision_type", low, "--nodes_to_exclude", *excluded)
    run(tmp_path, "modelopt.onnx.autocast", *files, *flags)

    found = computed(onnx.load(str(tmp_path / "low.onnx")))
    named = {name for name in found if any(re.search(each, name) for each in excluded)}
    assert {found[name][1] for name in named} == {"FLOAT"}
    assert {found[name][1] for name in found.keys() - named} == {LOW[low]}
    assert sorted(op for op, dtype in found.values() if op in ("Conv", "MatMul")) == PRODUCTS
    assert [found[name][0] for name in named].count("MatMul") == 1
    if low == "fp16":  # On a CPU, ONNX Runtime has no kernels for bfloat16.
        import onnxruntime

        x = np.random.default_rng(0).normal(size=[8, 16, 16, 3]).astype(np.float32)
        outputs = []
        for name in ("classifier", "low"):
            file = str(tmp_path / f"{name}.onnx")
            session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
            outputs += session.run(None, {session.get_inputs()[0].name: x})
        assert 0 < np.abs(outputs[0] - outputs[1]).max() < 1e-3
