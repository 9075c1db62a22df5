"""Random GraphDefs for the property tests.

A graph is determined by (seed, size), and a smaller size gives a prefix of the larger graph, so
that shrinking the size of a failing example keeps what fails.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

import npu_precision
from support.function_bodies import add_functions
from support.graph_builder import Builder, Tensor, UnfitError
from support.random_ops import COMMON, CONTROL_FLOW, MAKERS
from support.strict_zip import strict_zip
from support.unrolled_graph import Unrolled

tf1 = tf.compat.v1


@dataclasses.dataclass
class RandomGraph:
    """A graph to rewrite, and what to run it with.

    Attributes:
        graph_def: the graph, in topological order.
        feeds: value by name of each tensor to feed.
        fed_inside: the fed tensors that are not a placeholder's.
        constants: value by name of the Consts that other nodes do not use as operands.
        fetches: names of the tensors to fetch.
        tensors: every tensor that can be read; tensors in an untaken branch cannot.
        unrolled: the same computation without loops and functions.
    """

    graph_def: graph_pb2.GraphDef
    feeds: dict[str, np.ndarray]
    fed_inside: list[str]
    constants: dict[str, np.ndarray]
    fetches: list[str]
    tensors: list[Tensor]
    unrolled: Unrolled

    def rewrite(self, options, graph_def=None):
        """Rewrites this graph, or one in its place, by dtypes alone: (GraphDef, Ledger)."""
        graph_def = self.graph_def if graph_def is None else graph_def
        folds = "-fold_constants" not in (options.rewrites or "")
        only = "none,fold_constants" if folds else "none"
        options = dataclasses.replace(options, rewrites=only, lower_collectives=False)
        return npu_precision.rewrite_graph_def(
            graph_def, self.fetches, options, feeds=self.fed_inside
        )

    def run(self, graph_def=None):
        """Values by name of all tensors that can be read, computed without optimizers.

        Args:
            graph_def: the graph to run instead, which may lack some of the tensors.
        """
        graph_def = self.graph_def if graph_def is None else graph_def
        nodes = {node.name for node in graph_def.node}
        names = [t.name for t in self.tensors if t.name.partition(":")[0] in nodes]
        return self._run(graph_def, names)

    def run_unrolled(self):
        """Values by name of the readable tensors of the unrolled graph; none if it is the same."""
        if not self.unrolled.differs:
            return {}
        names = {*self.unrolled.readable, *(tensor.name for tensor in self.tensors)}
        return self._run(self.unrolled.graph_def, sorted(names))

    def _run(self, graph_def, names):
        # One thread, for kernels that add in one order. On several, TensorFlow 2.21 overwrites
        # memory where a BatchMatMulV2 spreads one matrix over batches of shape [n, 1].
        config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(graph_def, name="")
        with tf1.Session(graph=graph, config=config) as session:
            limit = tf1.RunOptions(timeout_in_ms=60000)
            return dict(strict_zip(names, session.run(names, self.feeds, limit)))


def random_graph(seed, size, control_flow=False):
    """A graph of `size` nodes, or a few more.

    Args:
        seed: determines the graph, together with the other arguments.
        size: the least number of nodes.
        control_flow: whether the graph also gets loops, handles and functions.

    Returns:
        A RandomGraph that fetches its last tensor, and inner ones.
    """
    b = Builder(seed)
    makers, names = MAKERS, [*MAKERS, *COMMON * 2]
    if control_flow:
        makers, names = (
            CONTROL_FLOW,
            names + [name for name in CONTROL_FLOW if name not in MAKERS] * 5,
        )
    MAKERS["image"](b)
    MAKERS["matrix"](b)
    while len(b.graph_def.node) < size:
        try:
            makers[b.random.choice(names)](b)
        except UnfitError:
            continue
    if b.tensors[-1].name not in b.fetches:
        b.fetches.append(b.tensors[-1].name)
    add_functions(b)
    unrolled = Unrolled(b)
    return RandomGraph(
        b.graph_def, b.feeds, b.fed_inside, b.constants, b.fetches, b.tensors, unrolled
    )
