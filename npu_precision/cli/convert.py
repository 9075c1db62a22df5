"""npu-precision convert: writes a lowered model to a file."""

from __future__ import annotations

import math
import os
import pathlib
from typing import Any

import click
import rich.filesize

from npu_precision import outputs
from npu_precision.accuracy import converted_model, frozen, model_inputs, verification
from npu_precision.cli import flags, heading, printing
from npu_precision.explain import explanation
from npu_precision.ledger import Ledger, count_ledgers
from npu_precision.offline import keras_file, model_file, saved_model
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions
from npu_precision.tuning import objective

_TEXT = (".pbtxt", ".txt")


@click.command()
@flags.model_flags("signature")
@flags.precision_flags()
@click.option("-o", "--output", metavar="OUT", required=True, help="The file or folder to write.")
@click.option(
    "--keep-io-types/--no-keep-io-types",
    default=True,
    show_default=True,
    help="Whether inputs and outputs keep their dtype.",
)
@click.option(
    "--freeze/--no-freeze",
    default=None,
    help="Replace variables by constants in the signatures of a SavedModel. "
    "Default: where that is possible.",
)
@click.option(
    "--verify",
    metavar="FILE",
    help="An .npz file with an array for each input, by name. OUT runs on it, next to MODEL, "
    "before it is written.",
)
@click.option(
    "--batch-size", type=click.IntRange(min=1), help="With --verify: the rows of one batch."
)
@click.option(
    "--max-error",
    type=float,
    help="With --verify: the largest error of an output; beyond it, nothing is written.",
)
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@flags.debug_flag
def convert(
    model: Model,
    options: PrecisionOptions,
    output: str,
    keep_io_types: bool,
    freeze: bool | None,
    verify: str | None,
    batch_size: int | None,
    max_error: float | None,
    force: bool,
) -> int:
    """Writes MODEL, lowered, to OUT. OUT runs on TensorFlow alone.

    For a SavedModel, OUT is a folder, with the signatures, variables and assets. For a GraphDef or
    MetaGraph it is a file of the same kind, as text if its name ends in .pbtxt. Inputs and outputs
    keep their names, and, with --keep-io-types, their dtypes.

    --verify runs both on this machine, and shows the error of each output: the root mean square of
    its differences, as a share of the root mean square of MODEL's. If one is larger than
    --max-error, nothing is written, and the exit status is 1.
    """
    source, target = pathlib.Path(model.path), pathlib.Path(output)
    if model.kind == model_file.SAVED_MODEL:
        source = converted_model.folder_of(model)
    if target.resolve() == source.resolve():
        raise ValueError(f"output {output!r} is the model itself, expected another name")
    if freeze and model.kind != model_file.SAVED_MODEL:
        raise click.UsageError(
            "--freeze is for SavedModels: a GraphDef or checkpoint has no signature."
        )
    if verify is None and (
        model.outputs or click.get_current_context().params["signature"] is not None
    ):
        flag = "--fetch, for a SavedModel," if model.outputs else "--signature"
        raise click.UsageError(f"{flag} goes with --verify: all signatures are converted.")
    check = _Check(model, verify, batch_size, max_error)
    outputs.check_apart([output], [*flags.option_files(options), verify])
    before = _size(source)
    try:
        with printing.busy("converting"):
            if model.kind == model_file.SAVED_MODEL:
                ledgers = _convert_folder(
                    model, source, target, options, keep_io_types, freeze, force, check
                )
            else:
                ledgers = _convert_file(model, target, options, keep_io_types, force, check)
    except _TooFarError as error:
        printing.say(printing.console(), str(error))
        return 1
    out = printing.console()
    after = _size(target)
    printing.say(
        out,
        f"{output}: {rich.filesize.decimal(before)} -> {rich.filesize.decimal(after)} "
        f"({after / before:.2f})",
    )
    parts = [part for ledger in ledgers for part in ledger]
    is_folder = model.kind == model_file.SAVED_MODEL
    counted = explanation.SAVED if is_folder else explanation.AS_IT_IS
    printing.say(out, f"{counted}: {count_ledgers(ledgers).sentence}")
    if model.kind == model_file.META_GRAPH:
        printing.say(out, "a graph alone: the checkpoint that there is fits it, and is not copied")
    changed = [entry for part in parts for entry in part.rewrites if entry.by == "keep_io_types"]
    for entry in changed:
        printing.say(out, f"{entry.node}: {entry.before} -> {entry.after}")
    if not (keep_io_types or changed):
        printing.say(
            out,
            "no input or output changed: they are of functions, whose signatures stay, or float32 "
            "is what reads or makes them",
        )
    for line in check.lines:
        printing.say(out, line)
    warnings = dict.fromkeys(line for ledger in ledgers for line in ledger.all_warnings)
    heading.warnings(out, (*warnings, *_of_float16(options, parts)))
    return 0


