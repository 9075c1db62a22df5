"""Peers in environments of their own, because their plug-ins change every session."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping

import contenders
import rows
import task
import tensorflow as tf
import worker

_ROOT = pathlib.Path(__file__).resolve().parent.parent
# Keeps the threads of OpenMP from spinning while others run.
_PASSIVE = {"KMP_BLOCKTIME": "0", "OMP_WAIT_POLICY": "passive"}


@dataclasses.dataclass(frozen=True)
class Peer:
    """Another plug-in of TensorFlow.

    Attributes:
        name: its name as a contender.
        session: the nox session that makes its environment.
        version: the one TensorFlow version that it supports, "MAJOR.MINOR".
        environment: the variables that turn on its mixed precision.
    """

    name: str
    session: str
    version: str
    environment: Mapping[str, str]

    @property
    def python(self) -> pathlib.Path:
        """The interpreter of its environment."""
        return _ROOT / ".nox" / self.session / "bin" / "python"

    def absence(self) -> str | None:
        """Why it cannot take part, or None."""
        if not tf.__version__.startswith(f"{self.version}."):
            return f"it is for TensorFlow {self.version}, and this is {tf.__version__}"
        if not self.python.exists():
            return f"`.venv/bin/nox -s {self.session}` has not made its environment"
        return None


ITEX = Peer(
    contenders.ITEX,
    "itex",
    "2.15",
    {
        "ITEX_AUTO_MIXED_PRECISION": "1",
        "ITEX_AUTO_MIXED_PRECISION_DATA_TYPE": "BFLOAT16",
    },
)
ZENTF = Peer(
    contenders.ZENTF,
    "zentf",
    "2.21",
    {
        "TF_ENABLE_ZENDNN_OPTS": "1",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_ZENDNN_PLUGIN_BF16": "1",
        # Keras 3 does not have TF1's layers.
        "TF_USE_LEGACY_KERAS": "1",
    },
)
PEERS = (ITEX, ZENTF)


@contextlib.contextmanager
def runner(peer: Peer, row: str, graphs_folder: pathlib.Path) -> Iterator[worker.Worker]:
    """Context of the peer's worker on a row, which ends with the context."""
    # Our package is not installed in that environment, and must not be found.
    path = {"PYTHONPATH": str(_ROOT / "tests")}
    environment = {**os.environ, **path, **_PASSIVE, **peer.environment}
    arguments = [row, str(graphs_folder)]
    with worker.started(peer.name, str(peer.python), __file__, arguments, environment) as started:
        yield started


def _answer(row: str, graphs_folder: str, result: str) -> None:
    running = task.task(rows.row(row), pathlib.Path(graphs_folder))
    with running.runner(contenders.BASELINE) as runner_here:
        worker.answer(runner_here, result)


if __name__ == "__main__":
    _answer(*sys.argv[1:])
