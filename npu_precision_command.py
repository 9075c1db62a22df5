"""The command npu-precision, before TensorFlow is imported.

A module of its own: importing anything of the package imports TensorFlow, which then writes a dozen
lines to the terminal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Iterator

# What a shell reports of a process that the signal ended.
_INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM


def main() -> None:
    """Runs the command with the arguments of the process, and ends it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # The shell has closed it.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    # As after an interrupt: what is not complete goes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        with contextlib.nullcontext() if "--debug" in sys.argv else _silence():
            from npu_precision.cli import main as cli

        status = cli.main(sys.argv[1:])
    except KeyboardInterrupt:
        status = _INTERRUPTED
    sys.exit(status)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Nothing is written to stderr within, and TensorFlow logs no more than what ends the process.

    Some of what TensorFlow 2.21 writes while it is imported, it writes whatever its log level.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.simplefilter("ignore")
    try:
        sys.stderr.flush()
        terminal = os.dup(2)
    except (AttributeError, OSError):  # There is none.
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)


if __name__ == "__main__":
    main()
