"""The process of a contender in a row of Keras' fit: takes the same steps as fit."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from collections.abc import Iterator

import contenders
import fit_models
import measure
import numpy as np
import tensorflow as tf
import worker
from runner import Ran

_ROOT = pathlib.Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def runner(model: str, contender: str) -> Iterator[worker.Worker]:
    """Context of a worker on one of fit_models' models, which ends with the context."""
    path = os.pathsep.join([str(_ROOT), str(_ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": path}
    # Keras 3, where TensorFlow has it: the variable is for the models of TensorFlow 1's layers.
    environment.pop("TF_USE_LEGACY_KERAS", None)
    arguments = [model, contender]
    with worker.started(contender, sys.executable, __file__, arguments, environment) as started:
        yield started


class _InFit:
    """A Runner whose step is a step of fit; its result is the loss."""

    def __init__(self, model: tf.keras.Model, data: tf.data.Dataset):
        model.make_train_function()
        self._train, self._batches = model.train_function, iter(data)

        self._casts: int | None = None

    def first(self) -> np.ndarray:
        """As Runner."""
        result, self._casts = measure.casts_in_functions(lambda: np.asarray(self.step()))
        return result

    def step(self) -> float:
        """As Runner."""
        return float(self._train(self._batches)["loss"])

    def what_ran(self) -> Ran:
        """As Runner, but only the Casts: each of them runs once in a step."""
        return self._casts, None, None


def _turn_on(contender: str) -> None:
    """Turns on the contender's precision for the whole process."""
    if contenders.is_ours(contender):
        import npu_precision

        npu_precision.enable(**contenders.fields(contender))
    elif contender == contenders.POLICY:
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    else:
        tf.config.optimizer.set_experimental_options(contenders.toggles(contender))


if __name__ == "__main__":
    _turn_on(sys.argv[2])
    worker.answer(_InFit(*fit_models.compiled(sys.argv[1])), sys.argv[3])
