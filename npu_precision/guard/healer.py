"""Restores a training to its last good state, and keeps the ops that broke it in float32."""

from __future__ import annotations

import collections
import logging
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from npu_precision.flight import guarded
from npu_precision.flight.tensor_watch import TensorWatch, WatchedStep
from npu_precision.guard import blame
from npu_precision.guard.agreement import Ranks
from npu_precision.guard.blame import Blamed
from npu_precision.guard.healed_mixlist import HealedMixlist
from npu_precision.guard.training import Outcome, Training
from npu_precision.options import PrecisionOptions
from npu_precision.tuning.mixlist import EVERY_NODE, entry_of
from npu_precision.tuning.search import Search

_LOGGER = logging.getLogger("npu_precision")
# The most ops that a heal keeps in float32, one after the other; then the most trials that leave
# out what need not be kept.
_MOST_TRIALS = 32
_NOT_FOUND = "a fault in an op that was not found"
# A loss that is so many times the usual one in float32 too is the training's own fault.
_DIVERGES = 10.0
# The usual loss is the median of so many good ones.
_LOSSES = 1000


class TrainingFailed(RuntimeError):
    """A step went wrong, and a mixlist does not heal it. The last good state is restored."""


class Limits(NamedTuple):
    """The limits of a guard.

    Attributes:
        snapshot_every: the number of steps between saved states.
        band: the lowest and the highest loss that is no fault, or None.
        max_heals: the most heals of a training.
        memory: the most bytes of inputs that are kept.
    """

    snapshot_every: int
    band: tuple[float, float] | None
    max_heals: int
    memory: int


class _Step(NamedTuple):
    inputs: Any
    # The changes that others made before the step.
    changes: Any


