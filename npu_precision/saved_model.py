"""convert_saved_model: a SavedModel in another precision, for TensorFlow as it is."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import message, text_format
from tensorflow.core.framework import graph_pb2, variable_pb2
from tensorflow.core.protobuf import control_flow_pb2, meta_graph_pb2, saved_model_pb2

from npu_precision import _errors, _rewrite, _tf_compat
from npu_precision.ledger import Ledger
from npu_precision.options import PrecisionOptions, resolve

_BINARY, _TEXT = "saved_model.pb", "saved_model.pbtxt"
# By collection, the contexts of TF1's control flow in it.
_CONTEXTS = {
    "while_context": control_flow_pb2.WhileContextDef,
    "cond_context": control_flow_pb2.CondContextDef,
}
# A hash of the graphs as they were; TensorFlow takes its absence for an older model.
_FINGERPRINT = "fingerprint.pb"


def convert_saved_model(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    options: PrecisionOptions | None = None,
    *,
    tags: Iterable[str] | None = None,
    **fields: Any,
) -> tuple[Ledger, ...]:
    """Writes a SavedModel with its graphs and functions rewritten for a precision mode.

    The result loads and runs on TensorFlow alone, by tf.saved_model.load and by the TF1 loader.
    Signatures keep their names, shapes and dtypes; names of functions and of fetched nodes stay;
    variables, assets and every other file are copied byte for byte. Variables stay float32;
    constants are stored in the low type, unless options.fold_constants is False. Keras'
    load_model builds the layers of its own models anew from their configuration, and does not
    use the converted functions: load them with tf.saved_model.load.

    Args:
        src: folder of a SavedModel on a local disk.
        dst: folder to create; its parents are created too. It appears only when it is complete.
        options: the precision options.
        tags: the tags of the one MetaGraph to rewrite; the others are kept as they are. None for
            all.
        **fields: fields of PrecisionOptions, on top of options.

    Returns:
        The ledgers of the rewritten MetaGraphs, in their order; those of functions are inside.

    Raises:
        FileNotFoundError: src holds no SavedModel.
        FileExistsError: dst exists.
        ValueError: a wrong option, no such tags, dst inside src, or a graph that the mode cannot
            be applied to.
        TypeError: a wrong type of argument, or an unknown name.
    """
    resolved = resolve(options, fields)
    source, target = pathlib.Path(src), pathlib.Path(dst)
    saved_model, file_name = _read(source)
    if target.exists():
        raise FileExistsError(f"dst {str(target)!r} exists, expected a folder to create")
    if source.resolve() in target.resolve().parents:
        raise ValueError(f"dst {str(target)!r} is inside src {str(source)!r}, expected outside")

    ledgers = tuple(
        _convert(meta_graph, resolved) for meta_graph in _chosen(saved_model.meta_graphs, tags)
    )

    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        complete = pathlib.Path(folder) / "saved_model"
        shutil.copytree(source, complete, ignore=_not_copied(source))
        _write(saved_model, complete / file_name)
        os.rename(complete, target)
    return ledgers


def _convert(meta_graph: meta_graph_pb2.MetaGraphDef, options: PrecisionOptions) -> Ledger:
    """Rewrites a MetaGraph in place."""
    nodes = {node.name for node in meta_graph.graph_def.node}
    kept = sorted({name.partition(":")[0] for name in _referenced(meta_graph)} & nodes)
    fed = [
        name.partition(":")[0]
        for signature in meta_graph.signature_def.values()
        for info in signature.inputs.values()
        for name in _tensor_names(info)
    ]
    graph_def, ledger = _rewrite.rewrite(
        meta_graph.graph_def,
        kept,
        sorted(set(fed) & nodes),
        options,
        "_".join(meta_graph.meta_info_def.tags) or "graph",
        _captured(meta_graph),
    )
    if _rewrite.changes(ledger):
        _set_apart(graph_def)
        _forget(nodes - {node.name for node in graph_def.node}, meta_graph)
    meta_graph.graph_def.CopyFrom(graph_def)
    _complete_op_list(meta_graph)
    return ledger


def _referenced(meta_graph: meta_graph_pb2.MetaGraphDef) -> Iterator[str]:
    """The names of nodes and tensors by which a loader, or a user, may ask for something."""
    for signature in meta_graph.signature_def.values():
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            yield from _tensor_names(info)
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


def _set_apart(graph_def: graph_pb2.GraphDef) -> None:
    """Makes the functions of Keras' recurrent layers no alternatives to those before the rewrite.

    A layer exports a function for each kind of device, under one api_implements. Of all functions
    in the process that have the same, TensorFlow runs the one it thinks fit.
    """
    content = graph_def.library.SerializeToString(deterministic=True)
    suffix = f"_{hashlib.sha256(content).hexdigest()[:16]}".encode()
    for function in graph_def.library.function:
        if "api_implements" in function.attr:
            function.attr["api_implements"].s += suffix


def _forget(gone: set[str], meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
    """Takes nodes that are gone out of the loops and branches that TF1 code was written in.

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
                continue  # TensorFlow will say so to whoever loads it.
            if _forget_in(context, gone):
                contexts[number] = context.SerializeToString(deterministic=True)


