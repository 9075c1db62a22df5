"""Exports a model in a file of Keras to a temporary SavedModel."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import pathlib
import re
import shutil
import tempfile
import zipfile

import tensorflow as tf

KERAS_MODEL = "Keras model"
# What helps where Keras does not know a class.
IMPORT_CLASSES = (
    "if it has classes of its own, import them before: python -c 'import MODULE, "
    "npu_precision_command; npu_precision_command.main()' ..."
)
SUFFIXES = (".keras", ".h5")
# The first bytes of files of Keras: .keras is a zip archive, .h5 is HDF5.
_ZIP, _HDF5 = b"PK\x03\x04", b"\x89HDF"


def is_keras_file(data: bytes) -> bool:
    """Whether the content may be a file of Keras."""
    return data.startswith((_ZIP, _HDF5))


def export(path: pathlib.Path) -> pathlib.Path:
    """Exports the model in a .keras or .h5 file; returns the folder of the SavedModel.

    The folder is deleted when the process ends.

    Raises:
        ValueError: it is not Keras' file, or Keras is not installed, or cannot load or export it.
    """
    if not tf.executing_eagerly():
        raise ValueError(
            f"{str(path)!r} is a {KERAS_MODEL}, which is exported in eager execution only, and "
            "that is off: load it where it is on, and use tf.saved_model.save"
        )
    if zipfile.is_zipfile(str(path)):
        with zipfile.ZipFile(str(path)) as archive:
            if "config.json" not in archive.namelist():
                raise ValueError(f"{str(path)!r} is a zip archive, but not one that Keras writes")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="npu_precision_"))
    atexit.register(shutil.rmtree, str(folder), ignore_errors=True)
    exported = folder / path.stem
    # Keras prints what it does.
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            keras = tf.keras.models
        except ImportError as error:
            raise ValueError(f"{str(path)!r} needs Keras: {error}") from error
        try:
            _save(keras.load_model(os.fspath(path), compile=False), os.fspath(exported))
        except Exception as error:  # Loading a model runs its own code.
            raise ValueError(
                f"Keras cannot load and export {str(path)!r}: {type(error).__name__}: "
                f"{shown(error)}; {IMPORT_CLASSES}; or load it in Python, call it once, and give "
                "the folder that model.export(folder) writes"
            ) from error
    return exported


def _save(model: tf.keras.Model, folder: str) -> None:
    if hasattr(model, "export"):
        model.export(folder)
    else:  # Keras before 2.13
        tf.saved_model.save(model, folder)


def shown(error: Exception) -> str:
    """The cause in one of Keras' messages, which also hold whole configurations."""
    message = str(error).strip().rpartition("Exception encountered:")[2]
    cause = re.split(r"\n\n|,? ?(?:Full object )?config[:=]", message.strip())[0]
    return " ".join(cause.split()).rstrip(".")
