"""The commands on a SavedModel whose functions XLA compiles."""

from __future__ import annotations

import json

import pytest
from support.check_rewrite import TOLERANCE
from support.compiled_model import save_compiled_model
from support.text_graph import random_values
from support.tf_versions import needs_compiled_functions

pytestmark = needs_compiled_functions
BF16 = ("--mode", "allow_mix_precision_bf16")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save_compiled_model(tmp_path_factory.mktemp("compiled") / "model")


@pytest.fixture(params=["plain", "compiled"])
def signature(request):
    return ("--signature", request.param)


def test_explain_shows_that_their_products_are_lowered(command, saved, signature):
    totals = json.loads(command("explain", saved, *BF16, *signature, "--json"))["totals"]
    assert totals["products_changed"] == totals["products"] >= 2


def test_compare_runs_them_in_both_precisions(command, saved, signature, arrays):
    inputs = arrays(x=random_values("x", [4, 8]))
    data = json.loads(command("compare", saved, *BF16, *signature, "--inputs", inputs, "--json"))
    assert 1e-4 < data["error"] < TOLERANCE["bfloat16"]
    assert data["totals"]["products_changed"] == data["totals"]["products"] >= 2


def test_tune_keeps_what_an_error_enters_through(tune, saved, signature, arrays):
    inputs = arrays(x=random_values("x", [4, 8]))
    options = ("--inputs", inputs, "--max-error", 1e-4)
    printed, mixlist = tune(saved, *signature, *options, options=BF16)
    assert printed["start"]["error"] > 1e-4 >= printed["converted"]["error"]
    assert "node:(.*/)?matmul_1" in mixlist["black-list"]["to-add"]
