"""Options as attributes of an object, with nested groups, as in npu_device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from npu_precision import _errors


class OptionGroup:
    """A group of npu_device's options: attributes with defaults, and no others.

    Reading or setting another name raises AttributeError.
    """

    def __init__(self, name: str, defaults: Mapping[str, Any]) -> None:
        """Makes the options.

        Args:
            name: the name of the group as users write it, for messages.
            defaults: the defaults by name; a mapping stands for a group with its defaults.
        """
        own = vars(self)  # not by setattr, which checks
        own["_name"], own["_defaults"] = name, dict(defaults)
        for option, default in defaults.items():
            is_group = isinstance(default, Mapping)
            own[option] = OptionGroup(f"{name}.{option}", default) if is_group else default

    def __setattr__(self, option: str, value: Any) -> None:
        if option not in self._defaults:
            raise AttributeError(self._unknown(option))
        if isinstance(self._defaults[option], Mapping):
            raise AttributeError(
                f"{self._name}.{option} is a group of options: got {_errors.got(value)}, expected "
                f"one of them to be set: {', '.join(self._defaults[option])}"
            )
        super().__setattr__(option, value)

    def __getattr__(self, option: str) -> Any:
        if option.startswith("__"):  # Python checks for such methods.
            raise AttributeError(option)
        raise AttributeError(self._unknown(option))

    def changed(self) -> Iterator[str]:
        """The options whose value differs from the default; those in groups as "group.option"."""
        for option, default in self._defaults.items():
            value = getattr(self, option)
            if isinstance(value, OptionGroup):
                yield from (f"{option}.{each}" for each in value.changed())
            elif value != default:
                yield option

    def _unknown(self, option: str) -> str:
        in_groups = {
            name: f"{group}.{name}"
            for group, defaults in self._defaults.items()
            if isinstance(defaults, Mapping)
            for name in defaults
        }
        if option in in_groups:
            hint = f" (did you mean {in_groups[option]!r}?)"
        else:
            hint = _errors.did_you_mean(option, [*self._defaults, *in_groups.values()])
        return f"{self._name}: got the unknown option {option!r}{hint}"
