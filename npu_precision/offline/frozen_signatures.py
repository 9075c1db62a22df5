"""Writes a SavedModel whose signatures hold the values of its variables as constants."""

from __future__ import annotations

import pathlib
import re
from concurrent import futures
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from npu_precision import _tf_compat
from npu_precision.offline import reachable

# A protocol buffer is at most 2 GiB large, and constants are in it.
_LARGEST = 2**31
# The ops that change resource variables: those of tf.Variable's methods and of optimizers.
_WRITES = re.compile(r"Assign\w*Variable\w*|Resource\w*(Apply|Assign|Scatter|CountUpTo)\w*")
# The attribute of a node whose gradient is a function of the user's.
_CUSTOM_GRADIENT = "_gradient_op_type"
_SUFFIX = "_frozen"
# The attribute of a While or If that is expanded into single ops before it runs.
_EXPANDED = "_lower_using_switch_merge"


def write(source: pathlib.Path, target: pathlib.Path, tags: Iterable[str] | None) -> None:
    """Saves the model of one folder in another, with frozen signatures.

    Variables, assets and all other functions stay; only the signatures no longer read variables.
    The signatures are for inference: custom gradients in them are left out.

    Args:
        source: folder of a SavedModel.
        target: folder to create.
        tags: the tags of the MetaGraph; None if there is only one.

    Raises:
        ValueError: TensorFlow 1 or graph mode; a model without signatures; a signature that writes
            to a variable; variables that do not fit into one file.
    """
    # In a thread of its own no graph or session of the caller is the current one.
    with futures.ThreadPoolExecutor(1) as thread:
        thread.submit(_write, source, target, tags).result()


def _write(source: pathlib.Path, target: pathlib.Path, tags: Iterable[str] | None) -> None:
    if _tf_compat.tf1 is tf or not tf.executing_eagerly():
        raise ValueError("freeze: got True without eager execution, which TensorFlow needs for it")
    model = tf.saved_model.load(str(source), tags=None if tags is None else list(tags))
    if not model.signatures:
        raise ValueError(f"freeze: {str(source)!r} has no signature, and only those are frozen")
    for name, function in model.signatures.items():
        writes = _write_to_variable(function.graph.as_graph_def())
        if writes:
            raise ValueError(
                f"freeze: signature {name!r} writes to variables, by {', '.join(writes)}, which "
                "constants cannot replace; leave freeze out"
            )
    read = {id(each): each for function in model.signatures.values() for each in function.variables}
    size = sum(each.dtype.size * each.shape.num_elements() for each in read.values())
    if size >= _LARGEST:
        raise ValueError(
            f"freeze: the signatures read variables of {size} bytes, and a SavedModel's graph has "
            f"at most {_LARGEST} bytes; leave freeze out"
        )
    signatures = {name: _frozen(function) for name, function in model.signatures.items()}
    tf.saved_model.save(model, str(target), signatures=signatures)


def _write_to_variable(graph_def: graph_pb2.GraphDef) -> list[str]:
    """The ops of a graph, and of the functions it calls, that change variables."""
    library = {function.signature.name: function for function in graph_def.library.function}
    called = reachable.called_functions(graph_def.node, library)
    bodies = [graph_def.node, *(library[name].node_def for name in called)]
    return sorted({node.op for nodes in bodies for node in nodes if _WRITES.fullmatch(node.op)})


def _frozen(signature: Any) -> Any:
    """A concrete function with the signature's inputs and outputs, by name."""
    # Not a public name of TensorFlow, but its own way to freeze a function in TF 2.
    from tensorflow.python.framework import convert_to_constants

    frozen = _for_inference(
        convert_to_constants.convert_variables_to_constants_v2(signature, lower_control_flow=False)
    )
    # The result takes what the signature captured and what is no variable, such as a table, as an
    # input behind the others.
    captured = {inner.name: outer for outer, inner in signature.graph.captures}
    _, specs = signature.structured_input_signature
    outputs = signature.structured_outputs

    def call(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        by_tensor = dict(captured)
        for tensor in signature.inputs:
            if tensor.name not in captured:
                by_tensor[tensor.name] = inputs[_argument(tensor, specs)]
        results = frozen(*(by_tensor[tensor.name] for tensor in frozen.inputs))
        return tf.nest.pack_sequence_as(outputs, tf.nest.flatten(results))

    return tf.function(call).get_concrete_function(**specs)


def _for_inference(function: Any) -> Any:
    """The function without custom gradients, whose captured tensors would have to be saved.

    Its loops and branches are expanded again when they run, which freezing switches off: a While
    that is not runs its body as a function.
    """
    graph_def = function.graph.as_graph_def()
    # Those of loops would be shared with the functions that stay, and could not change.
    reachable.keep_called_functions(graph_def, _SUFFIX)
    for nodes in (graph_def.node, *(each.node_def for each in graph_def.library.function)):
        for node in nodes:
            node.attr.pop(_CUSTOM_GRADIENT, None)
            if _EXPANDED in node.attr:
                node.attr[_EXPANDED].b = True
    wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(graph_def, name=""), [])
    return wrapped.prune(
        [tensor.name for tensor in function.inputs], [tensor.name for tensor in function.outputs]
    )


def _argument(tensor: tf.Tensor, specs: dict[str, tf.TensorSpec]) -> str:
    name = tensor.op.get_attr("_user_specified_name").decode()
    return name if name in specs else tensor.op.name
