"""sess.run scripts: npu_bridge's documented script unchanged, and the helpers around sessions."""

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_keras_2, needs_kernels, needs_onednn_in_bfloat16
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

import npu_precision
from npu_precision import PrecisionOptions, npu_config_proto

tf1 = tf.compat.v1
OFF = rewriter_config_pb2.RewriterConfig.OFF

# From the import to sess.run, npu_bridge's documented script; only the import line names ours.
SESSION_SCRIPT = """\
import sys

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
features = tf.placeholder(tf.float32, [16, 32], name="features")
weights = tf.get_variable("weights", [32, 8], initializer=tf.ones_initializer())
hidden = tf.nn.relu(tf.matmul(features, weights, name="hidden") - 0.5, name="relu")
cost = tf.reduce_mean(tf.matmul(hidden, tf.ones([8, 1])), name="cost")

from npu_precision.npu_init import *
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")
custom_op.parameter_map["modify_mixlist"].s = tf.compat.as_bytes(sys.argv[1])
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF

custom_op.parameter_map["report_dir"].s = tf.compat.as_bytes(sys.argv[2])
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    print(sess.run(cost, feed_dict={features: [[0.5] * 32] * 16}))
"""


def test_the_documented_session_script_runs_in_mixed_precision(
    run_python, mixlist, ledgers, tmp_path
):
    process = run_python(SESSION_SCRIPT, mixlist(black=["Relu"]), tmp_path / "reports")
    assert float(process.stdout) == pytest.approx(8 * (32 * 0.5 - 0.5), rel=1e-2)

    nodes = {node.name: node for ledger in ledgers(tmp_path / "reports") for node in ledger.nodes}
    assert nodes["hidden"].decision == "lowered"
    assert nodes["hidden"].dtypes["T"] == ["float32", "float16"]
    # Relu is gray, so it would be lowered too after a lowered op.
    assert nodes["relu"].decision == "kept"
    assert nodes["relu"].list == "black"

    assert process.stderr.count("use_off_line") == 1


def dense_session(config):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 8], name="x")
        weights = tf1.get_variable("weights", [8, 16], initializer=tf1.ones_initializer())
        bias = tf1.get_variable("bias", [16], initializer=tf1.ones_initializer())
        tf.nn.relu(tf.nn.bias_add(tf.matmul(x, weights), bias), name="relu")
        initialize = tf1.global_variables_initializer()
    session = tf1.Session(graph=graph, config=config)
    session.run(initialize)
    return session


def fused_in(nodes, dtype):
    """Whether bias and activation were fused into the matrix product, in this dtype."""
    return [
        node.op
        for node in nodes.values()
        if "Fused" in node.op and node.attr["T"].type == dtype.as_datatype_enum
    ]


@needs_onednn_in_bfloat16
@needs_kernels("bfloat16", "_FusedMatMul")
def test_lowered_ops_still_fuse_with_bias_and_activation(executed_nodes):
    with dense_session(npu_config_proto(precision_mode="allow_mix_precision_bf16")) as session:
        nodes = executed_nodes(session, "relu:0", {"x:0": np.ones([4, 8], np.float32)})
    assert len(fused_in(nodes, tf.bfloat16)) == 1
    assert not [node for node in nodes.values() if node.op in ("BiasAdd", "Relu", "MatMul")]


def test_without_lowering_the_pipeline_does_what_it_does_without_us(executed_nodes):
    configs = (tf1.ConfigProto(), npu_config_proto(precision_mode="must_keep_origin_dtype"))
    ops = []
    for config in configs:
        with dense_session(config) as session:
            nodes = executed_nodes(session, "relu:0", {"x:0": np.ones([4, 8], np.float32)})
        ops.append(sorted(node.op for node in nodes.values()))
    assert ops[0] == ops[1]


def optimizer_names(config):
    rewrite = config.graph_options.rewrite_options
    return [optimizer.name for optimizer in rewrite.custom_optimizers]


def test_layout_and_remapper_are_placed_after_the_optimizer():
    config = npu_config_proto(precision_mode="allow_mix_precision")
    rewrite = config.graph_options.rewrite_options
    assert optimizer_names(config) == ["NpuOptimizer", "layout", "remap"]
    assert rewrite.layout_optimizer == OFF
    assert rewrite.remapping == OFF
    # The rest of TensorFlow's pipeline does not change.
    assert rewrite.memory_optimization == rewriter_config_pb2.RewriterConfig.DEFAULT_MEM_OPT
    assert rewrite.meta_optimizer_iterations == 0
    assert not rewrite.optimizers
    assert rewrite.min_graph_nodes == -1
    assert config.allow_soft_placement


def test_a_remapper_that_the_user_switched_off_stays_off():
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.remapping = OFF
    assert optimizer_names(npu_config_proto(config)) == ["NpuOptimizer", "layout"]


def test_a_pipeline_listed_by_the_user_is_left_alone():
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.optimizers.extend(["NpuOptimizer", "remap"])
    result = npu_config_proto(config)
    assert optimizer_names(result) == ["NpuOptimizer"]
    assert result.graph_options.rewrite_options.optimizers == ["NpuOptimizer", "remap"]
    assert result.graph_options.rewrite_options.remapping == 0


