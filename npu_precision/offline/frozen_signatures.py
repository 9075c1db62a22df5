"""Stores the values of a SavedModel's variables in its signatures, as constants."""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2, graph_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from npu_precision import _tf_compat
from npu_precision.offline import reachable, unread_captures
from npu_precision.offline.meta_graph import tensor_names

# The limit of a protocol buffer is 2 GiB, constants included.
_LARGEST = 2**31
# The most bytes that are frozen without freeze=True: TensorFlow copies constants several times.
LARGEST_UNASKED = 2**29
# The ops that change resource variables: those of tf.Variable's methods, of optimizers, and of
# tf.random.Generator.
WRITES = re.compile(
    r"Assign\w*Variable\w*|Resource\w*(Apply|Assign|Scatter|CountUpTo)\w*"
    r"|Rng\w*Skip|Stateful(Random|Standard|Truncated|Uniform)\w*|NonDeterministicInts"
)
_READS = re.compile(r"ReadVariableOp|Resource\w*Gather\w*")
# The attribute of a node whose gradient is a function of the user's.
_CUSTOM_GRADIENT = "_gradient_op_type"
_SUFFIX = "_frozen"
# The attribute of a While or If that is expanded into single ops before it runs.
_EXPANDED = "_lower_using_switch_merge"
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def may_gain(meta_graph: meta_graph_pb2.MetaGraphDef) -> bool:
    """Whether a signature is a function of TensorFlow 2 that reads variables."""
    library = _library_of(meta_graph.graph_def)
    functions = set(_functions(meta_graph).values())
    return any(_READS.fullmatch(op) for name in functions for op in _ops(library[name], library))


def freeze(
    meta_graph: meta_graph_pb2.MetaGraphDef, folder: pathlib.Path, largest: int = _LARGEST
) -> None:
    """Puts the values of variables into the functions of the signatures that read any.

    Everything else in the MetaGraph stays: variables, objects, assets, other functions, and the
    inputs and outputs of the signatures. The signatures are for inference: custom gradients in them
    are removed.

    Args:
        meta_graph: the MetaGraph of the folder; it is changed.
        folder: the folder of the SavedModel, which TensorFlow loads.
        largest: the most bytes of constants.

    Raises:
        ValueError: no eager execution; no signature that is a function of TensorFlow 2; a
            signature that writes to a variable; variables that are too large.
            meta_graph may have changed in part.
    """
    functions = _functions(meta_graph)
    if not functions:
        raise ValueError(
            f"freeze: {str(folder)!r} has no signature that is a tf.function of TensorFlow 2, and "
            "only those are frozen"
        )
    # In another thread, no graph or session of the caller is the current one.
    with futures.ThreadPoolExecutor(1) as thread:
        thread.submit(_freeze, meta_graph, functions, folder, largest).result()


def _library_of(graph_def: graph_pb2.GraphDef) -> dict[str, function_pb2.FunctionDef]:
    return {each.signature.name: each for each in graph_def.library.function}


def _functions(meta_graph: meta_graph_pb2.MetaGraphDef) -> dict[str, str]:
    """The functions that the graph calls for signatures, by signature."""
    return {name: call.attr["f"].func.name for name, call in calls(meta_graph).items()}


def calls(meta_graph: meta_graph_pb2.MetaGraphDef) -> dict[str, node_def_pb2.NodeDef]:
    """The nodes that call the functions of signatures, by signature.

    A loader finds the functions by name. A signature of TensorFlow 1 is a part of the graph, even
    where that ends in a call, and is left out.
    """
    if _tf_compat.IS_TF1:
        return {}
    objects = meta_graph.object_graph_def.concrete_functions
    nodes = {node.name: node for node in meta_graph.graph_def.node}
    found = {}
    for name, signature in meta_graph.signature_def.items():
        tensors = [each for info in signature.outputs.values() for each in tensor_names(info)]
        producers = {tensor.partition(":")[0] for tensor in tensors}
        called = [nodes[each] for each in producers if each in nodes and nodes[each].op in _CALLS]
        if len(producers) == len(called) == 1 and called[0].attr["f"].func.name in objects:
            found[name] = called[0]
    return found


def _ops(
    function: function_pb2.FunctionDef, library: Mapping[str, function_pb2.FunctionDef]
) -> list[str]:
    """The op types of a function and of the functions that it calls."""
    called = reachable.called_functions(function.node_def, library)
    bodies = [function.node_def, *(library[name].node_def for name in called)]
    return sorted({node.op for nodes in bodies for node in nodes})


def _freeze(
    meta_graph: meta_graph_pb2.MetaGraphDef,
    functions: dict[str, str],
    folder: pathlib.Path,
    largest: int,
) -> None:
    if not tf.executing_eagerly():
        raise ValueError("freeze: needs eager execution, which is off")
    model = tf.saved_model.load(str(folder), tags=list(meta_graph.meta_info_def.tags))
    library = _library_of(meta_graph.graph_def)
    # By function, because two signatures may share one.
    signatures = {
        function: (name, model.signatures[name])
        for name, function in functions.items()
        if name in model.signatures and any(map(_READS.fullmatch, _ops(library[function], library)))
    }
    for function, (name, _) in signatures.items():
        writes = [op for op in _ops(library[function], library) if WRITES.fullmatch(op)]
        if writes:
            raise ValueError(
                f"freeze: signature {name!r} writes to variables, by {', '.join(writes)}, which "
                "constants cannot replace; leave freeze out"
            )
    read = [each for _, signature in signatures.values() for each in signature.variables]
    size = sum(each.dtype.size * int(tf.size(each)) for each in read)
    if size >= largest:
        limit = "a file may hold" if largest == _LARGEST else "are frozen unless freeze asks for it"
        raise ValueError(
            f"freeze: the signatures read variables of {size} bytes, more than the {largest} that "
            f"{limit}; leave freeze out"
        )
    for function, (name, signature) in signatures.items():
        _write(name, signature, library[function], meta_graph.graph_def.library)
        unread_captures.drop(library[function], meta_graph, _CALLS)


