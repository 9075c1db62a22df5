"""The lists of TensorFlow's auto_mixed_precision, from the environment."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default, needs_onednn_in_bfloat16

import npu_precision
from npu_precision.tensorflow_lists import options_from

PREFIX = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_"


def options(**variables):
    return options_from({f"{PREFIX}{name}": value for name, value in variables.items()})


@pytest.mark.parametrize(
    ("variables", "lists"),
    [
        ({"ALLOWLIST_ADD": "Exp, Log"}, {"white": ["Exp", "Log"]}),
        ({"WHITELIST_ADD": "Exp"}, {"white": ["Exp"]}),
        ({"INFERLIST_ADD": "Exp", "CLEARLIST_ADD": "Log"}, {"gray": ["Exp", "Log"]}),
        ({"DENYLIST_ADD": "MatMul", "BLACKLIST_ADD": "MatMul"}, {"black": ["MatMul"]}),
        ({"ALLOWLIST_REMOVE": "MatMul"}, {"black": ["MatMul"]}),
        ({"ALLOWLIST_REMOVE": "MatMul", "INFERLIST_ADD": "MatMul"}, {"gray": ["MatMul"]}),
    ],
)
def test_they_are_those_of_a_mixlist(variables, lists):
    edits = json.loads(options(**variables)["mixlist_edits"])
    assert edits == {f"{name}-list": {"to-add": ops} for name, ops in lists.items()}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {}),
        ({"DENYLIST_REMOVE": "Exp", "ALLOWLIST_ADD": ""}, {}),
        ({"LOG_PATH": "/tmp"}, {}),  # TensorFlow's own
        ({"LEVEL": "unsafe_force_all"}, {"all_white": True}),
        ({"LEVEL": "TREAT_INFER_AS_DENY"}, {"white_only": True}),
    ],
)
def test_other_settings(variables, expected):
    assert options(**variables) == expected


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"ALLOWLIST_ADD": "Exp", "DENYLIST_ADD": "Exp"}, "Exp is added to two lists: by .*ALLOW"),
        ({"DENYLST_ADD": "Exp"}, "DENYLST_ADD: no such list; did you mean .*DENYLIST_ADD"),
        ({"ALLOWLIST": "Exp"}, "ALLOWLIST: no such list; did you mean .*ALLOWLIST_ADD"),
        ({"LEVEL": "ALL"}, "LEVEL: got 'ALL', expected TREAT_INFER_AS_DENY or UNSAFE_FORCE_ALL"),
    ],
)
def test_contradictions_and_misspelt_names_are_errors(variables, message):
    with pytest.raises(ValueError, match=message):
        options(**variables)


X = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)


def product():
    return tf.function(lambda x: tf.nn.relu(tf.matmul(x, x)) @ x)(X).numpy()


def by_tensorflow():
    """The product as TensorFlow's own pass computes it."""
    option = "auto_mixed_precision_onednn_bfloat16"
    tf.config.optimizer.set_experimental_options({option: True})
    try:
        return product()
    finally:
        tf.config.optimizer.set_experimental_options({option: False})


def by_enable():
    npu_precision.enable(
        precision_mode="allow_mix_precision_bf16", lists_from_environment=True, strict=True
    )
    try:
        return product()
    finally:
        npu_precision.disable()


@needs_functions_by_default
@needs_onednn_in_bfloat16
@pytest.mark.parametrize("compute", [by_tensorflow, by_enable])
@pytest.mark.parametrize("name", ["DENYLIST_ADD", "ALLOWLIST_REMOVE"])
def test_both_keep_what_they_keep(compute, name, monkeypatch):
    exact = np.maximum(X @ X, 0) @ X
    assert np.abs(compute() - exact).max() > 1e-3
    monkeypatch.setenv(f"{PREFIX}{name}", "MatMul")
    np.testing.assert_allclose(compute(), exact, rtol=0, atol=1e-4)


@needs_functions_by_default
def test_lists_of_both_kinds_are_an_error(monkeypatch):
    monkeypatch.setenv(f"{PREFIX}DENYLIST_ADD", "MatMul")
    fields = {"precision_mode": "allow_mix_precision", "mixlist_edits": "{}"}
    with pytest.raises(ValueError, match="mixlist_edits and lists_from_environment"):
        npu_precision.enable(**fields, lists_from_environment=True)
