"""check_rewrite: what must hold of every rewrite, whatever the test is about."""

import collections
import dataclasses
import difflib
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import op_def_registry
from text_graph import (
    dtype_name,
    random_values,
    read_graph,
    tensor_name,
    type_attributes,
    write_graph,
)

import npu_precision

UNCHANGED = "unchanged"

# How far a fetched value may be off, as a fraction of the largest magnitude in its tensor. Test
# graphs round a handful of times, and one rounding costs half of 2^-10 or 2^-7.
TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2}

# What only ours may write, and what only we may change.
_MARK = "_npu_precision"
_CAST_MARK = "_npu_precision_cast"
_RENAMED = re.compile(r"/npu_changed(_\d+)?$")
_REASONS_WITH_A_CAUSE = {"gray_follows_lowered", "gray_follows_kept", "shares_dtype"}

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Rewritten:
    """What check_rewrite found in order, for what a test wants to add."""

    graph: graph_pb2.GraphDef
    ledger: npu_precision.Ledger
    text: str

    @property
    def reasons(self):
        """By node name, (decision, reason, cause), without the sources."""
        return {
            node.name: (node.decision, node.reason, node.cause)
            for node in self.ledger.nodes
            if node.reason != "neutral_source"
        }


def check_rewrite(
    graph, expected, fetches=None, *, mode="allow_mix_precision", run=True, init=(), **options
):
    """Rewrites a graph and compares the result with `expected`.

    Checks besides: the same input gives the same bytes; the order of the nodes does not matter; a
    second application changes nothing; nothing changed but dtypes, Casts and names that Casts took;
    the ledger tells what happened; both graphs, run, give the same values and dtypes.

    Args:
        graph: a text (see text_graph.py) or a GraphDef.
        expected: the text of the rewritten graph; UNCHANGED, to the byte; or None, if the test looks
            at the result itself.
        fetches: names of nodes; the last of the graph if not given.
        mode: the precision_mode.
        run: whether this machine can run the graph.
        init: names of ops to run first.
        **options: other fields of PrecisionOptions.
    """
    __tracebackhide__ = True
    before = read_graph(graph) if isinstance(graph, str) else graph
    fetches = [before.node[-1].name] if fetches is None else list(fetches)
    options = {"precision_mode": mode, "fold_constants": False, **options}

    def rewrite(graph_def):
        return npu_precision.rewrite_graph_def(graph_def, fetches, **options)

    after, ledger = rewrite(before)
    text = write_graph(after, before)
    if expected == UNCHANGED:
        expected = write_graph(before, before)
        assert_same_text(text, expected, "the rewritten graph")
        assert to_bytes(after) == to_bytes(before)
    if expected is not None:
        assert_same_text(text, expected, "the rewritten graph")

    assert to_bytes(rewrite(before)[0]) == to_bytes(after), "same input, other bytes"
    again, again_ledger = rewrite(after)
    assert_same_text(write_graph(again, before), text, "after a second application")
    assert to_bytes(again) == to_bytes(after), "a second application changes something"
    turned, _ = rewrite(_reversed(before))
    assert_same_text(write_graph(turned, before), text, "with the nodes in reverse order")

    if not (options["fold_constants"] or "/npu_part_" in text):
        _check_only_dtypes_changed(before, after)
        check_ledger(ledger, before, after)
        check_ledger(again_ledger, before, again)
    if run:
        low = "bfloat16" if "bf" in (mode or options.get("precision_mode_v2") or "") else "float16"
        _check_values(before, after, fetches, init, TOLERANCE[low])
    return Rewritten(after, ledger, text)


def assert_same_text(got, expected, what):
    """Fails with the lines that differ, if any do; indentation and empty lines do not count."""
    got, expected = (
        [line.strip() for line in text.split("\n") if line.strip()] for text in (got, expected)
    )
    if got != expected:
        pytest.fail("\n".join([f"{what}:", *difflib.ndiff(expected, got)]), pytrace=False)


def to_bytes(graph):
    """The bytes of a proto, equal for equal protos."""
    return graph.SerializeToString(deterministic=True)


