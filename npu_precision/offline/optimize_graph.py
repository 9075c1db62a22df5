"""Prepares a graph for OptimizeGraph, TensorFlow's entry point to its graph optimizers.

OptimizeGraph is made for measuring graphs: it feeds every placeholder with a tensor it allocates,
drops functions that no node calls, and erases attributes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

import numpy as np
from tensorflow.core.framework import graph_pb2, node_def_pb2, types_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2

from npu_precision import _marks, _tf_compat
from npu_precision.offline.argument_shapes import write_argument_shapes

PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
# A fetched no-op that refers to all functions, so that none is unreachable.
KEEPER = "npu_precision/keeper"
NUMBERS = frozenset(
    number
    for name, number in types_pb2.DataType.items()
    if re.fullmatch(r"DT_(BOOL|FLOAT|DOUBLE|HALF|BFLOAT16|(INT|UINT|COMPLEX)\d+)", name)
)
# Attributes that keep TensorFlow from inlining a function: it may have a GPU variant.
NOT_INLINED = ("api_implements", "api_preferred_device", "_noinline")
# The largest tensor, in elements, that TensorFlow may allocate for a placeholder.
_MAX_FAKE_FEED = 1 << 20


def config_of(*optimizers: str) -> config_pb2.ConfigProto:
    """A config that runs these optimizers, once."""
    config = config_pb2.ConfigProto()
    rewrite_options = config.graph_options.rewrite_options
    rewrite_options.optimizers.extend(optimizers)
    rewrite_options.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewrite_options.min_graph_nodes = -1
    rewrite_options.fail_on_optimizer_errors = True
    return config


def meta_graph_of(
    graph_def: graph_pb2.GraphDef,
    fetch_nodes: Iterable[str],
    feed_nodes: Iterable[str],
    known_functions: Collection[str] = (),
    reachable: Collection[str] | None = None,
) -> tuple[meta_graph_pb2.MetaGraphDef, set[str]]:
    """The graph as OptimizeGraph takes it, and the names of nodes that replace placeholders."""
    meta_graph = meta_graph_pb2.MetaGraphDef(graph_def=graph_def)
    write_argument_shapes(meta_graph.graph_def, known_functions)
    meta_graph.collection_def["train_op"].node_list.value.extend([*fetch_nodes, KEEPER])
    for number, name in enumerate(feed_nodes):
        tensor = meta_graph.signature_def["feeds"].inputs[str(number)]
        tensor.name = name
        tensor.dtype = types_pb2.DT_FLOAT

    replaced = set()
    for number, node in enumerate(meta_graph.graph_def.node):
        if node.op in PLACEHOLDERS and not _can_be_fed(node):
            # The optimizer treats the argument of a function like a placeholder.
            dtype = node.attr["dtype"].type
            for attribute in set(node.attr) - {"_class"}:
                del node.attr[attribute]
            node.op = "_Arg"
            node.attr["T"].type = dtype
            node.attr["index"].i = number
            replaced.add(node.name)
    for node in all_nodes(meta_graph.graph_def):
        if "_class" in node.attr:
            node.attr[_marks.COLOCATION].CopyFrom(node.attr["_class"])
        definition = _tf_compat.op_definition(node.op)
        if definition is not None and definition.is_stateful:
            node.attr[_marks.NAMED].b = True
    keeper = meta_graph.graph_def.node.add(name=KEEPER, op="NoOp")
    for function in graph_def.library.function:
        if reachable is None or function.signature.name in reachable:
            keeper.attr["_functions"].list.func.add(name=function.signature.name)
    return meta_graph, replaced


def _can_be_fed(placeholder: node_def_pb2.NodeDef) -> bool:
    """Whether OptimizeGraph may allocate a tensor for a placeholder and take its shape from it.

    OptimizeGraph fills the bytes of the tensor, which is only valid for numbers, and it treats an
    unknown rank as a scalar.
    """
    shape = placeholder.attr["shape"].shape
    return (
        "shape" in placeholder.attr
        and not shape.unknown_rank
        and placeholder.attr["dtype"].type in NUMBERS
        and np.prod([max(dim.size, 1) for dim in shape.dim], dtype=float) <= _MAX_FAKE_FEED
    )


def all_nodes(graph_def: graph_pb2.GraphDef) -> Iterator[node_def_pb2.NodeDef]:
    """The nodes of a graph and of the functions in its library."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def
