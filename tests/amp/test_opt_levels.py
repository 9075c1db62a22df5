"""The levels of npu_precision.amp: the ops that each lowers, and the overrides that it accepts."""

from __future__ import annotations

import json
import logging

import pytest
import tensorflow as tf
from support.devices import decided_for
from support.tf_versions import needs_functions_by_default, needs_kernels

import npu_precision
from npu_precision import amp
from npu_precision.amp import opt_levels, registered
from npu_precision.loss_scaling.strategies import DynamicLossScale, FixedLossScale, NoLossScale

tf1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _nothing_registered():
    yield
    registered.forget_all()


def initialize(level, **overrides):
    optimizer = tf1.train.GradientDescentOptimizer(1.0)
    return amp.initialize(optimizer, level, **{"verbosity": 0, **overrides})


def options_of(config):
    (entry,) = [
        each
        for each in config.graph_options.rewrite_options.custom_optimizers
        if each.name == "NpuOptimizer"
    ]
    return npu_precision.PrecisionOptions.from_parameter_map(entry.parameter_map)


def lowered(level, **overrides):
    """The lowered nodes of a step with a convolution, batch norms, a softmax and Adam, by level."""
    with tf.Graph().as_default() as graph:
        image = tf1.placeholder(tf.float32, [2, 4, 4, 3], name="image")
        filters = tf1.get_variable("filters", [1, 1, 3, 3], use_resource=True)
        conv = tf.nn.conv2d(image, filters, 1, "SAME", name="conv")
        fused, _, _ = tf1.nn.fused_batch_norm(conv, tf.ones([3]), tf.zeros([3]), name="fused")[:3]
        mean, variance = tf.nn.moments(fused, [0, 1, 2])
        plain = tf.nn.batch_normalization(fused, mean, variance, None, None, 1e-3)
        relu = tf.nn.relu(plain, name="relu")
        probabilities = tf.nn.softmax(relu, name="softmax")
        gradient = tf.gradients(tf.reduce_sum(probabilities, name="loss"), filters)[0]
        root = tf.sqrt(tf.abs(gradient, name="abs"), name="sqrt")
        step = filters.assign(filters - 0.1 * root, read_value=False)
    options = options_of(initialize(level, **overrides)[1])
    with decided_for(["CPU:0"]):  # A GPU has other lists.
        _, ledger = npu_precision.rewrite_graph_def(
            graph.as_graph_def(), ["softmax", getattr(step, "op", step).name], options
        )
    names = {"batchnorm/mul": "plain", "sqrt": "update"}
    names.update({name: name for name in ("conv", "relu", "softmax")})
    ops = {"FusedBatchNormV3": "fused", "FusedBatchNormGradV3": "fused_grad"}
    nodes = [node for node in ledger.nodes if node.decision == "lowered"]
    return sorted({names.get(node.name, ops.get(node.op)) for node in nodes} - {None})


ALL = ["conv", "fused", "fused_grad", "plain", "relu", "softmax"]
BUT_BATCH_NORMS = ["conv", "relu", "softmax"]


@pytest.mark.parametrize(
    ("level", "overrides", "expected"),
    [
        ("O0", {}, []),
        # A batch norm of several ops is one op now.
        ("O1", {}, ["conv", "fused", "relu"]),
        ("O1", {"keep_batchnorm_fp32": True}, ["conv"]),
        ("O2", {}, BUT_BATCH_NORMS),
        ("O2", {"keep_batchnorm_fp32": "False"}, ALL),
        pytest.param(
            "O2",
            {"cast_model_type": tf.bfloat16},
            BUT_BATCH_NORMS,
            marks=needs_kernels("bfloat16", "Conv2D", "Softmax"),
        ),
        ("O3", {}, [*ALL, "update"]),
        ("O3", {"keep_batchnorm_fp32": True}, BUT_BATCH_NORMS),
    ],
)
def test_what_a_level_lowers(level, overrides, expected):
    assert lowered(level, **overrides) == expected


@pytest.mark.parametrize(
    ("level", "overrides", "expected"),
    [
        ("O0", {}, NoLossScale()),
        ("O1", {}, DynamicLossScale(2.0**16, max_scale=2.0**24)),
        ("O2", {}, DynamicLossScale(2.0**16, max_scale=2.0**24)),
        ("O3", {}, NoLossScale()),
        ("O3", {"loss_scale": "dynamic"}, DynamicLossScale(2.0**16, max_scale=2.0**24)),
        ("O2", {"loss_scale": "128.0"}, FixedLossScale(128.0)),
        ("O2", {"loss_scale": 1}, NoLossScale()),
        ("O1", {"cast_model_type": "bfloat16"}, NoLossScale()),
        ("O1", {"max_loss_scale": 8}, DynamicLossScale(8.0, max_scale=8.0)),
        (
            "O1",
            {"min_loss_scale": 2.0**20},
            DynamicLossScale(2.0**20, min_scale=2.0**20, max_scale=2.0**24),
        ),
    ],
)
def test_how_a_level_scales(level, overrides, expected):
    assert opt_levels.properties(level, overrides).strategy() == expected


