"""Runs a training for a comparison: in float32, with other seeds, and in modes."""

from __future__ import annotations

import hashlib
import inspect
import pathlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from npu_precision import _version
from npu_precision.options import PrecisionOptions, mixlist_file
from npu_precision.training import curves
from npu_precision.training.compared import Compared, compare
from npu_precision.training.curves import Curves
from npu_precision.training.state import RunStore

# The number of steps in which two runs in float32 must be equal.
_CHECKED = 5


class Comparer:
    """Runs a training in float32, with other seeds, and in modes.

    Args:
        name: the name of the function, as "module:function".
        function: the user's function, see program.build.
        steps: the number of steps of a run.
        seed: the seed of the compared runs.
        others: the number of other seeds that float32 is run with.
        store: the store that keeps the runs, or None.
        progress: called with the name of the run and the number of each step.

    Raises:
        ValueError: the function does not build what it should, float32 differs from itself, or
            other seeds do not differ.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        steps: int,
        seed: int,
        others: int,
        store: RunStore | None = None,
        progress: Callable[[str, int], None] = lambda what, step: None,
    ) -> None:
        self._name, self._function, self._steps = name, function, steps
        self._seed, self._store, self._progress = seed, store, progress
        self.exact = self._kept("float32", None, seed)
        bad = curves.not_finite(self.exact)
        if bad:
            raise ValueError(
                f"{name} goes wrong in float32 itself: {bad}, is not finite; PrecisionGuard says "
                "where that begins"
            )
        again = self._kept("float32 again", None, seed, min(steps, _CHECKED))
        difference = curves.first_difference(self.exact, again)
        if difference:
            raise ValueError(
                f"{name} is not deterministic: two runs in float32 with the same seed differ first "
                f"in {difference}; its function gets the seed, for whatever draws random numbers"
            )
        seeds = range(seed + 1, seed + 1 + others)
        self.others = [self._kept(f"float32, seed {each}", None, each) for each in seeds]
        if not any(curves.first_difference(self.exact, other) for other in self.others):
            raise ValueError(
                f"{name} makes nothing of its seed: float32 with other seeds is the same, so there "
                "is no yardstick; draw the order of the batches from it, or the initial weights"
            )

    def compare(self, options: PrecisionOptions) -> Compared:
        """Runs the training with these options, and compares it."""
        mode = self._kept(f"mode {_key(options)}", options, self._seed)
        return compare(self.exact, mode, self.others)

    def make_one_step(self, options: PrecisionOptions) -> None:
        """Makes the first step with these options."""
        curves.run(self._name, self._function, options, self._seed, 1, self.exact.first)

    def _kept(
        self, key: str, options: PrecisionOptions | None, seed: int, steps: int | None = None
    ) -> Curves:
        found = None if self._store is None else self._store.get(key)
        if found is not None:
            return found
        what = key.partition(" {")[0]
        first = None if options is None else self.exact.first
        made = curves.run(
            self._name,
            self._function,
            options,
            seed,
            steps or self._steps,
            first,
            lambda step: self._progress(what, step),
        )
        if self._store is not None:
            self._store.put(key, made)
        return made


def about(name: str, function: Callable[..., Any], steps: int, seed: int) -> dict[str, str]:
    """The facts that the runs depend on, by the user's names for them."""
    source = inspect.getsourcefile(function)
    content = b"" if source is None else pathlib.Path(source).read_bytes()
    return {
        "--training": name,
        "code of --training": hashlib.sha256(content).hexdigest(),
        "--steps": str(steps),
        "--seed": str(seed),
        "versions": f"npu_precision {_version.__version__}, TensorFlow {tf.__version__}",
    }


def _key(options: PrecisionOptions) -> str:
    """The options, with the content of their mixlist."""
    files = [mixlist_file(options), options.customize_dtypes]
    contents = [pathlib.Path(each).read_text(encoding="utf-8") for each in files if each]
    return " ".join([options.to_json(), *contents])
