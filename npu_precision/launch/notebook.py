"""`%load_ext npu_precision`, and the magic `%npu_precision --mode MODE`, for notebooks."""

from __future__ import annotations

import shlex
from typing import Any

import click

from npu_precision import _library
from npu_precision.cli import flags
from npu_precision.launch import applied
from npu_precision.launch.settings import Settings
from npu_precision.options import PrecisionOptions

NAME = "npu_precision"
_in_force: applied.Applied | None = None


def load(shell: Any) -> None:
    """Registers the magic in an IPython shell."""
    shell.register_magic_function(_magic, "line", NAME)


def _magic(line: str) -> None:
    """Puts a precision mode in force for the cells below; --help tells of its flags."""
    try:
        _change.main(shlex.split(line), prog_name=f"%{NAME}", standalone_mode=False)
    except click.ClickException as error:
        error.show()


@click.command()
@flags.precision_flags(is_optional=True)
@click.option("--record", metavar="FOLDER", help="Record ranges and overflows by a FlightRecorder.")
@click.option("--off", is_flag=True, help="End the mode.")
def _change(options: PrecisionOptions | None, record: str | None, off: bool) -> None:
    """Puts a precision mode in force for what the cells below call, and the sessions they make."""
    global _in_force
    if off == (options is not None):
        raise click.UsageError("expected --mode MODE, or --off.")
    if options is not None:
        _library.check_options(options.custom_optimizer())
    if _in_force is not None:
        _in_force.stop()
        _in_force = None
    if options is not None:
        _in_force = applied.Applied(Settings(options, record=record).absolute(), True)
