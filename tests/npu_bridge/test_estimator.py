"""Estimator scripts: npu_bridge's documented script unchanged, NPURunConfig and NPUEstimator.

TensorFlow's tests do not cover an Estimator's train, evaluate, predict and export.
"""

import copy
import json

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_estimator

import npu_precision
from npu_precision import (
    NPUEstimator,
    NPUEstimatorSpec,
    NPURunConfig,
    _library,
    _no_effect,
    npu_config_proto,
    npu_init,
)

tf1 = tf.compat.v1
pytestmark = [needs_estimator, pytest.mark.slow]

ESTIMATOR_SCRIPT = """\
import sys

import numpy as np
import tensorflow.compat.v1 as tf

_, estimator_class, mixlist, model_dir, report_dir, export_dir = sys.argv


def model_fn(features, labels, mode):
    hidden = tf.layers.dense(features["x"], 16, activation=tf.nn.relu, name="hidden")
    logits = tf.layers.dense(hidden, 2, name="logits")
    predictions = {"probabilities": tf.nn.softmax(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    accuracy = tf.metrics.accuracy(labels, tf.argmax(logits, 1))
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy}
    )


def input_fn():
    x = np.random.RandomState(0).normal(size=[64, 4]).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, (x.sum(1) > 0).astype(np.int32)))
    return data.repeat(20).batch(16)


from npu_precision.npu_init import *

session_config = tf.ConfigProto(allow_soft_placement=True)
run_config = NPURunConfig(
    model_dir=model_dir,
    save_checkpoints_steps=40,
    session_config=session_config,
    precision_mode="allow_mix_precision",
    modify_mixlist=mixlist,
    report_dir=report_dir,
    iterations_per_loop=10,
)
estimators = {"Estimator": tf.estimator.Estimator, "NPUEstimator": NPUEstimator}
classifier = estimators[estimator_class](model_fn=model_fn, config=run_config)
classifier.train(input_fn=input_fn, max_steps=80)
print("accuracy", classifier.evaluate(input_fn=input_fn, steps=10)["accuracy"])
prediction = next(classifier.predict(input_fn=input_fn))
print("dtype", prediction["probabilities"].dtype)


def receiver_fn():
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


print("export", classifier.export_saved_model(export_dir, receiver_fn).decode())
"""


@pytest.mark.parametrize("estimator_class", ["Estimator", "NPUEstimator"])
def test_the_documented_estimator_script_runs_in_mixed_precision(
    run_python, mixlist, ledgers, tmp_path, estimator_class
):
    reports = tmp_path / "reports"
    process = run_python(
        ESTIMATOR_SCRIPT,
        estimator_class,
        mixlist(black=["Relu"]),
        tmp_path / "model",
        reports,
        tmp_path / "export",
    )
    printed = dict(line.split(" ", 1) for line in process.stdout.splitlines())
    assert float(printed["accuracy"]) > 0.9
    assert printed["dtype"] == "float32"
    # tf.estimator.Estimator makes no loops of it.
    named = process.stderr.count("iterations_per_loop")
    assert named == (1 if estimator_class == "Estimator" else 0)

    decisions = {}
    for ledger in ledgers(reports):
        assert ledger.options["precision_mode"] == "allow_mix_precision"
        for node in ledger.nodes:
            decisions.setdefault(node.op, set()).add((node.decision, node.list))
    assert ("lowered", "white") in decisions["MatMul"]
    assert decisions["Relu"] == {("kept", "black")}

    # The exported model is the original in float32, not the optimizer's result.
    exported = tf.compat.v2.saved_model.load(printed["export"])
    serve = exported.signatures["serving_default"]
    assert serve(tf.zeros([1, 4]))["probabilities"].dtype == tf.float32
    ops = {op.type for op in serve.graph.get_operations()}
    assert "Cast" not in ops


def model_fn(features, labels, mode):
    logits = tf1.layers.dense(features, 2, name="logits")
    loss = tf1.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
    return NPUEstimatorSpec(mode, predictions={"logits": logits}, loss=loss, train_op=train_op)


def input_fn():
    x = np.ones([4, 3], np.float32)
    return tf.data.Dataset.from_tensors((x, np.zeros([4], np.int32))).repeat(3)


def entry(config):
    (found,) = [
        optimizer
        for optimizer in config.session_config.graph_options.rewrite_options.custom_optimizers
        if optimizer.name == "NpuOptimizer"
    ]
    return found.parameter_map


