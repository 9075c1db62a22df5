"""Marks what rules keep once the bodies of loops and branches stand in the graph of their caller.

Offline, each body is decided about alone, where a rule does not see that an op of one body
magnifies what a node of another rounds. When TensorFlow runs a graph, it puts the bodies in place
before the optimizer sees them.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tensorflow.core.framework import graph_pb2, node_def_pb2

from npu_precision import _marks, _tf_compat
from npu_precision.offline.optimize_graph import NOT_INLINED, config_of, meta_graph_of
from npu_precision.options import OPTIMIZER_NAME, PrecisionOptions

_logger = logging.getLogger(__name__)
_WITH_BODIES = ("While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase")
# The attribute of loops and branches that TensorFlow puts in place.
_LOWER = "_lower_using_switch_merge"


def mark_kept(
    facts: Mapping[str, Any],
    graph_def: graph_pb2.GraphDef,
    fetch_nodes: Collection[str],
    feed_nodes: Collection[str],
    known_functions: Collection[str],
    options: PrecisionOptions,
    marked: graph_pb2.GraphDef,
) -> None:
    """Marks the kept nodes, in `marked`, a copy of the graph.

    `facts` are those of body_facts() about the graph; the other arguments are as for rewrite().
    """
    fitting = set(facts["fit_in_place"])
    if "" not in fitting:
        return
    placed = graph_pb2.GraphDef()
    placed.CopyFrom(graph_def)
    for function, nodes in _bodies(placed):
        for node in nodes:
            node.attr[_marks.ORIGIN].list.s.extend([function.encode(), node.name.encode()])
            node.attr.pop(_tf_compat.MUST_COMPILE, None)
            if node.op in _WITH_BODIES:
                node.attr[_LOWER].b = True
    for each in placed.library.function:
        for name in (*NOT_INLINED, _tf_compat.MUST_COMPILE):
            each.attr.pop(name, None)
    reachable = fitting.intersection(known_functions)
    meta_graph, _ = meta_graph_of(placed, fetch_nodes, feed_nodes, known_functions, reachable)
    config = config_of("function", "dependency", OPTIMIZER_NAME)
    config.graph_options.rewrite_options.custom_optimizers.append(
        dataclasses.replace(options, report_dir=None, dump_passes_dir=None).custom_optimizer()
    )
    try:
        result = _tf_compat.optimize_graph(config, meta_graph, "in place")
    except Exception as error:
        _logger.info("decided about each body alone, because of %s", error)
        return
    kept = collections.defaultdict(set)
    for entry, nodes in _bodies(result):
        # The others are in place in these, and by themselves as if nothing were known of them.
        for node in nodes if entry in ("", *reachable) else ():
            if _marks.KEPT_IN_PLACE in node.attr and _marks.ORIGIN in node.attr:
                function, name = (each.decode() for each in node.attr[_marks.ORIGIN].list.s)
                kept[function].add(name)
    for function, nodes in _bodies(marked):
        for node in nodes:
            if node.name in kept[function]:
                node.attr[_marks.KEPT_IN_PLACE].b = True


def _bodies(
    graph_def: graph_pb2.GraphDef,
) -> Iterator[tuple[str, list[node_def_pb2.NodeDef]]]:
    """The graph, as "", and its functions, with their nodes."""
    yield "", graph_def.node
    for function in graph_def.library.function:
        yield function.signature.name, function.node_def
