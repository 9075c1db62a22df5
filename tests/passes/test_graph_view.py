"""Damaged, unusual or large graphs: the result is the graph or an error, never a crash or hang.

TensorFlow reports what is wrong with a graph; the optimizer only must not make it worse.
"""

import subprocess
import time

import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite, to_bytes
from support.damaged_graphs import DAMAGED, SOUND, damage, set_attr
from support.text_graph import read_graph
from support.tf_versions import needs_any_node_name
from tensorflow.core.framework import graph_pb2

import npu_precision

MODES = ["allow_mix_precision", "force_fp16", "force_fp32", "cube_fp16in_fp32out"]


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_graph_is_refused_or_left_as_it_was(name):
    graph = damage(DAMAGED[name])
    for mode in MODES:
        for fold in (False, True):
            try:
                after, _ = npu_precision.rewrite_graph_def(
                    graph, "end", precision_mode=mode, fold_constants=fold
                )
            except (ValueError, RuntimeError):
                continue
            assert_no_worse(graph, after)


def assert_no_worse(before, after):
    """Asserts that TensorFlow reports the same about the result as about the original."""
    assert import_error(after) == import_error(before) or to_bytes(after) == to_bytes(before)


def import_error(graph_def):
    try:
        with tf.Graph().as_default():
            tf.import_graph_def(graph_def, name="")
    except (ValueError, tf.errors.OpError) as error:
        return str(error)
    return None


def test_the_passes_alone_survive_what_tensorflow_refuses_before_they_see_it(
    pipeline_driver, tmp_path
):
    """Another version of TensorFlow may accept graphs that this one refuses."""
    (tmp_path / "lists.json").write_text('{"MatMul": {"precision_reduce": {"flag": "true"}}}')
    survived = []
    for name, change in DAMAGED.items():
        graph = damage(change)
        try:
            npu_precision.rewrite_graph_def(graph, "end", precision_mode="force_fp16")
        except (ValueError, RuntimeError) as error:
            if "TensorFlow could not optimize" not in str(error):
                continue
        else:
            continue
        (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())
        files = [tmp_path / file for file in ("graph.pb", "lists.json", "out.pb")]
        command = [pipeline_driver, files[0], files[1], "force_fp16", "end", "", files[2]]
        process = subprocess.run(command, capture_output=True, timeout=60)
        assert process.returncode in (0, 1), f"{name}: {process.stderr.decode()}"
        survived.append(name)
    assert {"a cycle", "an input that is no node", "a negative output"} <= set(survived)


def test_an_edge_whose_dtypes_disagree_gets_no_cast():
    """To fix it silently would hide a mistake that TensorFlow reports."""
    graph = damage(set_attr("gray", "T", type=2))
    try:
        after, _ = npu_precision.rewrite_graph_def(graph, "end", precision_mode="force_fp16")
    except (ValueError, RuntimeError):
        return
    assert import_error(after) is not None


FORGED = {
    "an empty mark": {"_npu_precision": b""},
    "a mark of one word": {"_npu_precision": b"lowered"},
    "a mark of unknown words": {"_npu_precision": b"melted purple because nowhere"},
    "a mark of another node": {"_npu_precision": b"kept black black_list end"},
    "a mark that is no text": {"_npu_precision": b"\xff\xfe\x00"},
    "a mark with many words": {"_npu_precision": b"lowered white white_list a b c d"},
}


@pytest.mark.parametrize("name", FORGED)
def test_marks_that_we_did_not_write_do_not_change_the_result(name):
    plain = read_graph(SOUND)
    expected, _ = npu_precision.rewrite_graph_def(plain, "end", precision_mode=MODES[0])
    graph = read_graph(SOUND)
    for node in graph.node:
        for attribute, value in FORGED[name].items():
            node.attr[attribute].s = value
    after, _ = npu_precision.rewrite_graph_def(graph, "end", precision_mode=MODES[0])
    assert [without_marks(node) for node in after.node] == [
        without_marks(node) for node in expected.node
    ]


