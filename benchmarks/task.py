"""A graph of the benchmark, with its fetches and feeds: a frozen graph or a training step."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
_TRAINING = "train "


@dataclasses.dataclass(frozen=True)
class Task:
    """The graph that every contender runs.

    Attributes:
        graph: the graph, in float32.
        fetches: the fetches of a step; results are compared by the first one.
        feeds: the values to feed, by tensor name.
        init: the op that initializes the variables, or None.
    """

    graph: tf.Graph
    fetches: list[str]
    feeds: dict[str, np.ndarray]
    init: str | None = None

    @contextlib.contextmanager
    def session(self, config: tf1.ConfigProto) -> Iterator[tf1.Session]:
        """A session in which variables are initialized."""
        with tf1.Session(graph=self.graph, config=config) as session:
            if self.init is not None:
                session.run(self.init)
            yield session

    def step(self, session: tf1.Session) -> np.ndarray:
        """Runs a step, and returns the result to compare."""
        return np.asarray(session.run(self.fetches, self.feeds)[0])


def task(name: str, graphs_folder: pathlib.Path) -> Task:
    """The task of this name, one of run.py's."""
    if is_training(name):
        import training_graphs

        training = training_graphs.training_graph(name[len(_TRAINING) :])
        fetches = [training.loss, training.step]
        return Task(training.graph, fetches, training.feeds, training.init)
    import inference_graphs

    frozen = inference_graphs.frozen_graph(name, graphs_folder)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(frozen.graph_def(), name="")
    return Task(graph, [frozen.fetch], {frozen.feed: frozen.x})


def is_training(name: str) -> bool:
    """Whether the task of this name is a training step."""
    return name.startswith(_TRAINING)


def training_name(name: str) -> str:
    """The task of a training graph."""
    return _TRAINING + name
