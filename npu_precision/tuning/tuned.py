"""The result of a search."""

from __future__ import annotations

import dataclasses

from npu_precision.options import PrecisionOptions
from npu_precision.tuning.conversion import Checked
from npu_precision.tuning.front import Times
from npu_precision.tuning.risk import Suspect
from npu_precision.tuning.trials import Trial


@dataclasses.dataclass(frozen=True)
class Tuned:
    """The result of a search.

    Attributes:
        reference: the user's metric in float32, or None.
        start: the model under the options as they were given.
        found: the model with the mixlist.
        converted: what `convert` makes with the mixlist, on all inputs, judged without a margin;
            None if it was not checked.
        kept: the nodes that the mixlist keeps, highest risk first.
        entries: the entries added to the black list for them.
        mixlist: the whole mixlist, as JSON.
        options: the options with the mixlist.
        held_out: the model with the mixlist on the inputs that were held out, judged without a
            margin; None if none were.
        held_out_reference: the user's metric in float32 on those, or None.
        trials: all trials, each with the number of nodes kept for it.
        is_complete: whether the search showed that none of the kept nodes can be lowered; False if
            it ran out of trials.
        times: the step times, if they decided; then the kept nodes are those of the fastest.
    """

    reference: float | None
    start: Trial
    found: Trial
    converted: Checked | None
    kept: tuple[Suspect, ...]
    entries: tuple[str, ...]
    mixlist: str
    options: PrecisionOptions
    held_out: Trial | None
    held_out_reference: float | None
    trials: tuple[tuple[int, Trial], ...]
    is_complete: bool
    times: Times | None = None

    @property
    def is_accepted(self) -> bool:
        """Whether the mixlist is good enough for a conversion and for the held-out inputs too."""
        is_good = self.held_out is None or self.held_out.is_good
        return is_good and (self.converted is None or self.converted.is_met)

    @property
    def refused(self) -> tuple[Trial, ...]:
        """The trials that meet the objective, and were refused for a tensor that they ruin."""
        return tuple(trial for _, trial in self.trials if trial.is_met and trial.fault is not None)

    def share(self, trial: Trial) -> float:
        """The nodes lowered in a trial, as a share of those lowered with the given options."""
        return trial.lowered / self.start.lowered if self.start.lowered else 0.0
