"""Marks functions with what only a graph with its whole library shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorflow.core.framework import graph_pb2

from npu_precision import _marks

MARKS = (
    _marks.BODY_ROLE,
    _marks.ERROR_PATHS,
    _marks.READ_BY_CONDITION,
    _marks.KEPT_IN_PLACE,
)


def mark_bodies(
    facts: Mapping[str, Any],
    marked: graph_pb2.GraphDef,
) -> None:
    """Marks nodes of functions, and nodes that choose between functions.

    Args:
        facts: those of body_facts() about a graph with functions.
        marked: a copy of the graph, whose nodes get the marks.
    """
    bodies = {each.signature.name: each.node_def for each in marked.library.function}
    for name, role in facts["roles"].items():
        if bodies[name]:
            bodies[name][0].attr[_marks.BODY_ROLE].s = role.encode()
    for name, read in facts["read"].items():
        if bodies[name] and read:
            bodies[name][0].attr[_marks.READ_BY_CONDITION].list.i.extend(read)
    paths = {(each["body"], each["node"]): each["paths"] for each in facts["choices"]}
    for body, nodes in [("", marked.node), *bodies.items()]:
        for node in nodes:
            if (body, node.name) in paths:
                mark = node.attr[_marks.ERROR_PATHS].list
                mark.SetInParent()  # An empty list is a fact too.
                mark.i.extend(paths[body, node.name])
