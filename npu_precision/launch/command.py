"""`python -m npu_precision [FLAGS] SCRIPT [ARGUMENT ...]`: runs any program in a precision mode."""

from __future__ import annotations

import functools
import os
import pathlib
import runpy
import subprocess
import sys
from collections.abc import Callable

import click

import npu_precision_command
import npu_precision_startup
from npu_precision import _library
from npu_precision.cli import flags
from npu_precision.guard.healed_mixlist import HealedMixlist
from npu_precision.launch import trials
from npu_precision.launch.settings import Settings
from npu_precision.npu_bridge.alias import install_as_npu_bridge
from npu_precision.options import PrecisionOptions

_PROGRAM = "python -m npu_precision"
_STEPS = 20
_MIXED = [
    PrecisionOptions(precision_mode=mode)
    for mode in ("allow_mix_precision_bf16", "allow_mix_precision")
]
_SITE = pathlib.Path(__file__).resolve().parent / "site"


class _Command(click.Command):
    """Whatever follows -m MODULE is the module's, as it is Python's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts "--" behind the first -m MODULE, unless it is an argument of a script."""
        places = [place for place, each in enumerate(args[:-1]) if each == "-m"]
        if places and not self._has_script(ctx, args[: places[0]]):
            end = places[0] + 2
            args = [*args[:end], "--", *args[end:]]
        return super().parse_args(ctx, args)

    def _has_script(self, ctx: click.Context, args: list[str]) -> bool:
        try:
            program = self.make_parser(ctx).parse_args(list(args))[0].get("program")
        except click.UsageError:  # super() tells of it.
            return True
        return isinstance(program, (list, tuple)) and bool(program)


@click.command(cls=_Command, context_settings={"allow_interspersed_args": False})
@click.option("-m", "module", metavar="MODULE", help="Run a module instead of a script.")
@flags.precision_flags(is_optional=True)
@click.option(
    "--healed",
    metavar="FILE",
    help="Let a PrecisionGuard heal the training; FILE is the mixlist that it writes.",
)
@click.option("--record", metavar="FOLDER", help="Record ranges and overflows by a FlightRecorder.")
@click.option(
    "--time", "times", is_flag=True, help="Run the first steps in float32, and compare times."
)
@click.option(
    "--try",
    "tries",
    is_flag=True,
    help="Run the first steps in float32 and in each mixed mode, or in MODE, and compare them.",
)
@click.option("--steps", type=click.IntRange(min=1), help="The steps of --try. Default: 20.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGUMENT]...")
def run(
    module: str | None,
    options: PrecisionOptions | None,
    healed: str | None,
    record: str | None,
    times: bool,
    tries: bool,
    steps: int | None,
    program: tuple[str, ...],
) -> Callable[[], None]:
    """Runs a TensorFlow program that nobody has to edit, in a precision mode.

    Its tf.functions run as after enable(), and its sessions as with npu_config_proto(), but for
    those whose config names NpuOptimizer; so do the Python processes that it starts. A script may
    import npu_bridge, hccl or npu_device. Without a mode, it runs as it is, with these.
    """
    if module is None and not program:
        raise click.UsageError("SCRIPT is missing, or -m MODULE.")
    if module is None and not os.path.exists(program[0]):
        raise click.UsageError(f"{program[0]}: there is no such file.")
    command = [*(["-m", module] if module else []), *program]
    more = {"--healed": healed, "--record": record, "--time": times}
    given = [flag for flag, value in more.items() if value]
    if steps is not None and not tries:
        raise click.UsageError("--steps: expected --try too.")
    if tries and given:
        raise click.UsageError(f"{given[0]} and --try: expected one of the two.")
    if options is None and not tries:
        if given:
            raise click.UsageError(f"{given[0]}: expected --mode too.")
        return functools.partial(_run_for_ascend, module, program)
    modes = _MIXED if options is None else [options]
    for each in modes:
        _library.check_options(each.custom_optimizer())
    if healed is not None:
        HealedMixlist(healed)
    settings = [Settings(each, healed, record, times).absolute() for each in modes]
    if tries:
        command = [*_interpreter_flags(), *command]
        contenders = {trials.FLOAT32: None, **{each.mode: each for each in settings}}
        steps = steps or _STEPS
        return functools.partial(trials.compare, command, _environment(), contenders, steps)
    return functools.partial(_become, command, settings[0])


def main() -> None:
    """Runs what the arguments of the process say."""
    npu_precision_command.open_closed_streams()
    try:
        start = run.main(prog_name=_PROGRAM, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{_PROGRAM}: {error}\n")
        sys.exit(npu_precision_command.FAILED)
    if callable(start):  # Otherwise --help was shown.
        start()


def _become(arguments: list[str], settings: Settings) -> None:
    """Replaces this process by one that runs the program.

    The program may set variables that TensorFlow reads when it is imported, as it is here by now.
    """
    own = {npu_precision_startup.LAUNCHED_PID: str(os.getpid())}
    sys.stdout.flush()
    sys.stderr.flush()
    variables = {**_environment(), **settings.to_environment(), **own}
    command = [sys.executable, *_interpreter_flags(), *arguments]
    os.execve(sys.executable, command, variables)


def _interpreter_flags() -> list[str]:
    """The flags that Python was given, such as -u and -W error."""
    given: list[str] = getattr(sys, "orig_argv", [])[1:]
    if "-m" in given:
        return given[: given.index("-m")]
    # Before Python 3.10.
    return list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]


def _environment() -> dict[str, str]:
    """The environment of this process, with what runs npu_precision_startup, and without modes."""
    given = [name for name in npu_precision_startup.VARIABLES if os.environ.get(name)]
    if given:
        sys.stderr.write(f"{_PROGRAM}: the flags replace {', '.join(given)} of the environment\n")
    kept = {name: value for name, value in os.environ.items() if name not in given}
    paths = [str(_SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


def _run_for_ascend(module: str | None, program: tuple[str, ...]) -> None:
    install_as_npu_bridge()
    if module is not None:
        sys.argv = [module, *program]
        sys.path[0] = os.getcwd()
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    sys.argv = list(program)
    sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
    runpy.run_path(program[0], run_name="__main__")
