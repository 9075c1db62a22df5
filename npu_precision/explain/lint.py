"""Finds and fixes mistakes, and needless entries, in a mixlist or a customize_dtypes file.

Finds mistakes in ops-info files, too.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from npu_precision import _library
from npu_precision.explain import reasons, story
from npu_precision.ledger import Ledger, LedgerNode
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions, resolve

ERROR = "error"
# The reasons of nodes whose values the low type would lose, and the lint rules that report them.
_LOSES_VALUES = {"guard_constant": "guard-constant", "leaves_range": "leaves-range"}


@dataclasses.dataclass(frozen=True)
class Edit:
    """The change to the file that fixes a finding.

    Attributes:
        replacement: the new text of the entry; "" to remove it.
        begin, end: the offsets of its string in the file, quotes included.
        previous_end: the end of the previous entry of the same list, or 0.
    """

    replacement: str
    begin: int
    end: int
    previous_end: int


@dataclasses.dataclass(frozen=True)
class Finding:
    """One error, warning or note about a mixlist or a customize_dtypes file.

    Attributes:
        severity: "error", "warning" or "note".
        rule: the kind of finding, a word or two such as "unknown-op".
        place: "FILE:LINE:COLUMN", or "FILE" if it concerns several places. The file is the mixlist,
            or the model if the mixlist says nothing about the node.
        text: the message.
        edit: the change that fixes it, or None.
    """

    severity: str
    rule: str
    place: str
    text: str
    edit: Edit | None = None

    def __str__(self) -> str:
        """The finding in the format of compiler messages."""
        return f"{self.place}: {self.severity}: {self.text} [{self.rule}]"


# A file that is for a compiler, and has no effect here.
FUSION_SWITCH = "fusion_switch_file"
# The formats of files with a line or an object for each op type.
OPS_INFO = "ops-info"
_CUSTOM_DTYPES = "customize_dtypes"


def format_of(path: pathlib.Path) -> str:
    """The format of a file, or of those of a folder, detected from the content.

    The result is "modify_mixlist", "customize_dtypes", "ops-info" or "fusion_switch_file".

    Raises:
        OSError: the file cannot be read.
    """
    return OPS_INFO if path.is_dir() else _library.file_format(path.read_bytes())


def no_effect(file: str) -> Finding:
    """The finding about a fusion switch file."""
    return Finding(
        "warning",
        "inert-option",
        file,
        f"{FUSION_SWITCH} switches fusions of CANN, and has no effect here; the option rewrites "
        "names those of npu_precision",
    )


def lint(file: str, text: bytes, options: PrecisionOptions) -> list[Finding]:
    """The findings about a mixlist, or a customize_dtypes file, by itself; errors first.

    Args:
        file: the name of the file, for messages.
        text: the content of the file, from which its kind is detected.
        options: the mode that it is for, and the target whose lists it edits.

    Raises:
        ValueError: the options are refused.
    """
    if _library.file_format(text) == _CUSTOM_DTYPES:
        return [_finding(found) for found in _library.lint_custom_dtypes(file, text)]
    entry = options.custom_optimizer()
    entry.parameter_map["modify_mixlist"].s = file.encode()
    return [_finding(found) for found in _library.lint_mixlist(entry, text)["findings"]]


def ops_info_files(path: pathlib.Path) -> list[pathlib.Path]:
    """The ops-info files of a folder, or the file itself.

    Raises:
        ValueError: the folder holds no .json file.
    """
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{str(path)!r} has no .json file, expected ops-info files")
    return files


def lint_ops_info(path: pathlib.Path) -> list[Finding]:
    """The findings about an ops-info file, or about those of a folder, file by file.

    Raises:
        OSError: a file cannot be read.
        ValueError: the folder holds no .json file.
    """
    return [
        _finding(found)
        for file in ops_info_files(path)
        for found in _library.lint_ops_info(str(file), file.read_bytes())
    ]


def _finding(found: Mapping[str, Any]) -> Finding:
    edit = {field.name: found[field.name] for field in dataclasses.fields(Edit)}
    return Finding(
        found["severity"],
        found["rule"],
        found["place"],
        found["text"],
        Edit(**edit) if found["fixable"] else None,
    )


def lint_for_model(file: str, options: PrecisionOptions, model: Model) -> list[Finding]:
    """The findings about a mixlist, or a customize_dtypes file, that only show on a model.

    Args:
        file: the file; lint() finds no errors in it.
        options: the mode and target.
        model: the model.

    Raises:
        ValueError: the optimizer refuses the model, whatever the mixlist.
    """
    option = _library.file_format(pathlib.Path(file).read_bytes())
    try:
        _, ledger = model.rewrite(resolve(options, {option: file}))
    except ValueError as error:
        model.rewrite(options)
        return [Finding(ERROR, "contradiction", file, str(error))]
    _, without = model.rewrite(options)
    found = []
    unmatched = ledger.unmatched
    for line in ledger.all_warnings:
        if not line.startswith(unmatched):
            continue
        place, _, text = line.partition(": ")
        found.append(Finding("warning", "no-match", place, text))
    if option == _CUSTOM_DTYPES:
        found += _not_followed(file, ledger)
    return [*found, *_lost_values(file, ledger, without), *_kept_values(model.path, ledger)]


# lint() reports unknown op types by itself.
_OF_UNKNOWN_OP = re.compile(r"'.*' is (not an op type|an Ascend op)")


def _not_followed(file: str, ledger: Ledger) -> list[Finding]:
    """Warnings about lines that cannot be followed in the graph or in a function."""
    unmatched = set(ledger.unmatched or ())
    found = []
    warnings = [line for part in ledger for line in part.warnings if line not in unmatched]
    for line in dict.fromkeys(warnings):
        place, _, text = line.partition(": ")
        is_of_file = place.startswith(f"{file}:") and not _OF_UNKNOWN_OP.match(text)
        if is_of_file and not text.endswith("matches no node of the graph"):
            found.append(Finding("warning", "not-followed", place, text))
    return found


def lint_model(options: PrecisionOptions, model: Model) -> list[Finding]:
    """The findings about a model's values under the mode and target, without a mixlist.

    Raises:
        ValueError: the optimizer refuses the model.
    """
    _, ledger = model.rewrite(options)
    return _kept_values(model.path, ledger)


def _lost_values(file: str, ledger: Ledger, without: Ledger) -> list[Finding]:
    """Warnings about nodes that the mixlist lowers, although the low type loses their values."""
    lowered = {
        (part.graph, node.name): node
        for part in ledger
        for node in part.nodes
        if node.decision == "lowered"
    }
    several = _Several("warning")
    for part in without:
        nodes = {node.name: node for node in part.nodes}
        for node in part.nodes:
            now = lowered.get((part.graph, node.name))
            if node.reason not in _LOSES_VALUES or now is None:
                continue
            place = now.listed_by if now.listed_by.startswith(f"{file}:") else file
            verdict = "is lowered by the mixlist, although"
            several.add(place, node, verdict, nodes, _function(part, without))
    return several.findings()


def _kept_values(path: str, ledger: Ledger) -> list[Finding]:
    """Notes about nodes that stay in float32 because the low type would lose their values."""
    several = _Several("note")
    for part in ledger:
        nodes = {node.name: node for node in part.nodes}
        for node in part.nodes:
            if node.reason in _LOSES_VALUES:
                several.add(path, node, "stays in float32:", nodes, _function(part, ledger))
    return several.findings()


class _Several:
    """Collects findings about nodes, and merges those that are the same in several functions."""

    def __init__(self, severity: str) -> None:
        self._severity = severity
        self._functions: dict[tuple[str, str, str, str], list[str]] = {}

    def add(
        self,
        place: str,
        node: LedgerNode,
        verdict: str,
        nodes: Mapping[str, LedgerNode],
        function: str,
    ) -> None:
        """Adds a node of a function, whose other nodes are `nodes`."""
        text = f"({node.op}) {verdict} {_why_lost(node, nodes)}"
        key = (_LOSES_VALUES[node.reason], place, repr(node.name), text)
        self._functions.setdefault(key, []).append(function)

    def findings(self) -> list[Finding]:
        return [
            Finding(self._severity, rule, place, f"{name}{_inside(functions)} {text}")
            for (rule, place, name, text), functions in self._functions.items()
        ]


def _function(part: Ledger, ledger: Ledger) -> str:
    return "" if part is ledger else part.graph


def _inside(functions: list[str]) -> str:
    more = len(functions) - 1
    others = f" and {more} more function{'s' if more > 1 else ''}" if more else ""
    return f" in {functions[0] or 'the graph'}{others}" if functions != [""] else ""


def _why_lost(node: LedgerNode, nodes: Mapping[str, LedgerNode]) -> str:
    cause = nodes.get(node.cause)
    if node.reason == "guard_constant":
        known = story.values(cause) if cause is not None else ""
        value = f" ({known})" if known else ""
        return reasons.SENTENCES[node.reason].format(cause=f"{node.cause!r}{value}")
    if cause is None:
        return f"its values are {story.values(node)}, too large for the low type"
    values = f"whose values are {story.values(cause)}, too large for the low type"
    return f"it reads {cause.name!r}, {values}"


def fix(file: str, text: bytes, options: PrecisionOptions) -> tuple[bytes, list[Finding]]:
    """Fixes a mixlist or a customize_dtypes file: misspelt names, and needless entries.

    Comments and layout stay. A fix that would cause an error elsewhere is not made.

    Args:
        file: the name of the file, for messages.
        text: the content of the file.
        options: the mode that it is for, and the target whose lists it edits.

    Returns:
        (text, findings): the new content, and the findings that were fixed.
    """
    fixed: list[Finding] = []
    refused: set[Finding] = set()
    # Misspelt names first: which entries are needless depends on them.
    for replaces in (True, False):
        found = lint(file, text, options)
        several = _fixable(found, replaces, refused)
        while several:
            candidate = text
            for edit, _ in several:
                is_lines = _library.file_format(text) == _CUSTOM_DTYPES
                edited = _edited_line if is_lines else _edited
                candidate = edited(candidate, edit)
            if _errors(lint(file, candidate, options)) <= _errors(found):
                text = candidate
                fixed += [each for _, each in several]
            elif len(several) == 1:
                refused.add(several[0][1])
            else:
                several = several[: len(several) // 2]
                continue
            found = lint(file, text, options)
            several = _fixable(found, replaces, refused)
    return text, fixed


def _fixable(
    found: list[Finding], replaces: bool, refused: set[Finding]
) -> list[tuple[Edit, Finding]]:
    """The findings with a fix, last place first, so that a fix does not move the other places."""
    several = [
        (each.edit, each)
        for each in found
        if each.edit and bool(each.edit.replacement) == replaces and each not in refused
    ]
    return sorted(several, key=lambda item: -item[0].begin)


def _errors(found: list[Finding]) -> int:
    return sum(each.severity == ERROR for each in found)


# Spaces and comments.
_BETWEEN = re.compile(rb"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)


def _edited_line(text: bytes, edit: Edit) -> bytes:
    return text[: edit.begin] + edit.replacement.encode() + text[edit.end :]


def _edited(text: bytes, edit: Edit) -> bytes:
    begin, end = edit.begin, edit.end
    if edit.replacement:
        return text[:begin] + json.dumps(edit.replacement).encode() + text[end:]
    comma = _skip(text, end)
    if text[comma : comma + 1] == b",":
        text = text[:comma] + text[comma + 1 :]
    elif edit.previous_end:
        comma = _skip(text, edit.previous_end)
        text = text[:comma] + text[comma + 1 :]
        begin, end = begin - 1, end - 1
    return _without(text, begin, end)


def _skip(text: bytes, start: int) -> int:
    between = _BETWEEN.match(text, start)
    assert between is not None
    return between.end()


def _without(text: bytes, begin: int, end: int) -> bytes:
    """The text without a part, and without its line if nothing else is on it."""
    line, line_end = text.rfind(b"\n", 0, begin) + 1, text.find(b"\n", end)
    if line and line_end >= 0 and not (text[line:begin] + text[end:line_end]).strip():
        return text[:line] + text[line_end + 1 :]
    if text[end : end + 1] == b" ":
        end += 1
    elif text[begin - 1 : begin] == b" ":
        begin -= 1
    return text[:begin] + text[end:]