@pytest.mark.parametrize(
    ("level", "overrides", "message"),
    [
        ("O4", {}, "opt_level: got 'O4' (str), expected one of O0, O1, O2, O3"),
        ("01", {}, "expected one of O0, O1, O2, O3; the letter is O, not zero"),
        (1, {}, "opt_level: got 1 (int), expected one of"),
        ("O0", {"keep_batchnorm_fp32": True}, "makes no sense at O0, which computes all in"),
        ("O0", {"cast_model_type": tf.float16}, "makes no sense at O0, which computes all in"),
        ("O1", {"keep_batchnorm_fp32": False}, 'amp.register_half_function("FusedBatchNormV3")'),
        ("O3", {"cast_model_type": tf.bfloat16}, "no precision mode forces it; take O2"),
        ("O1", {"cast_model_type": tf.int32}, "got int32, expected float16 or bfloat16"),
        ("O1", {"cast_model_type": "half-ish"}, "got 'half-ish' (str), expected a tf.DType"),
        ("O2", {"cast_model_outputs": tf.float16}, "what is fetched or returned keeps its dtype"),
        ("O2", {"patch_torch_functions": True}, "True makes no sense at O2, where everything is"),
        ("O1", {"patch_torch_functions": False}, "where the lists decide op by op; take O2"),
        ("O1", {"master_weights": 2}, "master_weights: got 2 (int), expected a bool"),
        ("O1", {"min_loss_scale": 4, "max_loss_scale": 2}, "got 4.0, which is above max_loss"),
        ("O1", {"loss_scale": 0}, "loss_scale: got 0 (int), expected a positive, finite"),
        ("O1", {"loss_scale": float("inf")}, "loss_scale: got inf (float), expected a positive"),
        ("O1", {"loss_scale": "dynamics"}, "loss_scale: got 'dynamics' (str)"),
        ("O1", {"num_losses": 0}, "num_losses: got 0 (int), expected a whole number"),
        ("O1", {"enabled": 1}, "enabled: got 1 (int), expected a bool"),
        ("O1", {"combine_grad": "yes"}, "combine_grad: got 'yes' (str), expected a bool"),
        ("O1", {"verbosity": 7}, "verbosity: got 7 (int), expected 0 or 1"),
        ("O1", {"precision_mode": "force_fp16"}, "but opt_level decides that"),
        ("O3", {"modify_mixlist": "m.json"}, "which does not use the lists"),
    ],
)
def test_what_makes_no_sense_is_refused(level, overrides, message):
    with pytest.raises(ValueError) as error:
        initialize(level, **overrides)
    assert message in str(error.value)


def test_a_misspelt_override_is_a_type_error_with_a_guess():
    with pytest.raises(TypeError, match="did you mean 'loss_scale'"):
        initialize("O1", loss_scales=8)


@pytest.mark.parametrize("level", opt_levels.LEVELS)
def test_an_override_that_is_none_leaves_what_the_level_says(level):
    nothing = dict.fromkeys(opt_levels.OVERRIDES)
    assert opt_levels.properties(level, nothing) == opt_levels.LEVELS[level]


def test_what_model_outputs_are_cast_to_is_what_they_are():
    initialize("O2", cast_model_outputs=tf.float32)


def test_a_config_is_completed_and_not_changed(mixlist, tmp_path):
    path = mixlist(black=["Relu"])
    given = npu_precision.npu_config_proto(
        tf1.ConfigProto(log_device_placement=True),
        precision_mode="allow_mix_precision",
        modify_mixlist=path,
    )
    before = given.SerializeToString()
    _, config = initialize("O2", session_config=given, report_dir=tmp_path)
    assert given.SerializeToString() == before
    assert config.log_device_placement
    options = options_of(config)
    assert (options.modify_mixlist, options.report_dir) == (path, str(tmp_path))


def test_a_config_that_says_otherwise_is_refused():
    given = npu_precision.npu_config_proto(precision_mode="force_fp32")
    with pytest.raises(ValueError, match="precision_mode is given twice"):
        initialize("O1", session_config=given)


@needs_functions_by_default
def test_what_a_config_says_is_in_force_for_functions_too(tmp_path):
    given = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision", report_dir=str(tmp_path)
    )
    amp.initialize(tf.keras.optimizers.SGD(), "O1", given, verbosity=0)
    assert npu_precision.active_options().report_dir == str(tmp_path)


