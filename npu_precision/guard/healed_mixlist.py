"""The mixlist that a guard writes: entries for nodes to keep in float32, each with its reason."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping

from npu_precision.options import PrecisionOptions, mixlist_file
from npu_precision.outputs import new_file
from npu_precision.tuning.mixlist import Mixlist

_HEADER = "// Written by npu_precision.PrecisionGuard."
_COMMENT = "// "
_EMPTY = '{"black-list": {"to-add": []}}'


class HealedMixlist:
    """The file of a guard, with the entries of the options' own mixlist and those of heals.

    Args:
        path: the file. If it does not exist, it is written. A file of an earlier guard stays in
            force, and grows.

    Raises:
        FileExistsError: no guard wrote the file.
        OSError: it cannot be read or written.
        ValueError: the file is no longer a mixlist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)
        # The reasons by entry.
        self._healed: dict[str, str] = {}
        if not self.path.exists():
            self._write(_EMPTY, {})
            return
        lines = self.path.read_text(encoding="utf-8").split("\n")
        if lines[0] != _HEADER:
            raise FileExistsError(
                f"mixlist {str(path)!r} exists, and no PrecisionGuard wrote it; expected another "
                "name. The guard's file begins with the entries of the modify_mixlist in force"
            )
        # Raises an error for a damaged file, rather than replacing it.
        Mixlist(
            PrecisionOptions(precision_mode="allow_mix_precision", modify_mixlist=str(self.path))
        )
        for before, line in zip(lines[1:], lines[2:]):
            if before.strip().startswith(_COMMENT):
                entry = json.loads(line.strip().rstrip(","))
                self._healed[entry] = before.strip()[len(_COMMENT) :]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was healed."""
        return not self._healed

    def text(self) -> str:
        """The content of the file; "" if it cannot be read."""
        try:
            return self.path.read_text(encoding="utf-8")
        except OSError:
            return ""

    def is_of(self, options: PrecisionOptions) -> bool:
        """Whether the options name this file."""
        given = mixlist_file(options)
        return given is not None and os.path.realpath(given) == os.path.realpath(str(self.path))

    def in_force(self, options: PrecisionOptions) -> PrecisionOptions:
        """The options with this file as their mixlist."""
        return dataclasses.replace(options, modify_mixlist=str(self.path))

    def trying(self, options: PrecisionOptions, reasons: Mapping[str, str]) -> PrecisionOptions:
        """The options with additional entries, which are not in the file.

        Raises:
            ValueError: their mode uses no lists, or their mixlist is not in a file.
        """
        return Mixlist(options).keeping(self._more_than(options, reasons))

    def kept(self, options: PrecisionOptions) -> set[str]:
        """The entries that are on the black list already."""
        return Mixlist(options).black

    def add(self, options: PrecisionOptions, reasons: Mapping[str, str]) -> None:
        """Rewrites the file, with the entries of the options' mixlist and additional ones.

        Raises:
            OSError: the file cannot be written; it is unchanged.
        """
        healed = {**self._healed, **reasons}
        self._write(Mixlist(options).text(self._more_than(options, reasons)), healed)
        self._healed = healed

    def _more_than(self, options: PrecisionOptions, reasons: Mapping[str, str]) -> list[str]:
        """The healed and additional entries that the options' own mixlist lacks."""
        return [*reasons] if self.is_of(options) else [*{**self._healed, **reasons}]

    def _write(self, text: str, reasons: Mapping[str, str]) -> None:
        quoted = {json.dumps(entry): why for entry, why in reasons.items()}
        lines = [_HEADER]
        for line in text.strip().split("\n"):
            stripped = line.strip().rstrip(",")
            if stripped in quoted:
                indent = line[: len(line) - len(line.lstrip())]
                lines.append(f"{indent}{_COMMENT}{quoted[stripped]}")
            lines.append(line)
        with new_file(self.path, force=True) as file:
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
