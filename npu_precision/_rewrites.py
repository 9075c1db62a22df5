"""Parses the option `rewrites`, a text or a mapping, and the older options that it replaces."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from npu_precision import _errors, _library

_LOGGER = logging.getLogger(__name__)
# The rewrite that each older option switched, by the option's name.
OLD_NAMES: dict[str, str] = dict(_library.describe()["old_rewrite_keys"])
_logged: set[tuple[str, bool]] = set()


def as_text(rewrites: Any) -> str | None:
    """The canonical text for a parameter_map, from a text or a mapping.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(rewrites, Mapping):
        for name, is_in in rewrites.items():
            if not isinstance(name, str) or not isinstance(is_in, bool):
                raise ValueError(
                    f"rewrites: got {_errors.got(is_in)} for {name!r}, expected a bool for a name"
                )
        return ",".join(sorted(map(_item, rewrites, rewrites.values()), key=_name)) or None
    if not isinstance(rewrites, str):
        raise ValueError(f"rewrites: got {_errors.got(rewrites)}, expected a str or a mapping")
    items = [item.strip() for item in rewrites.split(",")]
    start = [items.pop(0)] if items[0] in ("all", "none") else []
    # A name that is switched both on and off stays so: the optimizer refuses it.
    plain = {item[1:] if item.startswith("+") else item for item in items}
    return ",".join([*start, *sorted(plain, key=lambda item: (_name(item), item))])


def with_default(rewrites: str | Mapping[str, bool] | None, name: str) -> str:
    """Switches a rewrite on, unless `rewrites` says something about it."""
    given = None if rewrites is None else as_text(rewrites)
    if given is None:
        return name
    items = given.split(",")
    if items[0] in ("all", "none") or name in map(_name, items):
        return given
    text = as_text(f"{given},{name}")
    assert text is not None
    return text


def without(rewrites: str, name: str) -> str:
    """Switches a rewrite off, whatever the text `rewrites` says about it."""
    items = [item for item in rewrites.split(",") if item and _name(item.strip(" +")) != name]
    text = as_text(",".join([*items, _item(name, is_in=False)]))
    assert text is not None
    return text


def without_old_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces the older options among the fields by `rewrites`.

    Raises:
        ValueError: a wrong value.
    """
    result = {name: value for name, value in fields.items() if name not in OLD_NAMES}
    items = []
    for old in fields:
        if old not in OLD_NAMES or fields[old] is None:
            continue
        is_in = fields[old]
        if not isinstance(is_in, bool):
            raise ValueError(f"{old}: got {_errors.got(is_in)}, expected bool")
        items.append(_item(OLD_NAMES[old], is_in))
        if (old, is_in) not in _logged:
            _logged.add((old, is_in))
            _LOGGER.warning('%s=%s: write rewrites={"%s": %s}', old, is_in, OLD_NAMES[old], is_in)
    if items:
        given = result.get("rewrites")
        earlier = None if given is None else as_text(given)
        result["rewrites"] = as_text(",".join([earlier, *items] if earlier else items))
    return result


def _item(name: str, is_in: bool) -> str:
    return name if is_in else f"-{name}"


def _name(item: str) -> str:
    return item[1:] if item.startswith("-") else item
