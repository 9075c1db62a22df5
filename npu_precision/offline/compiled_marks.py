"""Lets Grappler optimize functions that XLA compiles, which it leaves out otherwise."""

from __future__ import annotations

from tensorflow.core.framework import graph_pb2

from npu_precision import _marks
from npu_precision._tf_compat import MUST_COMPILE
from npu_precision.offline import reachable


def mark_compiled(graph_def: graph_pb2.GraphDef) -> None:
    """Marks the functions that XLA compiles, in place, and removes the attribute that says so.

    Functions that they call are marked too, whatever else calls these: XLA has no kernels of
    TensorFlow's private ops.
    """
    library = {function.signature.name: function for function in graph_def.library.function}
    callers = [graph_def.node, *(function.node_def for function in library.values())]
    compiling = [node for nodes in callers for node in nodes if MUST_COMPILE in node.attr]
    compiled = {name for name, each in library.items() if each.attr[MUST_COMPILE].b}
    compiled.update(
        function.name
        for node in compiling
        if node.attr[MUST_COMPILE].b
        for function in reachable.function_attributes(node)
        if function.name in library
    )
    nodes = (node for name in compiled for node in library[name].node_def)
    compiled.update(reachable.called_functions(nodes, library))
    for name in compiled:
        if library[name].node_def:
            library[name].node_def[0].attr[_marks.COMPILED].b = True
    for each in (*compiling, *library.values()):
        each.attr.pop(MUST_COMPILE, None)
