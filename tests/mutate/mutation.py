"""Mutation: one line of the project, made wrong, and the tests that must notice."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One change that breaks something.

    Attributes:
        name: the file's name without its suffix, and a word: "resolve_gray/votes".
        file: the path of the changed file, from the root of the project.
        old: a part of its text that occurs exactly once.
        new: the text that replaces it.
        breaks: one sentence on what is then wrong.
        tests: tests or whole files, as pytest names them; at least one test must fail.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]

    @property
    def is_cxx(self) -> bool:
        """Whether the library has to be built."""
        return self.file.endswith((".cc", ".h"))

    def problem(self, root: pathlib.Path = ROOT) -> str | None:
        """Why the mutation no longer applies, or None."""
        path = root / self.file
        if not path.exists():
            return f"there is no file {self.file}"
        count = path.read_text(encoding="utf-8").count(self.old)
        return None if count == 1 else f"its text is {count} times in {self.file}, expected once"


def mutations_of(file: str) -> Callable[..., Mutation]:
    """A function that makes the mutations of a file: make(word, old, new, breaks, *tests)."""

    def make(word: str, old: str, new: str, breaks: str, *tests: str) -> Mutation:
        return Mutation(f"{pathlib.Path(file).stem}/{word}", file, old, new, breaks, tests)

    return make
