"""Groups of sources that are compiled as one.

Beside each source the compiler instantiates what TensorFlow's headers use, which takes longer than
the source itself. So a compilation includes several sources, which must not define the same name
in unnamed namespaces.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable

_UNNAMED = re.compile(r"^namespace \{\n(.*?)^\}  // namespace\n", re.S | re.M)
_MACRO = re.compile(r"^#define (\w+)", re.M)
# What a line defines that is not indented: a type, an alias, or constants; else a function or a
# variable.
_DEFINED = re.compile(r"(?:(?:class|struct|enum class|enum) |using (?=\w+ =))(\w+)")
_CONSTANTS = re.compile(r"[ ,](\w+)(?:\[\w*\])*(?: =|\{)")
_ENUMERATOR = re.compile(r"\bk[A-Z]\w*")
_OTHERS = re.compile(r"(?! |using )[\w:<>,*& ]+?[ *&](\w+)(?:\(|\[|\{| =|;)")


def defined_names(text: str) -> set[str]:
    """The names that a source keeps to itself."""
    names = set(_MACRO.findall(text))
    for body in _UNNAMED.findall(text):
        for line in body.splitlines():
            if line.startswith(("const ", "constexpr ")):
                names.update(_CONSTANTS.findall(line))
            elif line.startswith("enum ") and not line.startswith("enum class "):
                names.update(_ENUMERATOR.findall(line))
            found = _DEFINED.match(line) or _OTHERS.match(line)
            if found:
                names.add(found.group(1))
    return names


def grouped(sources: Iterable[pathlib.Path], size: int) -> list[list[pathlib.Path]]:
    """Puts each source into the first group that has room and none of its names.

    Args:
        sources: files in C++.
        size: the most sources of a group.

    Returns:
        Groups in the order of their first sources, none of them empty.
    """
    groups: list[tuple[list[pathlib.Path], set[str]]] = []
    for source in sources:
        names = defined_names(source.read_text(encoding="utf-8"))
        for members, taken in groups:
            if len(members) < size and not names & taken:
                members.append(source)
                taken |= names
                break
        else:
            groups.append(([source], set(names)))
    return [members for members, _ in groups]
