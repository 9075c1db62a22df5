"""convert_saved_model: rewrites a SavedModel to another precision, for stock TensorFlow."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from collections.abc import Iterable
from typing import Any

from google.protobuf import message, text_format
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from npu_precision import _library, outputs
from npu_precision.ledger import Ledger
from npu_precision.offline import frozen_signatures, meta_graph
from npu_precision.options import PrecisionOptions, mixlist_content, resolve

FILE_NAMES = _BINARY, _TEXT = "saved_model.pb", "saved_model.pbtxt"
# A hash of the original graphs. TensorFlow treats a model without it as an older one.
_FINGERPRINT = "fingerprint.pb"


def convert_saved_model(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    options: PrecisionOptions | None = None,
    *,
    tags: Iterable[str] | None = None,
    keep_io_types: bool = True,
    freeze: bool | None = None,
    **fields: Any,
) -> tuple[Ledger, ...]:
    """Writes a SavedModel with its graphs and functions rewritten for a precision mode.

    The result loads and runs on TensorFlow alone, by tf.saved_model.load and by the TF1 loader.
    Signatures keep their names, shapes and dtypes; names of functions and of fetched nodes stay;
    variables, assets and every other file are copied byte for byte. Variables stay float32;
    constants are stored in the low type, unless options.rewrites leaves fold_constants out. Keras'
    load_model rebuilds the layers of its own models from their configuration, and does not
    use the converted functions: load them with tf.saved_model.load.

    Args:
        src: folder of a SavedModel on a local disk.
        dst: folder to create; its parents are created too. It appears only when it is complete.
        options: the precision options.
        tags: the tags of the one MetaGraph to rewrite; the others are kept as they are. None for
            all.
        keep_io_types: if False, inputs and outputs that are only cast to or from the low type
            change to that type. In a SavedModel of TensorFlow 2 they belong to functions, and keep
            their dtypes.
        freeze: stores the values of variables in the signatures as constants, as in a frozen
            graph: batch norms are folded, and no weight is cast in a step. The signatures no longer
            see when variables change, and have no custom gradients; everything else stays as it is,
            variables and all other functions too. True is an error where it cannot be done. None,
            in the modes that change more than dtypes for speed, and for the target "host", does it
            where it can, with variables of up to 512 MiB, and warns where it cannot, or where
            options name nodes, which get the longer names of inlined functions. SavedModels of
            TensorFlow 1, whose signatures are no functions, are not frozen.
        **fields: fields of PrecisionOptions, on top of options.

    Returns:
        The ledgers of the rewritten MetaGraphs, in their order; each holds those of its functions.

    Raises:
        FileNotFoundError: src holds no SavedModel.
        FileExistsError: dst exists.
        OSError: dst cannot be written.
        ValueError: a wrong option, no such tags, dst inside src, or a graph that the mode cannot
            be applied to; with freeze=True, signatures that cannot be frozen.
        TypeError: a wrong type of argument, or an unknown name.
    """
    resolved = resolve(options, fields)
    source, target = pathlib.Path(src), pathlib.Path(dst)
    saved_model, file_name = read(source)
    if target.exists():
        raise FileExistsError(f"dst {str(target)!r} exists, expected a folder to create")
    if source.resolve() in target.resolve().parents:
        raise ValueError(f"dst {str(target)!r} is inside src {str(source)!r}, expected outside")

    ledgers = tuple(
        _rewritten(chosen, source, resolved, keep_io_types, freeze)
        for chosen in _chosen(saved_model.meta_graphs, tags)
    )

    with outputs.new_folder(target) as complete:
        _copy(source, complete)
        _write(saved_model, complete / file_name)
    return ledgers


def _rewritten(
    chosen: meta_graph_pb2.MetaGraphDef,
    source: pathlib.Path,
    options: PrecisionOptions,
    keep_io_types: bool,
    freeze: bool | None,
) -> Ledger:
    """The ledger of the MetaGraph, which is rewritten in place."""
    if freeze:
        frozen_signatures.freeze(chosen, source)
    reason = None
    gains = freeze is None and _is_for_speed(options) and frozen_signatures.may_gain(chosen)
    if gains and _may_name_nodes(options):
        reason = (
            "the options may name nodes, whose names freezing changes; freeze=True (convert "
            "--freeze) does it"
        )
    elif gains:
        attempt = meta_graph_pb2.MetaGraphDef()
        attempt.CopyFrom(chosen)
        try:
            frozen_signatures.freeze(attempt, source, frozen_signatures.LARGEST_UNASKED)
            ledger = meta_graph.rewrite(attempt, options, keep_io_types=keep_io_types)
        except Exception as error:  # loading a model runs its ops and objects
            reason = str(error).partition("\n")[0].replace("; leave freeze out", "")
            reason = reason[len("freeze: ") :] if reason.startswith("freeze: ") else reason
        else:
            chosen.CopyFrom(attempt)
            return ledger
    ledger = meta_graph.rewrite(chosen, options, keep_io_types=keep_io_types)
    if reason is not None:
        ledger.data["warnings"].append(
            f"signatures read variables in each step, and are slower for it: {reason}"
        )
    return ledger


def _is_for_speed(options: PrecisionOptions) -> bool:
    """Whether the options change more than dtypes by default."""
    mode = options.precision_mode_v2 or options.precision_mode
    lowers = options.autocast_only or mode in _library.describe()["modes_for_speed"]
    return bool(lowers and options.target in (None, "host") and not options.emulate)


# An entry that matches a node in any scope, such as those of `tune`. Freezing inlines functions, so
# their nodes get more scopes.
_IN_ANY_SCOPE = re.compile(r'"node:(?:\.\*|\(\.\*/\)\?)[^"|]*"')


def _may_name_nodes(options: PrecisionOptions) -> bool:
    """Whether a file of the user may name single nodes, whose names freezing changes."""
    mixlist = (mixlist_content(options) or b"").decode("utf-8", "replace")
    texts = [options.mixlist_edits or "", mixlist]
    named = any('"node:' in _IN_ANY_SCOPE.sub("", text) for text in texts)
    return options.customize_dtypes is not None or named


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


def read(folder: pathlib.Path) -> tuple[saved_model_pb2.SavedModel, str]:
    """The SavedModel in a folder, and the name of its file.

    Raises:
        FileNotFoundError: the folder holds none.
        ValueError: the SavedModel cannot be read.
    """
    binary, text = folder / _BINARY, folder / _TEXT
    try:
        if binary.is_file():
            return saved_model_pb2.SavedModel.FromString(binary.read_bytes()), _BINARY
        if text.is_file():
            content = text.read_text(encoding="utf-8")
            return text_format.Parse(content, saved_model_pb2.SavedModel()), _TEXT
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(folder)!r} holds no readable SavedModel: {error}") from error
    raise FileNotFoundError(f"{str(folder)!r}: expected a folder with {_BINARY} or {_TEXT}")


def _write(saved_model: saved_model_pb2.SavedModel, path: pathlib.Path) -> None:
    if path.name == _TEXT:
        path.write_text(text_format.MessageToString(saved_model), encoding="utf-8")
    else:
        path.write_bytes(saved_model.SerializeToString(deterministic=True))


def _copy(source: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies all but the graphs. Unlike shutil.copytree, it stops at the first error."""
    for around, _, names in os.walk(str(source), followlinks=True):
        inside = pathlib.Path(around)
        copies = folder / inside.relative_to(source)
        copies.mkdir()
        for name in names:
            if inside != source or name not in (_BINARY, _TEXT, _FINGERPRINT):
                shutil.copy2(inside / name, copies / name)
