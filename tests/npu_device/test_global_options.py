"""npu_device.global_options(), which open() reads and as_default() applies."""

from __future__ import annotations

import logging

import pytest
from support import ROOT
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision.options import ACCEPTED_NAMES, FIELD_NAMES

pytestmark = needs_functions_by_default


@pytest.mark.parametrize(
    ("option", "mode", "dtype"),
    [
        ("precision_mode", "allow_mix_precision", "float16"),
        ("precision_mode", "allow_mix_precision_bf16", "bfloat16"),
        ("precision_mode", "force_fp32", "float32"),
        ("precision_mode_v2", "mixed_bfloat16", "bfloat16"),
    ],
)
def test_the_mode_is_in_force_from_as_default_on(npu, dtype_of_product, option, mode, dtype):
    setattr(npu.global_options(), option, mode)
    assert getattr(npu.global_options(), option) == mode
    device = npu.open()
    assert dtype_of_product() == "float32"
    device.as_default()
    assert dtype_of_product() == dtype


def test_without_a_mode_it_is_that_of_a_training_on_ascend(npu):
    npu.open().as_default()
    assert npu_precision.active_options().to_dict() == {"precision_mode": "allow_fp32_to_fp16"}


def test_modify_mixlist_takes_effect(npu, dtype_of_product, mixlist):
    npu.global_options().precision_mode = "allow_mix_precision"
    npu.global_options().modify_mixlist = mixlist(black=["MatMul"])
    npu.open().as_default()
    assert dtype_of_product() == "float32"


def test_a_field_of_precision_options_is_an_option_too(npu, dtype_of_product, tmp_path):
    npu.global_options().precision_mode = "allow_mix_precision"
    npu.global_options().report_dir = str(tmp_path)
    npu.open().as_default()
    assert dtype_of_product() == "float16"
    (report,) = tmp_path.glob("*.json")
    nodes = npu_precision.Ledger.from_json(report.read_text()).nodes
    assert [node.decision for node in nodes if node.op == "MatMul"] == ["lowered"]


def test_an_empty_path_is_none(npu):
    npu.global_options().precision_mode = "allow_mix_precision"
    npu.global_options().modify_mixlist = ""
    npu.global_options().report_dir = None
    npu.open().as_default()
    assert npu_precision.active_options().to_dict() == {"precision_mode": "allow_mix_precision"}


def test_a_with_ends_what_as_default_begins(npu, dtype_of_product):
    npu.global_options().precision_mode = "allow_mix_precision_bf16"
    with npu.open(device_id=0).as_default() as device:
        assert dtype_of_product() == "bfloat16"
    assert dtype_of_product() == "float32"
    npu_precision.enable(precision_mode="allow_mix_precision")
    with device.as_default():
        assert dtype_of_product() == "bfloat16"
    assert dtype_of_product() == "float16"


def test_a_wrong_value_fails_open_with_the_text_of_the_optimizer(npu):
    npu.global_options().precision_mode = "allow_mix_precison"
    with pytest.raises(ValueError, match="did you mean 'allow_mix_precision'"):
        npu.open()
    npu.global_options().precision_mode = None
    npu.global_options().modify_mixlist = "none.json"
    with pytest.raises(ValueError, match="none.json"):
        npu.open()


def test_an_option_that_is_set_after_open_warns_and_takes_effect_with_the_next(
    npu, dtype_of_product, caplog
):
    npu.open().as_default()
    npu.global_options().precision_mode = "allow_mix_precision"
    assert dtype_of_product() == "float32"
    assert caplog.messages == [
        "npu_device.global_options().precision_mode was set to 'allow_mix_precision' after "
        "npu_device.open(), which read None: it has no effect before the next "
        "npu_device.open().as_default()"
    ]
    npu.open().as_default()
    assert dtype_of_product() == "float16"


