"""The flags that subcommands share."""

from __future__ import annotations

import dataclasses
import functools
import glob
import os
import pathlib
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import click
import tensorflow as tf

import npu_precision_command
from npu_precision import _library, _rewrites
from npu_precision.accuracy import model_inputs
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.offline import model_file
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions, mixlist_file, with_mode

# Fields of PrecisionOptions without a flag: they only matter when a session or function runs.
WITHOUT_FLAG = ("strict", "autocast_only", "lower_compiled")
# By field: its flag and its help. --mode sets precision_mode or precision_mode_v2.
FLAGS = {
    "modify_mixlist": ("--mixlist", "A JSON file that edits the lists; mixed modes only."),
    "customize_dtypes": ("--customize-dtypes", "A file with the dtypes of ops and nodes."),
    "mixlist_edits": ("--mixlist-edits", "The same JSON as text, applied after that file."),
    "all_white": ("--all-white", "Treat gray and black ops as white, but for what an edit says."),
    "white_only": ("--white-only", "Keep gray ops in float32, but for what an edit says."),
    "keep_costly_islands": (
        "--keep-costly-islands",
        "Keep nodes in float32 if their Casts take more time than they save.",
    ),
    "float16_compute": ("--float16-compute", "The dtype that float16 nodes compute in."),
    "target": ("--target", "The device whose lists and kernels decide."),
    "ops_info_dir": (
        "--ops-info-dir",
        "A folder of ops-info files that replaces the target's lists.",
    ),
    "ops_info_overlay": (
        "--ops-info-overlay",
        "A folder of ops-info files, applied after the lists.",
    ),
    "report_dir": ("--report-dir", "A folder for the ledger (JSON)."),
    "dump_passes_dir": (
        "--dump-passes",
        "A folder for the graph as text after each pass that changed it.",
    ),
    "rewrites": ("--rewrites", "The rewrites for speed and size to leave out (-) or take in."),
    "lower_collectives": ("--lower-collectives", "Sum gradients over the workers in the low type."),
    "emulate": ("--emulate", "Compute in float32, round values to the low type."),
    "overflow": ("--overflow", "The result of an overflow with --emulate."),
}

# Fields with a few values, and the library's names for these.
_ONE_OF = {"target": "targets", "float16_compute": "float16_computes"}
_METAVARS = {
    "modify_mixlist": "FILE",
    "customize_dtypes": "FILE",
    "mixlist_edits": "JSON",
    "ops_info_dir": "FOLDER",
    "ops_info_overlay": "FOLDER",
    "report_dir": "FOLDER",
    "dump_passes_dir": "FOLDER",
    "overflow": "inf|saturate",
    "rewrites": "[all|none],[-]NAME,...",
}

# Fields whose files `explain` writes. A page holds what they say, and other commands make a graph
# of their own or many.
_FILES = ("report_dir", "dump_passes_dir")
WITHOUT_FILES = [name for name in FLAGS if name not in _FILES]
# A frozen graph trains on no workers, so it has no collectives to lower.
OF_FROZEN = [name for name in WITHOUT_FILES if name != "lower_collectives"]

debug_flag = npu_precision_command.debug_flag


