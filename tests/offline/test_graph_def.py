"""rewrite_graph_def: a graph in another precision, for TensorFlow without this package."""

import errno
import json
import os
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
from support.strict_zip import strict_zip
from support.text_graph import read_graph

from npu_precision import Ledger, PrecisionOptions, rewrite_graph_def

tf1 = tf.compat.v1
MIXED = PrecisionOptions(precision_mode="allow_mix_precision")


@pytest.fixture
def features():
    return np.random.default_rng(2).normal(size=[4, 8]).astype(np.float32)


def by_name(graph_def):
    return {node.name: node for node in graph_def.node}


def dtype(node, attribute="T"):
    return tf.as_dtype(node.attr[attribute].type).name


def size(graph_def):
    return graph_def.ByteSize()


@pytest.mark.cpu("Softmax is on the black list of CPUs")
def test_a_frozen_graph_is_lowered_and_runs_on_plain_tensorflow(dense_graph, features, run_graph):
    result, ledger = rewrite_graph_def(dense_graph, ["logits", "probabilities"], MIXED)
    nodes = by_name(result)

    assert dtype(nodes["relu"]) == "float16"
    assert dtype(nodes["probabilities"]) == "float32"
    # A fetch keeps name and dtype: the lowered product got another name, a Cast has this one.
    assert nodes["logits"].op == "Cast"
    assert dtype(nodes["logits"], "DstT") == "float32"

    before = run_graph(dense_graph, ["logits:0", "probabilities:0"], {"x:0": features})
    after = run_graph(result, ["logits:0", "probabilities:0"], {"x:0": features})
    for exact, lowered in strict_zip(before, after):
        assert lowered.dtype == np.float32
        assert 0 < np.abs(lowered - exact).max() < 2e-2 * np.abs(exact).max()

    assert ledger.total("lowered") == 4
    assert ledger.node("hidden").reason == "white_list"
    assert ledger.node("bias").cause == "hidden"
    assert ledger.node("probabilities").decision == "kept"
    assert len(ledger.casts) == ledger.totals["casts"]


def test_the_input_is_not_changed(dense_graph):
    before = dense_graph.SerializeToString(deterministic=True)
    rewrite_graph_def(dense_graph, ["logits"], MIXED)
    assert dense_graph.SerializeToString(deterministic=True) == before


def test_the_result_is_the_same_every_time(dense_graph):
    once, once_ledger = rewrite_graph_def(dense_graph, ["logits"], MIXED)
    again, again_ledger = rewrite_graph_def(dense_graph, ["logits"], MIXED)
    assert once.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)
    assert once_ledger == again_ledger


def test_a_second_application_changes_nothing(dense_graph):
    once, _ = rewrite_graph_def(dense_graph, ["logits"], MIXED)
    again, _ = rewrite_graph_def(once, ["logits"], MIXED)
    assert again == once


@pytest.mark.parametrize("mode", ["must_keep_origin_dtype", "allow_fp32_to_fp16", "force_fp32"])
def test_a_mode_with_nothing_to_do_returns_an_equal_graph(dense_graph, mode):
    # A graph may lack attributes that have their default value.
    del dense_graph.node[0].attr["shape"]
    result, ledger = rewrite_graph_def(dense_graph, ["logits"], precision_mode=mode)
    assert result == dense_graph
    assert result is not dense_graph
    assert ledger.total("lowered") == 0
    assert {node.decision for node in ledger.nodes} <= {"kept"}
    assert not ledger.casts


def test_constants_are_stored_in_the_low_type_unless_told_otherwise():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [1, 512], name="x")
        tf.matmul(x, tf.constant(np.random.normal(size=[512, 512]), tf.float32), name="y")
    graph_def = graph.as_graph_def()
    folded, _ = rewrite_graph_def(graph_def, ["y"], MIXED)
    assert size(folded) < 0.51 * size(graph_def)
    kept, _ = rewrite_graph_def(graph_def, ["y"], MIXED, fold_constants=False)
    assert size(kept) > size(graph_def)
    assert [dtype(node, "dtype") for node in kept.node if node.op == "Const"] == ["float32"]
    assert [dtype(node, "dtype") for node in folded.node if node.op == "Const"] == ["float16"]


