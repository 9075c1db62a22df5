"""npu-precision lint: finds and fixes mistakes in a mixlist, and in the other files of lists."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import click

from npu_precision import outputs
from npu_precision.cli import flags, printing
from npu_precision.explain import lint as linting
from npu_precision.explain import lint_environment, lint_policies
from npu_precision.explain.lint import Finding
from npu_precision.offline.model_file import load_model
from npu_precision.options import PrecisionOptions

_MODE = "allow_mix_precision"
_POLICIES = "DTypePolicyMap"

SCHEMA = "npu_precision.lint/1"


@click.command()
@click.argument("mixlist", required=False)
@click.option(
    "--model",
    metavar="MODEL",
    help="The model that MIXLIST is for: its entries should match nodes.",
)
@click.option(
    "--lists-from-environment",
    "from_environment",
    is_flag=True,
    help="Read the lists of TensorFlow's auto_mixed_precision instead of MIXLIST: "
    "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_ALLOWLIST_ADD and similar variables.",
)
@flags.op_library_flag
@flags.precision_flags(only=("target", "ops_info_dir", "ops_info_overlay"), default_mode=_MODE)
@click.option("--fix", is_flag=True, help="Fix what can be fixed, in MIXLIST itself or in OUT.")
@click.option("-o", "--output", metavar="OUT", help="With --fix: write OUT instead of MIXLIST.")
@click.option("--force", is_flag=True, help="With --output: replace OUT if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@flags.debug_flag
def lint(
    mixlist: str | None,
    model: str | None,
    from_environment: bool,
    options: PrecisionOptions,
    fix: bool,
    output: str | None,
    force: bool,
    as_json: bool,
) -> int:
    """Shows mistakes and entries without effect in MIXLIST.

    MIXLIST is a modify_mixlist or customize_dtypes file, an ops-info file, or a folder of such
    files for ops_info_dir or ops_info_overlay; or, with --model, a DTypePolicyMap of Keras 3. The
    first line says as which it was read.

    Which entries have an effect depends on the target, and on whether the mode is for float16 or
    bfloat16. With --model, it also names the nodes whose values would overflow or vanish in the low
    type, and says whether MIXLIST keeps or lowers them. MIXLIST is optional then. The exit status
    is 1 if there are errors: the file would fail a run.
    """
    if (output is not None or force) and not fix:
        raise click.UsageError("--output and --force go with --fix.")
    options = dataclasses.replace(options, modify_mixlist=None)
    fixed: list[Finding] = []
    if from_environment and (mixlist is not None or fix):
        other = "--fix" if fix else "MIXLIST"
        raise click.UsageError(f"--lists-from-environment and {other}: expected one of the two.")
    file_format = None if mixlist is None else _format_of(pathlib.Path(mixlist))
    read = [] if mixlist is None else [mixlist]
    if from_environment:
        with printing.busy("deciding"):
            of_model = None if model is None else load_model(model)
            found = lint_environment.lint_environment(options, of_model)
    elif mixlist is None:
        if model is None or fix:
            needs = "--fix needs a MIXLIST" if fix else "Got neither a MIXLIST nor --model"
            raise click.UsageError(f"{needs}; expected 'npu-precision lint MIXLIST'.")
        with printing.busy("deciding"):
            found = linting.lint_model(options, load_model(model))
    elif file_format == _POLICIES:
        if fix or model is None:
            raise click.UsageError(f"{mixlist!r} is a {_POLICIES}: expected --model, and no --fix.")
        with printing.busy("loading"):
            found = lint_policies.lint(mixlist, model)
    elif file_format in (linting.OPS_INFO, linting.FUSION_SWITCH):
        if fix or model is not None:
            flag = "--fix" if fix else "--model"
            raise click.UsageError(f"{flag} goes with a mixlist; {mixlist!r} is {file_format}.")
        if file_format == linting.OPS_INFO:
            read = [str(file) for file in linting.ops_info_files(pathlib.Path(mixlist))]
            found = linting.lint_ops_info(pathlib.Path(mixlist))
        else:
            found = [linting.no_effect(mixlist)]
    else:
        mixlist, found, fixed = _lint_mixlist(mixlist, options, fix, output, force)
        if model is not None and not _has_errors(found):
            with printing.busy("deciding"):
                found += linting.lint_for_model(mixlist, options, load_model(model))
    if as_json:
        data = {
            "schema": SCHEMA,
            "format": file_format,
            "mended": _data(fixed),
            "findings": _data(found),
        }
        click.echo(json.dumps(data, indent=1))
        return int(_has_errors(found))
    out = printing.console()
    for name in read:
        printing.say(out, f"{name}: read as {file_format}")
    for each in fixed:
        printing.say(out, f"fixed: {each}")
    fixed_nothing = fix and not fixed
    if fixed_nothing:
        printing.say(out, f"{mixlist}: has nothing that --fix can fix")
    for each in found:
        printing.say(out, str(each))
    if not found and not fixed_nothing:
        said_of = "the lists in the environment" if from_environment else mixlist or model
        printing.say(out, f"{said_of}: nothing to be said")
    return int(_has_errors(found))


def _format_of(path: pathlib.Path) -> str:
    if path.is_file() and lint_policies.is_map(path.read_bytes()):
        return _POLICIES
    return linting.format_of(path)


def _lint_mixlist(
    mixlist: str, options: PrecisionOptions, fix: bool, output: str | None, force: bool
) -> tuple[str, list[Finding], list[Finding]]:
    """Returns the file that a run would use, the findings about it, and those that were fixed."""
    text = pathlib.Path(mixlist).read_bytes()
    target = mixlist if output is None else output
    fixed: list[Finding] = []
    if fix:
        text, fixed = linting.fix(mixlist, text, options)
    found = linting.lint(mixlist, text, options)
    # If errors remain and nothing was fixed, no file is written.
    is_usable = fixed or not _has_errors(found)
    if fix and is_usable and (fixed or output is not None):
        with outputs.new_file(target, force or output is None) as file:
            file.write_bytes(text)
    return target, found, fixed


def _has_errors(findings: list[Finding]) -> bool:
    return any(each.severity == linting.ERROR for each in findings)


def _data(findings: list[Finding]) -> list[dict[str, str]]:
    return [
        {name: getattr(each, name) for name in ("severity", "rule", "place", "text")}
        for each in findings
    ]
