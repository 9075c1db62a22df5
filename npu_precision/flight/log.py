"""The files of a flight recorder: JSON lines, and TensorBoard's scalars."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

LINES = "flight.jsonl"


class FlightLog:
    """Writes two files in a folder: flight.jsonl, which grows, and an events file per run.

    Args:
        folder: created if it does not exist.

    Raises:
        OSError: the folder cannot be created or written to.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lines = (self.folder / LINES).open("a", encoding="utf-8")
        # TensorBoard finds the file by this name. Each record is an Event.
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._events = tf.io.TFRecordWriter(str(self.folder / f"{name}.{id(self)}"))
        self._write(tf.compat.v1.Event(wall_time=time.time(), file_version="brain.Event:2"))

    def add(self, line: Mapping[str, Any], scalars: Mapping[str, float]) -> None:
        """Writes one event to both files, and flushes them.

        Args:
            line: the line for flight.jsonl.
            scalars: TensorBoard's points, by their tags, at the line's "step".

        Raises:
            OSError: it cannot be written.
        """
        self._lines.write(json.dumps(line, allow_nan=False) + "\n")
        self._lines.flush()
        if not scalars:
            return
        values = [
            tf.compat.v1.Summary.Value(tag=tag, simple_value=value)
            for tag, value in scalars.items()
        ]
        summary = tf.compat.v1.Summary(value=values)
        self._write(tf.compat.v1.Event(wall_time=time.time(), step=line["step"], summary=summary))

    def close(self) -> None:
        """Closes both files."""
        self._lines.close()
        self._events.close()

    def _write(self, event: Any) -> None:
        self._events.write(event.SerializeToString())
        self._events.flush()