def test_our_mark_on_another_op_does_not_make_it_ours():
    """`unread` has no consumer: if it were one of our nodes, a second run would drop it."""
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        low = MatMul(x, x)
        unread = Exp(x)
        end = Exp(low)
        """
    )
    lowered, _ = npu_precision.rewrite_graph_def(graph, "end", precision_mode="allow_mix_precision")
    for node in lowered.node:
        if node.name == "unread":
            node.attr["_npu_precision_cast"].b = True
    raised, _ = npu_precision.rewrite_graph_def(lowered, "end", precision_mode="force_fp32")
    assert raised != lowered
    assert "unread" in {node.name for node in raised.node}


def without_marks(node):
    node.attr.pop("_npu_precision", None)
    return node


def test_casts_that_claim_to_be_ours_and_form_a_cycle():
    graph = read_graph(SOUND)
    for name, reads in (("one", "two"), ("two", "one")):
        cast = graph.node.add(name=name, op="Cast", input=[reads])
        cast.attr["SrcT"].type = cast.attr["DstT"].type = 1
        cast.attr["_npu_precision_cast"].b = True
    graph.node[4].input[0] = "one"
    for mode in MODES:
        try:
            after, _ = npu_precision.rewrite_graph_def(graph, "end", precision_mode=mode)
        except (ValueError, RuntimeError):
            continue
        assert_no_worse(graph, after)


def test_an_empty_graph_has_no_fetch():
    with pytest.raises(ValueError, match="fetches"):
        npu_precision.rewrite_graph_def(
            graph_pb2.GraphDef(), "end", precision_mode="allow_mix_precision"
        )


@needs_any_node_name
def test_names_with_odd_characters_are_names():
    check_rewrite(
        """
        a/b/c = Placeholder(shape=4x4)
        a/b/_1 = MatMul(a/b/c, a/b/c)
        A.b-c>d = Relu(a/b/_1)
        end = Exp(A.b-c>d)
        """,
        """
        a/b/_1 = MatMul[float16](a/b/c/npu_cast_0_float16, a/b/c/npu_cast_0_float16)
        A.b-c>d = Relu[float16](a/b/_1)
        end = Exp[float32](A.b-c>d/npu_cast_0_float32)
        """,
    )


def timed_rewrite(graph, fetch):
    """The ledger of a rewrite that must not take long."""
    begin = time.monotonic()
    _, ledger = npu_precision.rewrite_graph_def(graph, fetch, precision_mode="allow_mix_precision")
    # About fifty times the usual time: only quadratic algorithms take longer.
    assert time.monotonic() - begin < 30
    return ledger


def test_a_thousand_readers_share_one_cast():
    lines = ["x = Placeholder(shape=4x4)"]
    lines += [f"r{i} = MatMul(x, x)" for i in range(1000)]
    lines += [f"sum = AddN({', '.join(f'r{i}' for i in range(1000))})", "end = Exp(sum)"]
    ledger = timed_rewrite(read_graph("\n".join(lines)), "end")
    assert [(cast.name, cast.consumers) for cast in ledger.casts] == [
        ("x/npu_cast_0_float16", 2000),
        ("sum/npu_cast_0_float32", 1),
    ]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_chain_of_twenty_thousand_nodes(backwards):
    """Backwards, each node is listed before its producer: the worst order to decide in."""
    graph = read_graph("x = Placeholder(shape=4x4) \n g0 = MatMul(x, x) \n g1 = Relu(g0)")
    nodes = list(graph.node)
    for number in range(2, 20000):
        nodes.append(type(nodes[2]).FromString(nodes[2].SerializeToString()))
        nodes[-1].name, nodes[-1].input[0] = f"g{number}", f"g{number - 1}"
    del graph.node[:]
    graph.node.extend(reversed(nodes) if backwards else nodes)
    ledger = timed_rewrite(graph, "g19999")
    assert ledger.totals["lowered"] == 20000
    assert ledger.totals["casts"] == 2


def test_a_ladder_of_alternating_colours():
    """Every rung changes dtype, so every edge has a Cast."""
    lines = ["x = Placeholder(shape=4x4)", "b0 = Exp(x)"]
    for i in range(1, 1000):
        lines += [f"w{i} = MatMul(b{i - 1}, b{i - 1})", f"b{i} = Softmax(w{i})"]
    ledger = timed_rewrite(read_graph("\n".join(lines)), "b999")
    assert ledger.totals["casts"] == 2 * 999


def test_a_node_with_five_thousand_types():
    names = ", ".join(["white", "black"] * 2500)
    graph = read_graph(
        f"""
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        black = Exp(x)
        all = IdentityN({names})
        end = AddN({", ".join(f"all:{number}" for number in range(0, 5000, 2))})
        last = Softmax(end)
        """
    )
    ledger = timed_rewrite(graph, "last")
    assert ledger.node("all").decision == "lowered"
    assert ledger.node("end").decision == "lowered"
    assert ledger.totals["casts"] == 2
