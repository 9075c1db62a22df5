"""Converts a model as `convert` does, and reads the result."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import tempfile
from collections.abc import Iterator

from npu_precision.accuracy import frozen
from npu_precision.offline import model_file, saved_model
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions


def folder_of(model: Model) -> pathlib.Path:
    """The folder of a SavedModel; the user may have given the file in it.

    Raises:
        ValueError: it is a SavedModel's graph without its folder.
    """
    path = pathlib.Path(model.path)
    if not model.exported and path.is_file() and path.name not in saved_model.FILE_NAMES:
        raise ValueError(
            f"{model.path!r} is the graph of a SavedModel without its folder, expected it to be "
            f"named {' or '.join(saved_model.FILE_NAMES)}"
        )
    return model.folder


def reread(model: Model, made: pathlib.Path) -> Model:
    """The converted model at a path, with the outputs that were chosen of its source."""
    if model.kind != model_file.SAVED_MODEL:
        return model_file.load_model(made, fetches=frozen.roots(model))
    tags = sorted(model.meta_graph.meta_info_def.tags)
    converted = model_file.load_model(made, tags=tags, signature=model.signature or None)
    return dataclasses.replace(converted, outputs=model.outputs)


@contextlib.contextmanager
def converted(model: Model, options: PrecisionOptions) -> Iterator[Model]:
    """The model that `convert` makes with these options, while the context lasts.

    Raises:
        OSError: the disk is full.
        ValueError: the optimizer refuses options or model.
    """
    if model.kind != model_file.SAVED_MODEL:
        meta_graph, _ = model.rewrite(options)
        yield dataclasses.replace(model, meta_graph=meta_graph)
        return
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder, "converted")
        tags = sorted(model.meta_graph.meta_info_def.tags)
        saved_model.convert_saved_model(folder_of(model), made, options, tags=tags)
        yield reread(model, made)