def test_run_config_puts_its_options_into_the_session_config():
    config = NPURunConfig(precision_mode="force_fp16", strict=True, save_checkpoints_steps=7)
    assert isinstance(config, tf.estimator.RunConfig)
    assert config.save_checkpoints_steps == 7
    assert entry(config)["precision_mode"].s == b"force_fp16"
    assert entry(config)["strict"].b is True
    assert config.session_config == npu_config_proto(precision_mode="force_fp16", strict=True)


def test_options_can_be_read_back():
    config = NPURunConfig(precision_mode_v2="mixed_float16")
    assert config.precision_mode_v2 == "mixed_float16"
    assert config.precision_mode is None
    assert config.precision_options == npu_precision.PrecisionOptions(
        precision_mode_v2="mixed_float16"
    )


def test_the_users_session_config_is_completed_and_not_changed(mixlist):
    session_config = tf1.ConfigProto(inter_op_parallelism_threads=1)
    custom_op = session_config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    custom_op.parameter_map["use_off_line"].b = True
    custom_op.parameter_map["precision_mode"].s = b"allow_mix_precision"
    custom_op.parameter_map["modify_mixlist"].s = mixlist(black=["Relu"]).encode()
    before = session_config.SerializeToString(deterministic=True)
    config = NPURunConfig(session_config=session_config, strict=True)
    assert session_config.SerializeToString(deterministic=True) == before
    assert config.session_config.inter_op_parallelism_threads == 1
    assert set(entry(config)) == {"use_off_line", "precision_mode", "modify_mixlist", "strict"}


NPU_BRIDGE_ARGUMENTS = (
    "iterations_per_loop profiling_config enable_data_pre_proc enable_reduce_precision "
    "variable_format_optimize mix_compile_mode hcom_parallel graph_memory_max_size "
    "variable_memory_max_size auto_tune_mode dump_config stream_max_parallel_num "
    "is_tailing_optimization horovod_mode graph_run_mode op_debug_level "
    "enable_scope_fusion_passes enable_exception_dump op_select_implmode "
    "optypelist_for_implmode dynamic_input_config mstune_mode work_path buffer_optimize "
    "enable_small_channel fusion_switch_file enable_compress_weight compress_weight_conf "
    "op_compiler_cache_mode op_compiler_cache_dir debug_dir hcom_multi_mode op_precision_mode"
).split()


@pytest.mark.parametrize("argument", NPU_BRIDGE_ARGUMENTS)
def test_npu_bridges_other_arguments_go_to_the_optimizer_which_names_them(argument):
    assert argument in _library.describe()["inert_parameters"]
    assert entry(NPURunConfig(**{argument: 3}))[argument].i == 3
    assert entry(NPURunConfig(**{argument: "x"}))[argument].s == b"x"
    assert entry(NPURunConfig(**{argument: True}))[argument].b is True
    assert entry(NPURunConfig(**{argument: 0.5}))[argument].f == 0.5
    assert argument not in entry(NPURunConfig(**{argument: None}))


def test_records_of_settings_are_accepted():
    config = NPURunConfig(
        dump_config=npu_precision.DumpConfig(enable_dump=True, dump_path="/dumps", dump_step="0"),
        memory_config=npu_init.MemoryConfig(static_memory_policy=2),
        experimental_config=npu_init.ExperimentalConfig(graph_parallel=1),
        profiling_config=npu_precision.ProfilingConfig(
            enable_profiling=True, profiling_options="task_trace"
        ),
    )
    assert entry(config)["enable_dump"].b is True
    assert entry(config)["dump_path"].s == b"/dumps"
    assert entry(config)["dump_step"].s == b"0"
    assert entry(config)["static_memory_policy"].i == 2
    assert entry(config)["experimental_config"].s == b"ExperimentalConfig(graph_parallel=1)"
    assert b"profiling_options='task_trace'" in entry(config)["profiling_config"].s


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("precison_mode", "precision_mode"),
        ("modify_mixlists", "modify_mixlist"),
        ("iteration_per_loop", "iterations_per_loop"),
        ("save_checkpoint_steps", "save_checkpoints_steps"),
    ],
)
def test_an_unknown_argument_is_a_type_error_with_a_guess(misspelt, meant):
    with pytest.raises(TypeError, match=f"unknown argument '{misspelt}'.*'{meant}'"):
        NPURunConfig(**{misspelt: 1})


def test_a_wrong_option_is_a_value_error():
    with pytest.raises(ValueError, match="did you mean 'allow_mix_precision'"):
        NPURunConfig(precision_mode="allow_mix_precison")
    with pytest.raises(ValueError, match="save_checkpoints_steps"):
        NPURunConfig(save_checkpoints_steps=-1)


