"""Tunes a mixlist for a model, batches and an objective."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Sequence

from npu_precision.accuracy.comparison import Comparer
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.accuracy.model_inputs import Feed
from npu_precision.ledger import Ledger
from npu_precision.options import PrecisionOptions
from npu_precision.tuning import mixlist, risk
from npu_precision.tuning.conversion import Conversions
from npu_precision.tuning.front import Point, Times, worth_measuring
from npu_precision.tuning.mixlist import Mixlist, flat_entries
from npu_precision.tuning.risk import Suspect
from npu_precision.tuning.search import Search
from npu_precision.tuning.state import State
from npu_precision.tuning.step_time import StepTime
from npu_precision.tuning.trials import Trial, Trials
from npu_precision.tuning.tuned import Tuned


class NothingFoundError(ValueError):
    """The search ended, and no mixlist was good enough."""


# The number of steps of a curve, from all nodes that the mode lowers to none.
_CURVE_STEPS = 8


class Tuner:
    """Finds the nodes to keep.

    Args:
        model: the model.
        options: the precision, with the user's mixlist if there is one.
        trials: runs the trials and judges them.
        held_out: runs the mixlist that is found on other inputs; None if there are none.
        state: the state so far; kept up to date.
        progress: called after each trial with the number of trials made and about how many are
            left.
        aim: the mixlist to find within the limit: "error" keeps the fewest nodes, and "time" is the
            fastest; "pareto" is the fastest too, and also measures trials beyond the limit.
        measure: measures the step times of float32 and of the given precisions; only called if the
            aim is not "error".
        conversions: judges what `convert` makes with a mixlist; None if it cannot be judged.
        has_calls: whether the model has functions, which may be inlined.
    """

    def __init__(
        self,
        model: FrozenModel,
        options: PrecisionOptions,
        trials: Trials,
        held_out: Trials | None,
        state: State,
        progress: Callable[[int, int], None],
        aim: str = "error",
        measure: Callable[[Sequence[PrecisionOptions]], list[StepTime]] | None = None,
        conversions: Conversions | None = None,
        has_calls: bool = False,
    ):
        self._model = model
        self._options = options
        self._mixlist = Mixlist(options)
        self._trials = trials
        self._held_out = held_out
        self._state = state
        self._progress = progress
        self._search: Search | None = None
        self._aim = aim
        self._measure = measure
        self._conversions = conversions
        self._has_calls = has_calls

    def run(self, batches: Sequence[Feed], most: int | None, draws_curve: bool) -> Tuned:
        """Searches for a mixlist.

        Args:
            batches: the inputs for measuring ranges and errors.
            most: how many trials the search may make; None for any number.
            draws_curve: whether to run further trials, over the whole range of lowered nodes.

        Raises:
            NothingFoundError: no mixlist is good enough.
            ValueError: the optimizer refuses options or model, or the metric fails.
        """
        start = self._trials.run(self._options)
        self._progress(1, 0)
        if start.is_good and self._aim == "error" and self._converts(frozenset(), ()):
            return self._tuned(start, start, (), (), self._options, ((0, start),), True)
        suspects = self._suspects(batches)
        names = [each.node for each in suspects]
        everything = self._trial(frozenset(names)) if names else start
        if not everything.is_good:
            left = sorted(self._lowered(flat_entries(suspects)))
            raise NothingFoundError(
                f"no mixlist is good enough: with all {len(names)} nodes kept that one may be "
                f"about, {len(left)} are lowered{_named(left)}; the {self._measured(everything)}"
            )
        found, is_complete = self._found(start, suspects, most)
        if suspects and (draws_curve or self._aim != "error"):
            self._draw_curve(suspects, start.lowered)
        times = None
        if self._aim != "error":
            times = self._timed(start, found, suspects)
            found = self._decided(times)
        kept = _members(suspects, found)
        tried = ((0, start), *((len(kept), trial) for kept, trial in self._state.trials.items()))
        if start.is_good and not kept:
            return self._tuned(start, start, (), (), self._options, tried, is_complete, times)
        is_float32 = times is not None and times.is_float32
        entries = self._entries(kept, suspects, is_float32)
        options = self._mixlist.keeping(entries)
        last = self._trials.run(options)
        if not last.is_good:
            raise NothingFoundError(
                f"{', '.join(entries)}: with these entries the {self._measured(last)}, and they "
                "were good enough when they were tried first: results differ from run to run, or "
                "nodes have names that no entry tells apart"
            )
        return self._tuned(start, last, kept, tuple(entries), options, tried, is_complete, times)

    def _tuned(
        self,
        start: Trial,
        found: Trial,
        kept: tuple[Suspect, ...],
        entries: tuple[str, ...],
        options: PrecisionOptions,
        tried: tuple[tuple[int, Trial], ...],
        is_complete: bool,
        times: Times | None = None,
    ) -> Tuned:
        """The result, after a trial of the mixlist on the held-out inputs."""
        return Tuned(
            self._trials.reference,
            start,
            found,
            None if self._conversions is None else self._conversions.last(kept, options),
            kept,
            entries,
            self._mixlist.text(entries),
            options,
            None if self._held_out is None else self._held_out.run(options),
            None if self._held_out is None else self._held_out.reference,
            tried,
            is_complete,
            times,
        )

    def _suspects(self, batches: Sequence[Feed]) -> list[Suspect]:
        if self._state.suspects is None:
            compared = Comparer(self._model, self._options).run(batches)
            given = self._mixlist.node_places
            fixed = {
                node.name
                for ledger in compared.ledger
                for node in ledger.nodes
                if node.listed_by in given or node.reason == "customized"
            }
            found = risk.suspects(self._model, compared)
            self._state.suspects = [each for each in found if fixed.isdisjoint(each.flat)]
            self._state.save()
        return self._state.suspects

    def _found(
        self, start: Trial, suspects: Sequence[Suspect], most: int | None
    ) -> tuple[frozenset[str], bool]:
        """The nodes to keep, and whether none of them can be lowered.

        Trials take less time than conversions. So the search makes trials alone. Only if what it
        found is not good enough for a conversion, it begins again from there, with both.
        """
        names = [each.node for each in suspects]
        found: frozenset[str] = frozenset()
        is_complete = True
        if not start.is_good:
            self._search = Search(names, lambda kept: self._trial(kept).is_good, most)
            found = frozenset(self._search.run())
            is_complete = self._search.is_complete
        if self._converts(found, suspects):
            return found, is_complete
        everything = frozenset(names)
        if not self._converts(everything, suspects):
            raise NothingFoundError(self._why_not_converted(everything))

        def is_enough(kept: frozenset[str]) -> bool:
            return self._trial(kept).is_good and self._converts(kept, suspects)

        others = [name for name in names if name not in found]
        first = [name for name in names if name in found]
        self._search = Search([*first, *others], is_enough, most)
        return frozenset(self._search.run()), self._search.is_complete

    def _converts(
        self, kept: frozenset[str], suspects: Sequence[Suspect], is_float32: bool = False
    ) -> bool:
        """Whether what `convert` makes is good enough if these nodes are kept."""
        if self._conversions is None:
            return True
        checks = self._state.conversions
        if kept not in checks:
            members = _members(suspects, kept)
            options = self._options
            if members:
                entries = self._entries(members, suspects, is_float32)
                options = self._mixlist.keeping(entries)
            checks[kept] = self._conversions.run(members, options)
            if self._state.suspects is not None:
                self._state.save()
        return checks[kept].is_met

    def _why_not_converted(self, kept: frozenset[str]) -> str:
        check = self._state.conversions[kept]
        error, metric = self._trials.objective.texts(
            check.error, check.metric, self._trials.reference
        )
        return (
            f"no mixlist is good enough: with all {len(kept)} nodes kept that one may be about, "
            f"what convert writes has {_quality(error, metric)}. Its rewrites for speed also "
            "change float32's rounding: --rewrites none leaves them out"
        )

    def _measured(self, trial: Trial) -> str:
        error, metric = self._trials.objective.texts(
            trial.error, trial.metric, self._trials.reference
        )
        fault = "" if trial.fault is None else f", and {trial.fault}"
        return f"error is {error}{'' if metric is None else f' and the metric {metric}'}{fault}"

    def _draw_curve(self, suspects: Sequence[Suspect], all_lowered: int) -> None:
        """Runs a trial for each step of the curve; each keeps more of the riskiest suspects."""
        known: dict[int, int] = {0: all_lowered, len(suspects): 0}
        for step in range(1, _CURVE_STEPS):
            wanted = all_lowered * step / _CURVE_STEPS
            # Bisects how many to keep: `few` leaves too many lowered, `many` does not.
            few = max(count for count in known if known[count] > wanted)
            many = min(count for count in known if known[count] <= wanted)
            while many - few > 1:
                middle = (few + many) // 2
                known[middle] = len(self._lowered(flat_entries(suspects[:middle])))
                if known[middle] > wanted:
                    few = middle
                else:
                    many = middle
            self._trial(frozenset(each.node for each in suspects[:many]))

    def _timed(
        self,
        start: Trial,
        found: frozenset[str],
        suspects: Sequence[Suspect],
    ) -> Times:
        """Measures float32 and the trials that may be chosen.

        The decisive point is measured a second time, alone next to float32 and with the entries to
        write, because the fastest of many may have been lucky.
        """
        assert self._measure is not None
        costly = self._costly(suspects)
        without_islands = {costly, costly | found} if costly else set()
        for kept in sorted(without_islands, key=len):
            self._trial(kept)
        tried = worth_measuring(
            [(frozenset(), start), *self._state.trials.items()],
            self._trials.worse,
            only_good=self._aim == "time",
            always=without_islands,
        )
        float32, *measured = self._measure([self._keeping(kept) for kept, _ in tried])
        points = [Point(None, None, 0.0, float32)]
        for (kept, trial), time in zip(tried, measured):
            points.append(Point(kept, trial, self._trials.worse(trial), time))
        times = Times(tuple(points), shows_front=self._aim == "pareto")
        again: set[tuple[frozenset[str], bool]] = set()
        while True:
            point, is_float32 = times.decisive, times.is_float32
            assert point.kept is not None
            if (point.kept, is_float32) in again:
                return times
            again.add((point.kept, is_float32))
            if not self._converts(point.kept, suspects, is_float32):
                if is_float32:
                    raise NothingFoundError(self._why_not_converted(point.kept))
                times = times.refusing(point)
                continue
            members = _members(suspects, point.kept)
            entries = self._entries(members, suspects, is_float32)
            _, time = self._measure([self._mixlist.keeping(entries)])
            times = times.measured_again(point, time)

    def _costly(self, suspects: Sequence[Suspect]) -> frozenset[str]:
        """The nodes that are slower lowered, as the optimizer judges by the shapes alone."""
        options = dataclasses.replace(self._options, keep_costly_islands=True)
        _, ledger = self._trials.decide(options)
        names = {
            node.name for part in ledger for node in part.nodes if node.reason == "casts_cost_more"
        }
        return frozenset(each.node for each in suspects if not names.isdisjoint(each.flat))

    def _decided(self, times: Times) -> frozenset[str]:
        """The nodes to keep.

        Raises:
            NothingFoundError: nothing is faster than float32, and keeping all nodes is not float32,
                or is slower, because the mode's rewrites for speed may not pay here.
        """
        point = times.decisive
        assert point.trial is not None
        assert point.kept is not None
        lowered = point.trial.lowered
        if times.is_float32 and (lowered or point.time.is_slower):
            why = (
                f"your own lists lower {lowered} node{'' if lowered == 1 else 's'}"
                if lowered
                else f"with all nodes kept, a step takes {point.time.ratio:.2f} of float32's time"
            )
            raise NothingFoundError(
                "no mixlist is as fast as float32, the untouched model: nothing within the limit "
                f"is faster beyond the noise, and {why}; use the mode must_keep_origin_dtype"
            )
        return point.kept

    def _keeping(self, kept: frozenset[str]) -> PrecisionOptions:
        return self._mixlist.keeping(flat_entries(_members(self._state.suspects or (), kept)))

    def _trial(self, kept: frozenset[str]) -> Trial:
        trials = self._state.trials
        if kept not in trials:
            trials[kept] = self._trials.run(self._keeping(kept))
            self._state.save()
        self._progress(len(trials) + 1, 0 if self._search is None else self._search.left)
        return trials[kept]

    def _entries(
        self,
        kept: Sequence[Suspect],
        suspects: Sequence[Suspect],
        is_float32: bool,
    ) -> list[str]:
        wanted = self._lowered(flat_entries(kept))

        def is_same(entries: list[str]) -> bool:
            try:
                return self._lowered(entries) == wanted
            except ValueError:  # The user's own mixlist contradicts the entries.
                return False

        if is_float32 and is_same([mixlist.EVERY_NODE]):
            return [mixlist.EVERY_NODE]
        # A scope also names nodes that are float32 anyway, and named nodes may not be fused.
        scopes_of = suspects if self._aim == "error" else ()
        return mixlist.entries(kept, scopes_of, self._has_calls, is_same)

    def _lowered(self, entries: Sequence[str]) -> set[tuple[str, str]]:
        _, ledger = self._trials.decide(self._mixlist.keeping(entries))
        return _lowered_nodes(ledger)


def _members(suspects: Sequence[Suspect], names: Container[str]) -> tuple[Suspect, ...]:
    return tuple(each for each in suspects if each.node in names)


def _named(nodes: Sequence[tuple[str, str]]) -> str:
    if not nodes:
        return ""
    return f" ({', '.join(name for _, name in nodes[:3])}{', ...' if len(nodes) > 3 else ''})"


def _quality(error: str, metric: str | None) -> str:
    return f"error {error}{'' if metric is None else f', metric {metric}'}"


def _lowered_nodes(ledger: Ledger) -> set[tuple[str, str]]:
    return {
        (part.graph, node.name)
        for part in ledger
        for node in part.nodes
        if node.decision == "lowered"
    }
