"""TensorWatch: counts zeros, extremes, infinities and NaNs in the tensors of running graphs."""

from __future__ import annotations

import collections
import re
import threading
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from npu_precision import _library
from npu_precision.flight.selection import Selection, every
from npu_precision.session import functions

# The interval at which counts are taken, so that memory stays bounded.
_SECONDS = 1.0
WATCHES = ("lowered", "all")
# A node that a session feeds has the name of the node that it replaces, and two numbers.
_FED = re.compile(r"^_arg_(.+)_\d+_\d+$")
_ONE_DNN = re.compile("^_Mkl(Native)?")
_FAULTS = ("", "overflow", "infinity", "nan")
# The open watches; the last one is active, and the others pause until it is closed.
_open: list[TensorWatch] = []
_open_lock = threading.Lock()
_openings = 0


class WatchedTensor(NamedTuple):
    """A tensor of a graph as it runs, after all of TensorFlow's own passes.

    Attributes:
        node: the node that yields it, or that it is fed for.
        op: the node's op type, by its public name if oneDNN's kernel has another.
        port: the number of the node's output.
        device: the device that has it.
        dtype: the dtype of the tensor, as "float32".
        low_type: the type whose range counts: the one that its values are rounded to, or else its
            own.
        place: its place in an order in which producers come before consumers.
        loop: the place of the first tensor in its loop, or -1 outside of loops.
        readers: the nodes that compute from its rounded values, perhaps behind others that only
            move them.
    """

    node: str
    op: str
    port: int
    device: str
    dtype: str
    low_type: str
    place: int
    loop: int
    readers: list[str]


class WatchedGraph(NamedTuple):
    """A graph that runs.

    Attributes:
        number: a number that no other graph in this process has.
        tensors: the tensors in the order of computation.
        lowered: the nodes that the precision mode lowered, with their places, in this order too.
    """

    number: int
    tensors: list[WatchedTensor]
    lowered: list[tuple[str, int]] = []


class WatchedStep(NamedTuple):
    """The counts in the tensors of a graph in one of its runs.

    Attributes:
        graph: the graph.
        step: the number of earlier runs of the graph since the watch began.
        counts: arrays with an element per tensor: "largest" finite magnitude, "elements", "zeros",
            "infinities", "nans"; "over", finite values that the low type makes infinite; "under",
            those below its normal numbers, except zeros; "iteration" of its loop in which a value
            was first over or not finite, or -1, and "fault", the kind: 1, over; 2, an infinity; 3,
            a NaN. A tensor that was not computed has no elements. With statistics, of the finite
            values: "mean", "deviation", "norm_l1", "norm_l2", "least" and "most"; NaN if there is
            no finite value, and within what XLA compiles.
    """

    graph: WatchedGraph
    step: int
    counts: Mapping[str, np.ndarray]

    def not_finite(self) -> list[int]:
        """The tensors that have an infinity or a NaN, or get one where they are rounded.

        They are in the order in which this happened.
        """
        bad = np.flatnonzero(self.counts["fault"])
        return sorted((int(index) for index in bad), key=self._order)

    def value(self, index: int) -> str:
        """The fault of such a tensor: "nan", "infinity" or "overflow"."""
        return _FAULTS[self.counts["fault"][index]]

    def _order(self, index: int) -> tuple[int, int, int]:
        tensor = self.graph.tensors[index]
        if tensor.loop < 0:
            return tensor.place, 0, 0
        return tensor.loop, int(self.counts["iteration"][index]), tensor.place


def openings() -> int:
    """The number of watches that were opened in this process."""
    return _openings


