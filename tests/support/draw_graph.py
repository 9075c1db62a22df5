"""Draws a rewritten graph as a Mermaid flowchart, for docs/how-it-decides.md.

Each box is a node: its name, its op, and why the optimizer lowered or kept it. Constants of
integers and the control flow of a loop's counter are left out: they have no precision.
"""

from __future__ import annotations

from support.check_ledger import CAST_MARK, behind_its_name
from support.node_dtypes import dtype_name
from support.text_graph import tensor_name

_STYLES = (
    "classDef lowered fill:#bfe3c0,stroke:#2e7d32,color:#000",
    "classDef kept fill:#ffffff,stroke:#555555,color:#000",
    "classDef source fill:#e3e3e3,stroke:#888888,color:#000",
    "classDef cast fill:#ffd58a,stroke:#b26a00,color:#000",
)
_SOURCES = ("neutral_source", "fed")


def draw_graph(before, after, ledger, fetches):
    """The lines of a flowchart of `after`, which the optimizer made of `before`.

    Args:
        before: the GraphDef that was rewritten.
        after: the result.
        ledger: the optimizer's ledger.
        fetches: names of nodes; nodes that they do not depend on are left out.
    """
    nodes = {node.name: node for node in after.node}
    needed = _needed(nodes, fetches)
    boxes = {}
    for entry in ledger.nodes:
        name = behind_its_name(entry.name, nodes, {node.name: node for node in before.node}).name
        style = "source" if entry.reason in _SOURCES else "kept"
        style = "lowered" if entry.decision in ("lowered", "raised") else style
        boxes[name] = (f"{entry.name}<br>{entry.op}<br><i>{entry.reason}</i>", style)
    for name, node in sorted(nodes.items()):
        if node.op == "Cast" and CAST_MARK in node.attr:
            boxes[name] = (f"Cast<br>to {dtype_name(node.attr['DstT'].type)}", "cast")
        elif CAST_MARK in node.attr:
            boxes[name] = (f"{node.op}<br>of what was cast", "cast")
    ids = {name: f"n{number}" for number, name in enumerate(boxes)}
    lines = ["flowchart LR"]
    for name, (label, style) in boxes.items():
        if name in needed:
            lines.append(f'  {ids[name]}["{label}"]:::{style}')
    edges = {}  # A dict keeps the order and drops repetitions.
    for name in boxes:
        for producer in _producers(nodes[name]):
            if name in needed and producer in boxes:
                edges[f"  {ids[producer]} --> {ids[name]}"] = None
    return [*lines, *edges, *("  " + style for style in _STYLES)]


def _producers(node):
    return [name for name, port in map(tensor_name, node.input) if port >= 0]


def _needed(nodes, fetches):
    needed, ahead = set(), list(fetches)
    while ahead:
        name = ahead.pop()
        if name not in needed:
            needed.add(name)
            ahead.extend(_producers(nodes[name]))
    return needed