def test_attributes_the_rewrite_has_no_business_with_stay(dense_graph, run_graph, features):
    nodes = by_name(dense_graph)
    nodes["relu"].attr["_class"].list.s.append(b"loc:@bias")
    nodes["relu"].attr["_output_shapes"].list.shape.add().dim.add(size=4)
    nodes["relu"].device = "/device:CPU:0"
    del nodes["hidden"].attr["transpose_a"]
    result, _ = rewrite_graph_def(dense_graph, ["probabilities"], MIXED)
    relu, hidden = by_name(result)["relu"], by_name(result)["hidden"]
    assert dtype(relu) == dtype(hidden) == "float16"
    assert relu.attr["_class"] == nodes["relu"].attr["_class"]
    assert relu.attr["_output_shapes"] == nodes["relu"].attr["_output_shapes"]
    assert relu.device == "/device:CPU:0"
    assert "transpose_a" not in hidden.attr
    assert by_name(result)["x"] == nodes["x"]
    assert result.versions == dense_graph.versions
    del relu.attr["_output_shapes"]
    run_graph(result, "probabilities:0", {"x:0": features})


def test_a_renamed_fetch_keeps_its_attributes_too(dense_graph):
    nodes = by_name(dense_graph)
    nodes["logits"].attr["_class"].list.s.append(b"loc:@relu")
    del nodes["logits"].attr["transpose_a"]
    result, _ = rewrite_graph_def(dense_graph, ["logits"], MIXED)
    (product,) = [by_name(result)[name] for name in by_name(result)["logits"].input]
    assert product.op == "MatMul"
    assert product.attr["_class"] == nodes["logits"].attr["_class"]
    assert "transpose_a" not in product.attr


@pytest.mark.parametrize("fetch", ["logits", "logits:0", ["logits"], ("logits:0", "probabilities")])
def test_fetches_are_named_as_tensors_or_ops_one_or_several(dense_graph, fetch):
    result, _ = rewrite_graph_def(dense_graph, fetch, MIXED)
    assert by_name(result)["logits"].op == "Cast"


def test_fetches_can_be_the_graphs_own_objects():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2, 2])
        y = tf.matmul(x, x, name="y")
    for fetch in (y, y.op, [y]):
        result, _ = rewrite_graph_def(graph.as_graph_def(), fetch, MIXED)
        assert by_name(result)["y"].op == "Cast"


@pytest.mark.parametrize(
    ("fetches", "message"),
    [
        (["logit"], "fetches: the graph has no node 'logit' (did you mean 'logits'?)"),
        (["logits:1"], "'logits' (MatMul) has 1 output(s)"),
        (["logits:x"], "'logits' (MatMul) has 1 output(s)"),
        ([], "fetches: got none"),
    ],
)
def test_fetches_the_graph_does_not_have_are_refused(dense_graph, fetches, message):
    with pytest.raises(ValueError) as error:
        rewrite_graph_def(dense_graph, fetches, MIXED)
    assert message in str(error.value)


def test_a_fed_tensor_keeps_name_and_dtype(dense_graph, run_graph):
    result, ledger = rewrite_graph_def(dense_graph, ["logits"], MIXED, feeds=["relu:0"])
    assert dtype(by_name(result)["relu"]) == "float32"
    fed = np.ones([4, 16], np.float32)
    exact = run_graph(dense_graph, "logits:0", {"relu:0": fed})
    assert run_graph(result, "logits:0", {"relu:0": fed}) == pytest.approx(exact, rel=1e-2)
    assert ledger.node("relu").decision == "kept"
    with pytest.raises(ValueError, match="feeds: the graph has no node 'relo'"):
        rewrite_graph_def(dense_graph, ["logits"], MIXED, feeds=["relo"])


def test_wrong_types_are_type_errors(dense_graph):
    with pytest.raises(TypeError, match="graph_def: got .*, expected a GraphDef"):
        rewrite_graph_def(dense_graph.SerializeToString(), ["logits"], MIXED)
    with pytest.raises(TypeError, match="fetches: got 3"):
        rewrite_graph_def(dense_graph, [3], MIXED)
    with pytest.raises(TypeError, match="did you mean 'precision_mode'"):
        rewrite_graph_def(dense_graph, ["logits"], precison_mode="force_fp16")


