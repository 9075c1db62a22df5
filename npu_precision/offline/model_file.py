"""Reads a model from any kind of file that holds a graph, as a MetaGraph."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
from google.protobuf import message, text_format
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from npu_precision import _errors, _tf_compat
from npu_precision.ledger import Ledger
from npu_precision.offline import keras_file, meta_graph, saved_model
from npu_precision.offline.argument_shapes import write_argument_shapes
from npu_precision.offline.tensor_names import node_name
from npu_precision.options import PrecisionOptions

GRAPH_DEF, META_GRAPH, SAVED_MODEL = "GraphDef", "MetaGraph", "SavedModel"
# The collection that tf.train.Optimizer.minimize puts its op into.
_TRAIN_OP = "train_op"
DEFAULT_SIGNATURE = "serving_default"
_EXPECTED = (
    "a GraphDef (.pb, .pbtxt), a MetaGraph (.meta), the prefix of a checkpoint that has one, the "
    "folder of a SavedModel, or a file of Keras (.keras, .h5)"
)

# By kind: the message type, and the field names that its text form may begin with.
_KINDS: dict[str, tuple[Any, frozenset[str]]] = {
    kind: (kind_message, frozenset(field.name for field in kind_message.DESCRIPTOR.fields))
    for kind, kind_message in (
        (SAVED_MODEL, saved_model_pb2.SavedModel),
        (META_GRAPH, meta_graph_pb2.MetaGraphDef),
        (GRAPH_DEF, graph_pb2.GraphDef),
    )
}
# Files of other formats: their first bytes, the name of the format, and the remedy.
_OTHERS = (
    (b"\x1f\x8b", "compressed by gzip", "decompress it first"),
    (b"version https://git-lfs", "a pointer of Git LFS", "fetch the file itself: git lfs pull"),
)
_TF_LITE = b"TFL3"
# Limits the text of a parser's error, which may hold the values of a tensor.
_LONGEST_EXCERPT = 200
# The prefix of signatures that TensorFlow makes for itself.
_INTERNAL = "__saved_model"
_NAME = re.compile(r"[^\s\x00-\x1f\x7f]+")


@dataclasses.dataclass(frozen=True)
class Model:
    """A graph, and the nodes to compute.

    Attributes:
        path: the file that was read, or the folder of a SavedModel.
        kind: GRAPH_DEF, META_GRAPH or SAVED_MODEL.
        meta_graph: the MetaGraph; for a GraphDef, one that holds only the graph.
        fetches: names of nodes whose outputs keep name and dtype.
        roots: names of the nodes to look at, with everything they depend on; empty for all nodes.
        signature: the name of the signature whose outputs the roots are, or "".
        exported: for a file of Keras, the temporary SavedModel that was made of it, else "".
        title: the name of the graph that ran, if the path is that of its ledger; else "".
        outputs: the outputs of the signature that were asked for, by name; empty for all.
    """

    path: str
    kind: str
    meta_graph: meta_graph_pb2.MetaGraphDef
    fetches: tuple[str, ...]
    roots: tuple[str, ...]
    signature: str
    exported: str = ""
    title: str = ""
    outputs: tuple[str, ...] = ()

    @property
    def folder(self) -> pathlib.Path:
        """The folder of a SavedModel."""
        path = pathlib.Path(self.exported or self.path)
        return path if path.is_dir() else path.parent

    @property
    def shown_kind(self) -> str:
        """The kind, and what a file of Keras was made into."""
        return (
            f"{keras_file.KERAS_MODEL}, exported to a {self.kind}" if self.exported else self.kind
        )

    @property
    def shown_roots(self) -> tuple[str, ...]:
        """The nodes to explain, with all that they depend on; empty for all nodes.

        They are the roots. Without roots, they are the nodes of a training step, without
        initializers and savers.
        """
        collections = self.meta_graph.collection_def
        if self.roots or _TRAIN_OP not in collections:
            return self.roots
        there = {node.name for node in self.meta_graph.graph_def.node}
        return tuple(name for name in collections[_TRAIN_OP].node_list.value if name in there)

    def rewrite(
        self, options: PrecisionOptions, keep_io_types: bool = True
    ) -> tuple[meta_graph_pb2.MetaGraphDef, Ledger]:
        """The rewritten MetaGraph and its ledger; this MetaGraph is not changed.

        Args:
            options: the precision options.
            keep_io_types: whether inputs and outputs keep their dtype.

        Raises:
            ValueError: the optimizer refuses options or graph, or TensorFlow cannot read the graph.
        """
        result = meta_graph_pb2.MetaGraphDef()
        result.CopyFrom(self.meta_graph)
        ledger = meta_graph.rewrite(result, options, self.fetches, keep_io_types)
        return result, ledger

    def with_batch_size(self, rows: int) -> Model:
        """The model, with this batch size where a placeholder's first dimension is unknown.

        Functions get the batch size from the calls in the graph, as if there were no other callers.
        """
        meta_graph = meta_graph_pb2.MetaGraphDef()
        meta_graph.CopyFrom(self.meta_graph)
        for node in meta_graph.graph_def.node:
            if node.op != "Placeholder" or "shape" not in node.attr:
                continue
            dimensions = node.attr["shape"].shape.dim
            if len(dimensions) > 0 and dimensions[0].size < 0:
                dimensions[0].size = rows
        write_argument_shapes(meta_graph.graph_def)
        return dataclasses.replace(self, meta_graph=meta_graph)


def load_model(
    path: str | os.PathLike[str],
    *,
    fetches: Sequence[str] = (),
    tags: Sequence[str] | None = None,
    signature: str | None = None,
) -> Model:
    """Reads a model.

    Args:
        path: a GraphDef or MetaGraph, binary or text; a checkpoint's prefix or folder, which has a
            MetaGraph; a SavedModel, its folder or the file in it; or a .keras or .h5 file, which
            Keras exports to a temporary SavedModel.
        fetches: names of tensors ("logits:0") or nodes to compute; with a signature, names of its
            outputs. Default: the exports of a SavedModel; for other files, the nodes without
            consumers.
        tags: the tags of the MetaGraph to read, for a SavedModel that has several. Default: the
            one for serving.
        signature: the name of the signature to compute, for a SavedModel. Default:
            "serving_default", or the only one, or else all.

    Raises:
        OSError: the file cannot be read.
        ValueError: no model, a damaged one, or one with ops that this TensorFlow does not know; no
            such fetch, tags or signature.
    """
    if not os.fspath(path):
        raise ValueError(f"the model's name is empty; expected {_EXPECTED}")
    file = _file_of(pathlib.Path(path))
    exported = keras_file.export(file) if _is_keras_file(file) else None
    kind, graph = _read(exported or file, tags)
    shown, made = str(file), str(exported or "")
    _check_graph(shown, graph.graph_def)
    nodes = {node.name: node for node in graph.graph_def.node}
    signatures = signature_names(graph)
    chosen = _default_signature(signatures) if signature is None else signature
    if chosen or signature is not None:
        _check_signature(shown, graph, chosen)
    are_nodes = all(str(fetch).partition(":")[0] in nodes for fetch in fetches)
    if fetches and chosen and (signature is not None or not are_nodes):
        outputs = _chosen_outputs(graph.signature_def[chosen], chosen, fetches)
        roots = tuple(dict.fromkeys(_signature_outputs(graph, chosen, outputs)))
        kept = () if kind == SAVED_MODEL else tuple(_unread(graph.graph_def))
        return Model(shown, kind, graph, kept, roots, chosen, made, outputs=outputs)
    if fetches:
        named = tuple(node_name(fetch, nodes, graph.graph_def, "fetch") for fetch in fetches)
        return Model(shown, kind, graph, named, named, "", made)
    asked = [chosen] if chosen else signatures
    roots = tuple(name for each in asked for name in _signature_outputs(graph, each))
    kept = () if kind == SAVED_MODEL else tuple(_unread(graph.graph_def))
    return Model(shown, kind, graph, kept, roots, chosen, made)


def _is_keras_file(path: pathlib.Path) -> bool:
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return keras_file.is_keras_file(file.read(8))


def _read(
    path: pathlib.Path, tags: Iterable[str] | None
) -> tuple[str, meta_graph_pb2.MetaGraphDef]:
    if path.is_dir():
        stored, _ = saved_model.read(path)
        return SAVED_MODEL, _serving(path, stored, tags)
    kind, content = _parsed(path, path.read_bytes())
    if kind == SAVED_MODEL:
        return kind, _serving(path, content, tags)
    if tags is not None:
        raise ValueError(f"tags: {str(path)!r} is a {kind}; tags tell a SavedModel's graphs apart")
    return kind, content if kind == META_GRAPH else meta_graph_pb2.MetaGraphDef(graph_def=content)


def _file_of(path: pathlib.Path) -> pathlib.Path:
    """The file to read for a path; for a SavedModel, its folder."""
    if path.is_dir():
        latest = _checkpoint_state(path)
        if any(path.joinpath(name).is_file() for name in saved_model.FILE_NAMES):
            return path
        if latest is None:
            graphs = sorted(path.glob("*.meta"))
            told = f", which it has: {graphs[-1].name!r}" if graphs else ""
            raise FileNotFoundError(f"folder {str(path)!r} is no model; expected {_EXPECTED}{told}")
        # The checkpoint state names the folder it was written in, which may have been moved since.
        path /= pathlib.Path(latest.model_checkpoint_path).name
    if path.is_file():
        return path
    with_graph = path.with_name(path.name + ".meta")
    if with_graph.is_file():
        return with_graph
    if path.with_name(path.name + ".index").is_file():
        raise ValueError(
            f"checkpoint {str(path)!r} has no graph: expected {with_graph.name!r} beside it, which "
            "tf.compat.v1.train.Saver writes"
        )
    there = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    raise FileNotFoundError(
        f"no file {str(path)!r}{_errors.did_you_mean(path.name, there)}; expected {_EXPECTED}"
    )


def _checkpoint_state(folder: pathlib.Path) -> Any:
    try:
        return tf.train.get_checkpoint_state(str(folder))
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(folder / 'checkpoint')!r} is no checkpoint's state") from error


def _parsed(path: pathlib.Path, data: bytes) -> tuple[str, Any]:
    """The kind of a model, detected from its content, and the parsed message."""
    if not data:
        raise ValueError(f"{str(path)!r} is empty; expected {_EXPECTED}")
    for start, what, remedy in _OTHERS:
        if data.startswith(start):
            raise ValueError(f"{str(path)!r} is {what}, and no graph: {remedy}")
    if data[4:8] == _TF_LITE:
        raise ValueError(f"{str(path)!r} is a TensorFlow Lite model; expected {_EXPECTED}")
    text = _as_text(data)
    if text is not None:
        return _parsed_text(path, text)
    for kind, (kind_message, _) in _KINDS.items():
        try:
            content = kind_message.FromString(data)
        except message.DecodeError:
            continue
        if _is_likely(content):
            return kind, content
    raise ValueError(f"{str(path)!r} is damaged, cut off, or no model; expected {_EXPECTED}")


def _as_text(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if re.search(r"[\x00-\x08\x0e-\x1f]", text) else text


def _parsed_text(path: pathlib.Path, text: str) -> tuple[str, Any]:
    begin = re.match(r"(?:\s|#[^\n]*\n)*([a-z_]+)\s*[:{<]", text)
    for kind, (kind_message, fields) in _KINDS.items():
        if begin is None or begin.group(1) not in fields:
            continue
        try:
            return kind, text_format.Parse(text, kind_message())
        except text_format.ParseError as error:
            what = str(error)
            if len(what) > _LONGEST_EXCERPT:
                what = f"{what[:_LONGEST_EXCERPT]} ..."
            raise ValueError(f"{path}:{what}; expected the text form of a {kind}") from error
    raise ValueError(f"{str(path)!r} is text, but no model's; expected {_EXPECTED}")


def _is_likely(content: Any) -> bool:
    """Whether bytes that parse as this kind of message were written as one.

    Most serialized messages of one kind also parse as another kind, with nonsense in it.
    """
    if isinstance(content, saved_model_pb2.SavedModel):
        return content.saved_model_schema_version > 0 and len(content.meta_graphs) > 0
    graph_def = getattr(content, "graph_def", content)
    return len(graph_def.node) > 0 and all(
        _NAME.fullmatch(node.name) and _NAME.fullmatch(node.op) for node in graph_def.node
    )


def _serving(
    path: pathlib.Path, stored: saved_model_pb2.SavedModel, tags: Iterable[str] | None
) -> meta_graph_pb2.MetaGraphDef:
    if len(stored.meta_graphs) == 1 and tags is None:
        return stored.meta_graphs[0]
    wanted = {tf.saved_model.SERVING} if tags is None else set(tags)
    for graph in stored.meta_graphs:
        if set(graph.meta_info_def.tags) == wanted:
            return graph
    present = " or ".join(
        repr(",".join(sorted(graph.meta_info_def.tags))) for graph in stored.meta_graphs
    )
    got = "none" if tags is None else repr(",".join(sorted(wanted)))
    raise ValueError(f"tags: got {got}, expected those of a graph in {str(path)!r}: {present}")


def signature_names(graph: meta_graph_pb2.MetaGraphDef) -> list[str]:
    """The signatures of a MetaGraph, without those that TensorFlow makes for itself."""
    return sorted(name for name in graph.signature_def if not name.startswith(_INTERNAL))


def _default_signature(names: Sequence[str]) -> str:
    if DEFAULT_SIGNATURE in names:
        return DEFAULT_SIGNATURE
    return names[0] if len(names) == 1 else ""


def _check_signature(path: str, graph: meta_graph_pb2.MetaGraphDef, signature: str) -> None:
    if signature in graph.signature_def:
        return
    present = signature_names(graph)
    if not present:
        raise ValueError(f"signature: got {signature!r}, but {path!r} has no signatures")
    raise ValueError(
        f"signature: got {signature!r}, expected one of {', '.join(map(repr, present))}, which "
        f"{path!r} has{_errors.did_you_mean(signature, present)}"
    )


def _signature_outputs(
    graph: meta_graph_pb2.MetaGraphDef, signature: str, names: Sequence[str] = ()
) -> tuple[str, ...]:
    """The nodes of a signature's outputs, or of some of these."""
    outputs = graph.signature_def[signature].outputs
    return tuple(
        tensor.partition(":")[0]
        for name in names or sorted(outputs)
        for tensor in meta_graph.tensor_names(outputs[name])
    )