def test_the_banner_tells_defaults_overrides_and_what_is_in_force(capsys):
    initialize("O2", loss_scale=128.0, min_loss_scale=None, verbosity=1)
    text = capsys.readouterr().out
    assert text.startswith("npu_precision.amp, level O2: everything is lowered but batch norms")
    defaults, rest = text.split("Overrides:\n")
    overrides, in_force = rest.split("In force:\n")
    assert "loss_scale            : dynamic" in defaults
    assert overrides.split() == ["verbosity", ":", "1", "loss_scale", ":", "128.0"]
    assert "loss_scale            : 128.0" in in_force
    assert "precision_mode        : allow_mix_precision" in in_force
    initialize("O1", verbosity=0)
    assert not capsys.readouterr().out


# The rows that the banner of Apex has.
ROWS_OF_APEX = [
    "enabled",
    "opt_level",
    "cast_model_type",
    "patch_torch_functions",
    "keep_batchnorm_fp32",
    "master_weights",
    "loss_scale",
]


@pytest.mark.parametrize("level", opt_levels.LEVELS)
def test_the_banner_has_the_rows_of_apex(level, capsys):
    initialize(level, verbosity=1)
    text = capsys.readouterr().out
    in_force = dict(
        line.strip().split(":", 1) for line in text.split("In force:\n")[1].splitlines()
    )
    in_force = {name.strip(): value.strip() for name, value in in_force.items()}
    assert set(ROWS_OF_APEX) <= set(in_force)
    assert in_force["cast_model_type"] == ("float32" if level == "O0" else "float16")
    assert in_force["patch_torch_functions"] == str(level == "O1")


@pytest.mark.parametrize(
    ("level", "overrides", "note"),
    [
        ("O2", {"master_weights": False}, "master_weights=False: variables stay float32"),
        (
            "O2",
            {"loss_scale": 8, "min_loss_scale": 2},
            "min_loss_scale: the loss scale is fixed",
        ),
        ("O3", {"max_loss_scale": 2.0**24}, "max_loss_scale: the loss scale is fixed, 1.0"),
    ],
)
def test_what_has_no_effect_is_accepted_and_told(level, overrides, note, capsys):
    initialize(level, verbosity=1, **overrides)
    assert f"Without effect: {note}" in capsys.readouterr().out


def test_what_a_level_has_anyway_may_be_given():
    initialize("O0", master_weights=False, cast_model_type=tf.float32)
    initialize("O1", patch_torch_functions=True, master_weights=True)
    initialize("O3", patch_torch_functions="False", master_weights=True)


def edits():
    text = options_of(initialize("O1")[1]).mixlist_edits
    return {name: each["to-add"] for name, each in json.loads(text or "{}").items()}


def test_registered_functions_are_entries_of_a_mixlist():
    amp.register_float_function(tf.nn.elu)
    amp.register_half_function("SoftmaxV2")  # Ascend's name
    amp.register_promote_function(tf, "reduce_sum")
    assert edits() == {
        "black-list": ["Elu", "EluGrad"],
        "white-list": ["SoftmaxV2"],
        "gray-list": ["Sum"],
    }
    assert lowered("O1") == ["conv", "fused", "softmax"]


def test_registered_functions_count_before_a_level():
    amp.register_half_function(tf.raw_ops.FusedBatchNormV3)
    amp.register_float_function(tf.nn.softmax)
    assert lowered("O2") == ["conv", "fused", "relu"]


def test_registered_functions_without_effect_are_told_of(caplog):
    amp.register_float_function(tf.nn.relu)
    with caplog.at_level(logging.WARNING, "npu_precision"):
        initialize("O3")
        assert "registered functions have no effect at O3" in caplog.text
        amp.register_float_function(tf.exp)
        assert "register_float_function: Exp: initialize() was called already" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((len,), "expected a function of TensorFlow's API such as tf.nn.softmax"),
        ((3,), "got 3 (int), expected a function"),
        (("",), "got '' (str), expected a function"),
        ((tf.Variable,), "expected a function of TensorFlow's API"),
        ((tf.nn.moments,), "tf.nn.moments is made of several ops"),
        ((tf.nn, "softmaxx"), "did you mean 'softmax'"),
        (("MatMull",), "got 'MatMull', which is no op type of TensorFlow or Ascend (did you mean"),
        (("softmax",), "(did you mean 'Softmax'?)"),
        (("Relu",), "Relu is registered with register_float_function already"),
    ],
)
def test_what_cannot_be_registered_is_refused(arguments, message):
    amp.register_float_function("Relu")
    with pytest.raises(ValueError) as error:
        amp.register_half_function(*arguments)
    assert message in str(error.value)
    assert edits() == {"black-list": ["Relu"]}
