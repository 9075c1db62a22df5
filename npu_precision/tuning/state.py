"""What a search has found out so far, in a file, so that it can go on after an interruption."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Sequence

from npu_precision import outputs
from npu_precision.frozen import FrozenModel
from npu_precision.model_inputs import Feed
from npu_precision.options import PrecisionOptions
from npu_precision.tuning.risk import Suspect
from npu_precision.tuning.trials import Trial

SCHEMA = "npu_precision.tune-state/1"


class State:
    """The suspects, and a trial for each set of them that was kept.

    Args:
        path: the file; None to keep everything in memory only.
        about: what it is about, as fingerprint() says it.
    """

    def __init__(self, path: pathlib.Path | None, about: dict[str, str]):
        self._path = path
        self._about = about
        self.suspects: list[Suspect] | None = None
        self.trials: dict[frozenset[str], Trial] = {}

    def load(self) -> None:
        """Takes over what is in the file.

        Raises:
            OSError: it cannot be read.
            ValueError: it is no such file, or about something else.
        """
        assert self._path is not None
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            if data["schema"] != SCHEMA:
                raise ValueError(f"got schema {data['schema']!r}, expected {SCHEMA!r}")
            about = data["about"]
            suspects = [
                Suspect(
                    each["node"],
                    each["op"],
                    tuple(each["flat"]),
                    float(each["risk"]),
                    tuple(each["why"]),
                )
                for each in data["suspects"]
            ]
            trials = {}
            for each in data["trials"]:
                kept = frozenset(suspects[number].node for number in each.pop("kept"))
                trials[kept] = Trial(**{**each, "error": float(each["error"])})
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{str(self._path)!r} is no state of a search: {error!r}") from error
        changed = [name for name in self._about if about.get(name) != self._about[name]]
        if changed:
            raise ValueError(
                f"{str(self._path)!r} is about other {' and '.join(changed)}: without --resume, "
                "--force begins anew"
            )
        self.suspects, self.trials = suspects, trials

    def save(self) -> None:
        """Writes the file."""
        if self._path is None or self.suspects is None:
            return
        number = {each.node: place for place, each in enumerate(self.suspects)}
        data = {
            "schema": SCHEMA,
            "about": self._about,
            # JSON has no infinity; as text, float() reads it.
            "suspects": [
                {**dataclasses.asdict(each), "risk": str(each.risk)} for each in self.suspects
            ],
            "trials": [
                {
                    **dataclasses.asdict(trial),
                    "error": str(trial.error),
                    "kept": sorted(number[name] for name in kept),
                }
                for kept, trial in self.trials.items()
            ],
        }
        with outputs.new_file(self._path, force=True) as file:
            file.write_text(json.dumps(data), encoding="utf-8")


def fingerprint(
    model: FrozenModel, options: PrecisionOptions, batches: Sequence[Feed], objective: str
) -> dict[str, str]:
    """What results depend on, by what a user calls it."""
    nodes = hashlib.sha256()
    for data in sorted(node.SerializeToString(deterministic=True) for node in model.graph_def.node):
        nodes.update(data)
    values = hashlib.sha256()
    for feed in batches:
        for name in sorted(feed):
            values.update(f"{name} {feed[name].dtype} {feed[name].shape}".encode())
            values.update(feed[name].tobytes())
    mixlist = ""
    if options.modify_mixlist is not None:
        mixlist = pathlib.Path(options.modify_mixlist).read_text(encoding="utf-8")
    return {
        "model": nodes.hexdigest(),
        "options": options.to_json() + mixlist,
        "inputs": values.hexdigest(),
        "objective": objective,
    }
