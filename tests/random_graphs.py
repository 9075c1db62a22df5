"""Random GraphDefs for the property tests.

A graph is determined by (seed, size), and a smaller size gives a prefix of the larger graph, so
that shrinking the size of a failing example keeps what fails.
"""

import dataclasses

import numpy as np
from graph_builder import Builder, Tensor, UnfitError
from random_ops import COMMON, MAKERS, SOURCES
from tensorflow.core.framework import graph_pb2


@dataclasses.dataclass
class RandomGraph:
    """A graph to rewrite, and what to run it with.

    Attributes:
        graph_def: the graph, in topological order.
        feeds: value by name of each tensor to feed.
        fed_inside: those of them that are not a placeholder's.
        constants: value by name of the Consts that are no operands for others.
        fetches: names of the tensors that a caller asks for.
        tensors: every tensor that can be read; that leaves out those in an untaken branch.
    """

    graph_def: graph_pb2.GraphDef
    feeds: dict[str, np.ndarray]
    fed_inside: list[str]
    constants: dict[str, np.ndarray]
    fetches: list[str]
    tensors: list[Tensor]


def random_graph(seed, size):
    """A graph of `size` nodes, or a few more.

    Args:
        seed: what determines it, with size.
        size: at least how many nodes it has.

    Returns:
        A RandomGraph that fetches its last tensor, and inner ones.
    """
    b = Builder(seed)
    names = [*MAKERS, *COMMON * 2]
    SOURCES["image"](b)
    SOURCES["matrix"](b)
    while len(b.graph_def.node) < size:
        try:
            MAKERS[b.random.choice(names)](b)
        except UnfitError:
            continue
    if b.tensors[-1].name not in b.fetches:
        b.fetches.append(b.tensors[-1].name)
    return RandomGraph(b.graph_def, b.feeds, b.fed_inside, b.constants, b.fetches, b.tensors)
