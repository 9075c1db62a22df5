"""npu-precision lint --lists-from-environment: the lists of TensorFlow's auto_mixed_precision."""

from __future__ import annotations

import json

import pytest

from npu_precision import tensorflow_lists

PREFIX = tensorflow_lists.PREFIX


@pytest.fixture
def linted(command, monkeypatch):
    """linted({list: op types}, flags) -> what is printed."""

    def run(lists, *flags, status=0):
        for name, ops in lists.items():
            monkeypatch.setenv(f"{PREFIX}{name}", ops)
        return command("lint", "--lists-from-environment", *flags, status=status)

    return run


def test_an_op_type_that_there_is_not_is_named(linted):
    assert linted({"DENYLIST_ADD": "Softmx,Relu"}) == (
        f"{PREFIX}DENYLIST_ADD: warning: 'Softmx' is not an op type of TensorFlow or Ascend; did "
        "you mean 'Softmax'? [unknown-op]\n"
    )


def test_lists_with_nothing_wrong_have_nothing_said_of_them(linted):
    printed = linted({"DENYLIST_ADD": "Softmax"})
    assert printed == "the lists in the environment: nothing to be said\n"


def test_a_level_alone_is_no_mistake(linted):
    assert "nothing to be said" in linted({"LEVEL": "TREAT_INFER_AS_DENY"})


def test_with_a_model_an_entry_that_matches_nothing_there_is_told(linted, model_files):
    printed = linted({"DENYLIST_ADD": "Conv3D"}, "--model", model_files.frozen, "--json")
    found = json.loads(printed)["findings"]
    assert [(each["rule"], each["place"]) for each in found] == [
        ("no-match", f"{PREFIX}DENYLIST_ADD")
    ]
    assert "'Conv3D'" in found[0]["text"]


@pytest.mark.parametrize(
    ("lists", "flags", "message"),
    [
        ({}, (), f"the environment has no lists: expected {PREFIX}ALLOWLIST_ADD"),
        ({"DENYLIST_ADD": "Relu", "ALLOWLIST_ADD": "Relu"}, (), "Relu is added to two lists"),
        ({"LEVEL": "HIGH"}, (), "LEVEL: got 'HIGH', expected TREAT_INFER_AS_DENY"),
        ({"DENYLIST_ADD": "Relu"}, ("m.json",), "and MIXLIST: expected one of the two"),
        ({"DENYLIST_ADD": "Relu"}, ("--fix",), "and --fix: expected one of the two"),
    ],
)
def test_a_mistake_is_told_in_one_line(lists, flags, message, linted):
    printed = linted(lists, *flags, status=2)
    assert message in printed
    assert printed.count("\n") == 1
