"""The command itself: its subcommands, and its error messages."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence

import click
import tensorflow as tf

from npu_precision import _version
from npu_precision.cli import compare, convert, explain, lint, report, tune
from npu_precision.cli.printing import PROGRAM

FAILED, INTERRUPTED = 2, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(_version.__version__, prog_name=PROGRAM)
def group() -> None:
    """Shows what a precision mode makes of a model, and why, and helps to change it."""


group.add_command(compare.compare)
group.add_command(convert.convert)
group.add_command(explain.explain)
group.add_command(lint.lint)
group.add_command(report.report)
group.add_command(tune.tune)


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    Args:
        arguments: the command line without the program's name.

    Returns:
        The exit status: 0, or 2 after an error (one line on stderr), or the subcommand's status.
    """
    debug = "--debug" in arguments
    if not debug:
        tf.get_logger().setLevel("FATAL")
    try:
        status = group.main(
            args=list(arguments) or ["--help"], prog_name=PROGRAM, standalone_mode=False
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
        _print_error(_message(error))
        return FAILED


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
