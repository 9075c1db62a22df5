"""npu-precision doctor: shows the installation, the cost of each mode here, and problems."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import click
import rich.console

import npu_precision_command
from npu_precision.cli import printing
from npu_precision.doctor import facts
from npu_precision.doctor import findings as what_is_wrong
from npu_precision.doctor.findings import Finding

SCHEMA = "npu_precision.doctor/1"


@click.command()
@click.option("--no-measure", is_flag=True, help="Do not time the modes, which takes some seconds.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@npu_precision_command.debug_flag
@click.pass_obj
def doctor(debug: bool, no_measure: bool, as_json: bool) -> int:
    """Shows what is installed, what each mode costs here, and what is wrong.

    It works without TensorFlow, too. The exit status is 1 if something keeps the package from
    working.
    """
    with printing.busy("examining"):
        known = facts.collect(not no_measure, debug)
    found = what_is_wrong.findings(known)
    works = all(each.severity != what_is_wrong.ERROR for each in found)
    if as_json:
        data = {
            "schema": SCHEMA,
            "works": works,
            **known,
            "findings": [dataclasses.asdict(each) for each in found],
        }
        click.echo(json.dumps(data, indent=1))
    else:
        out = printing.console()
        _print_facts(out, known)
        _print_costs(out, known["costs"])
        _print_findings(out, found)
    return int(not works)


def _print_facts(out: rich.console.Console, known: dict[str, Any]) -> None:
    rows = [
        ("npu_precision", "{version}, in {folder}".format(**known["npu_precision"])),
        ("Python", "{version}, {executable}".format(**known["python"])),
        ("", known["python"]["platform"]),
        *_tensorflow_rows(known),
        *_cpu_rows(known["cpu"]),
        *_gpu_rows(known["gpus"]),
    ]
    printing.show(out, printing.table("What is here", [("part", False), ("found", False)], rows))


def _tensorflow_rows(known: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    if known["tensorflow"] is None:
        rows.append(("TensorFlow", "none that can be imported"))
    else:
        rows.append(("TensorFlow", "{version}, in {folder}".format(**known["tensorflow"])))
        rows.append(("", "built as {git_version} with {compiler}".format(**known["tensorflow"])))
        cuda = known["tensorflow"]["build"].get("is_cuda_build")
        rows.append(("", "with CUDA" if cuda else "without CUDA"))
    packages = known["packages"] or {}
    rows += [(name, version or "not importable") for name, version in packages.items()]
    library = known["library"]
    if library is None:
        others = ", ".join(known["libraries"]) or "no TensorFlow"
        rows.append(("library", f"none loaded; there are those for {others}"))
    else:
        minor = "" if library["minor"] is None else f"for TensorFlow {library['minor']}, "
        proved = "proved" if library["proved"] else "not proved"
        rows.append(("library", f"{minor}{proved}, {library['path']}"))
    page = known["report_page"]
    if page is not None:
        rows.append(("report page", "there" if page["error"] is None else "missing"))
    onednn = known["onednn"]
    if onednn is not None:
        state = "on" if onednn["on"] else "off" if onednn["included"] else "not in this TensorFlow"
        details = [onednn["version"], onednn["instructions"]]
        rows.append(("oneDNN", ", ".join([state, *(each for each in details if each)])))
    return rows


def _cpu_rows(cpu: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("CPU", f"{cpu['model']}, {cpu['count']} cores")]
    if cpu["features"] is not None:
        has = [name for name, is_there in cpu["features"].items() if is_there]
        lacks = [name for name, is_there in cpu["features"].items() if not is_there]
        both = [("with", has), ("without", lacks)]
        rows.append(("", "; ".join(f"{word} {', '.join(names)}" for word, names in both if names)))
    return rows


def _gpu_rows(gpus: list[dict[str, Any]] | None) -> list[tuple[str, str]]:
    if gpus is None:
        return []
    rows = []
    for gpu in gpus:
        capability = gpu["compute_capability"]
        details = [gpu["name"], capability and f"compute capability {capability}"]
        rows.append(("GPU", ", ".join([gpu["device"], *(each for each in details if each)])))
    return rows or [("GPU", "none that TensorFlow sees")]


def _print_costs(out: rich.console.Console, costs: list[dict[str, Any]] | None) -> None:
    if not costs:
        return
    networks = list(dict.fromkeys(cost["network"] for cost in costs))
    rows: dict[str, list[str]] = {"float32": []}
    for cost in costs:
        if cost["mode"] == costs[0]["mode"]:
            rows["float32"].append(f"{1e3 * cost['float32_seconds']:.1f} ms")
        ratio = f"{cost['ratio']:.2f}" if cost["lowered"] else "nothing lowered"
        rows.setdefault(cost["mode"], []).append(ratio)
    columns = [("mode", False), *((network, True) for network in networks)]
    title = "Time per step, as a multiple of float32"
    out.print()
    printing.show(
        out, printing.table(title, columns, [(mode, *cells) for mode, cells in rows.items()])
    )


def _print_findings(out: rich.console.Console, found: list[Finding]) -> None:
    out.print()
    for each in found:
        printing.say(out, f"{each.severity}: {each.what}")
        printing.say(out, f"  to do: {each.fix}")
    if not found:
        printing.say(out, "nothing is wrong")