def test_copies_and_replacements_keep_the_options():
    config = NPURunConfig(precision_mode="force_fp16", iterations_per_loop=10)
    for other in (copy.deepcopy(config), config.replace(model_dir="/elsewhere")):
        assert isinstance(other, NPURunConfig)
        assert other is not config
        assert other.precision_mode == "force_fp16"
        assert other.session_config == config.session_config
    assert config.replace(model_dir="/elsewhere").model_dir == "/elsewhere"


def test_a_replaced_session_config_gets_the_options_too():
    config = NPURunConfig(precision_mode="force_fp16", iterations_per_loop=10)
    other = config.replace(session_config=tf1.ConfigProto(inter_op_parallelism_threads=1))
    assert other.session_config.inter_op_parallelism_threads == 1
    assert entry(other) == entry(config)


def test_in_a_cluster_tensorflows_own_device_filters_stay(monkeypatch):
    cluster = {"chief": ["localhost:1"], "ps": ["localhost:2"], "worker": ["localhost:3"]}
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    config = NPURunConfig(precision_mode="force_fp16")
    assert config.session_config.device_filters == ["/job:ps", "/job:worker/task:0"]
    assert entry(config)["precision_mode"].s == b"force_fp16"


def test_workers_of_tf_config_without_a_strategy_are_refused(monkeypatch, tmp_path):
    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    with pytest.raises(ValueError, match="TF_CONFIG names 2 ranks.*give the config a train_distr"):
        NPUEstimator(model_fn=model_fn, model_dir=str(tmp_path), config=NPURunConfig())


def test_npu_estimator_adds_the_optimizer_to_a_plain_run_config(tmp_path):
    plain = tf.estimator.RunConfig(model_dir=str(tmp_path), save_summary_steps=3)
    estimator = NPUEstimator(model_fn=model_fn, config=plain)
    assert "precision_mode" not in entry(estimator.config)
    assert estimator.config.save_summary_steps == 3
    assert plain.session_config is None
    estimator.train(input_fn, max_steps=2)
    assert estimator.evaluate(input_fn)["global_step"] == 2


def test_npu_estimator_takes_npu_bridges_arguments(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(_no_effect, "_named", set())
    estimator = NPUEstimator(
        model_fn=model_fn, model_dir=str(tmp_path), params=None, job_start_file="/etc/cluster.json"
    )
    assert isinstance(estimator, tf1.estimator.Estimator)
    assert estimator.model_dir == str(tmp_path)
    assert "job_start_file has no effect" in caplog.text


def test_host_call_is_accepted_and_named_as_without_effect(caplog, monkeypatch):
    monkeypatch.setattr(_no_effect, "_named", set())
    with tf.Graph().as_default():
        loss = tf.constant(1.0)
        spec = NPUEstimatorSpec(
            mode=tf.estimator.ModeKeys.EVAL, loss=loss, host_call=(print, [loss])
        )
    assert isinstance(spec, tf.estimator.EstimatorSpec)
    assert spec.loss is loss
    assert spec._replace(predictions={"loss": loss}).predictions == {"loss": loss}
    assert "host_call has no effect" in caplog.text


def test_npu_run_config_init_returns_a_new_run_config():
    plain = tf.estimator.RunConfig(save_summary_steps=3)
    config = npu_precision.npu_run_config_init(plain, precision_mode="force_fp16")
    assert config is not plain
    assert plain.session_config is None
    assert config.save_summary_steps == 3
    assert entry(config)["precision_mode"].s == b"force_fp16"
    assert dict(entry(npu_precision.npu_run_config_init())) == {}
    with pytest.raises(TypeError, match="expected tf.estimator.RunConfig"):
        npu_precision.npu_run_config_init(tf1.ConfigProto())


WITHOUT_ESTIMATOR = """\
import sys
import tensorflow as tf

class CompatV1:
    def __getattr__(self, name):
        if name == "estimator":
            raise AttributeError(name)
        return getattr(real, name)

real = tf.compat.v1
tf.compat.v1 = sys.modules["tensorflow.compat.v1"] = CompatV1()
import npu_precision
print(npu_precision.npu_config_proto().allow_soft_placement)
try:
    npu_precision.NPURunConfig(precision_mode="force_fp16")
except RuntimeError as error:
    print(error)
"""


def test_a_tensorflow_without_estimator_says_what_to_use(run_python):
    process = run_python(WITHOUT_ESTIMATOR)
    first, second = process.stdout.splitlines()
    assert first == "True"
    assert "has no tf.estimator" in second
    assert "npu_config_proto()" in second
