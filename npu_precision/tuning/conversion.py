"""Judges the model that `convert` makes, as its --verify does."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import tempfile
from collections.abc import Sequence

from npu_precision.accuracy.converted_model import converted
from npu_precision.accuracy.frozen import FrozenModel, inputs_of
from npu_precision.accuracy.model_inputs import Feed
from npu_precision.accuracy.verification import Arrays, Verifier
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions
from npu_precision.tuning import custom_dtypes
from npu_precision.tuning.held_out import Split
from npu_precision.tuning.objective import Batches, MaxError, Objective
from npu_precision.tuning.risk import Suspect


@dataclasses.dataclass(frozen=True)
class Checked:
    """The quality of a converted model.

    Attributes:
        error: the largest error of an output, as convert --verify prints it; NaN if none is float.
        metric: the value of the user's metric, or None.
        reference: the user's metric of the model itself, or None.
        is_met: whether the objective is met.
    """

    error: float
    metric: float | None
    reference: float | None
    is_met: bool


class Conversion:
    """Converts a model with one set of options after the other, and judges the results.

    Trials run the frozen model with its dtypes changed, without TensorFlow's graph optimizers; this
    runs what `convert` writes, with its fusions, and as TensorFlow runs it.

    Args:
        model: the model.
        batches: the inputs, by tensors of the model.
        objective: the limit to meet.

    Raises:
        RandomOutputsError: the outputs differ from run to run.
        ValueError: TensorFlow cannot run the model on the batches, or the metric fails.
    """

    def __init__(self, model: Model, batches: Sequence[Feed], objective: Objective) -> None:
        self._model, self._batches, self._objective = model, batches, objective
        self._names = {given.tensor: name for name, given in inputs_of(model).inputs.items()}
        self._verifier = Verifier(model, batches)
        self._compute_metric = None if isinstance(objective, MaxError) else objective.function()
        self._reference = self._metric(self._verifier.outputs)
        self._checked: dict[str, Checked] = {}

    def run(self, options: PrecisionOptions) -> Checked:
        """Converts the model and judges the result.

        Raises:
            OSError: the disk is full.
            ValueError: the optimizer refuses options or model, or TensorFlow cannot run the result.
        """
        key = options.to_json()
        if key not in self._checked:
            self._checked[key] = self._check(options)
        return self._checked[key]

    def _check(self, options: PrecisionOptions) -> Checked:
        with converted(self._model, options) as made:
            verified = self._verifier.verify(made)
        error = max((each.error for each in verified.stats.values()), default=math.nan)
        metric = self._metric(verified.outputs)
        is_met = self._objective.is_met(error, metric, self._reference)
        return Checked(error, metric, self._reference, is_met)

    def _metric(self, outputs: Sequence[Arrays]) -> float | None:
        if self._compute_metric is None:
            return None
        batches: Batches = [
            ({self._names[tensor]: value for tensor, value in feed.items()}, made)
            for feed, made in zip(self._batches, outputs)
        ]
        return self._compute_metric(batches)


class Conversions:
    """Judges conversions with the file that would be written.

    Args:
        model: the model.
        flat: the same, frozen.
        split: the inputs.
        objective: the limit to meet.
        given: the options that the search began with.
        kind: the option that names the file, "modify_mixlist" or "customize_dtypes".

    Raises:
        RandomOutputsError: the outputs differ from run to run.
        ValueError: TensorFlow cannot run the model on the inputs, or the metric fails.
    """

    def __init__(
        self,
        model: Model,
        flat: FrozenModel,
        split: Split,
        objective: Objective,
        given: PrecisionOptions,
        kind: str,
    ) -> None:
        self._flat, self._given, self._kind = flat, given, kind
        self._searched = Conversion(model, split.searched, objective)
        self._whole = self._searched
        if split.held_out:
            self._whole = Conversion(model, split.whole, dataclasses.replace(objective, margin=0.0))

    def run(self, kept: Sequence[Suspect], options: PrecisionOptions) -> Checked:
        """Judges what `convert` makes, on the inputs that are searched, with the margin.

        Args:
            kept: the nodes that the file keeps.
            options: the options of the search, with the entries for them.

        Raises:
            OSError: the disk is full.
            ValueError: the optimizer refuses options or model, or TensorFlow cannot run the result.
        """
        return self._run(self._searched, kept, options)

    def last(self, kept: Sequence[Suspect], options: PrecisionOptions) -> Checked:
        """The same on all inputs, without a margin if any are held out."""
        return self._run(self._whole, kept, options)

    def _run(
        self, conversion: Conversion, kept: Sequence[Suspect], options: PrecisionOptions
    ) -> Checked:
        if self._kind != "customize_dtypes":
            return conversion.run(options)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "customize_dtypes")
            file.write_text(custom_dtypes.text(self._flat, self._given, kept), encoding="utf-8")
            return conversion.run(custom_dtypes.used(options, self._given, str(file)))