def test_the_callers_config_is_not_changed():
    config = tf1.ConfigProto(inter_op_parallelism_threads=1)
    before = config.SerializeToString()
    result = npu_config_proto(config, precision_mode="force_fp16")
    assert config.SerializeToString() == before
    assert result.inter_op_parallelism_threads == 1


def test_a_second_application_adds_nothing():
    once = npu_config_proto(precision_mode="force_fp16")
    assert npu_config_proto(once) == once
    assert npu_config_proto(once, precision_mode="force_fp16") == once


@pytest.fixture
def users_config():
    """A ConfigProto with an entry of the user's own, as in the documented script."""
    config = tf1.ConfigProto()
    entry = config.graph_options.rewrite_options.custom_optimizers.add(name="NpuOptimizer")
    entry.parameter_map["use_off_line"].b = True
    entry.parameter_map["precision_mode"].s = b"allow_mix_precision"
    return config


def parameters(config):
    (entry,) = [
        entry
        for entry in config.graph_options.rewrite_options.custom_optimizers
        if entry.name == "NpuOptimizer"
    ]
    return {name: value.s or value.b for name, value in entry.parameter_map.items()}


def test_the_users_entry_is_kept_and_completed(users_config, mixlist):
    entry = users_config.graph_options.rewrite_options.custom_optimizers[0]
    entry.parameter_map["modify_mixlist"].s = mixlist(black=["Relu"]).encode()
    result = npu_config_proto(users_config, strict=True)
    assert parameters(result) == {
        "use_off_line": True,
        "precision_mode": b"allow_mix_precision",
        "modify_mixlist": mixlist(black=["Relu"]).encode(),
        "strict": True,
    }


def test_an_option_that_contradicts_the_users_entry_is_refused(users_config):
    with pytest.raises(ValueError) as error:
        npu_config_proto(users_config, precision_mode="force_fp16")
    assert "'allow_mix_precision' in the config's NpuOptimizer entry" in str(error.value)
    assert "'force_fp16' as an option" in str(error.value)


def test_options_need_only_make_sense_together_with_the_entry(mixlist):
    fields = {"precision_mode": "allow_mix_precision", "modify_mixlist": mixlist(black=["Relu"])}
    entry = npu_config_proto(precision_mode="allow_mix_precision")
    completed = npu_config_proto(entry, modify_mixlist=fields["modify_mixlist"])
    assert completed == npu_config_proto(**fields)
    with pytest.raises(ValueError, match="with precision_mode 'force_fp16', which does not use"):
        npu_config_proto(
            npu_config_proto(precision_mode="force_fp16"), modify_mixlist=fields["modify_mixlist"]
        )


def test_two_entries_are_refused(users_config):
    users_config.graph_options.rewrite_options.custom_optimizers.add(name="NpuOptimizer")
    with pytest.raises(ValueError, match="2 entries named NpuOptimizer"):
        npu_config_proto(users_config)


def test_a_wrong_value_in_the_users_entry_is_refused(users_config):
    entry = users_config.graph_options.rewrite_options.custom_optimizers[0]
    entry.parameter_map["precision_mode"].s = b"allow_mix_precison"
    with pytest.raises(ValueError, match="did you mean 'allow_mix_precision'"):
        npu_config_proto(users_config)


def test_a_config_that_runs_no_optimizer_at_all_is_refused():
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with pytest.raises(ValueError, match="disable_meta_optimizer"):
        npu_config_proto(config, precision_mode="force_fp16")


def test_what_is_no_config_is_a_type_error():
    with pytest.raises(TypeError, match="config_proto: got .*, expected ConfigProto"):
        npu_config_proto("allow_mix_precision")
    with pytest.raises(TypeError, match="expected GraphOptions"):
        npu_precision.npu_graph_options(tf1.ConfigProto())


def test_graphs_of_two_nodes_are_optimized_too(executed_nodes):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2, 2], name="x")
        tf.matmul(x, x, name="product")
    config = npu_config_proto(precision_mode="allow_mix_precision")
    with tf1.Session(graph=graph, config=config) as session:
        nodes = executed_nodes(session, "product:0", {"x:0": np.eye(2)})
    assert tf.float16.as_datatype_enum in [node.attr["DstT"].type for node in nodes.values()]


def test_npu_graph_options_are_those_of_npu_config_proto():
    options = PrecisionOptions(precision_mode="force_fp16")
    graph_options = config_pb2.GraphOptions(build_cost_model=7)
    result = npu_precision.npu_graph_options(graph_options, options)
    assert result.rewrite_options == npu_config_proto(None, options).graph_options.rewrite_options
    assert result.build_cost_model == 7
    assert graph_options == config_pb2.GraphOptions(build_cost_model=7)


