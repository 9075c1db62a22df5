"""Runs a graph on batches without graph optimizers, so that exactly its own ops run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

from npu_precision import _library, _tf_compat
from npu_precision.accuracy import session_state
from npu_precision.accuracy.session_state import State
from npu_precision.offline.reachable import fetchable_nodes


def run_as_it_is(
    graph: tf.Graph,
    fetches: Mapping[str, Any],
    feeds: Iterable[Mapping[str, Any]],
    states: Iterable[State] = (),
) -> list[dict[str, np.ndarray]]:
    """Runs the graph once for each feed, with the same fetches, in a session with these states.

    Raises:
        ValueError: TensorFlow cannot run the graph on them.
    """
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    session = tf.compat.v1.Session(graph=graph, config=config)
    try:
        session_state.fill(session, states)
        # Not in a `with session` block, where code that makes the feeds could not use tensors.
        return [run_once(session, fetches, feed) for feed in feeds]
    finally:
        session.close()
        _library.take_overflow()  # A training must not see these overflows.


def run_once(
    session: tf.compat.v1.Session, fetches: Mapping[str, Any], feed: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Runs one step.

    Raises:
        ValueError: TensorFlow cannot run the graph on these inputs.
    """
    try:
        return session.run(fetches, feed)
    except tf.errors.OpError as error:
        raise ValueError(
            f"TensorFlow cannot run the model on these inputs: {first_line(error.message)}"
        ) from error


# The lines of TensorFlow's errors that only say where in the code they come from.
_AROUND = re.compile(
    r"^(Graph execution error:|Detected at node|Node:|\s|\(\d+\) |\d+ root error|Original stack)"
)


def first_line(message: str) -> str:
    """The line of an error message that has the cause."""
    lines = [line for line in message.splitlines() if line and not _AROUND.match(line)]
    return lines[0] if lines else message


def is_float_array(value: np.ndarray) -> bool:
    """Whether an output counts for the error of a model: those of all float dtypes do."""
    return value.dtype != object and bool(tf.as_dtype(value.dtype).is_floating)


def random_tensors(graph_def: graph_pb2.GraphDef) -> list[str]:
    """The outputs of random ops. They differ from run to run, so compared runs must share them."""
    reachable = fetchable_nodes(graph_def)
    return [
        f"{node.name}:0" for node in graph_def.node if node.name in reachable and is_random(node)
    ]


def is_random(node: node_def_pb2.NodeDef) -> bool:
    """Whether a node draws random numbers from a state of its own."""
    definition = _tf_compat.op_definition(node.op)
    return (
        definition is not None
        and definition.is_stateful
        and len(definition.output_arg) == 1
        and not any(argument.type == tf.resource for argument in definition.input_arg)
        and {"seed", "seed2"} <= {attribute.name for attribute in definition.attr}
    )
