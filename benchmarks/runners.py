"""Opens the contenders of a row, and measures them in turn."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Sequence

import contenders
import elsewhere
import fit_worker
import inference_graphs
import measure
import numpy as np
import task
import worker
from rows import Row
from runner import Ran, Runner


class _InOpenVino:
    """The same graph in OpenVINO, in bfloat16 if the CPU supports it."""

    def __init__(self, graph: inference_graphs.FrozenGraph):
        import openvino

        core = openvino.Core()
        options = {"INFERENCE_PRECISION_HINT": "bf16"}
        self._model = core.compile_model(core.read_model(graph.path), "CPU", options)
        self._x = graph.x

    def first(self) -> np.ndarray:
        return self.step()

    def step(self) -> np.ndarray:
        return next(iter(self._model(self._x).values()))

    def what_ran(self) -> Ran:
        return None, None, None


class Runners:
    """The runners of one row.

    Args:
        row: the row.
        graphs: the folder of the graphs.
    """

    def __init__(self, row: Row, graphs: pathlib.Path):
        self._row, self._graphs = row, graphs
        self._task = None if row.kind == "fit" else task.task(row, graphs)

    @contextlib.contextmanager
    def opened(self, contender: str) -> Iterator[Runner]:
        """Context of a contender's runner, which ends with the context."""
        peers = {peer.name: peer for peer in elsewhere.PEERS}
        if contender in peers:
            with elsewhere.runner(peers[contender], self._row.name, self._graphs) as runner:
                yield runner
        elif contender == contenders.OPENVINO:
            yield _InOpenVino(inference_graphs.frozen_graph(self._row.model, self._graphs))
        elif self._task is None:
            with fit_worker.runner(self._row.model, contender) as runner:
                yield runner
        else:
            with self._task.runner(contender) as runner:
                yield runner


def measured(
    row: Row, graphs: pathlib.Path, seconds: float, names: Sequence[str]
) -> tuple[dict[str, measure.Measured], dict[str, str]]:
    """Measures these contenders; also returns the reasons of the peers that fail, by name.

    Raises:
        WorkerFailed: a contender that is no peer failed.
    """
    peers = {peer.name for peer in elsewhere.PEERS}
    failed: dict[str, str] = {}
    while True:
        try:
            rest = [name for name in names if name not in failed]
            return _measured(Runners(row, graphs), seconds, rest), failed
        except worker.WorkerFailed as failure:
            if failure.contender not in peers:
                raise
            failed[failure.contender] = str(failure)


def _measured(
    runners: Runners, seconds: float, names: Sequence[str]
) -> dict[str, measure.Measured]:
    with contextlib.ExitStack() as stack:
        opened = {name: stack.enter_context(runners.opened(name)) for name in names}
        results = {name: runner.first() for name, runner in opened.items()}
        with runners.opened(contenders.REFERENCE) as reference:
            expected = reference.first()
        steps = {name: runner.step for name, runner in opened.items()}
        times = measure.in_rounds(steps, seconds)
        ran = {name: runner.what_ran() for name, runner in opened.items()}
    baseline = times[contenders.BASELINE]
    return {
        name: _figures(baseline, times[name], ran[name], results[name], expected) for name in times
    }


def _figures(
    baseline: list[float],
    seconds: list[float],
    ran: Ran,
    result: np.ndarray,
    expected: np.ndarray,
) -> measure.Measured:
    casts, low_share, shares = ran
    return measure.Measured(
        ratio=measure.paired_ratio(baseline, seconds),
        milliseconds=1e3 * float(np.median(seconds)),
        casts=casts,
        low_share=low_share,
        shares=shares,
        error=measure.error(result, expected),
    )