def test_init_resource_gives_a_session_to_shut_down_and_close(users_config):
    session, shutdown = npu_precision.init_resource(config=users_config)
    assert isinstance(session, tf1.Session)
    assert session.graph is not tf1.get_default_graph()
    npu_precision.shutdown_resource(session, shutdown)
    npu_precision.close_session(session)
    with pytest.raises(RuntimeError, match="closed"):
        npu_precision.shutdown_resource(session, shutdown)


KERAS_SCRIPT = """\
import sys

import numpy as np
import tensorflow.compat.v1 as tf

if sys.argv[1] == "graph":
    tf.disable_eager_execution()
from npu_precision.npu_init import *

sess_config = tf.ConfigProto()
custom_op = sess_config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision_bf16")
custom_op.parameter_map["report_dir"].s = tf.compat.as_bytes(sys.argv[2])
npu_keras_sess = set_keras_session_npu_config(config=sess_config)

model = tf.keras.Sequential([tf.keras.layers.Dense(3, name="dense", input_shape=[4])])
model.compile("sgd", "mse")
model.fit(np.ones([8, 4]), np.ones([8, 3]), verbose=0, epochs=2)
print(model.predict(np.ones([2, 4])).dtype)
close_session(npu_keras_sess)
"""


@pytest.mark.parametrize("mode", [pytest.param("graph", marks=needs_keras_2), "eager"])
def test_keras_runs_under_set_keras_session_npu_config(run_python, ledgers, tmp_path, mode):
    process = run_python(KERAS_SCRIPT, mode, tmp_path / "reports")
    assert process.stdout.splitlines()[-1] == "float32"
    lowered = {
        node.name.rpartition("dense/")[2]
        for ledger in ledgers(tmp_path / "reports")
        for node in ledger.nodes
        if node.decision == "lowered" and node.op in ("MatMul", "_FusedMatMul")
    }
    assert lowered


KEEP_DTYPE_SCRIPT = """\
import tensorflow as tf
import npu_precision

tf.compat.v1.enable_control_flow_v2()
with tf.Graph().as_default() as graph:
    with npu_precision.keep_dtype_scope():
        tf.cond(tf.constant(True), lambda: tf.constant(1.0), lambda: tf.constant(2.0), name="if")
for function in graph.as_graph_def().library.function:
    print(*("_keep_dtype" in node.attr for node in function.node_def))
"""


def test_keep_dtype_scope_keeps_its_ops_in_float32(executed_nodes):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        hidden = tf.matmul(x, x, name="lowered")
        with npu_precision.keep_dtype_scope():
            hidden = tf.matmul(hidden, x, name="kept")
        tf.matmul(hidden, x, name="lowered_again")
    config = npu_config_proto(precision_mode="allow_mix_precision", float16_compute="native")
    with tf1.Session(graph=graph, config=config) as session:
        nodes = executed_nodes(session, "lowered_again:0", {"x:0": np.eye(4)})
    dtypes = [
        tf.as_dtype(node.attr["T"].type).name
        for name, node in sorted(nodes.items())
        if "MatMul" in node.op
    ]
    assert sorted(dtypes) == ["float16", "float16", "float32"]
    assert nodes["kept"].attr["T"].type == tf.float32.as_datatype_enum


def test_keep_tensors_dtypes_marks_ops_of_an_imported_graph(dense_graph, executed_nodes):
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(dense_graph, name="")
    npu_precision.keep_tensors_dtypes(graph, ("hidden:0",))
    config = npu_config_proto(precision_mode="allow_mix_precision", float16_compute="native")
    with tf1.Session(graph=graph, config=config) as session:
        nodes = executed_nodes(session, "logits:0", {"x:0": np.ones([4, 8])})
    dtypes = {
        tf.as_dtype(node.attr["T"].type).name for node in nodes.values() if "MatMul" in node.op
    }
    assert dtypes == {"float16", "float32"}


@pytest.mark.parametrize(
    ("graph", "tensors", "message"),
    [
        (tf1.GraphDef(), ["x:0"], "graph: got .*, expected tf.Graph"),
        (tf.Graph(), "x:0", "input_tensors: got 'x:0' .*, expected a list or tuple"),
    ],
)
def test_keep_tensors_dtypes_refuses_wrong_types(graph, tensors, message):
    with pytest.raises(ValueError, match=message):
        npu_precision.keep_tensors_dtypes(graph, tensors)


def test_keep_dtype_scope_reaches_the_ops_of_branches(run_python):
    printed = run_python(KEEP_DTYPE_SCRIPT).stdout.split()
    assert len(printed) >= 2
    assert set(printed) == {"True"}


def test_keep_dtype_scope_lets_eager_code_be():
    with npu_precision.keep_dtype_scope():
        assert tf.matmul(tf.eye(2), tf.eye(2)).dtype == tf.float32


def test_hooks_and_callbacks_come_back_in_lists_of_their_own():
    hooks = [object()]
    assert npu_precision.npu_hooks_append(hooks_list=hooks) == hooks
    assert npu_precision.npu_hooks_append(hooks_list=hooks) is not hooks
    assert npu_precision.npu_hooks_append() == []
    assert npu_precision.npu_callbacks_append(callbacks_list=hooks) == hooks
    assert npu_precision.npu_callbacks_append() == []
