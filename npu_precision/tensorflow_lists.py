"""Reads the lists that TensorFlow's own auto_mixed_precision takes from the environment."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from typing import Any

PREFIX = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_"
NAMES = ("ALLOWLIST", "INFERLIST", "CLEARLIST", "DENYLIST")
# By TensorFlow's name, newer or older, the list here.
_LISTS = {
    "ALLOWLIST": "white",
    "WHITELIST": "white",
    "INFERLIST": "gray",
    "GRAYLIST": "gray",
    "CLEARLIST": "gray",
    "DENYLIST": "black",
    "BLACKLIST": "black",
}
_VARIABLES = tuple(f"{PREFIX}{name}_{way}" for name in _LISTS for way in ("ADD", "REMOVE"))
_LEVEL, _ALL = f"{PREFIX}LEVEL", "UNSAFE_FORCE_ALL"


def options_from(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The fields mixlist_edits, all_white and white_only of PrecisionOptions that it stands for.

    An op that is removed from a list of TensorFlow, and added to none, is on no list there, and
    keeps float32: it is black here. An op that is removed from the DENYLIST keeps it, too. The
    level TREAT_INFER_AS_DENY is white_only, which also keeps the ops of the CLEARLIST.

    Args:
        environment: the variables TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_*, among others.

    Returns:
        The fields, without those that nothing is said of.

    Raises:
        ValueError: an op is added to two lists, the level is unknown, or a variable is misspelt.
    """
    _check_names(environment)
    fields: dict[str, Any] = {}
    level = environment.get(_LEVEL, "").upper()
    if level not in ("", "TREAT_INFER_AS_DENY", _ALL):
        raise ValueError(f"{_LEVEL}: got {level!r}, expected TREAT_INFER_AS_DENY or {_ALL}")
    if level:
        fields["all_white" if level == _ALL else "white_only"] = True
    added: dict[str, str] = {}  # by op, the variable
    for name in _LISTS:
        variable = f"{PREFIX}{name}_ADD"
        for op in _ops(environment, variable):
            other = added.setdefault(op, variable)
            if _color(other) != _color(variable):
                raise ValueError(f"{op} is added to two lists: by {other} and by {variable}")
    removed = {
        op
        for name, color in _LISTS.items()
        if color != "black"
        for op in _ops(environment, f"{PREFIX}{name}_REMOVE")
    }
    edits: dict[str, list[str]] = {}
    for op, variable in added.items():
        edits.setdefault(_color(variable), []).append(op)
    edits.setdefault("black", []).extend(sorted(removed - set(added)))
    lists = {f"{color}-list": {"to-add": ops} for color, ops in edits.items() if ops}
    return {**fields, "mixlist_edits": json.dumps(lists)} if lists else fields


def variables_by_op(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """By op, the variable that names it."""
    return {op: variable for variable in _VARIABLES for op in _ops(environment, variable)}


def _check_names(environment: Mapping[str, str]) -> None:
    """Checks that no variable is nearly one of the lists: TensorFlow has others, too."""
    known = (*_VARIABLES, _LEVEL)
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in known:
            continue
        rests = [name[len(PREFIX) :] for name in known]
        near = difflib.get_close_matches(variable[len(PREFIX) :], rests, 1, cutoff=0.8)
        if near:
            raise ValueError(f"{variable}: no such list; did you mean {PREFIX}{near[0]}?")


def _ops(environment: Mapping[str, str], variable: str) -> list[str]:
    return [op for op in map(str.strip, environment.get(variable, "").split(",")) if op]


def _color(variable: str) -> str:
    return _LISTS[variable[len(PREFIX) :].rpartition("_")[0]]
