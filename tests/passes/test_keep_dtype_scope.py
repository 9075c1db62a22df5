"""keep_dtype_scope: ops made in it keep their dtype in every mode, on any list."""

import pytest
import tensorflow as tf
from support.check_rewrite import UNCHANGED, check_rewrite
from support.sessions_by_hand import by_hand
from tensorflow.core.protobuf import rewriter_config_pb2

import npu_precision
from npu_precision import keep_dtype_scope

tf1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        first = tf.matmul(x, x, name="first")
        with keep_dtype_scope():
            kept = tf.matmul(first, x, name="kept")
            tf.nn.relu(kept, name="inside")
        outside = tf.nn.relu(kept, name="outside")
        second = tf.matmul(outside, x, name="second")
        tf.nn.softmax(second, name="end")
    return graph.as_graph_def()


def test_ops_of_the_scope_keep_float32_and_vote_so(graph):
    result = check_rewrite(
        graph,
        """
        first = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        kept = MatMul[float32](first/npu_cast_0_float32, x)
        inside = Relu[float32](kept)
        outside = Relu[float32](kept)
        second = MatMul[float16](outside/npu_cast_0_float16, x/npu_cast_0_float16)
        end = Softmax[float32](second/npu_cast_0_float32)
        """,
        ["inside", "end"],
    )
    assert result.reasons["kept"] == ("kept", "keep_dtype_scope", "")
    assert result.reasons["inside"] == ("kept", "keep_dtype_scope", "")
    assert result.reasons["outside"] == ("kept", "gray_follows_kept", "kept")


def test_force_fp16_stops_at_the_scope(graph):
    result = check_rewrite(graph, None, ["inside", "end"], mode="force_fp16")
    decisions = {name: decision for name, (decision, _, _) in result.reasons.items()}
    assert decisions == {
        "first": "lowered",
        "kept": "kept",
        "inside": "kept",
        "outside": "lowered",
        "second": "lowered",
        "end": "lowered",
    }


def test_an_op_type_on_a_list_does_not_beat_the_scope_and_a_name_does(graph, mixlist):
    path = mixlist(white=["MatMul", "Relu"], gray=["node:inside"])
    result = check_rewrite(graph, None, ["inside", "end"], modify_mixlist=path)
    assert result.reasons["kept"] == ("kept", "keep_dtype_scope", "")
    assert result.reasons["inside"] == ("kept", "gray_follows_kept", "kept")
    path = mixlist(white=["node:kept"])
    result = check_rewrite(graph, None, ["inside", "end"], modify_mixlist=path)
    assert result.reasons["kept"] == ("lowered", "white_list", "")
    assert result.reasons["inside"] == ("kept", "keep_dtype_scope", "")


def test_cube_does_not_round_in_the_scope():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        with keep_dtype_scope():
            tf.matmul(x, x, name="kept")
    check_rewrite(graph.as_graph_def(), UNCHANGED, mode="cube_fp16in_fp32out")


def test_force_fp32_leaves_half_nodes_of_the_scope():
    with tf.Graph().as_default() as graph:
        h = tf1.placeholder(tf.float16, [4, 4], name="h")
        with keep_dtype_scope():
            kept = tf.matmul(h, h, name="kept")
        tf.nn.relu(kept, name="end")
    check_rewrite(
        graph.as_graph_def(),
        """
        kept = MatMul[float16](h, h)
        end/npu_changed = Relu[float32](kept/npu_cast_0_float32)
        end = Cast[float32,float16](end/npu_changed)
        """,
        mode="force_fp32",
    )


def fused_network():
    """A scope with MatMul, BiasAdd and Relu, which the remapper fuses, and a product."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        w, b = tf.ones([4, 4]), tf.ones([4])
        with keep_dtype_scope():
            relu = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), b), name="relu")
            product = tf.matmul(relu, w, name="product")
        tf.nn.softmax(product, name="end")
    return graph


KEEP_THE_SCOPE = {
    "npu_config_proto": lambda options: npu_precision.npu_config_proto(options=options),
    "by hand, remapping off": lambda options: by_hand(
        options, remapping=rewriter_config_pb2.RewriterConfig.OFF
    ),
    "by hand, before the remapper": lambda options: by_hand(
        options, optimizers=["NpuOptimizer", "remap"]
    ),
}
WARNING = "the remapper fused nodes before NpuOptimizer ran"


@pytest.mark.parametrize("configure", KEEP_THE_SCOPE.values(), ids=KEEP_THE_SCOPE)
@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "force_fp16"])
def test_the_scope_holds_where_nothing_was_fused_before(
    configure, mode, executed_nodes, ledgers, tmp_path
):
    options = npu_precision.PrecisionOptions(precision_mode=mode, report_dir=tmp_path)
    with tf1.Session(graph=fused_network(), config=configure(options)) as session:
        nodes = executed_nodes(session, "end:0", {"x:0": [[1.0] * 4] * 4})
    assert tf.as_dtype(nodes["relu"].attr["T"].type) == tf.float32
    assert tf.as_dtype(nodes["product"].attr["T"].type) == tf.float32
    (ledger,) = ledgers(tmp_path)
    assert WARNING not in "".join(ledger.warnings)


def test_the_loss_of_the_scope_is_told_where_the_remapper_ran_before(ledgers, tmp_path):
    """The remapper copies only the attributes it knows, so a fused node is not in the scope."""
    options = npu_precision.PrecisionOptions(
        precision_mode="allow_mix_precision_bf16", report_dir=tmp_path
    )
    with tf1.Session(graph=fused_network(), config=by_hand(options)) as session:
        session.run("end:0", {"x:0": [[1.0] * 4] * 4})
    (ledger,) = ledgers(tmp_path)
    assert WARNING in "".join(ledger.warnings)
    assert ledger.node("product").reason == "keep_dtype_scope"
