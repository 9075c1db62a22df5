"""The option `rewrites`: its forms, its errors, and the older options that it replaces."""

from __future__ import annotations

import dataclasses
import json
import logging

import pytest
from tensorflow.core.framework import attr_value_pb2

from npu_precision import _rewrites
from npu_precision.options import PrecisionOptions, parameters, resolve


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("none", "none"),
        ("all", "all"),
        ("none, +layer_norm", "none,layer_norm"),
        ("-same_padding,activations,activations", "activations,-same_padding"),
        ({"same_padding": False, "activations": True}, "activations,-same_padding"),
        ({}, None),
    ],
)
def test_all_forms_become_one_text(given, text):
    options = PrecisionOptions("force_fp16", rewrites=given)
    assert options.rewrites == text
    assert PrecisionOptions.from_json(options.to_json()) == options
    assert PrecisionOptions.from_parameter_map(options.to_parameter_map()) == options
    hash(options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("-layer_nrom", "did you mean 'layer_norm'?"),
        ("-loop_constants", "did you mean 'hoist_loop_invariants'?"),
        ("emulate", "rewrites: got 'emulate', expected one of split_fused_ops, "),
        ("layer_norm,-layer_norm", "both in and out"),
        ("layer_norm,none", "after other items"),
        ("layer_norm,,", "rewrites: got ''"),
        ("", "empty"),
        (True, "rewrites: got True (bool), expected a str or a mapping"),
        ({"layer_norm": 1}, "expected a bool for a name"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(ValueError) as error:
        PrecisionOptions(rewrites=given)
    assert message in str(error.value)


def test_an_older_name_works_and_says_once_what_to_write(caplog, monkeypatch):
    monkeypatch.setattr(_rewrites, "_logged", set())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            options = PrecisionOptions(loop_constants=False)
    assert options == PrecisionOptions(rewrites="-hoist_loop_invariants")
    line = 'loop_constants=False: write rewrites={"hoist_loop_invariants": False}'
    assert [record.getMessage() for record in caplog.records] == [line]


def test_older_names_work_wherever_options_are_given():
    expected = PrecisionOptions(rewrites="-layer_norm")
    assert dataclasses.replace(PrecisionOptions(), layer_norm=False) == expected
    assert PrecisionOptions.from_json('{"layer_norm": false}') == expected
    assert resolve(None, {"layer_norm": False}) == expected
    assert parameters(None, {"layer_norm": False}) == expected.to_parameter_map()
    old = {"layer_norm": attr_value_pb2.AttrValue(b=False)}
    assert PrecisionOptions.from_parameter_map(old) == expected


def test_an_older_name_may_not_contradict():
    options = PrecisionOptions("force_fp16", rewrites="none", layer_norm=True)
    assert options.rewrites == "none,layer_norm"
    with pytest.raises(ValueError, match="both in and out"):
        PrecisionOptions(rewrites="layer_norm", layer_norm=False)
    both = PrecisionOptions("force_fp16", rewrites="layer_norm").to_parameter_map()
    both["layer_norm"] = attr_value_pb2.AttrValue(b=False)
    with pytest.raises(ValueError, match="the opposite in rewrites"):
        PrecisionOptions.from_parameter_map(both)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "fold_constants"),
        ("none", "none"),
        ("-fold_constants", "-fold_constants"),
        ("-layer_norm", "fold_constants,-layer_norm"),
    ],
)
def test_a_default_of_conversions_yields_to_what_is_given(given, text):
    assert _rewrites.with_default(given, "fold_constants") == text


SCRIPT = """
import npu_precision
from npu_precision.npu_init import tf

with tf.Graph().as_default() as graph:
    product = tf.matmul(tf.ones([8, 8]), tf.ones([8, 8]))
config = tf.ConfigProto()
entry = config.graph_options.rewrite_options.custom_optimizers.add(name="NpuOptimizer")
entry.parameter_map["precision_mode"].s = b"allow_mix_precision_bf16"
entry.parameter_map["loop_constants"].b = False
for _ in range(2):
    with tf.Session(graph=graph, config=config) as session:
        session.run(product)
"""


def test_an_older_key_of_a_parameter_map_works_and_the_log_says_once_what_to_write(run_python):
    log = run_python(SCRIPT).stderr
    assert log.count('loop_constants: write rewrites: "-hoist_loop_invariants"') == 1


@pytest.mark.slow
def test_older_flags_work_and_are_not_in_the_help(command, graph_file):
    graph = graph_file("x = Placeholder(shape=4x4)\nend = MatMul(x, x)")
    flags = ["--mode", "allow_mix_precision_bf16", "--no-loop-constants", "--json"]
    printed = json.loads(command("explain", graph, *flags))
    assert printed["options"]["rewrites"] == "-hoist_loop_invariants"
    assert "loop-constants" not in command("explain", "--help")