def _chosen_outputs(
    definition: meta_graph_pb2.SignatureDef, signature: str, fetches: Sequence[Any]
) -> tuple[str, ...]:
    """The outputs of a signature that fetches name, by their names there or by their tensors."""
    by_name = {name: name for name in definition.outputs}
    for name, info in definition.outputs.items():
        by_name.setdefault(info.name, name)
    found = []
    for fetch in fetches:
        if fetch not in by_name:
            present = sorted(definition.outputs)
            raise ValueError(
                f"fetch: got {fetch!r}, expected an output of signature {signature!r}: "
                f"{', '.join(map(repr, present))}{_errors.did_you_mean(str(fetch), present)}"
            )
        found.append(by_name[fetch])
    return tuple(dict.fromkeys(found))


def _unread(graph_def: graph_pb2.GraphDef) -> Iterable[str]:
    read = {name.lstrip("^").partition(":")[0] for node in graph_def.node for name in node.input}
    return (node.name for node in graph_def.node if node.name not in read)


def _check_graph(path: str, graph_def: graph_pb2.GraphDef) -> None:
    """Reports all nodes that TensorFlow cannot read; TensorFlow itself reports only the first."""
    if not graph_def.node:
        raise ValueError(f"the graph of {path!r} has no nodes; expected {_EXPECTED}")
    names = {node.name for node in graph_def.node}
    if len(names) < len(graph_def.node):
        counted = collections.Counter(node.name for node in graph_def.node)
        twice = next(name for name, count in counted.items() if count > 1)
        raise ValueError(f"the graph of {path!r} has several nodes {twice!r}, expected one")
    for node in graph_def.node:
        for tensor in node.input:
            source = tensor.lstrip("^").partition(":")[0]
            if source not in names:
                raise ValueError(
                    f"node {node.name!r} of {path!r} reads {source!r}, which is not in the graph: "
                    "the file is cut off, or part of a larger graph"
                )
    functions = {function.signature.name for function in graph_def.library.function}
    bodies = [graph_def.node, *(function.node_def for function in graph_def.library.function)]
    used = collections.Counter(node.op for nodes in bodies for node in nodes)
    unknown = [
        f"{op} ({count} node{'s' * (count > 1)})"
        for op, count in sorted(used.items())
        if op not in functions and _tf_compat.op_definition(op) is None
    ]
    if unknown:
        raise ValueError(
            f"{path!r} has ops that TensorFlow {tf.__version__} does not know: "
            f"{', '.join(unknown)}; use the TensorFlow that wrote it, or load the library that "
            "has them with --op-library"
        )
