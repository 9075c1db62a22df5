"""The device names that torch's functions accept."""

from __future__ import annotations

from npu_precision import _errors

NAMES = ("cpu", "gpu", "cuda", "npu")


def check(argument: str, name: str) -> None:
    """Raises ValueError, naming the argument, unless the name is in NAMES."""
    if name not in NAMES:
        raise ValueError(
            f"{argument}: got {_errors.got(name)}, expected one of {', '.join(NAMES)}"
            + _errors.did_you_mean(str(name), NAMES)
        )
