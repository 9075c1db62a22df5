"""Rewrites text graphs with functions that XLA compiles."""

from __future__ import annotations

import npu_precision
from support.text_functions import read_graph_with_functions, write_graph_with_functions

MUST_COMPILE = "_XlaMustCompile"


def rewritten_compiled(text, compiled, **options):
    """The text of a graph after a rewrite, and its ledger; the named functions are compiled."""
    graph = read_graph_with_functions(text)
    for function in graph.library.function:
        if function.signature.name in compiled:
            function.attr[MUST_COMPILE].b = True
    result, ledger = npu_precision.rewrite_graph_def(graph, ["y"], **options)
    still = [each for each in result.library.function if each.attr[MUST_COMPILE].b]
    assert [each.signature.name for each in still] == compiled
    return write_graph_with_functions(result, graph), ledger
