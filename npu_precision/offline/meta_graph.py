"""Rewrites a MetaGraph: its graph, and everything else in it that names nodes or dtypes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from google.protobuf import message
from tensorflow.core.framework import function_pb2, graph_pb2, types_pb2, variable_pb2
from tensorflow.core.protobuf import control_flow_pb2, meta_graph_pb2

from npu_precision import _tf_compat
from npu_precision.ledger import Ledger
from npu_precision.offline import run_optimizer
from npu_precision.options import PrecisionOptions

# The message type of TF1's control flow contexts, by collection.
_CONTEXTS = {
    "while_context": control_flow_pb2.WhileContextDef,
    "cond_context": control_flow_pb2.CondContextDef,
}


def rewrite(
    meta_graph: meta_graph_pb2.MetaGraphDef,
    options: PrecisionOptions,
    fetch_nodes: Iterable[str] = (),
    keep_io_types: bool = True,
) -> Ledger:
    """Rewrites a MetaGraph in place.

    Args:
        meta_graph: the MetaGraph; nodes that its signatures, collections and saver name keep name
            and dtype.
        options: the precision options.
        fetch_nodes: names of more nodes whose outputs keep name and dtype.
        keep_io_types: if False, inputs and outputs that are only cast to or from the low type
            change to that type, and the signatures with them.

    Raises:
        ValueError: the optimizer refuses options or graph, or TensorFlow cannot read the graph.
    """
    _capture_copies(meta_graph)
    nodes = {node.name for node in meta_graph.graph_def.node}
    kept = {name.partition(":")[0] for name in _referenced(meta_graph)} & nodes
    fed = [
        name.partition(":")[0]
        for signature in meta_graph.signature_def.values()
        for info in signature.inputs.values()
        for name in tensor_names(info)
    ]
    graph_def, ledger = run_optimizer.rewrite(
        meta_graph.graph_def,
        sorted(kept.union(fetch_nodes)),
        sorted(set(fed) & nodes),
        options,
        "_".join(meta_graph.meta_info_def.tags) or "graph",
        _captured(meta_graph),
        keep_io_types,
        _known_functions(meta_graph),
    )
    _update_signatures(meta_graph, ledger)
    if run_optimizer.changes(ledger):
        _make_implementations_unique(graph_def)
        _remove_from_contexts(nodes - {node.name for node in graph_def.node}, meta_graph)
    meta_graph.graph_def.CopyFrom(graph_def)
    _complete_op_list(meta_graph)
    return ledger


def _update_signatures(meta_graph: meta_graph_pb2.MetaGraphDef, ledger: Ledger) -> None:
    """Writes the changed dtypes of inputs and outputs into the signatures."""
    changed = {entry.node: entry.after for entry in ledger.rewrites if entry.by == "keep_io_types"}
    for signature in meta_graph.signature_def.values():
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            dtype = changed.get(info.name.partition(":")[0])
            if dtype is not None:
                info.dtype = tf.as_dtype(dtype).as_datatype_enum


def _referenced(meta_graph: meta_graph_pb2.MetaGraphDef) -> Iterator[str]:
    """The names of nodes and tensors that a loader or a user may look up."""
    for signature in meta_graph.signature_def.values():
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            yield from tensor_names(info)
    saver = meta_graph.saver_def
    yield from (saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name)
    for asset in meta_graph.asset_file_def:
        yield asset.tensor_info.name
    for node in meta_graph.object_graph_def.nodes:
        if node.WhichOneof("kind") == "constant":
            yield node.constant.operation
    for collection in meta_graph.collection_def.values():
        yield from collection.node_list.value
        for data in collection.bytes_list.value:
            yield from _variable_names(data)


def _make_implementations_unique(graph_def: graph_pb2.GraphDef) -> None:
    """Keeps TensorFlow from replacing functions of Keras' recurrent layers by the originals.

    A layer exports one function for each kind of device, all with the same api_implements. Among
    all functions in the process with the same api_implements, TensorFlow picks one to run. So the
    rewritten ones need a value of their own.
    """
    content = graph_def.library.SerializeToString(deterministic=True)
    suffix = f"_{hashlib.sha256(content).hexdigest()[:16]}".encode()
    for function in graph_def.library.function:
        if "api_implements" in function.attr:
            function.attr["api_implements"].s += suffix


def _remove_from_contexts(gone: set[str], meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
    """Removes the names of deleted nodes from the contexts of TF1 loops and branches.

    The TF1 loader looks up every op that these contexts name.
    """
    for name, message_type in _CONTEXTS.items():
        if name not in meta_graph.collection_def:
            continue
        contexts = meta_graph.collection_def[name].bytes_list.value
        for number, data in enumerate(contexts):
            try:
                context = message_type.FromString(data)
            except message.DecodeError:
                continue  # TensorFlow reports this when the model is loaded.
            if _remove_from_context(context, gone):
                contexts[number] = context.SerializeToString(deterministic=True)


def _remove_from_context(context: Any, gone: set[str]) -> bool:
    """Removes the names from one context; returns whether it had any."""
    values = context.values_def
    kept = [name for name in values.values if name.partition(":")[0] not in gone]
    outside = {
        name for name, source in values.external_values.items() if source.partition(":")[0] in gone
    }
    changed = len(kept) < len(values.values) or bool(outside)
    values.values[:] = kept
    for name in outside:
        del values.external_values[name]
    for nested in context.nested_contexts:
        changed |= _remove_from_context(getattr(nested, nested.WhichOneof("ctxt")), gone)
    return changed


def _capture_copies(meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
    """Makes custom gradients capture an Identity of an op's output, if the op has several.

    A captured tensor keeps its dtype. If a node has one output, a Cast takes over its name. A node
    with several, such as a batch norm, would have to keep float32.
    """
    functions = {each.signature.name: each for each in meta_graph.graph_def.library.function}
    for node in meta_graph.object_graph_def.nodes:
        if node.WhichOneof("kind") != "captured_tensor":
            continue
        captured = node.captured_tensor
        function = functions.get(captured.concrete_function)
        if function is not None:
            captured.name = _copied(captured.name, function)


def _copied(tensor: str, function: function_pb2.FunctionDef) -> str:
    """The name of a tensor that only the custom gradient reads, or the given one."""
    name, _, port = tensor.partition(":")
    producer = next((node for node in function.node_def if node.name == name), None)
    definition = None if producer is None else _tf_compat.op_definition(producer.op)
    if producer is None or definition is None or len(definition.output_arg) < 2:
        return tensor
    output = definition.output_arg[int(port or 0)]
    dtype = producer.attr[output.type_attr].type if output.type_attr else output.type
    several = any(each.number_attr or each.type_list_attr for each in definition.output_arg)
    copy = f"{name}/npu_captured_{port or 0}"
    if several or dtype != types_pb2.DT_FLOAT:
        return tensor
    if not any(node.name == copy for node in function.node_def):
        identity = function.node_def.add(name=copy, op="Identity", device=producer.device)
        identity.input.append(f"{name}:{output.name}:0")
        identity.attr["T"].type = dtype
    return f"{copy}:0"


def _known_functions(meta_graph: meta_graph_pb2.MetaGraphDef) -> set[str]:
    """The functions that a loader makes callable by themselves."""
    known = set(meta_graph.object_graph_def.concrete_functions)
    return known.union(_tf_compat.function_aliases(meta_graph))


def _captured(meta_graph: meta_graph_pb2.MetaGraphDef) -> dict[str, set[str]]:
    """The nodes that custom gradients capture and a loader looks up, by function."""
    captured: dict[str, set[str]] = {}
    for node in meta_graph.object_graph_def.nodes:
        if node.WhichOneof("kind") == "captured_tensor":
            names = captured.setdefault(node.captured_tensor.concrete_function, set())
            names.add(node.captured_tensor.name.partition(":")[0])
    return captured


def tensor_names(info: meta_graph_pb2.TensorInfo) -> list[str]:
    """The tensors that make up one input or output of a signature."""
    encoding = info.WhichOneof("encoding")
    if encoding == "coo_sparse":
        sparse = info.coo_sparse
        return [
            sparse.values_tensor_name,
            sparse.indices_tensor_name,
            sparse.dense_shape_tensor_name,
        ]
    if encoding == "composite_tensor":
        return [name for part in info.composite_tensor.components for name in tensor_names(part)]
    return [info.name]


def _variable_names(data: bytes) -> list[str]:
    """The nodes of a VariableDef; for any other message, names that match no node."""
    try:
        variable = variable_pb2.VariableDef.FromString(data)
    except message.DecodeError:
        return []
    return [
        variable.variable_name,
        variable.initial_value_name,
        variable.initializer_name,
        variable.snapshot_name,
    ]


def _complete_op_list(meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
    """Adds the ops of the rewritten graph to the MetaGraph's list of needed ops."""
    listed = {definition.name for definition in meta_graph.meta_info_def.stripped_op_list.op}
    graph_def = meta_graph.graph_def
    bodies = [graph_def.node, *(function.node_def for function in graph_def.library.function)]
    used = {node.op for nodes in bodies for node in nodes}
    for op_type in sorted(used - listed):
        definition = _tf_compat.op_definition(op_type)
        if definition is not None:
            meta_graph.meta_info_def.stripped_op_list.op.append(definition)