class Healer:
    """Makes the steps of a training, and heals those that go wrong.

    All ranks of a training make the same steps and get the same outcomes, so that they come to the
    same conclusions; only their records of tensors differ.

    Args:
        training: the training.
        mixlist: the file for the entries to keep in float32.
        limits: the guard's limits.
    """

    def __init__(self, training: Training, mixlist: HealedMixlist, limits: Limits) -> None:
        self._training, self._mixlist, self._limits = training, mixlist, limits
        self._ranks = Ranks()
        self._ranks.check()
        self._state: Any = None
        self._is_due = False
        # Weights that do not change in float32 either.
        self._still: set[str] = set()
        # The good steps since the state was saved, and how many there may be, or 0 if not yet
        # known.
        self._made: list[_Step] = []
        self._snapshot_every = 0
        self._losses: collections.deque[float] = collections.deque(maxlen=_LOSSES)
        self.steps = 0
        self.heals = 0

    def step(self, inputs: Any) -> Any:
        """Makes a step; returns its result.

        Raises:
            TrainingFailed: the step goes wrong in float32 too, or cannot be healed.
        """
        if self._state is None:
            self._begin(inputs)
        if self._is_due:
            self._state, self._made, self._is_due = self._training.save(), [], False
        step = _Step(inputs, self._training.changes())
        outcome = self._training.run(inputs)
        if self._snapshot_every == 0:
            fit = self._limits.memory // max(self._training.size_of(inputs), 1)
            self._snapshot_every = self._ranks.least(max(1, min(self._limits.snapshot_every, fit)))
        wrong = self._wrong(outcome)
        stuck: set[str] = set()
        if not wrong and len(self._made) + 1 >= self._snapshot_every:
            stuck = self._training.unchanged(self._state) - self._still
            wrong = _stands_still(stuck)
        if wrong:
            outcome = self._heal(step, wrong, stuck)
        self.steps += 1
        self._losses.append(outcome.loss)
        self._made.append(step)
        self._is_due = len(self._made) >= self._snapshot_every
        return outcome.result

    def save_anew(self) -> None:
        """Saves the state before the next step, because metrics were reset."""
        self._is_due = self._state is not None

    def _begin(self, inputs: Any) -> None:
        self._state = self._training.save(inputs)
        options = self._training.options()
        if options is not None and not self._mixlist.is_empty and not self._mixlist.is_of(options):
            self._mixlist.add(options, {})
            self._training.use(self._mixlist.in_force(options))

    def _wrong(self, outcome: Outcome) -> str:
        """The fault of a step, or ""."""
        if not math.isfinite(outcome.loss):
            return f"the loss is {outcome.loss}"
        if not outcome.is_finite:
            return "a weight is not finite"
        if self._limits.band is not None:
            low, high = self._limits.band
            if not low <= outcome.loss <= high:
                return f"the loss, {outcome.loss:.4g}, is out of its band, {low:g} to {high:g}"
        return ""

    def _heal(self, step: _Step, wrong: str, stuck: set[str]) -> Outcome:
        options = self._training.options()
        where = f"step {self.steps}: {wrong}"
        of_float32 = self._wrong_in_float32(step, stuck)
        if of_float32 and stuck:  # Such weights have nothing to learn.
            self._still |= stuck
            return self._again(step)
        if of_float32:
            raise self._failure(f"{where}; {self._fault_of_float32(step, of_float32)}")
        if options is None:
            raise self._failure(f"{where}; no precision mode is in force here to be healed")
        if self.heals >= self._limits.max_heals:
            bad = self._blamed(options, step, stuck)
            raise self._failure(
                f"{where}{_begins(bad)}; it was healed as often as max_heals, {self.heals}, allows"
            )
        self.heals += 1
        try:
            reasons, begun = self._search(options, step, stuck, where)
        except TrainingFailed as error:
            if not stuck:
                raise
            self._still |= stuck
            self.heals -= 1
            _LOGGER.warning("%s", error)
            return self._again(step)
        if reasons:
            self._put_in_force(options, reasons, where)
        outcome = self._again(step)
        still = self._wrong(outcome)
        if still:
            raise self._failure(f"{where}; with {self._mixlist.path}, too, {still}")
        if reasons:
            guarded.healed(where, begun, reasons, str(self._mixlist.path), self._mixlist.text())
        found = f"it begins as {begun}, kept in float32 by {self._mixlist.path}"
        _LOGGER.warning(
            "PrecisionGuard: %s; %s (heal %d of %d)",
            where,
            found if reasons else "it went well when it was run again",
            self.heals,
            self._limits.max_heals,
        )
        return outcome

    def _put_in_force(
        self, options: PrecisionOptions, reasons: Mapping[str, str], where: str
    ) -> None:
        try:
            self._mixlist.add(options, reasons)
        except OSError as error:
            if self._training.needs_file:
                raise self._failure(f"{where}; the mixlist cannot be written: {error}") from error
            _LOGGER.warning("PrecisionGuard: %s; its entries are in force all the same", error)
            self._training.use(self._mixlist.trying(options, reasons))
        else:
            self._training.use(self._mixlist.in_force(options))

    def _failure(self, message: str) -> TrainingFailed:
        """An error, when the last good state is back."""
        self._go_back()
        return TrainingFailed(f"PrecisionGuard: {message}")

    def _go_back(self) -> None:
        """Goes back to the last good step: restores the state, and repeats the steps since then."""
        self._training.restore(self._state)
        for step in self._made:
            self._run(step)

    def _again(self, step: _Step) -> Outcome:
        self._go_back()
        return self._run(step)

    def _run(self, step: _Step) -> Outcome:
        self._training.change(step.changes)
        return self._training.run(step.inputs)

    def _wrong_now(self, outcome: Outcome, stuck: set[str]) -> str:
        wrong = self._wrong(outcome)
        return wrong or _stands_still(stuck and stuck & self._training.unchanged(self._state))

    @guarded.trials()
    def _wrong_in_float32(self, step: _Step, stuck: set[str]) -> str:
        """The fault of the steps since the last state if run in float32, or ""."""
        with self._training.under(None):
            outcome = self._again(step)
            wrong = self._wrong(outcome)
            if stuck and stuck <= self._training.unchanged(self._state):
                wrong = _stands_still(stuck)
        if wrong or self._limits.band is not None or not self._losses:
            return wrong
        usual = statistics.median(map(abs, self._losses))
        if abs(outcome.loss) > _DIVERGES * usual > 0:
            return f"the loss is {outcome.loss:.4g} there, and {usual:.4g} was usual"
        return ""

    def _fault_of_float32(self, step: _Step, wrong: str) -> str:
        bad = self._ranks.first(blame.not_finite(self._watched(None, step)))
        return (
            f"float32 fails on this batch too ({wrong}{_begins(bad)}), so the model or its data is "
            "at fault, not the precision"
        )

    @guarded.trials()
    def _watched(
        self, options: PrecisionOptions | None, step: _Step, good: Sequence[_Step] | None = None
    ) -> list[WatchedStep]:
        """The record of the step after good ones; these are by default all since the last state."""
        found: list[WatchedStep] = []
        with self._training.under(options, is_diagnosis=True):
            self._training.restore(self._state)
            for each in self._made if good is None else good:
                self._run(each)
            with TensorWatch("all", 1, found.append, takes_over=True, is_diagnosis=True):
                self._run(step)
        return found

    def _blamed(self, options: PrecisionOptions, step: _Step, stuck: set[str]) -> Blamed | None:
        """Where the step begins to go wrong with these options, on any rank."""
        if stuck:
            # The first step since the state was saved: its weights are the same in float32.
            first = [*self._made, step][0]
            found, exact = (self._watched(each, first, []) for each in (options, None))
            return self._ranks.first(blame.vanished(found, exact))
        found = self._watched(options, step)
        bad = self._ranks.first(blame.not_finite(found, self._usual(options)))
        if bad is not None:
            return bad
        return self._ranks.first(blame.differs(found, self._watched(None, step)))

    def _usual(self, options: PrecisionOptions) -> set[str]:
        """The nodes that are not finite in a good step, as behind a mask."""
        if not self._made:
            return set()
        *before, last = self._made
        return blame.usual_faults(self._watched(options, last, before))

    @guarded.trials()
    def _search(
        self, options: PrecisionOptions, step: _Step, stuck: set[str], where: str
    ) -> tuple[dict[str, str], str]:
        """Entries with which the step goes well, with their reasons, and the place of the fault."""
        reasons: dict[str, str] = {}
        found: list[Blamed] = []
        bad: Blamed | None = None
        for _ in range(_MOST_TRIALS):
            if self._goes_well(options, step, stuck, reasons):
                return reasons, min(found, key=lambda each: each.place).what if found else ""
            bad = self._blamed(self._mixlist.trying(options, reasons), step, stuck)
            kept = {*reasons, *self._mixlist.kept(options)}
            more = {} if bad is None else _more(bad, kept, self._training.scopes())
            if bad is None or not more:
                break
            found.append(bad)
            reasons.update(more)
        if bad is None and stuck:
            raise self._failure(f"{where}; no op was found that makes it so")
        return self._search_all(options, step, stuck, where, reasons, bad)

    def _search_all(
        self,
        options: PrecisionOptions,
        step: _Step,
        stuck: set[str],
        where: str,
        reasons: Mapping[str, str],
        bad: Blamed | None,
    ) -> tuple[dict[str, str], str]:
        """As _search, among all nodes that a mixlist can keep; the blamed ones were not enough."""
        what = _NOT_FOUND if bad is None else bad.what
        scopes = self._training.scopes()
        lowered = [] if bad is None else [entry_of(node, scopes) for node in bad.lowered]
        everything = dict(reasons)
        for entry in [*lowered, EVERY_NODE]:
            everything.setdefault(entry, what)

        def is_good(entries: Collection[str]) -> bool:
            kept = {entry: why for entry, why in everything.items() if entry in entries}
            return self._goes_well(options, step, stuck, kept)

        if not is_good(everything):
            raise self._failure(
                f"{where}{_begins(bad)}; nothing that a mixlist keeps in float32 heals it"
            )
        kept = Search([*everything], is_good, _MOST_TRIALS).run()
        return {entry: everything[entry] for entry in kept}, what

    def _goes_well(
        self,
        options: PrecisionOptions,
        step: _Step,
        stuck: set[str],
        reasons: Mapping[str, str],
    ) -> bool:
        """Whether the step goes well with these entries."""
        with self._training.under(self._mixlist.trying(options, reasons)):
            return not self._wrong_now(self._again(step), stuck)


def _stands_still(weights: set[str]) -> str:
    if not weights:
        return ""
    if len(weights) > 1:
        what = f"{len(weights)} weights, {min(weights)} among them, have"
    else:
        what = f"the weight {min(weights)} has"
    return f"{what} not changed since the last state was saved"


def _begins(bad: Blamed | None) -> str:
    return "" if bad is None else f"; it begins as {bad.what}"


def _more(bad: Blamed, kept: Collection[str], scopes: Collection[str]) -> dict[str, str]:
    """The entries for the nodes to keep next, with their reasons."""
    for nodes in bad.nodes:
        entries = {entry_of(node, scopes): bad.what for node in nodes}
        more = {entry: why for entry, why in entries.items() if entry not in kept}
        if more:
            return more
    return {}
