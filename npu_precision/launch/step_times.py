"""Times the steps of a program: the first ones in float32, the others in its mode."""

from __future__ import annotations

import collections
import statistics
import threading
from collections.abc import Callable

from npu_precision.launch import calls

# The first calls of a function trace and optimize it, in float32 and again in the mode.
_NOT_TIMED = 2
_IN_FLOAT32 = 10
_FEWEST = 3


class StepTimes:
    """Times each tf.function that the program calls, until one has run often enough in float32.

    Args:
        switch: puts the mode in force; it is called once.
    """

    def __init__(self, switch: Callable[[], None]) -> None:
        self._switch = switch
        self._is_switched = False
        self._ran_sessions = False
        self._lock = threading.Lock()
        self._names: dict[object, str] = {}
        # By function: the seconds of each call, in float32 and in the mode.
        self._seconds: collections.defaultdict[object, tuple[list[float], list[float]]]
        self._seconds = collections.defaultdict(lambda: ([], []))
        calls.watch(self._note)

    def _note(self, call: calls.Call) -> None:
        if call.names:  # A session keeps the mode that it was made with.
            self._ran_sessions = True
            return
        with self._lock:
            self._names[call.key] = call.name
            before, after = self._seconds[call.key]
            (after if self._is_switched else before).append(call.seconds)
            if self._is_switched or len(before) < _NOT_TIMED + _IN_FLOAT32:
                return
            self._is_switched = True
        self._switch()

    def summary(self) -> str:
        """The times of the function that took most of the time, in a sentence."""
        if not self._is_switched:
            return (
                "For --time, tf.functions ran in float32: none was called "
                f"{_NOT_TIMED + _IN_FLOAT32} times"
                + ("; sessions ran in the mode, and are not timed" if self._ran_sessions else "")
            )
        key = max(self._seconds, key=lambda each: sum(map(sum, self._seconds[each])))
        before, after = (times[_NOT_TIMED:] for times in self._seconds[key])
        if min(len(before), len(after)) < _FEWEST:
            return (
                f"{self._names[key]} was called {len(before)} times in float32 and {len(after)} "
                "times in the mode, too few to compare"
            )
        first, then = (1000 * statistics.median(times) for times in (before, after))
        return (
            f"A call of {self._names[key]} took {first:.3g} ms in float32 ({len(before)} calls) "
            f"and {then:.3g} ms in the mode ({len(after)} calls): {first / then:.2f} times as fast"
        )
