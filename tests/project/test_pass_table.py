"""The table of passes is their only declaration: all code that repeats it agrees with it.

graph_passes/pass_table.cc declares each pass and the option that switches it.
"""

from __future__ import annotations

import dataclasses
import re

import pytest
from support import ROOT

from npu_precision import _library
from npu_precision.cli import flags
from npu_precision.options import PrecisionOptions

PASSES = _library.describe()["passes"]
REWRITES = [row["name"] for row in PASSES if row["purpose"] in ("speed", "size")]
OPTIONS = [row["name"] for row in PASSES if row["purpose"] in ("network", "emulation")]
OLD_KEYS = _library.describe()["old_rewrite_keys"]
# Switches that apply to the whole run, not to a pass.
OF_THE_RUN = {
    "all_white",
    "white_only",
    "autocast_only",
    "keep_costly_islands",
    "lower_compiled",
    "strict",
}
FIELDS = {
    field.name for field in dataclasses.fields(PrecisionOptions) if field.type == "bool | None"
}
# The rooms with a file for each pass, and where the other passes are.
ROOMS = ("rewrite", "fuse")
ELSEWHERE = {
    "decide": "decide/decide_precision",
    "ledger": "ledger",
    "fuse_ops": "../cc/fuse_ops",  # runs a pass of TensorFlow's
}


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


def test_a_rewrite_is_known_by_its_row_alone():
    """A new pass adds no option: only those that had one before `rewrites` keep it."""
    assert set(OLD_KEYS.values()) <= set(REWRITES)
    assert len(OLD_KEYS) == 15
    assert not {*REWRITES, *OLD_KEYS} & {*FIELDS, *flags.FLAGS, *_library.describe()["parameters"]}
    for name in REWRITES:
        assert PrecisionOptions(rewrites={name: False}).rewrites == f"-{name}"


@pytest.mark.parametrize("row", PASSES, ids=[row["name"] for row in PASSES])
def test_each_row_says_what_it_does(row):
    assert re.fullmatch(r"[A-Z]\w+s\b[^.]*\.", row["summary"].replace("1x1", ""))


def test_rewrites_for_speed_are_refused_where_nothing_is_lowered():
    for row in PASSES:
        if row["purpose"] == "speed":
            with pytest.raises(ValueError, match="which changes at most dtypes"):
                PrecisionOptions(rewrites=row["name"], precision_mode="force_fp32")
            PrecisionOptions(rewrites=row["name"], precision_mode="force_fp16")


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
    """docs/ledger.md describes rewrites[].by with the options of passes."""
    (line,) = re.findall(r"^\| `rewrites\[\]\.by` \|.*$", read("docs/ledger.md"), re.M)
    assert set(re.findall(r"`(\w+)`", line)) - {"keep_io_types"} <= {*OPTIONS, *REWRITES, *OLD_KEYS}


def test_files_that_the_map_names_exist():
    named = re.findall(r"`((?:\w+/)+\w+\.\w+)`", read("docs/architecture.md"))
    assert len(named) > 30
    rooms = [ROOT, ROOT / "graph_passes", ROOT / "npu_precision"]
    for name in named:
        example = name.endswith("/x.h") or name.endswith("/test_x.py") or "_lib/" in name
        assert example or any((room / name).exists() for room in rooms), name
