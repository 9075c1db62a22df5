"""check_rewrite: rewrites a graph and checks the invariants that hold for every rewrite."""

import dataclasses
import difflib
import functools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

import npu_precision
from support import gpu
from support.accept import accept
from support.check_ledger import (
    CAST_MARK,
    IN_FLOAT32_MARK,
    INHERITED_MARKS,
    MARK,
    behind_its_name,
    check_nodes,
    check_totals,
)
from support.devices import decided_for
from support.node_dtypes import type_attributes
from support.strict_zip import strict_zip
from support.text_functions import (
    function_bodies,
    read_graph_with_functions,
    without_inferred_types,
    write_graph_with_functions,
)
from support.text_graph import random_values, text_lines

UNCHANGED = "unchanged"
DTYPES_ONLY = {"rewrites": "none", "lower_collectives": False}

# The tolerance of a fetched value, as a fraction of the largest magnitude in its tensor. The graphs
# of the tests round a handful of times, each time by at most 2^-11 or 2^-8.
TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2}

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Rewritten:
    """The result of check_rewrite, for further checks of a test."""

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

    Three rewrites and two runs also check what the text alone would not show:
    - nodes in reverse order give the same text: decisions and names do not depend on the order, or
      on anything that differs from run to run (equal bytes are tested on the random graphs);
    - a second application changes no byte: the optimizer understands its own Casts and marks;
    - only dtypes, Casts and names that Casts took over have changed: `expected` leaves out sources,
      devices and most attributes;
    - the ledger agrees with the graphs: `expected` does not cover it;
    - both graphs give the same values and dtypes in a run: a text may be as expected and wrong;
    - beside a GPU, so does the graph that is decided for the GPU, in a run there.

    Args:
        graph: a text (see text_graph.py, text_functions.py) or a GraphDef.
        expected: the text of the rewritten graph; UNCHANGED, for equal bytes; or None, if the test
            checks the result itself.
        fetches: names of nodes; default: the last node of the graph.
        mode: the precision_mode.
        run: whether this machine can run the graph.
        init: names of ops to run first.
        **options: other fields of PrecisionOptions.
    """
    __tracebackhide__ = True
    before = read_graph_with_functions(graph) if isinstance(graph, str) else graph
    fetches = [before.node[-1].name] if fetches is None else list(fetches)
    options = {"precision_mode": mode, **DTYPES_ONLY, **options}

    def rewrite(graph_def):
        rewritten, ledger = npu_precision.rewrite_graph_def(graph_def, fetches, **options)
        return without_inferred_types(rewritten), ledger

    def written(graph_def):
        return write_graph_with_functions(graph_def, before)

    after, ledger = rewrite(before)
    text = written(after)
    if expected == UNCHANGED:
        assert_same_text(text, written(before), "the rewritten graph")
        assert to_bytes(after) == to_bytes(before)
    elif expected is not None:
        assert_same_text(text, expected, "the rewritten graph")

    again, again_ledger = rewrite(after)
    assert_same_text(written(again), text, "after a second application")
    assert to_bytes(again) == to_bytes(after), "a second application changes something"
    turned, _ = rewrite(_reversed(before))
    assert_same_text(written(turned), text, "with the nodes in reverse order")

    if not options.get("call_boundaries"):
        _check_signatures(before, after)
    for graph_before, graph_after, ledgers in _graphs(before, after, ledger, again_ledger):
        for graph_ledger in ledgers:
            check_totals(graph_ledger, graph_after)
        # Nodes may not correspond one to one: folding removes nodes, the parts of a fused op are
        # not nodes of the original, and the Casts of a call move to the graph that calls.
        changed = options.get("fold_constants") or options.get("call_boundaries")
        changed = changed or any(part.rewrites for part in ledgers)
        if not (changed or "/npu_part_" in text):
            _check_only_dtypes_changed(graph_before, graph_after)
            for graph_ledger in ledgers:
                check_nodes(graph_ledger, graph_before, graph_after)
    if run:
        low = "bfloat16" if "bf" in (mode or options.get("precision_mode_v2") or "") else "float16"
        _check_values(before, after, fetches, init, TOLERANCE[low])
        if gpu.is_beside_a_gpu():
            with decided_for(gpu.device_names()):
                on_gpu, _ = rewrite(before)
                assert to_bytes(rewrite(on_gpu)[0]) == to_bytes(on_gpu)
            with gpu.without_what_only_a_gpu_has():
                _check_values(before, on_gpu, fetches, init, TOLERANCE[low], on_gpu=True)
    return Rewritten(after, ledger, text)


def assert_same_text(got, expected, what):
    """Fails if the texts differ, and shows the lines."""
    lines, wanted = text_lines(got), text_lines(expected)
    if lines != wanted:
        done = accept(expected, got, text_lines)
        message = [f"{what}:", *difflib.ndiff(wanted, lines), *([done] if done else [])]
        pytest.fail("\n".join(message), pytrace=False)


def to_bytes(graph):
    """The serialized proto; equal protos give equal bytes."""
    return graph.SerializeToString(deterministic=True)


def _reversed(graph):
    turned = graph_pb2.GraphDef()
    turned.CopyFrom(graph)
    del turned.node[:]
    turned.node.extend(reversed(graph.node))
    for function in turned.library.function:
        nodes = list(reversed(function.node_def))
        del function.node_def[:]
        function.node_def.extend(nodes)
    return turned


def _check_signatures(before, after):
    signatures = [function.signature for function in after.library.function]
    assert signatures == [function.signature for function in before.library.function]


def _graphs(before, after, *ledgers):
    """The graph itself and the body of each function: before, after, and their ledgers."""
    yield before, after, ledgers
    bodies, bodies_after = function_bodies(before), function_bodies(after)
    by_name = [{function.graph: function for function in ledger.functions} for ledger in ledgers]
    for name, body in bodies.items():
        yield body, bodies_after[name], [functions[name] for functions in by_name]


def _check_only_dtypes_changed(before, after):
    """Asserts that nodes keep op, device, control inputs and attributes, and only Casts are new.

    Nodes that carry a Cast's result into a loop, or collect its control dependencies, may be new
    too.
    """
    nodes = {node.name: node for node in after.node}
    originals = {node.name: node for node in before.node}
    came = set(nodes)
    for old in before.node:
        if CAST_MARK in old.attr and old.name not in nodes:
            continue  # a Cast of an earlier run that is no longer needed
        new = behind_its_name(old.name, nodes, originals)
        came.remove(new.name)
        assert (new.op, new.device) == (old.op, old.device)
        assert _controls(new) == _controls(old)
        assert len(new.input) == len(old.input)
        if old.op == "Const" and _same_values(new, _rounded(old)):
            continue  # stored as float32, with values that float16 has
        for name in {*old.attr, *new.attr} - {*type_attributes(old), MARK, IN_FLOAT32_MARK}:
            assert name in new.attr, f"{old.name} lost {name}"
            if name in INHERITED_MARKS and name not in old.attr:
                continue
            assert name in old.attr, f"{old.name} got {name}"
            assert new.attr[name] == old.attr[name], f"{name} of {old.name}"
        if _changed(new, old) and list(new.input) == list(old.input):
            assert new.attr[MARK].s, f"{old.name} changed without a word"
    assert all(CAST_MARK in nodes[name].attr for name in came)
    assert {nodes[name].op for name in came} <= {"Cast", "Enter", "Switch", "Identity", "NoOp"}


def _rounded(constant):
    """The values of a constant; float32 values are rounded to float16."""
    values = tf.make_ndarray(constant.attr["value"].tensor)
    if values.dtype != np.float32:
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def _same_values(constant, values):
    return np.array_equal(tf.make_ndarray(constant.attr["value"].tensor), values)


def _changed(new, old):
    """Whether a node differs in more than marks that it got from another node."""
    inherited = INHERITED_MARKS.intersection(new.attr) - {*old.attr}
    if not inherited:
        return new != old
    copy = type(old)()
    copy.CopyFrom(new)
    for name in inherited:
        del copy.attr[name]
    return copy != old


def _controls(node):
    return [name for name in node.input if name.startswith("^")]


def _check_values(before, after, fetches, init, tolerance, on_gpu=False):
    expected = _values_of_original(to_bytes(before), tuple(fetches), tuple(init))
    for want, got in strict_zip(expected, run(after, fetches, init, on_gpu)):
        if want is None:  # an op without outputs
            continue
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        error = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0)
        assert error <= tolerance * np.abs(want.astype(np.float64)).max(initial=0)


@functools.lru_cache(maxsize=8)
def _values_of_original(data, fetches, init):
    """The values of an original graph, cached because tests rewrite it in several modes."""
    return run(graph_pb2.GraphDef.FromString(data), fetches, init)


def run(graph_def, fetches, init=(), on_gpu=False):
    """The values of the nodes' first outputs, as TensorFlow alone computes them, on two CPUs.

    on_gpu: nodes that have a kernel for a GPU run on it, if there is one.
    """
    # Nodes that a test places on a GPU run on the CPU as well.
    config = tf1.ConfigProto(
        device_count={"CPU": 2, **({} if on_gpu else {"GPU": 0})}, allow_soft_placement=True
    )
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
            fetched = [op.outputs[0] if op.outputs else op for op in operations]
            return session.run(fetched, feeds, _run_options(graph_def))


def _run_options(graph_def):
    """The RunOptions that give CollectiveReduceV3 its executor; without one, it ends the process.

    For the older collectives, which have keys, a session makes an executor by itself.
    """
    options = tf1.RunOptions()
    if any(node.op == "CollectiveReduceV3" for node in graph_def.node):
        options.experimental.collective_graph_key = 1
    return options