def _write(
    name: str,
    signature: Any,
    wrapper: function_pb2.FunctionDef,
    library: function_pb2.FunctionDefLibrary,
) -> None:
    """Adds a frozen function, and makes the wrapper call only that."""
    arguments = wrapper.signature.input_arg
    if [tensor.dtype.as_datatype_enum for tensor in signature.inputs] != _types(arguments):
        raise ValueError(f"freeze: signature {name!r} is loaded with other arguments than it has")
    taken = {each.signature.name for each in library.function}
    called = _unused(wrapper.signature.name + _SUFFIX, taken)
    frozen = _frozen(signature, called)
    places = {tensor.name: place for place, tensor in enumerate(signature.inputs)}
    given = [arguments[places[tensor.name]] for tensor in frozen.inputs]

    # TensorFlow may pass on the function's own message.
    definition = function_pb2.FunctionDef.FromString(frozen.function_def.SerializeToString())
    definition.signature.name = called
    library.function.add().CopyFrom(definition)
    library.function.extend(frozen.graph.as_graph_def().library.function)

    del wrapper.node_def[:]
    node_name = _unused("frozen", {argument.name for argument in arguments})
    call = wrapper.node_def.add(name=node_name, op="StatefulPartitionedCall")
    call.input.extend(argument.name for argument in given)
    call.attr["Tin"].list.type.extend(_types(given))
    call.attr["Tout"].list.type.extend(_types(wrapper.signature.output_arg))
    call.attr["f"].func.name = called
    for number, result in enumerate(wrapper.signature.output_arg):
        wrapper.ret[result.name] = f"{call.name}:output:{number}"
    for effect in wrapper.signature.control_output:
        wrapper.control_ret[effect] = call.name


def _types(arguments: Iterable[Any]) -> list[int]:
    return [argument.type for argument in arguments]


def _unused(wanted: str, taken: Collection[str]) -> str:
    names = itertools.chain([wanted], (f"{wanted}_{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)


def _frozen(signature: Any, name: str) -> Any:
    """Returns a concrete function of the other inputs, with constants in place of variables.

    The functions that it calls get names with this prefix, which is unique.
    """
    # Not a public name of TensorFlow, but its own way to freeze a function in TF 2.
    from tensorflow.python.framework import convert_to_constants

    function = convert_to_constants.convert_variables_to_constants_v2(
        signature, lower_control_flow=False
    )
    graph_def = function.graph.as_graph_def()
    reachable.keep_called_functions(graph_def)
    # Functions of loops would be shared with functions that stay, and could not change. The numbers
    # in TensorFlow's names depend on what the process did before.
    reachable.rename_functions(
        graph_def,
        {
            each.signature.name: f"{name}_{number}_{_kind(each.signature.name)}"
            for number, each in enumerate(graph_def.library.function)
        },
    )
    bodies = [(graph_def.node, [tensor.name for tensor in function.outputs])]
    bodies += [(each.node_def, each.ret.values()) for each in graph_def.library.function]
    for nodes, returned in bodies:
        _drop_custom_gradients(nodes, returned)
        for node in nodes:
            # Freezing switches this off, and then a While would run its body as a function.
            if _EXPANDED in node.attr:
                node.attr[_EXPANDED].b = True
    wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(graph_def, name=""), [])
    inputs = [tensor.name for tensor in function.inputs]
    return wrapped.prune(inputs, [tensor.name for tensor in function.outputs])


def _drop_custom_gradients(nodes: Sequence[Any], returned: Iterable[str]) -> None:
    """Drops custom gradients, whose captured tensors would have to be saved.

    TensorFlow attaches such a gradient to an IdentityN of the result and the arguments. An Identity
    of the result takes its place, because a second reader of an argument, such as the bias before a
    Swish, keeps TensorFlow from fusing it. An IdentityN stays if its other outputs are read.
    """
    read = [*(each for node in nodes for each in node.input), *returned]
    # By name and port: "node" and "node:1" in a graph, "node:output:1" in a function.
    more = {name.partition(":")[0] for name in read if name.rpartition(":")[2] not in ("0", name)}
    for node in nodes:
        if node.attr.pop(_CUSTOM_GRADIENT, None) is None:
            continue
        if node.op != "IdentityN" or node.name in more:
            continue
        kept = [node.input[0], *(each for each in node.input if each.startswith("^"))]
        dtype = node.attr.pop("T").list.type[0]
        node.op = "Identity"
        node.attr["T"].type = dtype
        del node.input[:]
        node.input.extend(kept)


def _kind(function: str) -> str:
    """The name of a function without TensorFlow's numbers: "while_body" for "while_body_42"."""
    return re.sub(r"(_\d+)+$", "", function)
