"""The time that kernels take on a GPU, by TensorFlow's profiler."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

_PLANE = "/device:GPU:0"


def milliseconds_on_gpu(run: Callable[[int], object], count: int) -> float | None:
    """Milliseconds that kernels and copies of a step take; None if the profiler sees none.

    Args:
        run: runs so many steps, and waits for the last.
        count: the number of steps.
    """
    if not tf.config.list_physical_devices("GPU"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        try:
            run(count)
        finally:
            tf.profiler.experimental.stop()
        spaces = [
            xplane_pb2.XSpace.FromString(path.read_bytes())
            for path in pathlib.Path(folder).rglob("*.xplane.pb")
        ]
    total = sum(map(picoseconds, spaces))
    return total / 1e9 / count or None


def picoseconds(space: xplane_pb2.XSpace) -> int:
    """The sum over the events in the streams of the first GPU.

    Lines that TensorFlow derives from the streams, such as "TensorFlow Ops", would count twice.
    """
    return sum(
        event.duration_ps
        for plane in space.planes
        if plane.name == _PLANE
        for line in plane.lines
        if line.name.startswith("Stream #")
        for event in line.events
    )
