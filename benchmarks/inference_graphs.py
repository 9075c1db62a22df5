"""The frozen graphs of the inference models.

Building them takes several minutes, so they are kept in a folder. Any TensorFlow can read them.
"""

from __future__ import annotations

import dataclasses
import pathlib

import inference_models
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
NAMES = inference_models.NAMES


@dataclasses.dataclass(frozen=True)
class FrozenGraph:
    """A graph whose placeholder "x" is fed, and whose tensor "Identity:0" is fetched.

    Attributes:
        name: one of NAMES.
        path: the path of the binary GraphDef.
        x: the value to feed, [batch, ...].
    """

    name: str
    path: pathlib.Path
    x: np.ndarray
    feed: str = "x:0"
    fetch: str = "Identity:0"

    def graph_def(self) -> tf1.GraphDef:
        """Reads the file."""
        return tf1.GraphDef.FromString(self.path.read_bytes())


def frozen_graph(name: str, folder: pathlib.Path) -> FrozenGraph:
    """The graph of this name, built into the folder unless it is there.

    Raises:
        RuntimeError: the graph is not in the folder and cannot be built in this environment.
    """
    path, x_path = _paths(name, folder)
    if not _is_there(name, folder):
        _build(name, path, x_path)
    return FrozenGraph(name, path, np.load(x_path))


def obstacle(name: str, folder: pathlib.Path) -> str | None:
    """Why the graph is not in the folder and cannot be built, or None."""
    return None if _is_there(name, folder) else inference_models.obstacle(name)


def _paths(name: str, folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    return folder / f"{name}.pb", folder / f"{name}.npy"


def _is_there(name: str, folder: pathlib.Path) -> bool:
    return all(path.exists() for path in _paths(name, folder))


def _build(name: str, path: pathlib.Path, x_path: pathlib.Path) -> None:
    # Not a public name of TensorFlow, but its own way to freeze a function in TF 2.
    from tensorflow.python.framework import convert_to_constants

    model, x = inference_models.model(name)
    function = tf.function(lambda x: model(x, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec(x.shape, x.dtype, name="x"))
    frozen = convert_to_constants.convert_variables_to_constants_v2(concrete)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(x_path, x)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(_for_any_version(frozen.graph).SerializeToString())
    unfinished.rename(path)
    tf.keras.backend.clear_session()


def _for_any_version(graph: tf.Graph) -> tf1.GraphDef:
    """The GraphDef without attributes at their default: older TensorFlows do not know some."""
    with graph.as_default():  # without it, there is none to export in eager execution
        return tf1.train.export_meta_graph(strip_default_attrs=True).graph_def
