"""The table of passes is the one declaration of them: everything that repeats it is held to it.

graph_passes/pass_table.cc declares each pass and the option that switches it.
"""

from __future__ import annotations

import dataclasses
import re

import pytest
from support import ROOT
from support.check_rewrite import BEYOND_DTYPES

from npu_precision import _library
from npu_precision.cli import flags
from npu_precision.options import PrecisionOptions

PASSES = _library.describe()["passes"]
OPTIONS = [row["option"] for row in PASSES if row["option"]]
# Switches that are about the whole run, not about a pass.
OF_THE_RUN = {
    "all_white",
    "autocast_only",
    "keep_costly_islands",
    "strict",
    "quiet",
    "average_before",
    "for_onednn",
}
FIELDS = {field.name for field in dataclasses.fields(PrecisionOptions) if "bool" in field.type}
# The rooms with a file for each pass, and where the other passes are.
ROOMS = ("rewrite", "fuse")
ELSEWHERE = {"decide": "decide/decide_precision", "ledger": "ledger"}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("table", ["passes", "rules"])
def test_each_row_says_why_it_stands_there(table):
    rows = _library.describe()[table]
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names)
    assert all(re.match(r"(before|after|last)\b", row["because"]) for row in rows)


def test_options_of_passes_are_parameters_and_fields_and_no_others_are_switches():
    switches = {name for name, kind in _library.describe()["parameters"].items() if kind == "b"}
    assert switches == {*OPTIONS, *OF_THE_RUN}
    missing = sorted(switches - FIELDS)
    assert not missing, f"no field for {missing} in npu_precision/options.py"
    assert switches == FIELDS


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_is_a_flag_of_its_name_and_is_documented(option):
    assert option in flags.FLAGS, f"no flag for {option} in npu_precision/cli/flags.py"
    assert flags.FLAGS[option][0] == "--" + option.replace("_", "-")
    described = re.search(rf"^        {option}: ", PrecisionOptions.__doc__, re.MULTILINE)
    assert described, f"no {option} among the attributes of npu_precision/options.py's docstring"
    rows = re.findall(rf"^\| `{option}` \| switch \| (.*?) \|", read("docs/options.md"), re.M)
    assert len(rows) == 1, f"{len(rows)} rows for {option} in docs/options.md, expected one"
    by_use = {"speed": "on for `host`; else off", "size": "off; offline on"}
    purpose = next(row["purpose"] for row in PASSES if row["option"] == option)
    assert rows[0] == by_use.get(purpose, "off")


def test_options_for_speed_are_on_for_the_host_alone():
    def takes(option, **fields):
        try:
            return PrecisionOptions(**{option: True}, **fields)
        except ValueError as error:
            return str(error)

    for row in PASSES:
        if row["purpose"] == "speed":
            assert row["option"] in FIELDS, f"no field {row['option']} in npu_precision/options.py"
            assert "which changes at most dtypes" in takes(
                row["option"], precision_mode="force_fp32"
            )
            assert isinstance(takes(row["option"], precision_mode="force_fp16"), PrecisionOptions)


def test_what_changes_more_than_dtypes_is_listed_once():
    names = "|".join(OPTIONS)
    three_in_a_row = re.compile(rf"(?:\s*['\"]?(?:{names})['\"]?(?:[:=][^,\n]*)?,){{3}}")
    assert set(BEYOND_DTYPES) == set(OPTIONS) - {"emulate"}
    for folder in ("npu_precision", "benchmarks", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            found = three_in_a_row.search(path.read_text(encoding="utf-8"))
            assert found is None or path.name in ("options.py", "flags.py"), (path, found[0])


def test_each_row_says_what_the_pass_does():
    assert all(re.match(r"[a-z]\w+s\b[^.]*$", row["summary"]) for row in PASSES)


@pytest.mark.parametrize("name", [row["name"] for row in PASSES])
def test_each_pass_has_its_files_and_a_test(name):
    at_home = [room for room in ROOMS if (ROOT / f"graph_passes/{room}/{name}.h").exists()]
    place = ELSEWHERE.get(name, f"{(at_home or ROOMS)[0]}/{name}")
    files = [f"graph_passes/{place}.h", f"graph_passes/{place}.cc"]
    if name not in ELSEWHERE:
        files.append(f"tests/passes/test_{name}.py")
    missing = [file for file in files if not (ROOT / file).exists()]
    assert not missing, f"the pass {name} has no {', '.join(missing)}"


def test_rewrites_of_ledgers_are_named_for_options():
    """What docs/ledger.md says about rewrites[].by is about the options of passes."""
    (line,) = re.findall(r"^\| `rewrites\[\]\.by` \|.*$", read("docs/ledger.md"), re.M)
    assert set(re.findall(r"`(\w+)`", line)) - {"keep_io_types"} <= set(OPTIONS)


def test_files_that_the_map_names_exist():
    named = re.findall(r"`((?:\w+/)+\w+\.\w+)`", read("docs/architecture.md"))
    assert len(named) > 30
    rooms = [ROOT, ROOT / "graph_passes", ROOT / "npu_precision"]
    for name in named:
        example = name.endswith("/x.h") or name.endswith("/test_x.py") or "_lib/" in name
        assert example or any((room / name).exists() for room in rooms), name