def test_placeholders_of_any_dtype_and_shape_are_accepted(run_graph):
    with tf.Graph().as_default() as graph:
        unknown = tf1.placeholder(tf.float32, name="unknown_rank")
        tf1.placeholder(tf.float32, [1 << 20, 1 << 20, None], name="huge")
        tf1.placeholder(tf.resource, [], name="resource")
        tf1.placeholder(tf.variant, [], name="variant")
        tf1.placeholder(tf.string, [3], name="string")
        tf.matmul(unknown, tf.ones([2, 2]), name="y")
    graph_def = graph.as_graph_def()
    result, ledger = rewrite_graph_def(graph_def, ["y"], MIXED)
    for name in ("unknown_rank", "huge", "resource", "variant", "string"):
        assert by_name(result)[name] == by_name(graph_def)[name]
    assert ledger.node("unknown_rank").op == "Placeholder"
    assert ledger.node("unknown_rank").dtypes == {"dtype": ["float32", "float32"]}
    fed = np.eye(2, dtype=np.float32)
    assert run_graph(result, "y:0", {"unknown_rank:0": fed}).tolist() == [[1, 1], [1, 1]]


@pytest.fixture
def graph_with_functions():
    """y = double(x), by a function that is called; another one that no node calls."""

    @tf.function
    def double(x):
        return tf.matmul(x, tf.constant(2.0) * tf.eye(8))

    @tf.function
    def uncalled(x):
        return tf.matmul(x, x)

    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 8], name="x")
        tf.identity(double(x), name="y")
        other = uncalled.get_concrete_function(tf.TensorSpec([2, 2]))
        other.add_to_graph(graph)
    return graph.as_graph_def()


def test_functions_are_rewritten_under_their_names_and_signatures(
    graph_with_functions, features, run_graph
):
    result, ledger = rewrite_graph_def(graph_with_functions, ["y"], MIXED, call_boundaries=False)
    before = {f.signature.name: f for f in graph_with_functions.library.function}
    after = {f.signature.name: f for f in result.library.function}
    assert list(after) == list(before)
    products = []
    for name, function in after.items():
        assert function.signature == before[name].signature
        assert function.attr == before[name].attr
        products += [node for node in function.node_def if node.op == "MatMul"]
    assert {dtype(node) for node in products} == {"float16"}
    assert len(products) >= 2

    assert {function.graph for function in ledger.functions} == set(before)
    assert ledger.total("lowered") >= 2
    assert [inner.graph for inner in ledger] == [
        "graph",
        *(function.graph for function in ledger.functions),
    ]
    y = run_graph(result, "y:0", {"x:0": features})
    assert y == pytest.approx(2 * features, rel=1e-2)


def test_gradient_and_control_flow_functions_run_after_the_rewrite(run_graph):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2, 2], name="x")
        # V2 control flow, as in a tf.function.
        result = tf.function(
            lambda x: tf.while_loop(
                lambda i, y: i < 3, lambda i, y: (i + 1, tf.matmul(y, x)), [0, x]
            )
        )(x)[1]
        tf.identity(result, name="y")
        tf.identity(tf.gradients(result, x)[0], name="dx")
    graph_def = graph.as_graph_def()
    lowered, ledger = rewrite_graph_def(graph_def, ["y", "dx"], MIXED)
    assert ledger.total("lowered") > 0
    feed = {"x:0": np.array([[0.5, 0.25], [0.125, 0.75]], np.float32)}
    exact = run_graph(graph_def, ["y:0", "dx:0"], feed)
    for before, after in strict_zip(exact, run_graph(lowered, ["y:0", "dx:0"], feed)):
        assert after == pytest.approx(before, rel=1e-2)


def test_a_function_may_have_the_graphs_name(graph_with_functions):
    name = graph_with_functions.library.function[0].signature.name
    _, ledger = rewrite_graph_def(graph_with_functions, ["y"], MIXED, name=name)
    assert ledger.graph == name
    assert name in [function.graph for function in ledger.functions]
    assert "y" in [node.name for node in ledger.nodes]


@pytest.mark.parametrize("strict", [None, True, False])
def test_the_ledger_tells_the_options_that_were_given(dense_graph, strict):
    _, ledger = rewrite_graph_def(dense_graph, ["logits"], MIXED, strict=strict)
    told = {} if strict is None else {"strict": str(strict).lower()}
    assert ledger.options == {
        "precision_mode": "allow_mix_precision",
        "rewrites": "fold_constants",
        **told,
    }


def test_report_dir_gets_the_returned_ledger_and_keeps_older_ones(dense_graph, ledgers, tmp_path):
    for _ in range(2):
        _, ledger = rewrite_graph_def(
            dense_graph, ["logits"], MIXED, report_dir=tmp_path, name="a/b"
        )
        assert ledger.options["report_dir"] == str(tmp_path)
        assert ledger.graph == "a/b"
    assert ledgers(tmp_path) == [ledger, ledger]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a_b-0.json", "a_b-1.json"]


