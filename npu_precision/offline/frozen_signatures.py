"""Makes the signatures of a SavedModel hold the values of its variables as constants."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2, graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from npu_precision import _tf_compat
from npu_precision.offline import reachable
from npu_precision.offline.meta_graph import tensor_names

# A protocol buffer is at most 2 GiB large, and constants are in it.
_LARGEST = 2**31
# The ops that change resource variables: those of tf.Variable's methods and of optimizers.
_WRITES = re.compile(r"Assign\w*Variable\w*|Resource\w*(Apply|Assign|Scatter|CountUpTo)\w*")
_READS = re.compile(r"ReadVariableOp|Resource\w*Gather\w*")
# The attribute of a node whose gradient is a function of the user's.
_CUSTOM_GRADIENT = "_gradient_op_type"
_SUFFIX = "_frozen"
# The attribute of a While or If that is expanded into single ops before it runs.
_EXPANDED = "_lower_using_switch_merge"
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def may_gain(meta_graph: meta_graph_pb2.MetaGraphDef) -> bool:
    """Whether a signature is a function of TensorFlow 2 that reads variables."""
    signatures = meta_graph.signature_def.values()
    if _tf_compat.tf1 is tf or not any(map(_is_of_function, signatures)):
        return False
    library = {each.signature.name: each for each in meta_graph.graph_def.library.function}
    called = {name.partition(":")[0] for each in signatures for name in _results(each)}
    calls = [node for node in meta_graph.graph_def.node if node.name in called]
    bodies = [library[name].node_def for name in reachable.called_functions(calls, library)]
    return any(_READS.fullmatch(node.op) for nodes in bodies for node in nodes)


def freeze(meta_graph: meta_graph_pb2.MetaGraphDef, folder: pathlib.Path) -> None:
    """Puts the values of variables into the functions of the signatures.

    What else the MetaGraph has stays: variables, objects, assets, all other functions, and the
    arguments and results of the signatures. The signatures are for inference: custom gradients in
    them are left out.

    Args:
        meta_graph: of the folder; it is changed.
        folder: of the SavedModel. TensorFlow loads it.

    Raises:
        ValueError: TensorFlow 1 or graph mode; a model without signatures, or of TensorFlow 1; a
            signature that writes to a variable; variables that do not fit into one file.
            meta_graph may have changed in part.
    """
    if not any(map(_is_of_function, meta_graph.signature_def.values())):
        raise ValueError(
            f"freeze: {str(folder)!r} has no signature of a tf.function, and only those are frozen"
        )
    # In a thread of its own no graph or session of the caller is the current one.
    with futures.ThreadPoolExecutor(1) as thread:
        thread.submit(_freeze, meta_graph, folder).result()


def _results(signature: meta_graph_pb2.SignatureDef) -> list[str]:
    return [name for info in signature.outputs.values() for name in tensor_names(info)]


def _is_of_function(signature: meta_graph_pb2.SignatureDef) -> bool:
    # A loader's own signatures, such as that of the op that initializes, have no inputs or outputs
    # that a user sees.
    return bool(signature.outputs) and signature.method_name == "tensorflow/serving/predict"


def _freeze(meta_graph: meta_graph_pb2.MetaGraphDef, folder: pathlib.Path) -> None:
    if _tf_compat.tf1 is tf or not tf.executing_eagerly():
        raise ValueError("freeze: got True without eager execution, which TensorFlow needs for it")
    model = tf.saved_model.load(str(folder), tags=list(meta_graph.meta_info_def.tags))
    wrappers = {name: _function_of(name, meta_graph) for name in model.signatures}
    for name, function in model.signatures.items():
        writes = [op for op in _ops(function.graph.as_graph_def()) if _WRITES.fullmatch(op)]
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
    for name, function in model.signatures.items():
        _write(name, function, wrappers[name], meta_graph.graph_def.library)


def _function_of(name: str, meta_graph: meta_graph_pb2.MetaGraphDef) -> function_pb2.FunctionDef:
    """The function that the graph calls for a signature; a loader makes the signature of it."""
    nodes = {node.name: node for node in meta_graph.graph_def.node}
    called = {tensor.partition(":")[0] for tensor in _results(meta_graph.signature_def[name])}
    library = {each.signature.name: each for each in meta_graph.graph_def.library.function}
    functions = {
        nodes[each].attr["f"].func.name
        for each in called
        if each in nodes and nodes[each].op in _CALLS
    }
    if len(called) != 1 or len(functions) != 1:
        raise ValueError(
            f"freeze: signature {name!r} is a part of a graph of TensorFlow 1, expected a "
            "function; leave freeze out"
        )
    return library[functions.pop()]


def _ops(graph_def: graph_pb2.GraphDef) -> list[str]:
    """The op types of a graph and of the functions it calls."""
    return sorted({node.op for nodes in _bodies(graph_def) for node in nodes})


def _bodies(graph_def: graph_pb2.GraphDef) -> Iterator[Any]:
    library = {function.signature.name: function for function in graph_def.library.function}
    yield graph_def.node
    for name in reachable.called_functions(graph_def.node, library):
        yield library[name].node_def


def _write(
    name: str,
    signature: Any,
    wrapper: function_pb2.FunctionDef,
    library: function_pb2.FunctionDefLibrary,
) -> None:
    """Makes the wrapper call a frozen function, which is added, and nothing else."""
    frozen = _frozen(signature)
    places = {tensor.name: place for place, tensor in enumerate(signature.inputs)}
    arguments = wrapper.signature.input_arg
    if [tensor.dtype.as_datatype_enum for tensor in signature.inputs] != _types(arguments):
        raise ValueError(f"freeze: signature {name!r} is loaded with other arguments than it has")
    given = [arguments[places[tensor.name]] for tensor in frozen.inputs]

    # TensorFlow may pass on the function's own message.
    definition = function_pb2.FunctionDef.FromString(frozen.function_def.SerializeToString())
    definition.signature.name = wrapper.signature.name + _SUFFIX
    library.function.add().CopyFrom(definition)
    library.function.extend(frozen.graph.as_graph_def().library.function)

    del wrapper.node_def[:]
    call = wrapper.node_def.add(name="frozen", op="StatefulPartitionedCall")
    call.input.extend(argument.name for argument in given)
    call.attr["Tin"].list.type.extend(_types(given))
    call.attr["Tout"].list.type.extend(_types(wrapper.signature.output_arg))
    call.attr["f"].func.name = definition.signature.name
    for number, result in enumerate(wrapper.signature.output_arg):
        wrapper.ret[result.name] = f"{call.name}:output:{number}"
    for effect in wrapper.signature.control_output:
        wrapper.control_ret[effect] = call.name


def _types(arguments: Iterable[Any]) -> list[int]:
    return [argument.type for argument in arguments]


def _frozen(signature: Any) -> Any:
    """A concrete function of the inputs that are no variables, with constants for those."""
    # Not a public name of TensorFlow, but its own way to freeze a function in TF 2.
    from tensorflow.python.framework import convert_to_constants

    function = convert_to_constants.convert_variables_to_constants_v2(
        signature, lower_control_flow=False
    )
    graph_def = function.graph.as_graph_def()
    # Those of loops would be shared with the functions that stay, and could not change.
    suffix = f"_{signature.name}{_SUFFIX}"
    reachable.keep_called_functions(graph_def, suffix)
    for nodes in (graph_def.node, *(each.node_def for each in graph_def.library.function)):
        for node in nodes:
            # What it captured would have to be saved.
            node.attr.pop(_CUSTOM_GRADIENT, None)
            # Freezing switches this off: a While would run its body as a function.
            if _EXPANDED in node.attr:
                node.attr[_EXPANDED].b = True
    wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(graph_def, name=""), [])
    inputs: Sequence[tf.Tensor] = function.inputs
    return wrapped.prune([each.name for each in inputs], [each.name for each in function.outputs])
