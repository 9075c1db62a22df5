"""The command npu-precision: its subcommands, and its error messages.

A module of its own: importing anything of the package imports TensorFlow, which takes seconds and
writes a dozen lines to the terminal. A subcommand is imported, in silence, when it is called.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import runpy
import signal
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

import npu_precision_startup

PROGRAM = "npu-precision"
# By name, what the help says of a subcommand; subcommand() says where it is.
SUBCOMMANDS = {
    "compare": "Compares a mode with float32, tensor by tensor.",
    "compare-dumps": "Shows where two runs diverge, by their dumps.",
    "compat": "Shows what scripts for Ascend find here.",
    "convert": "Writes a model, lowered.",
    "doctor": "Shows what is installed, and what is wrong.",
    "explain": "Shows what is lowered and kept, and why.",
    "flight": "Shows what a flight recorder saw in training.",
    "lint": "Shows what is wrong with a mixlist.",
    "lists": "Shows and writes the op lists of a target.",
    "report": "Writes a page: the graph, and every reason.",
    "tune": "Finds the mixlist that keeps a model accurate.",
}
# Subcommands that work where TensorFlow, or our library for it, does not.
WITHOUT_TENSORFLOW = ("compat", "doctor")

FAILED = 2
# What a shell reports of a process that the signal ended.
INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
# Whether the signal has come.
_terminated = False


def open_closed_streams() -> None:
    """Gives the process an output, and one for errors, where the shell has closed them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def main() -> None:
    """Runs the command with the arguments of the process, and ends it."""
    open_closed_streams()
    signal.signal(signal.SIGTERM, _terminate)
    npu_precision_startup.forget()  # A command compares precisions itself.
    try:
        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Runs the command.

    Args:
        arguments: the command line without the program's name.

    Returns:
        The exit status: 0, or 2 after an error (one line on stderr), or the subcommand's status.
    """
    global _terminated
    _terminated = False
    debug = "--debug" in arguments
    try:
        status = _group.main(
            args=list(arguments) or ["--help"], prog_name=PROGRAM, standalone_mode=False, obj=debug
        )
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except (click.Abort, KeyboardInterrupt):
        _print_error("interrupted; outputs that were not complete were not written")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe closed it. Without this, Python's flush at exit would fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if debug:
            traceback.print_exc()
        if _terminated:
            return _TERMINATED
        _print_error(_message(error))
        return FAILED


def _terminate(*_: Any) -> None:
    """As after an interrupt, what is not complete goes.

    Where Python code is called by TensorFlow, that makes another exception of this one.
    """
    global _terminated
    _terminated = True
    sys.exit(_TERMINATED)


def is_terminated() -> bool:
    """Whether SIGTERM has come, whatever exception ends the command."""
    return _terminated


def debug_flag(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --debug, which run() reads from the command line."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        help="A traceback with each error, and TensorFlow's log.",
    )(command)


class _Group(click.Group):
    """Its commands have a name and a help only; the one that is called is imported then.

    The object of its context is whether --debug was given.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None else _imported(str(command.name), ctx.obj), rest


def subcommand(name: str) -> click.Command:
    """Imports a subcommand: the command of its name in the module of its name."""
    own = name.replace("-", "_")
    return getattr(importlib.import_module(f"npu_precision.cli.{own}"), own)


def _imported(name: str, debug: bool) -> click.Command:
    """The subcommand; without debug, TensorFlow does not log what does not end the process."""
    if name in WITHOUT_TENSORFLOW:
        with _modules_alone():
            return subcommand(name)
    # Where TensorFlow is imported already, it has nothing more to say.
    is_quiet = not debug and "tensorflow" not in sys.modules
    try:
        with _silence() if is_quiet else contextlib.nullcontext():
            found = subcommand(name)
    except ImportError as error:  # Of TensorFlow, or of our library for it.
        raise click.ClickException(str(error)) from error
    if not debug:
        importlib.import_module("tensorflow").get_logger().setLevel("FATAL")
    return found


@contextlib.contextmanager
def _modules_alone() -> Iterator[None]:
    """Modules of the package are imported within, but not the package, which needs TensorFlow."""
    if "npu_precision" in sys.modules:
        yield
        return
    package = types.ModuleType("npu_precision")
    package.__path__ = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "npu_precision")]
    sys.modules["npu_precision"] = package
    try:
        yield
    finally:
        del sys.modules["npu_precision"]


def _version() -> str:
    """The version, from the file beside this one that has it; its import imports the package."""
    file = os.path.join(os.path.dirname(__file__), "npu_precision", "_version.py")
    return runpy.run_path(file)["__version__"]


@click.group(
    cls=_Group,
    commands=[click.Command(name, short_help=text) for name, text in SUBCOMMANDS.items()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(_version(), prog_name=PROGRAM)
def _group() -> None:
    """Shows what a precision mode does to a model, and why, and helps to change it."""


def _message(error: Exception) -> str:
    """The message of an error, in one line."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{error.format_message()} See {error.ctx.command_path} --help."
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, (ValueError, OSError)):
        return str(error)
    return (
        f"internal error: {type(error).__name__}: {error}. It is not your fault; --debug shows "
        "where it happened"
    )


def _print_error(text: str) -> None:
    click.echo(f"{PROGRAM}: " + re.sub(r"\s*\n\s*", " ", text.strip()), err=True)


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