def test_a_full_disk_leaves_no_partial_ledger_and_is_told(dense_graph, tmp_path, monkeypatch):
    write = pathlib.Path.write_text

    def write_half(path, text, **options):
        write(path, text[: len(text) // 2], **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pathlib.Path, "write_text", write_half)
    message = f"report_dir: cannot write into folder '{tmp_path}': No space left on device"
    with pytest.raises(OSError, match=f"^{re.escape(message)}$"):
        rewrite_graph_def(dense_graph, ["logits"], MIXED, report_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_in_a_session_a_full_disk_leaves_no_partial_ledger_and_is_told(run_cold_python, tmp_path):
    """A limit on the size of files simulates the full disk."""
    told = run_cold_python(
        """
import resource, sys
import tensorflow as tf
import npu_precision

tf1 = tf.compat.v1
with tf.Graph().as_default() as graph:
    x = tf1.placeholder(tf.float32, [4, 4], name="x")
    tf.nn.relu(tf.matmul(x, x), name="y")
options = npu_precision.PrecisionOptions(
    precision_mode="allow_mix_precision_bf16", report_dir=sys.argv[1]
)
config = npu_precision.npu_config_proto(options=options)
with tf1.Session(graph=graph, config=config) as session:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    try:
        session.run("y:0", {"x:0": [[1.0] * 4] * 4})
    except tf.errors.InvalidArgumentError as error:
        sys.stdout.write(error.message)
""",
        str(tmp_path / "reports"),
    )
    assert f"report_dir: cannot write into folder '{tmp_path / 'reports'}'" in told.stdout
    assert list((tmp_path / "reports").iterdir()) == []


@pytest.mark.cpu("Softmax is on the black list of CPUs")
def test_a_ledger_round_trips_and_sums_up(dense_graph):
    result, ledger = rewrite_graph_def(dense_graph, ["logits"], MIXED, name="dense")
    assert Ledger.from_json(ledger.to_json()) == ledger
    data = json.loads(ledger.to_json())
    assert data["schema"] == "npu_precision.ledger/1"
    assert data["functions"] == []
    assert "report_dir" not in ledger.options
    assert str(ledger) == (
        "dense: 2 of 2 matrix and convolution ops in float16; lowered 4 of 5 float nodes, "
        "2 Casts of 112 bytes; kept 1: 1 black_list"
    )
    assert ledger.totals["nodes"] == len(result.node)
    with pytest.raises(KeyError, match="nothing"):
        ledger.node("nothing")
    with pytest.raises(ValueError, match="schema 'other/1'"):
        Ledger.from_json('{"schema": "other/1"}')


def test_a_graph_that_tensorflow_cannot_read_is_a_value_error(dense_graph):
    by_name(dense_graph)["relu"].input[0] = "nowhere"
    with pytest.raises(ValueError, match="'graph'"):
        rewrite_graph_def(dense_graph, ["logits"], MIXED)


def of_a_newer_consumer(graph_def):
    graph_def.versions.min_consumer = 99999


def with_one_more_input(graph_def):
    graph_def.node[-1].input.append("x")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (of_a_newer_consumer, "GraphDef min consumer version 99999 above current version"),
        (with_one_more_input, "NodeDef expected inputs 'float, float' do not match 3 inputs"),
    ],
)
def test_of_a_model_of_a_newer_tensorflow_the_reason_is_tensorflows_own(change, reason):
    graph_def = read_graph("x = Placeholder(shape=2x2) \n y = MatMul(x, x)")
    change(graph_def)
    with pytest.raises(ValueError) as error:
        rewrite_graph_def(graph_def, "y", precision_mode="allow_mix_precision")
    assert str(error.value).startswith(
        f"TensorFlow {tf.__version__} cannot read the graph 'graph': {reason}"
    )
    assert "strict" not in str(error.value)


def test_an_attribute_of_a_newer_tensorflow_stays():
    """The TensorFlow that knows it may read the result."""
    graph_def = read_graph("x = Placeholder(shape=2x2) \n y = MatMul(x, x)")
    graph_def.node[-1].attr["of_the_future"].b = True
    result, ledger = rewrite_graph_def(graph_def, "y", precision_mode="allow_mix_precision")
    assert ledger.total("lowered") == 1
    assert any("of_the_future" in node.attr for node in result.node if node.op == "MatMul")