def precision_flags(
    only: Collection[str] = (), default_mode: str | None = None, is_optional: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a flag for each option of the optimizer; the command gets them as `options`.

    Args:
        only: the fields of PrecisionOptions to add flags for, besides the mode; empty for all.
        default_mode: the mode if the user gives none; None if a mode is required.
        is_optional: whether the command gets None if the user gives none of the flags.
    """
    fields = only or FLAGS
    old_names = _rewrites.OLD_NAMES if "rewrites" in fields else ()

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_options(
            *arguments: Any, mode: str | None, options_file: str | None, **given: Any
        ) -> Any:
            if options_file is None:
                mode = mode or default_mode
            changes = {name: given.pop(name) for name in (*fields, *old_names)}
            if is_optional and {mode, options_file, *changes.values()} == {None}:
                return command(*arguments, options=None, **given)
            return command(*arguments, options=_options(mode, options_file, changes), **given)

        decorated: Callable[..., Any] = with_options
        for name in old_names:
            flag = name.replace("_", "-")
            decorated = click.option(f"--{flag}/--no-{flag}", name, default=None, hidden=True)(
                decorated
            )
        for name in reversed(list(fields)):
            flag, text = FLAGS[name]
            if _is_switch(name):
                flag = f"{flag}/--no-{flag[2:]}"
            metavar = _METAVARS.get(name)
            if name in _ONE_OF:
                metavar = "|".join(_library.describe()[_ONE_OF[name]])
            decorated = click.option(flag, name, default=None, metavar=metavar, help=text)(
                decorated
            )
        decorated = click.option(
            "--options",
            "options_file",
            metavar="FILE",
            help="Options as JSON, by their names in PrecisionOptions; flags override them.",
        )(decorated)
        otherwise = "" if default_mode is None else f" Default: {default_mode}."
        return click.option(
            "--mode",
            metavar="MODE",
            help=f"The precision mode, by its older or newer name.{otherwise}",
        )(decorated)

    return decorate


def _is_switch(name: str) -> bool:
    return _library.describe()["parameters"][name] == "b"


def _options(
    mode: str | None, options_file: str | None, fields: dict[str, Any]
) -> PrecisionOptions:
    if mode is None and options_file is None:
        modes = ", ".join(_library.describe()["modes"])
        raise click.UsageError(f"--mode is missing, expected one of {modes}; or --options FILE.")
    options = PrecisionOptions() if options_file is None else read_options(options_file)
    changes = {name: value for name, value in fields.items() if value is not None}
    options = options if mode is None else with_mode(options, mode, "--mode")
    return dataclasses.replace(options, **changes)


def read_options(file: str) -> PrecisionOptions:
    """The options in a JSON file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file holds no options.
    """
    try:
        return PrecisionOptions.from_json(pathlib.Path(file).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def model_flags(*more: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds MODEL and the flags that choose a part of it; the command gets them as `model`.

    Args:
        *more: "signature", for commands that can work on one signature.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_model(
            *arguments: Any,
            model: str,
            fetch: tuple[str, ...],
            tags: str | None,
            signature: str | None = None,
            **given: Any,
        ) -> Any:
            loaded = model_file.load_model(
                model,
                fetches=fetch,
                tags=None if tags is None else tags.split(","),
                signature=signature,
            )
            return command(*arguments, model=loaded, **given)

        decorated = op_library_flag(with_model)
        for name in (*more, "tags", "fetch"):
            decorated = _MODEL_FLAGS[name](decorated)
        return click.argument("model")(decorated)

    return decorate


def op_library_flag(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --op-library, whose libraries are loaded before the command runs."""

    @functools.wraps(command)
    def with_ops(*arguments: Any, op_library: tuple[str, ...], **given: Any) -> Any:
        for library in op_library:
            _load_ops(library)
        return command(*arguments, **given)

    return click.option(
        "--op-library",
        multiple=True,
        metavar="FILE",
        help="A library with ops of your own; may be repeated.",
    )(with_ops)


_MODEL_FLAGS = {
    "signature": click.option(
        "--signature",
        metavar="NAME",
        help="The signature of a SavedModel. Default: serving_default, or the only one.",
    ),
    "tags": click.option(
        "--tags",
        metavar="A,B",
        help="The tags of one graph of a SavedModel. Default: serve, of several.",
    ),
    "fetch": click.option(
        "--fetch",
        multiple=True,
        metavar="NAME",
        help="A node, tensor or output of the signature to compute; may be repeated. Default: "
        "nodes without consumers.",
    ),
}


def batch_size_flag(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --batch-size, for commands that show sizes without a run; they get `batch_size`."""
    return click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        help="The batch size of inputs that leave it open, to compute the bytes of Casts.",
    )(command)


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The source of a model's inputs: either a file or a function."""

    file: str | None
    function: str | None
    batch_size: int | None
    most: int | None

    def read(self, model: FrozenModel) -> Iterable[model_inputs.Feed]:
        """The batches; a function makes them one at a time, on demand.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file does not fit the model.
        """
        if self.file is not None:
            feeds = model_inputs.from_npz(self.file, model, self.batch_size)
            return feeds if self.most is None else feeds[: self.most]
        assert self.function is not None
        return model_inputs.from_function(self.function, model, self.most)


def input_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags for the source of inputs; the command gets them as `inputs`."""

    @functools.wraps(command)
    def with_inputs(
        *arguments: Any,
        inputs: str | None,
        inputs_from: str | None,
        batch_size: int | None,
        batches: int | None,
        **given: Any,
    ) -> Any:
        if (inputs is None) == (inputs_from is None):
            got = "neither" if inputs is None else "both"
            raise click.UsageError(f"got {got}, expected one of --inputs and --inputs-from.")
        if batch_size is not None and inputs is None:
            raise click.UsageError("--batch-size goes with --inputs.")
        found = Inputs(inputs, inputs_from, batch_size, batches)
        return command(*arguments, inputs=found, **given)

    decorated: Callable[..., Any] = with_inputs
    at_least_one = click.IntRange(min=1)
    for option in (
        click.option("--batches", type=at_least_one, help="Run at most this many batches."),
        click.option(
            "--batch-size", type=at_least_one, help="With --inputs: the rows of one batch."
        ),
        click.option(
            "--inputs-from",
            metavar="MODULE:FUNCTION",
            help="A function that yields mappings from the names of inputs to arrays.",
        ),
        click.option(
            "--inputs", metavar="FILE", help="An .npz file with an array for each input, by name."
        ),
    ):
        decorated = option(decorated)
    return decorated


class Training(NamedTuple):
    """A training to compare.

    Attributes:
        name: the function that builds it, as "module:function".
        steps: the number of steps of a run.
        seed: the seed of the compared runs.
        other_seeds: the number of other seeds that float32 is run with.
        state: a folder that keeps the runs, or None.
    """

    name: str
    steps: int
    seed: int
    other_seeds: int
    state: str | None


def training_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags of a training; the command gets them as `training`."""

    @functools.wraps(command)
    def with_training(
        *arguments: Any,
        training: str,
        steps: int,
        seed: int,
        other_seeds: int,
        state: str | None,
        **given: Any,
    ) -> Any:
        found = Training(training, steps, seed, other_seeds, state)
        return command(*arguments, training=found, **given)

    decorated: Callable[..., Any] = with_training
    for option in (
        click.option(
            "--state", metavar="FOLDER", help="Keep each run there, and reuse those that are there."
        ),
        click.option(
            "--other-seeds",
            type=click.IntRange(min=1),
            default=2,
            show_default=True,
            help="The number of float32 runs with other seeds.",
        ),
        click.option("--seed", type=int, default=1, show_default=True, help="The seed."),
        click.option(
            "--steps",
            type=click.IntRange(min=1),
            default=100,
            show_default=True,
            help="The number of steps in each run.",
        ),
        click.option(
            "--training",
            required=True,
            metavar="MODULE:FUNCTION",
            help="A function that builds a training.",
        ),
    ):
        decorated = option(decorated)
    return decorated


def files_read(
    model: Model, options: PrecisionOptions, inputs: Inputs | None = None
) -> list[str | None]:
    """The files that the command reads, which no output may replace."""
    checkpoint: list[str] = []
    if model.kind == model_file.META_GRAPH:
        prefix = glob.escape(os.path.splitext(model.path)[0])
        checkpoint = [*glob.glob(f"{prefix}.index"), *glob.glob(f"{prefix}.data-*")]
    return [
        model.path,
        *checkpoint,
        *option_files(options),
        None if inputs is None else inputs.file,
    ]


def option_files(options: PrecisionOptions) -> list[str | None]:
    """The option files of the running command."""
    given = click.get_current_context().params
    return [
        mixlist_file(options),
        options.customize_dtypes,
        options.ops_info_dir,
        options.ops_info_overlay,
        given.get("options_file"),
        *given.get("op_library", ()),
    ]


def _load_ops(library: str) -> None:
    try:
        tf.load_op_library(library)
    except (tf.errors.OpError, OSError) as error:
        raise click.BadParameter(f"{library!r} does not load: {error}.") from error
