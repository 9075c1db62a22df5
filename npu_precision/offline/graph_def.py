"""rewrite_graph_def: runs the precision optimizer on a GraphDef without a session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorflow.core.framework import graph_pb2

from npu_precision import _errors
from npu_precision.ledger import Ledger
from npu_precision.offline import run_optimizer
from npu_precision.offline.tensor_names import node_name
from npu_precision.options import PrecisionOptions, resolve


def rewrite_graph_def(
    graph_def: graph_pb2.GraphDef,
    fetches: Any,
    options: PrecisionOptions | None = None,
    *,
    feeds: Any = (),
    name: str = "graph",
    keep_io_types: bool = True,
    **fields: Any,
) -> tuple[graph_pb2.GraphDef, Ledger]:
    """Rewrites a graph, and the functions in its library, for a precision mode.

    The result runs on TensorFlow alone: dtypes are changed and plain Cast nodes inserted. Fetches
    and feeds keep name and dtype. Constants that only inserted Casts read are stored in the low
    type, unless options.rewrites leaves fold_constants out. If options.report_dir is set, the
    ledger is written there too.

    Args:
        graph_def: the graph; it is not changed.
        fetches: the later fetches: one or several names of tensors ("logits:0") or ops ("logits",
            "train_step"), or tf.Tensor and tf.Operation objects that have such names.
        options: the precision options.
        feeds: the later feeds besides placeholders, in the same forms.
        name: the name of the graph in the ledger.
        keep_io_types: if False, a placeholder that is only cast to the low type changes to that
            type, and so does a fetch that is only cast from it; the ledger's rewrites name them.
        **fields: fields of PrecisionOptions, on top of options.

    Returns:
        (graph_def, ledger): a new GraphDef, equal to the given one if nothing had to change, and
        the ledger: the decision about every float node, and its reason.

    Raises:
        ValueError: a wrong option; no fetch, or one that the graph does not have; a graph that
            the mode cannot be applied to, or that TensorFlow cannot read.
        TypeError: a wrong type of argument, or an unknown name.
    """
    if not isinstance(graph_def, graph_pb2.GraphDef):
        raise TypeError(f"graph_def: got {_errors.got(graph_def)}, expected a GraphDef")
    resolved = resolve(options, fields)
    nodes = {node.name: node for node in graph_def.node}
    fetch_nodes = [node_name(fetch, nodes, graph_def, "fetches") for fetch in _listed(fetches)]
    if not fetch_nodes:
        raise ValueError("fetches: got none, expected at least one name of a tensor or an op")
    feed_nodes = [node_name(feed, nodes, graph_def, "feeds") for feed in _listed(feeds)]
    return run_optimizer.rewrite(
        graph_def, fetch_nodes, feed_nodes, resolved, name, keep_io_types=keep_io_types
    )


def _listed(values: Any) -> Iterable[Any]:
    return [values] if isinstance(values, str) or hasattr(values, "name") else values