class TensorWatch:
    """A context that watches the graphs that TensorFlow prepares to run inside it.

    tf.functions that ran before are prepared again. Sessions are not: a graph that a session ran
    before with the same fetches is not watched. There is one watch at a time in a process.

    Args:
        watch: "lowered", what is computed in a low type or rounded to one; "all", all floats of up
            to 32 bits, and what the graph reads.
        selection: the steps and tensors to record; or a number, to record the first of every so
            many runs of a graph.
        see: called with each recorded step, from a thread of the watch, or from flush().
        takes_over: whether another open watch pauses until this one is closed.
        is_diagnosis: whether graphs are prepared without TensorFlow's remapper, so that each op has
            its own name.
    """

    def __init__(
        self,
        watch: str,
        selection: Selection | int,
        see: Callable[[WatchedStep], None],
        takes_over: bool = False,
        is_diagnosis: bool = False,
    ) -> None:
        if isinstance(selection, int):
            selection = Selection(every(selection))
        self._watch, self._selection, self._see = watch, selection, see
        self._takes_over, self._is_diagnosis = takes_over, is_diagnosis
        self._graphs: dict[int, WatchedGraph] = {}
        # By graph: its runs, and its steps without memory.
        self._steps: dict[int, int] = {}
        self._dropped: collections.Counter[int] = collections.Counter()
        self._lock = threading.Lock()
        self._waits = True
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._take_now_and_then, daemon=True)

    def __enter__(self) -> TensorWatch:
        """Begins to watch.

        Raises:
            RuntimeError: another watch is open.
        """
        global _openings
        with _open_lock:
            if _open and not self._takes_over:
                raise RuntimeError("another FlightRecorder watches tensors; one does at a time")
            if _open:
                _open[-1]._pause()
            _open.append(self)
            _openings += 1
            self._begin()
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops watching, once the steps that ran are recorded."""
        self._done.set()
        self._thread.join()
        with _open_lock:
            try:
                self._pause()
            finally:
                _open.remove(self)
                if _open:
                    _open[-1]._begin()

    def _begin(self) -> None:
        with self._lock:
            selection = {**self._selection.members(), "before": self._steps}
            _library.open_flight(self._watch, selection)
            number = WATCHES.index(self._watch) + 1 + len(WATCHES) * self._selection.stops
            functions.make_ready_anew(number, self._is_diagnosis)
            self._waits = False

    def _pause(self) -> None:
        functions.make_ready_anew(0)
        _library.close_flight()
        try:
            self.flush()
        finally:
            self._waits = True

    @property
    def graphs(self) -> Collection[WatchedGraph]:
        """The graphs that ran."""
        return list(self._graphs.values())

    def steps(self, graph: int) -> int:
        """The runs of the graph of this number, as of when they were last taken."""
        return self._steps[graph]

    def dropped(self, graph: int) -> int:
        """The number of the graph's steps that found no memory to be recorded in."""
        return self._dropped[graph]

    def flush(self) -> None:
        """Takes all steps; call it when no graph is running."""
        self._take(finished=True)

    def _take_now_and_then(self) -> None:
        while not self._done.wait(_SECONDS):
            self._take(finished=False)

    def _take(self, finished: bool) -> None:
        with self._lock:
            if self._waits:
                return
            for each in _library.drain_flight(finished):
                number = each["graph"]
                if "tensors" in each:
                    self._graphs[number] = _graph(number, each)
                self._steps[number] = each["steps"]
                self._dropped[number] = each["dropped"]
                for recorded in each["recorded"]:
                    self._see(_step(self._graphs[number], recorded))


def _graph(number: int, described: dict[str, Any]) -> WatchedGraph:
    lowered = [(_original(each["node"]), each["place"]) for each in described["lowered"]]
    return WatchedGraph(number, list(map(_tensor, described["tensors"])), lowered)


def _tensor(described: dict[str, Any]) -> WatchedTensor:
    own = {
        "node": _original(_FED.sub(r"\1", described["node"])),
        "op": _ONE_DNN.sub("", described["op"]),
        "readers": list(map(_original, described["readers"])),
    }
    return WatchedTensor(**{**described, **own})


def _original(node: str) -> str:
    """The name that a node had before a Cast took it over."""
    suffix = _library.describe()["renamed_suffix"]
    return node[: -len(suffix)] if node.endswith(suffix) else node


def _step(graph: WatchedGraph, recorded: dict[str, Any]) -> WatchedStep:
    step = recorded.pop("step")
    statistics = recorded.pop("statistics", {})
    counts = {name: np.asarray(recorded[name]) for name in recorded}
    counts.update((name, np.array(statistics[name], dtype=float)) for name in statistics)
    return WatchedStep(graph, step, counts)
