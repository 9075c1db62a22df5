"""Keeps the state of a search in a file, so that an interrupted search can be continued."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from npu_precision import _version, outputs
from npu_precision.accuracy.faults import Fault
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.accuracy.model_inputs import Feed
from npu_precision.options import PrecisionOptions, mixlist_file
from npu_precision.tuning.conversion import Checked
from npu_precision.tuning.objective import Objective
from npu_precision.tuning.risk import Suspect
from npu_precision.tuning.trials import Trial

SCHEMA = "npu_precision.tune-state/4"


class State:
    """The suspects, and a trial and perhaps a conversion for each set of them that was kept.

    Args:
        path: the file.
        about: the fingerprint() of everything that the results depend on.
    """

    def __init__(self, path: pathlib.Path, about: dict[str, str]):
        self._path = path
        self._about = about
        self.suspects: list[Suspect] | None = None
        self.trials: dict[frozenset[str], Trial] = {}
        self.conversions: dict[frozenset[str], Checked] = {}

    def load(self) -> None:
        """Reads the state from the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file holds no state of a search, or the state of a different one.
        """
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            if data["schema"] != SCHEMA:
                raise ValueError(f"got schema {data['schema']!r}, expected {SCHEMA!r}")
            about = dict(data["about"])
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
                fault = each.pop("fault")
                if fault is not None:
                    fault = Fault(**{**fault, "nodes": tuple(fault["nodes"])})
                trials[kept] = Trial(**{**each, "error": float(each["error"]), "fault": fault})
            conversions = {}
            for each in data["conversions"]:
                kept = frozenset(suspects[number].node for number in each.pop("kept"))
                conversions[kept] = Checked(**{**each, "error": float(each["error"])})
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"{str(self._path)!r} is no state of a search: {error!r}") from error
        changed = [name for name in self._about if about.get(name) != self._about[name]]
        if changed:
            raise ValueError(
                f"{str(self._path)!r} is about other {' and '.join(changed)}: without --resume, "
                "--force begins anew"
            )
        self.suspects, self.trials, self.conversions = suspects, trials, conversions

    def save(self) -> None:
        """Writes the state to the file."""
        assert self.suspects is not None
        number = {each.node: place for place, each in enumerate(self.suspects)}
        data = {
            "schema": SCHEMA,
            "about": self._about,
            # JSON has no infinity; float() reads it from text.
            "suspects": [
                {**dataclasses.asdict(each), "risk": str(each.risk)} for each in self.suspects
            ],
            **{
                key: [
                    {
                        **dataclasses.asdict(each),
                        "error": str(each.error),
                        "kept": sorted(number[name] for name in kept),
                    }
                    for kept, each in made.items()
                ]
                for key, made in (("trials", self.trials), ("conversions", self.conversions))
            },
        }
        with outputs.new_file(self._path, force=True) as file:
            file.write_text(json.dumps(data), encoding="utf-8")


def fingerprint(
    model: FrozenModel,
    options: PrecisionOptions,
    batches: Sequence[Feed],
    objective: Objective,
) -> dict[str, str]:
    """Hashes everything that results depend on, by the user's names.

    Args:
        model: the model.
        options: the precision as given.
        batches: the inputs that are searched, without those that are held out.
        objective: the limit to meet.
    """
    graph_def = model.graph_def
    parts = [*graph_def.node, *graph_def.library.function]
    file = mixlist_file(options)
    files = [] if file is None else [pathlib.Path(file)]
    for folder in (options.ops_info_dir, options.ops_info_overlay):
        if folder is not None:
            files += sorted(pathlib.Path(folder).rglob("*.json"))
    return {
        "model": _digest(sorted(part.SerializeToString(deterministic=True) for part in parts)),
        "options": options.to_json() + _digest(file.read_bytes() for file in files),
        "inputs or --held-out": _digest(
            part for feed in batches for name in sorted(feed) for part in _content(name, feed[name])
        ),
        "objective": str(objective),
        "--margin": str(objective.margin),
        "versions": f"npu_precision {_version.__version__}, TensorFlow {tf.__version__}",
    }


def _content(name: str, array: np.ndarray) -> Iterator[bytes]:
    yield f"{name} {array.dtype} {array.shape}".encode()
    # An address in the text differs from process to process.
    yield repr(array.tolist()).encode() if array.dtype == object else array.tobytes()


def _digest(parts: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(f"{len(part)} ".encode() + part)
    return found.hexdigest()
