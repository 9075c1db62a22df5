"""No error passes silently: each fails the run in every way to run, and the Python helpers before.

TensorFlow swallows an optimizer's error and runs the original graph. So each case runs as a
session, an Estimator and a tf.function that are configured without our helpers, which would have
refused it. All must fail with the helpers' message.
"""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_estimator, needs_function_attributes
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import context

import npu_precision
from npu_precision import PrecisionOptions, npu_config_proto, rewrite_graph_def

tf1 = tf.compat.v1
MIX = {"precision_mode": "allow_mix_precision"}


def lists(**changes):
    return json.dumps({f"{name}-list": change for name, change in changes.items()})


# Parameters, and a part of the message (a regular expression). {mixlist} stands for the path of a
# file with the text under "mixlist", {ops_info} for the path of a folder with one file.
CASES = {
    "unknown precision_mode": (
        {"precision_mode": "allow_mix_precison"},
        "precision_mode: got 'allow_mix_precison', expected one of force_fp32, .*"
        "did you mean 'allow_mix_precision'",
    ),
    "unknown precision_mode_v2": (
        {"precision_mode_v2": "mixed_float61"},
        "precision_mode_v2: got 'mixed_float61', expected one of .*did you mean 'mixed_float16'",
    ),
    "both modes": (
        {"precision_mode": "force_fp16", "precision_mode_v2": "fp16"},
        "both precision_mode .'force_fp16'. and precision_mode_v2 .'fp16'.",
    ),
    "empty mode": ({"precision_mode": ""}, "precision_mode: got an empty value"),
    "empty mixlist path": ({**MIX, "modify_mixlist": ""}, "modify_mixlist: got an empty value"),
    "empty target": ({"target": ""}, "target: got an empty value"),
    "a bool where a string is meant": (
        {"precision_mode": True},
        r"precision_mode: got .b \(a bool\), expected .s \(a string\)",
    ),
    "a string where a bool is meant": (
        {"strict": "true"},
        r"strict: got .s \(a string\), expected .b \(a bool\)",
    ),
    "unknown parameter": (
        {"precison_mode": "force_fp16"},
        "unknown parameter 'precison_mode'.*did you mean 'precision_mode'",
    ),
    "hifloat8": (
        {"precision_mode_v2": "mixed_hif8"},
        "'mixed_hif8' is not available on this target",
    ),
    "cube hifloat8": (
        {"precision_mode_v2": "cube_hif8"},
        "'cube_hif8' is not available on this target",
    ),
    "no such target": (
        {"target": "ascend91"},
        "target: got 'ascend91', expected one of .*did you mean 'ascend910'",
    ),
    "mixlist missing": (
        {**MIX, "modify_mixlist": "/nowhere/mixlist.json"},
        "modify_mixlist: got '/nowhere/mixlist.json', which does not exist",
    ),
    "mixlist is a folder": (
        {**MIX, "modify_mixlist": "/"},
        "modify_mixlist: got '/', which is a folder",
    ),
    "mixlist empty": ({**MIX, "mixlist": ""}, "{mixlist}: the file is empty"),
    "mixlist not JSON": (
        {**MIX, "mixlist": '{\n  "black-list": {\n    to-add: []}}'},
        "{mixlist}: not valid JSON. Line 3, Column 5",
    ),
    "mixlist wrong list": (
        {**MIX, "mixlist": '{"blacklist": {}}'},
        "{mixlist}.*got key 'blacklist'.*did you mean 'black-list'",
    ),
    "mixlist wrong key": (
        {**MIX, "mixlist": lists(black={"to-ad": ["Relu"]})},
        "{mixlist}.*got key 'to-ad'.*did you mean 'to-add'",
    ),
    "mixlist key given twice": (
        {**MIX, "mixlist": '{"black-list": {"to-add": ["Relu"]}, "black-list": {}}'},
        "{mixlist}.*Duplicate key: 'black-list'",
    ),
    "mixlist not an object": (
        {**MIX, "mixlist": "[]"},
        "{mixlist}.*got a list, expected an object",
    ),
    "mixlist of the wrong type": (
        {**MIX, "mixlist": lists(black=["Relu"])},
        "{mixlist}.*black-list: got a list, expected an object",
    ),
    "mixlist entry of the wrong type": (
        {**MIX, "mixlist": lists(black={"to-add": [3]})},
        "{mixlist}.*got a number, expected an op type",
    ),
    "mixlist adds to two lists": (
        {**MIX, "mixlist": lists(black={"to-add": ["Relu"]}, white={"to-add": ["Relu"]})},
        "'Relu' is added to black-list at {mixlist}:1:.* and added to white-list at {mixlist}:1:",
    ),
    "mixlist adds and removes": (
        {**MIX, "mixlist": lists(black={"to-add": ["Relu"], "to-remove": ["Relu"]})},
        "'Relu' is added to black-list at {mixlist}:1:.* and removed from black-list at {mixlist}",
    ),
    "mixlist nested too deep": (
        {**MIX, "mixlist": '{"black-list": ' + "[" * 65 + "]" * 65 + "}"},
        "{mixlist}.*nested deeper than 64 levels",
    ),
    "mixlist nested as deep as may be": (
        {**MIX, "mixlist": '{"black-list": ' + "[" * 63 + "]" * 63 + "}"},
        "{mixlist}.*black-list: got a list, expected an object",
    ),
    "mixlist nested deeper than any stack": (
        {**MIX, "mixlist": "[" * 1_000_000},
        "{mixlist}.*nested deeper than 64 levels",
    ),
    "mixlist too large": (
        {**MIX, "mixlist": " " * (16 * 1024 * 1024 + 1)},
        "'{mixlist}' has 16777217 bytes, expected at most 16777216",
    ),
    "mixlist with a bad regular expression": (
        {**MIX, "mixlist": lists(black={"to-add": ["node:("]})},
        "{mixlist}.*'\\(' is not a regular expression in RE2's syntax: missing \\)",
    ),
    "mixlist outside a mixed mode": (
        {"precision_mode": "force_fp16", "mixlist": "{}"},
        "modify_mixlist: got '{mixlist}' with precision_mode 'force_fp16'",
    ),
    "mixlist without a mode": (
        {"mixlist": "{}"},
        "modify_mixlist: got '{mixlist}' with precision_mode 'allow_fp32_to_fp16'",
    ),
    "ops-info with a bad flag": (
        {"ops_info": '{"MatMul": {"precision_reduce": {"flag": "maybe"}}}'},
        "{ops_info}/ops.json.*flag: got the string 'maybe', expected \"true\"",
    ),
    "ops-info with a misspelt key": (
        {"ops_info": '{"MatMul": {"precision-reduce": {"flag": "true"}}}'},
        "{ops_info}/ops.json.*got key 'precision-reduce'; did you mean 'precision_reduce'",
    ),
    "ops-info not JSON": ({"ops_info": "{"}, "{ops_info}/ops.json: not valid JSON. Line 1"),
    "ops-info without a file": ({"ops_info": None}, "'{ops_info}' has no .json file"),
    "ops-info that is no folder": (
        {"ops_info_dir": "/nowhere"},
        "ops_info_dir: got '/nowhere', which is not a folder",
    ),
}
# Errors that only occur with a graph.
GRAPH_CASES = {
    "an op that the target does not support": (
        {"precision_mode": "must_keep_origin_dtype", "target": "ascend910"},
        r"must_keep_origin_dtype: .* does not support .*: convolution \(Conv2D, float32\)",
    ),
}


