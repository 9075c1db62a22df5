"""What `python -m npu_precision` was told reaches other processes by the environment."""

from __future__ import annotations

import os

import pytest

import npu_precision_startup
from npu_precision import PrecisionOptions
from npu_precision.launch.settings import Settings, from_environment

MODE = {"NPU_PRECISION_MODE": "allow_mix_precision"}


@pytest.fixture
def mixlist(tmp_path, monkeypatch):
    """The path of a mixlist, relative to the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixlist.json").write_text('{"black-list": {"to-add": ["Exp"]}}')
    return "mixlist.json"


EDITS = {"black-list": {"to-add": ["Exp"]}}


@pytest.mark.parametrize(
    "settings",
    [
        Settings(PrecisionOptions(precision_mode="force_fp16")),
        Settings(PrecisionOptions(precision_mode_v2="mixed_bfloat16")),
        Settings(
            PrecisionOptions(
                precision_mode="allow_mix_precision",
                report_dir="/reports",
                rewrites="-layer_norm",
                all_white=True,
            ),
            healed="/a/healed.json",
            record="/a/log",
            times=True,
        ),
        Settings(PrecisionOptions(precision_mode="allow_mix_precision", modify_mixlist=EDITS)),
    ],
)
def test_the_environment_says_the_same(settings):
    variables = settings.to_environment()
    assert set(variables) <= set(npu_precision_startup.VARIABLES)
    assert from_environment(variables) == settings


def test_paths_are_absolute_because_a_process_may_run_elsewhere(mixlist):
    options = PrecisionOptions(precision_mode="allow_mix_precision", modify_mixlist=mixlist)
    variables = Settings(options, healed="healed.json").absolute().to_environment()
    assert variables["NPU_PRECISION_MIXLIST"] == os.path.abspath(mixlist)
    assert variables["NPU_PRECISION_HEALED"] == os.path.abspath("healed.json")


@pytest.mark.parametrize("environment", [{}, {"NPU_PRECISION_MODE": ""}, {"HOME": "/"}])
def test_without_a_variable_nothing_is_applied(environment):
    assert from_environment(environment) is None


def test_variables_for_other_purposes_are_not_read():
    assert from_environment({"NPU_PRECISION_LIBRARY": "/a.so"}) is None


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"NPU_PRECISION_MODE": "allow_mix_precison"},
            "NPU_PRECISION_MODE: .*'allow_mix_precison'.*did you mean 'allow_mix_precision'",
        ),
        (
            {**MODE, "NPU_PRECISION_MIXLST": "m.json"},
            "NPU_PRECISION_MIXLST .did you mean 'NPU_PRECISION_MIXLIST'",
        ),
        (
            {"NPU_PRECISION_REPORT_DIR": "reports"},
            "NPU_PRECISION_REPORT_DIR without NPU_PRECISION_MODE",
        ),
        ({**MODE, "NPU_PRECISION_TIME": "yes"}, "NPU_PRECISION_TIME: got 'yes', expected 0 or 1"),
        ({**MODE, "NPU_PRECISION_OPTIONS": "{"}, "NPU_PRECISION_OPTIONS: "),
        (
            {**MODE, "NPU_PRECISION_OPTIONS": '{"precision_mode": "force_fp16"}'},
            "NPU_PRECISION_OPTIONS has precision_mode, expected it in NPU_PRECISION_MODE",
        ),
        (
            {**MODE, "NPU_PRECISION_OPTIONS": '{"rewrite": "none"}'},
            "NPU_PRECISION_OPTIONS: .*did you mean 'rewrites'",
        ),
    ],
)
def test_a_wrong_value_or_name_is_an_error(environment, message):
    with pytest.raises(ValueError, match=message):
        from_environment(environment)