def _forget_in(context: Any, gone: set[str]) -> bool:
    """Whether any name was taken out."""
    values = context.values_def
    kept = [name for name in values.values if name.partition(":")[0] not in gone]
    outside = {
        name for name, source in values.external_values.items() if source.partition(":")[0] in gone
    }
    forgets = len(kept) < len(values.values) or bool(outside)
    values.values[:] = kept
    for name in outside:
        del values.external_values[name]
    for nested in context.nested_contexts:
        forgets |= _forget_in(getattr(nested, nested.WhichOneof("ctxt")), gone)
    return forgets


def _captured(meta_graph: meta_graph_pb2.MetaGraphDef) -> dict[str, set[str]]:
    """By function, the nodes in it that a custom gradient has captured and a loader asks for."""
    captured: dict[str, set[str]] = {}
    for node in meta_graph.object_graph_def.nodes:
        if node.WhichOneof("kind") == "captured_tensor":
            names = captured.setdefault(node.captured_tensor.concrete_function, set())
            names.add(node.captured_tensor.name.partition(":")[0])
    return captured


def _tensor_names(info: meta_graph_pb2.TensorInfo) -> list[str]:
    encoding = info.WhichOneof("encoding")
    if encoding == "coo_sparse":
        sparse = info.coo_sparse
        return [
            sparse.values_tensor_name,
            sparse.indices_tensor_name,
            sparse.dense_shape_tensor_name,
        ]
    if encoding == "composite_tensor":
        return [name for part in info.composite_tensor.components for name in _tensor_names(part)]
    return [info.name]


def _variable_names(data: bytes) -> list[str]:
    """The nodes of a VariableDef; of anything else, names that are no node's."""
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
    """Adds the ops that the rewritten graph uses to the list of those it needs."""
    listed = {definition.name for definition in meta_graph.meta_info_def.stripped_op_list.op}
    graph_def = meta_graph.graph_def
    bodies = [graph_def.node, *(function.node_def for function in graph_def.library.function)]
    used = {node.op for nodes in bodies for node in nodes}
    for op_type in sorted(used - listed):
        definition = _tf_compat.op_definition(op_type)
        if definition is not None:
            meta_graph.meta_info_def.stripped_op_list.op.append(definition)


def _chosen(
    meta_graphs: Iterable[meta_graph_pb2.MetaGraphDef], tags: Iterable[str] | None
) -> list[meta_graph_pb2.MetaGraphDef]:
    everything = list(meta_graphs)
    if tags is None:
        return everything
    wanted = {tags} if isinstance(tags, str) else set(tags)
    chosen = [graph for graph in everything if set(graph.meta_info_def.tags) == wanted]
    if not chosen:
        present = [sorted(graph.meta_info_def.tags) for graph in everything]
        raise ValueError(f"tags: got {sorted(wanted)}, but the SavedModel has {present}")
    return chosen


def _read(folder: pathlib.Path) -> tuple[saved_model_pb2.SavedModel, str]:
    binary, text = folder / _BINARY, folder / _TEXT
    try:
        if binary.is_file():
            return saved_model_pb2.SavedModel.FromString(binary.read_bytes()), _BINARY
        if text.is_file():
            content = text.read_text(encoding="utf-8")
            return text_format.Parse(content, saved_model_pb2.SavedModel()), _TEXT
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise ValueError(f"src {str(folder)!r} holds no readable SavedModel: {error}") from error
    raise FileNotFoundError(
        f"src: got {_errors.got(folder)}, expected a folder with {_BINARY} or {_TEXT}"
    )


def _write(saved_model: saved_model_pb2.SavedModel, path: pathlib.Path) -> None:
    if path.name == _TEXT:
        path.write_text(text_format.MessageToString(saved_model), encoding="utf-8")
    else:
        path.write_bytes(saved_model.SerializeToString(deterministic=True))


def _not_copied(source: pathlib.Path) -> Any:
    def ignored(folder: str, names: list[str]) -> list[str]:
        if pathlib.Path(folder) != source:
            return []
        return [name for name in names if name in (_BINARY, _TEXT, _FINGERPRINT)]

    return ignored