@pytest.fixture
def entry_and_message(request, tmp_path):
    """The NpuOptimizer entry of a case, made by hand, and the message expected."""
    given, message = {**CASES, **GRAPH_CASES}[request.param]
    given = dict(given)
    if "mixlist" in given:
        path = tmp_path / "mixlist.json"
        path.write_text(given.pop("mixlist"))
        given["modify_mixlist"] = str(path)
    if "ops_info" in given:
        folder = tmp_path / "ops_info"
        folder.mkdir()
        text = given.pop("ops_info")
        if text is not None:
            (folder / "ops.json").write_text(text)
        given["ops_info_dir"] = str(folder)
    config = config_pb2.ConfigProto()
    entry = config.graph_options.rewrite_options.custom_optimizers.add(name="NpuOptimizer")
    for name, value in given.items():
        if isinstance(value, bool):
            entry.parameter_map[name].b = value
        else:
            entry.parameter_map[name].s = value.encode()
    for placeholder, parameter in (("{mixlist}", "modify_mixlist"), ("{ops_info}", "ops_info_dir")):
        message = message.replace(placeholder, re.escape(given.get(parameter, "")))
    return entry, message


def convolution(x):
    filters = tf.ones([2, 2, 1, 1])
    return tf.nn.relu(tf.nn.conv2d(x, filters, 1, "SAME", name="convolution"))


IMAGE = np.ones([1, 4, 4, 1], np.float32)


def run_session(entry):
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.custom_optimizers.append(entry)
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, IMAGE.shape)
        y = convolution(x)
    with tf1.Session(graph=graph, config=config) as session:
        session.run(y, {x: IMAGE})


def run_estimator(entry):
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.custom_optimizers.append(entry)

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(convolution(features) * tf1.get_variable("scale", []))
        step = tf1.train.get_global_step()
        train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return tf1.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        return tf.data.Dataset.from_tensors((IMAGE, IMAGE))

    run_config = tf1.estimator.RunConfig(session_config=config)
    tf1.estimator.Estimator(model_fn, config=run_config).train(input_fn, max_steps=1)


def run_function(entry):
    ctx = context.context()
    config = ctx.config
    config.graph_options.rewrite_options.custom_optimizers.append(entry)
    ctx.function_call_options = context.FunctionCallOptions(config_proto=config)
    try:
        tf.function(convolution)(tf.constant(IMAGE))
    finally:
        ctx.function_call_options = None