def _of_float16(options: PrecisionOptions, parts: list[Ledger]) -> tuple[str, ...]:
    """The warning about float16 in a model for the host, unless the options ask for float16."""
    is_for_host = options.target in (None, "host") and not options.emulate
    if not is_for_host or options.float16_compute is not None:
        return ()
    count = sum(node.computes_in == "float16" for part in parts for node in part.nodes)
    if count == 0:
        return ()
    return (
        f"{count} nodes compute in float16, as an accelerator does it; TensorFlow's CPU kernels of "
        "float16 are many times slower than those of float32. For a CPU, convert with --mode "
        "allow_mix_precision_bf16, or with --float16-compute float32; --float16-compute native "
        "accepts it",
    )


class _TooFarError(Exception):
    """The converted model is too far from its source."""


class _Check:
    """Checks what was written before it gets its name.

    Args:
        model: the model.
        file: the .npz file of its inputs, or None for no check.
        batch_size: how many rows are one batch; None for all.
        max_error: the largest error that an output may have.

    Raises:
        OSError, ValueError: the file cannot be read, or does not fit the model.
        click.UsageError: there is a max_error or batch_size, but no file.
    """

    def __init__(
        self, model: Model, file: str | None, batch_size: int | None, max_error: float | None
    ) -> None:
        for flag, value in (("--max-error", max_error), ("--batch-size", batch_size)):
            if file is None and value is not None:
                raise click.UsageError(f"{flag} goes with --verify.")
        self.lines: list[str] = []
        self._model = model
        self._batches: list[model_inputs.Feed] | None = None
        self._max_error = math.inf
        if max_error is not None:
            self._max_error = objective.check(max_error, "--max-error")
        if file is not None:
            self._batches = model_inputs.from_npz(file, frozen.inputs_of(model), batch_size)

    def __call__(self, made: pathlib.Path) -> None:
        """Raises _TooFarError if the converted model's error is too large."""
        if self._batches is None:
            return
        model = self._model
        verifier = verification.Verifier(model, self._batches)
        verified = verifier.verify(converted_model.reread(model, made))
        if not verified.stats:
            raise ValueError(f"{model.path!r} has no float output: nothing can be verified")
        limit = objective.limit_text(self._max_error)
        most = f" (at most {limit})" if self._max_error < math.inf else ""
        for name, stats in verified.stats.items():
            error_text = objective.apart(stats.error, self._max_error)
            self.lines.append(
                f"output {name}: error {error_text}{most}, max abs {stats.max_abs:.1e}"
            )
        name, error = verified.worst()
        if self._max_error < math.inf and not error <= self._max_error:
            raise _TooFarError(
                f"nothing was written: output {name} has error "
                f"{objective.apart(error, self._max_error)}, more than --max-error {limit}; "
                "npu-precision tune, with the same --mode, finds what has to be kept in float32"
            )


def _convert_folder(
    model: Model,
    source: pathlib.Path,
    target: pathlib.Path,
    options: PrecisionOptions,
    keep_io_types: bool,
    freeze: bool | None,
    force: bool,
    check: _Check,
) -> tuple[Ledger, ...]:
    if model.fetches:
        raise click.UsageError(
            "--fetch is for GraphDefs, or names outputs of a SavedModel's signature to --verify."
        )
    if source.resolve() in target.resolve().parents:
        raise ValueError(f"output {str(target)!r} is inside the model, expected outside")
    if target.resolve() in source.resolve().parents:
        raise ValueError(f"the model is inside of output {str(target)!r}, expected outside")
    if target.suffix in keras_file.SUFFIXES:
        raise ValueError(
            f"output {str(target)!r} has the name of a Keras file, expected another name: "
            "the result is a SavedModel, which is a folder"
        )
    tags = sorted(model.meta_graph.meta_info_def.tags)
    with outputs.new_folder(target, force, saved_model.FILE_NAMES) as made:
        ledgers = saved_model.convert_saved_model(
            source, made, options, tags=tags, keep_io_types=keep_io_types, freeze=freeze
        )
        check(made)
    return ledgers


def _convert_file(
    model: Model,
    target: pathlib.Path,
    options: PrecisionOptions,
    keep_io_types: bool,
    force: bool,
    check: _Check,
) -> tuple[Ledger, ...]:
    with outputs.new_file(target, force) as file:
        meta_graph, ledger = model.rewrite(options, keep_io_types)
        content: Any = meta_graph
        if model.kind == model_file.GRAPH_DEF:
            content = meta_graph.graph_def
        if target.suffix in _TEXT:
            file.write_text(str(content), encoding="utf-8")
        else:
            file.write_bytes(content.SerializeToString(deterministic=True))
        check(file)
    return (ledger,)


def _size(path: pathlib.Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(str(path))
        for name in names
    )