def test_an_option_that_is_set_to_what_it_is_does_not_warn(npu, caplog):
    npu.global_options().precision_mode = "allow_mix_precision"
    npu.open().as_default()
    npu.global_options().precision_mode = "allow_mix_precision"
    npu.global_options().hcom_parallel = False
    assert not caplog.messages


# As public scripts set options.
SET_BY_SCRIPTS = """
npu.global_options().dump_config.enable_dump = True
npu.global_options().dump_config.dump_path = "dump"
npu.global_options().dump_config.dump_step = "0|5"
npu.global_options().dump_config.dump_mode = "all"
npu.global_options().dump_config.enable_dump_debug = True
npu.global_options().dump_config.dump_debug_mode = "aicore_overflow"
npu.global_options().profiling_config.enable_profiling = True
npu.global_options().profiling_config.profiling_options = '{"output": "prof"}'
npu.global_options().fusion_switch_file = "fusion_switch.cfg"
npu.global_options().auto_tune_mode = "RL,GA"
npu.global_options().op_compiler_cache_mode = "force"
npu.global_options().memory_config.atomic_clean_policy = 1
npu.global_options().aoe_config.aoe_mode = "2"
npu.global_options().graph_run_mode = 0
"""
AS_BY_DEFAULT = """
npu.global_options().hcom_parallel = True
npu.global_options().op_debug_level = 0
npu.global_options().dump_config.dump_mode = "output"
"""


def test_what_has_no_effect_is_named_in_one_line_and_once(npu, caplog):
    exec(SET_BY_SCRIPTS)
    with caplog.at_level(logging.WARNING, "npu_precision"):
        npu.open().as_default()
        npu.open().as_default()
    (message,) = caplog.messages
    begin, end = "npu_device.global_options(): ", " have no effect on stock TensorFlow"
    assert message.startswith(begin)
    assert message.endswith(end)
    named = message[len(begin) : -len(end)].split(", ")
    lines = SET_BY_SCRIPTS.strip().splitlines()
    assert sorted(named) == sorted(line.split(" = ")[0].split("().")[1] for line in lines)


def test_what_is_set_to_its_default_is_not_named(npu, caplog):
    exec(AS_BY_DEFAULT)
    npu.open().as_default()
    assert not caplog.messages


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "options.precison_mode = 'force_fp16'",
            "npu_device.global_options(): got the unknown option 'precison_mode' (did you mean "
            "'precision_mode'?)",
        ),
        ("options.modify_mix_list", "(did you mean 'modify_mixlist'?)"),
        ("options.dump_path = 'dump'", "(did you mean 'dump_config.dump_path'?)"),
        (
            "options.dump_config.dump_steps = '0'",
            "npu_device.global_options().dump_config: got the unknown option 'dump_steps' (did you "
            "mean 'dump_step'?)",
        ),
        ("options.profiling_config.qqq", "got the unknown option 'qqq'"),
        (
            "options.dump_config = True",
            "npu_device.global_options().dump_config is a group of options: got True (bool), "
            "expected one of them to be set: enable_dump, dump_path",
        ),
    ],
)
def test_an_option_that_does_not_exist_is_an_error(npu, code, message):
    with pytest.raises(AttributeError) as error:
        exec(code, {"options": npu.global_options()})
    assert message in str(error.value)


@pytest.mark.parametrize("name", FIELD_NAMES)
def test_every_precision_option_is_there_and_unset(npu, name):
    assert getattr(npu.global_options(), name) is None


def names_of(options):
    """The names of the options in a group; options in subgroups are "group.option"."""
    for name in options._defaults:
        value = getattr(options, name)
        if hasattr(value, "_defaults"):
            yield from (f"{name}.{each}" for each in names_of(value))
        else:
            yield name


def test_the_page_names_every_option(npu):
    page = (ROOT / "docs" / "npu-device.md").read_text()
    own = set(names_of(npu.global_options())) - set(ACCEPTED_NAMES)
    assert not [name for name in sorted(own) if f"`{name}`" not in page]
