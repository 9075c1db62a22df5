"""Lets the processes of one training agree on where a step went wrong."""

from __future__ import annotations

import itertools
import json
from typing import Any

from npu_precision import _tf_compat
from npu_precision.guard.blame import Blamed

# Seconds that a worker waits for another one, which makes the same steps.
_WAIT_SECONDS = 600

# Counts for all guards in this process: answers for an earlier guard must not reach a later one.
_questions = itertools.count()


class Ranks:
    """The processes of one training, which all ask the same questions in the same order."""

    def __init__(self) -> None:
        cluster = _tf_compat.cluster_of_process()
        has_others = cluster is not None and len(cluster.workers) > 1
        self._cluster = cluster if has_others else None

    def check(self) -> None:
        """Checks that the processes can agree.

        Raises:
            ValueError: there are several, and this TensorFlow has no means for it.
        """
        if self._cluster is not None and not self._cluster.has_store:
            raise ValueError(
                "PrecisionGuard: several workers need TensorFlow 2.15 or newer, by whose "
                "coordination service they agree"
            )

    def first(self, found: Blamed | None) -> Blamed | None:
        """The finding that causes those of other ranks, the same on all ranks; None if none."""
        answers = self._all(None if found is None else list(found))
        blamed = [Blamed(*answer) for answer in answers if answer is not None]
        return min(blamed, key=lambda each: each.stage, default=None)

    def least(self, number: int) -> int:
        """The least of the ranks' numbers."""
        return min(self._all(number))

    def _all(self, own: Any) -> list[Any]:
        """The answers of the ranks, in their order."""
        cluster = self._cluster
        if cluster is None:
            return [own]
        key = f"npu_precision/guard/{next(_questions)}"
        cluster.publish(f"{key}{cluster.worker}", json.dumps(own))
        answers = []
        for worker in cluster.workers:
            said = cluster.read(f"{key}{worker}", _WAIT_SECONDS)
            if said is None:
                raise RuntimeError(f"PrecisionGuard: {worker} said nothing for {_WAIT_SECONDS} s")
            answers.append(json.loads(said))
        return answers
