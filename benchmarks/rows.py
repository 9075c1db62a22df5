"""The rows of the benchmark's table: the model that runs in each, and the contenders."""

from __future__ import annotations

import dataclasses
import fnmatch
import pathlib
from collections.abc import Sequence
from typing import Literal

import contenders
import fit_models
import inference_graphs
import inference_models
import live_models
import saved_models
import training_graphs

Kind = Literal["frozen", "train", "saved", "fit", "live", "live train"]
_FLOAT16 = "float16 "
_FLOAT16_MODE = "allow_mix_precision"
_MODELS: dict[Kind, Sequence[str]] = {
    "frozen": inference_graphs.NAMES,
    "train": training_graphs.NAMES,
    "saved": saved_models.NAMES,
    "fit": fit_models.NAMES,
    "live": live_models.NAMES,
    "live train": live_models.NAMES,
}
_CONTENDERS = {
    "frozen": contenders.NAMES,
    "train": contenders.NAMES,
    "saved": (*contenders.NAMES, contenders.FOR_ONEDNN, contenders.FROZEN),
    "fit": (*contenders.NAMES, contenders.POLICY),
    "live": (*contenders.NAMES, contenders.POLICY),
    "live train": (*contenders.NAMES, contenders.POLICY),
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        kind: a frozen graph, a training step of TF1, a SavedModel, a step of Keras' fit, or a call
            of a Keras 3 model in a tf.function, for inference or for a training step.
        model: the name among the models of this kind.
        is_float16: whether our float16 mode runs in it, instead of the bfloat16 modes.
    """

    kind: Kind
    model: str
    is_float16: bool = False

    @property
    def name(self) -> str:
        """The row's name in the table and for --only."""
        kind = "" if self.kind == "frozen" else f"{self.kind} "
        return f"{_FLOAT16 if self.is_float16 else ''}{kind}{self.model}"

    def contenders(self, modes: Sequence[str] = ()) -> list[str]:
        """The contenders in this process, float32 first; `modes` adds more of our modes."""
        if self.is_float16:
            return [contenders.BASELINE, contenders.of_mode(_FLOAT16_MODE)]
        return [*_CONTENDERS[self.kind], *map(contenders.of_mode, modes)]

    @property
    def runs_in_sessions(self) -> bool:
        """Whether the contenders run it in sessions, where the rewrite can be timed alone."""
        return self.kind in ("frozen", "train", "saved")

    @property
    def has_peers(self) -> bool:
        """Whether peers in environments of their own take part; they support bfloat16 only."""
        return self.kind in ("frozen", "train") and not self.is_float16

    def obstacle(self, graphs: pathlib.Path) -> str | None:
        """Why the row cannot be run with the graphs of this folder, or None."""
        if self.kind == "frozen":
            return inference_graphs.obstacle(self.model, graphs)
        if self.kind in ("live", "live train"):
            return live_models.obstacle()
        return inference_models.obstacle(self.model) if self.kind == "saved" else None


_ALL = [Row(kind, model) for kind, models in _MODELS.items() for model in models]
_ALL += [Row("frozen", model, True) for model in ("resnet50", "mobilenet_v2", "bert")]
_ALL += [Row("train", "mlp", True)]
_BY_NAME = {row.name: row for row in _ALL}
NAMES = tuple(_BY_NAME)


def row(name: str) -> Row:
    """The row of this name, one of NAMES."""
    return _BY_NAME[name]


def chosen(patterns: Sequence[str]) -> list[str]:
    """The names of the rows that these are the names of, or patterns with *, in their order.

    Raises:
        ValueError: there is no such row.
    """
    names: dict[str, None] = {}
    for pattern in patterns:
        found = fnmatch.filter(NAMES, pattern)
        if not found:
            raise ValueError(f"got {pattern!r}, expected some of {', '.join(NAMES)}")
        names.update(dict.fromkeys(found))
    return list(names)