def check_ledger(ledger, before, after):
    """Asserts that the ledger's totals add up, and that it tells of these two graphs."""
    totals, nodes = ledger.totals, {node.name: node for node in after.node}
    assert totals["nodes"] == len(after.node)
    assert totals["float_nodes"] == len(ledger.nodes)
    decisions = collections.Counter(node.decision for node in ledger.nodes)
    assert decisions == {
        name: totals[name] for name in ("lowered", "raised", "kept") if totals[name]
    }
    assert totals["by_list"] == collections.Counter(node.list for node in ledger.nodes)
    assert totals["by_reason"] == collections.Counter(node.reason for node in ledger.nodes)
    originals = {node.name: node for node in before.node}
    for entry in ledger.nodes:
        now = _behind_its_name(entry.name, nodes, originals)
        assert {name: pair[1] for name, pair in entry.dtypes.items()} == _dtypes(now), entry
        original = originals.get(_RENAMED.sub("", entry.name))
        if original is not None and original.op == now.op:  # not a part of a fused op
            assert {name: pair[0] for name, pair in entry.dtypes.items()} == _dtypes(original), entry
        changed = any(was != now for was, now in entry.dtypes.values())
        assert changed == (entry.decision in ("lowered", "raised")), entry
        assert (_MARK in now.attr) >= changed, f"{entry} is not marked"
        assert (entry.reason in _REASONS_WITH_A_CAUSE) == bool(entry.cause), entry
        assert not entry.cause or entry.cause in nodes, entry

    readers = collections.Counter(name for node in after.node for name in node.input)
    casts = {node.name: node for node in after.node if _CAST_MARK in node.attr}
    assert totals["casts"] == len(casts) == len(ledger.casts)
    for entry in ledger.casts:
        cast = casts[entry.name]
        assert (entry.from_dtype, entry.to_dtype) == tuple(
            dtype_name(cast.attr[name].type) for name in ("SrcT", "DstT")
        )
        assert entry.input == "{}:{}".format(*tensor_name(cast.input[0]))
        assert entry.consumers == readers[entry.name]
    sizes = [entry.bytes for entry in ledger.casts]
    assert totals["cast_bytes"] == (None if None in sizes else sum(sizes))


def _dtypes(node):
    """The dtypes of a node by the ledger's names of type attributes: "T", "T[0]"."""
    lists = {a.name for a in op_def_registry.get(node.op).attr if a.type == "list(type)"}
    return {
        f"{name}[{index}]" if name in lists else name: dtype_name(dtype)
        for name, dtypes in type_attributes(node).items()
        for index, dtype in enumerate(dtypes)
    }


def _reversed(graph):
    turned = graph_pb2.GraphDef()
    turned.CopyFrom(graph)
    del turned.node[:]
    turned.node.extend(reversed(graph.node))
    return turned


def _check_only_dtypes_changed(before, after):
    """Nodes keep op, device, control inputs and attributes, and only Casts came."""
    nodes = {node.name: node for node in after.node}
    originals = {node.name: node for node in before.node}
    came = set(nodes)
    for old in before.node:
        new = _behind_its_name(old.name, nodes, originals)
        came.remove(new.name)
        assert (new.op, new.device) == (old.op, old.device)
        assert _controls(new) == _controls(old)
        assert len(new.input) == len(old.input)
        for name in {*old.attr, *new.attr} - {*type_attributes(old), _MARK}:
            assert new.attr[name] == old.attr[name], f"{name} of {old.name}"
        if new != old and list(new.input) == list(old.input):
            assert new.attr[_MARK].s, f"{old.name} changed without a word"
    assert all(nodes[name].op == "Cast" and _CAST_MARK in nodes[name].attr for name in came)


def _behind_its_name(name, nodes, originals):
    """The node that had a name before a Cast took it."""
    took_it = _CAST_MARK in nodes[name].attr and _CAST_MARK not in originals[name].attr
    return nodes[nodes[name].input[0]] if took_it else nodes[name]


def _controls(node):
    return [name for name in node.input if name.startswith("^")]


def _check_values(before, after, fetches, init, tolerance):
    for want, got in zip(run(before, fetches, init), run(after, fetches, init), strict=True):
        if want is None:  # an op without outputs
            continue
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        error = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0)
        assert error <= tolerance * np.abs(want.astype(np.float64)).max(initial=0)


def run(graph_def, fetches, init=()):
    """The values of the nodes' first outputs, as TensorFlow alone computes them, on two CPUs."""
    config = tf1.ConfigProto(device_count={"CPU": 2, "GPU": 0})
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        feeds = {
            node.name + ":0": random_values(
                node.name,
                [dim.size for dim in node.attr["shape"].shape.dim],
                tf.as_dtype(node.attr["dtype"].type),
            )
            for node in graph_def.node
            if node.op == "Placeholder"
        }
        operations = [graph.get_operation_by_name(name) for name in fetches]
        with tf1.Session(graph=graph, config=config) as session:
            session.run([graph.get_operation_by_name(name) for name in init])
            return session.run([op.outputs[0] if op.outputs else op for op in operations], feeds)