@pytest.mark.parametrize(
    "run", [run_session, pytest.param(run_estimator, marks=needs_estimator), run_function]
)
@pytest.mark.parametrize("entry_and_message", [*CASES, *GRAPH_CASES], indirect=True)
def test_every_user_error_fails_the_run(entry_and_message, run):
    entry, message = entry_and_message
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        run(entry)
    assert re.search(message, str(error.value), re.DOTALL)


@pytest.mark.parametrize("entry_and_message", CASES, indirect=True)
def test_the_python_helpers_raise_the_same_text_before_anything_runs(entry_and_message):
    entry, message = entry_and_message
    with pytest.raises(ValueError) as error:
        PrecisionOptions.from_parameter_map(entry.parameter_map)
    assert re.search(message, str(error.value), re.DOTALL)

    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.custom_optimizers.append(entry)
    with pytest.raises(ValueError) as again:
        npu_config_proto(config)
    assert str(again.value) == str(error.value)
    # The error has one message, without another one around it.
    assert "\n" not in str(error.value)


OPTIONS = {
    name: given
    for name, (given, _) in CASES.items()
    if {"mixlist", "ops_info"}.isdisjoint(given)
    and all(
        isinstance(given.get(field, value), type(value))
        for field, value in {"precision_mode": "", "strict": True}.items()
    )
    and "precison_mode" not in given
}


@pytest.mark.parametrize(
    "helper",
    [
        PrecisionOptions,
        npu_precision.npu_config_proto,
        npu_precision.npu_graph_options,
        pytest.param(npu_precision.NPURunConfig, marks=needs_estimator),
        pytest.param(npu_precision.npu_run_config_init, marks=needs_estimator),
        npu_precision.enable,
        npu_precision.autocast,
    ],
    ids=lambda helper: helper.__name__,
)
@pytest.mark.parametrize("case", OPTIONS)
def test_every_helper_raises_value_error(case, helper):
    with pytest.raises(ValueError, match=CASES[case][1]):
        helper(**OPTIONS[case])


@pytest.mark.parametrize("entry_and_message", GRAPH_CASES, indirect=True)
def test_the_offline_rewrite_raises_what_only_shows_on_a_graph(entry_and_message):
    entry, message = entry_and_message
    with tf.Graph().as_default() as graph:
        tf.identity(convolution(tf1.placeholder(tf.float32, IMAGE.shape)), name="y")
    options = PrecisionOptions.from_parameter_map(entry.parameter_map)
    with pytest.raises(ValueError) as error:
        rewrite_graph_def(graph.as_graph_def(), ["y"], options)
    assert re.search(message, str(error.value), re.DOTALL)


def test_an_error_inside_a_function_that_is_called_is_raised_offline_too():
    @tf.function
    def body(x):
        return convolution(x)

    with tf.Graph().as_default() as graph:
        tf.identity(body(tf1.placeholder(tf.float32, IMAGE.shape)), name="y")
    with pytest.raises(ValueError, match="convolution"):
        rewrite_graph_def(
            graph.as_graph_def(), ["y"], precision_mode="must_keep_origin_dtype", target="ascend910"
        )


@needs_function_attributes
def test_a_function_that_is_not_inlined_does_not_hide_an_error():
    @tf.function(experimental_attributes={"_noinline": True})
    def body(x):
        return convolution(x)

    config = config_pb2.ConfigProto()
    entry = config.graph_options.rewrite_options.custom_optimizers.add(name="NpuOptimizer")
    entry.parameter_map["precision_mode"].s = b"allow_mix_precison"
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, IMAGE.shape)
        y = convolution(body(x))
    mean = pytest.raises(tf.errors.InvalidArgumentError, match="did you mean 'allow_mix_precision'")
    with tf1.Session(graph=graph, config=config) as session, mean:
        session.run(y, {x: IMAGE})


WARNINGS_SCRIPT = """\
import sys
import numpy as np
import tensorflow as tf
import npu_precision

config = tf.compat.v1.ConfigProto()
entry = config.graph_options.rewrite_options.custom_optimizers.add(name="NpuOptimizer")
entry.parameter_map["mix_compile_mode"].b = True
config = npu_precision.npu_config_proto(
    config, precision_mode="allow_mix_precision", modify_mixlist=sys.argv[1]
)
for _ in range(3):
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [2, 2])
        y = tf.nn.relu(tf.matmul(x, x))
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        session.run(y, {x: np.eye(2)})
"""


def test_what_has_no_effect_is_a_warning_said_once(run_python, mixlist):
    path = mixlist(black=["MatMu1", "Conv2D", "node:nothing_has_this_name"])
    log = run_python(WARNINGS_SCRIPT, path).stderr.splitlines()
    for mention in ("MatMu1", "Conv2D", "node:nothing_has_this_name", "mix_compile_mode"):
        assert len([line for line in log if mention in line]) == 1, mention
    assert [line for line in log if "MatMu1" in line and "did you mean 'MatMul'" in line]


def test_a_value_less_parameter_is_refused():
    parameter_map = {"precision_mode": attr_value_pb2.AttrValue()}
    with pytest.raises(ValueError, match="precision_mode: got no value"):
        PrecisionOptions.from_parameter_map(parameter_map)
