"""Task: what a row runs in this process: a graph or a SavedModel in sessions, or a tf.function."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Protocol

import contenders
import measure
import numpy as np
import tensorflow as tf
from rows import Row
from runner import Ran, Runner

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class InSession:
    """A Runner whose steps are runs of a session.

    Attributes:
        session: the session, with initialized variables.
        fetches: the fetches of a step; the first one is the result.
        feeds: the values to feed, by tensor name.
    """

    session: tf1.Session
    fetches: list[str]
    feeds: dict[str, np.ndarray]

    def first(self) -> np.ndarray:
        """As Runner."""
        return self.step()

    def step(self) -> np.ndarray:
        """As Runner."""
        return np.asarray(self.session.run(self.fetches, self.feeds)[0])

    def what_ran(self) -> Ran:
        """As Runner."""
        return measure.what_ran(self.session, self.fetches, self.feeds)


class Task(Protocol):
    """The work of a row, which every contender does in a session or function of its own."""

    def runner(self, contender: str) -> contextlib.AbstractContextManager[Runner]:
        """Context of a Runner in the precision of this contender."""


class GraphTask:
    """A graph, with its fetches, its feeds and the op that initializes it.

    All sessions begin with the weights of the first one.
    """

    def __init__(
        self,
        graph: tf.Graph,
        fetches: list[str],
        feeds: dict[str, np.ndarray],
        init: str | None = None,
    ):
        self._graph, self._fetches, self._feeds, self._init = graph, fetches, feeds, init
        self._weights: list[np.ndarray] | None = None

    @contextlib.contextmanager
    def runner(self, contender: str) -> Iterator[Runner]:
        """As Task."""
        with tf1.Session(graph=self._graph, config=contenders.config(contender)) as session:
            if self._init is not None:
                session.run(self._init)
                self._start_from_first(session)
            yield InSession(session, self._fetches, self._feeds)

    def _start_from_first(self, session: tf1.Session) -> None:
        with self._graph.as_default():
            variables = tf1.global_variables()
            if self._weights is None:
                self._weights = session.run(variables)
            for variable, value in zip(variables, self._weights):
                variable.load(value, session)


class SavedModelTask:
    """The signature of a SavedModel, in a session as in a server; converted for our modes."""

    def __init__(self, folder: pathlib.Path, x: np.ndarray, frozen: Task):
        self._folder, self._x, self._frozen = folder, x, frozen

    @contextlib.contextmanager
    def runner(self, contender: str) -> Iterator[Runner]:
        """As Task; contenders.FROZEN runs the frozen graph."""
        if contender == contenders.FROZEN:
            with self._frozen.runner(contender) as runner:
                yield runner
        elif contenders.is_ours(contender):
            import npu_precision

            with tempfile.TemporaryDirectory() as scratch:
                converted = pathlib.Path(scratch) / "converted"
                npu_precision.convert_saved_model(
                    self._folder,
                    converted,
                    freeze=False if contender == contenders.DTYPES else None,
                    **contenders.fields(contender),
                )
                with self._loaded(converted, contenders.BASELINE) as runner:
                    yield runner
        else:
            with self._loaded(self._folder, contender) as runner:
                yield runner

    @contextlib.contextmanager
    def _loaded(self, folder: pathlib.Path, contender: str) -> Iterator[Runner]:
        with tf1.Session(graph=tf.Graph(), config=contenders.config(contender)) as session:
            tags = [tf.saved_model.SERVING]
            meta_graph = tf1.saved_model.load(session, tags, str(folder))
            (signature,) = (
                signature for signature in meta_graph.signature_def.values() if signature.inputs
            )
            (argument,), (result,) = signature.inputs.values(), signature.outputs.values()
            yield InSession(session, [result.name], {argument.name: self._x})


def task(row: Row, graphs_folder: pathlib.Path) -> Task:
    """The task of any row but those of Keras' fit, which has processes of its own."""
    if row.kind in ("live", "live train"):
        import live

        return live.LiveTask(row.model, row.kind == "live train")
    if row.kind == "train":
        import training_graphs

        training = training_graphs.training_graph(row.model)
        fetches = [training.loss, training.step]
        return GraphTask(training.graph, fetches, training.feeds, training.init)
    import inference_graphs

    frozen = inference_graphs.frozen_graph(row.model, graphs_folder)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(frozen.graph_def(), name="")
    task_of_graph = GraphTask(graph, [frozen.fetch], {frozen.feed: frozen.x})
    if row.kind == "frozen":
        return task_of_graph
    import saved_models

    saved = saved_models.saved_model(row.model, graphs_folder)
    return SavedModelTask(saved.folder, saved.x, task_of_graph)
