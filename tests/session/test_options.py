"""PrecisionOptions: a frozen value, checked like in the optimizer, that survives round trips."""

import dataclasses
import json
import pathlib

import pytest
from tensorflow.core.framework import attr_value_pb2

from npu_precision import PrecisionOptions
from npu_precision.options import resolve

FIELDS = [field.name for field in dataclasses.fields(PrecisionOptions)]


@pytest.fixture
def every_value(mixlist, tmp_path):
    """A valid value of each field; the two names of a mode cannot be given together."""
    ops_info = tmp_path / "ops_info"
    ops_info.mkdir()
    (ops_info / "ops.json").write_text('{"MatMul": {"precision_reduce": {"flag": "true"}}}')
    dtypes = tmp_path / "dtypes.cfg"
    dtypes.write_text("OpType::Relu:InputDtype:float16,OutputDtype:float16\n")
    return {
        "precision_mode": "allow_mix_precision",
        "precision_mode_v2": "mixed_bfloat16",
        "modify_mixlist": mixlist(black=["Relu"]),
        "customize_dtypes": str(dtypes),
        "mixlist_edits": '{"white-list": {"to-add": ["Exp"]}}',
        "all_white": True,
        "white_only": True,
        "keep_costly_islands": True,
        "lower_compiled": False,
        "autocast_only": True,
        "float16_compute": "auto",
        "target": "host",
        "ops_info_dir": str(ops_info),
        "ops_info_overlay": str(ops_info),
        "report_dir": str(tmp_path / "reports"),
        "dump_passes_dir": str(tmp_path / "dumps"),
        "strict": True,
        "rewrites": "none,layer_norm",
        "emulate": True,
        "overflow": "inf",
        "lower_collectives": True,
    }


# Fields that exclude each other: a mode by its names, or none; and emulation and float16_compute.
EXCLUDING = [
    ("autocast_only", "precision_mode", "float16_compute", "white_only"),
    ("autocast_only", "precision_mode_v2", "float16_compute", "all_white"),
    ("autocast_only", "precision_mode", "overflow", "emulate", "white_only"),
    ("precision_mode", "precision_mode_v2", "float16_compute", "white_only", "all_white"),
]


@pytest.fixture(params=EXCLUDING, ids="-".join)
def full(request, every_value):
    """Options with every field set, except fields that exclude another one."""
    return PrecisionOptions(
        **{field: value for field, value in every_value.items() if field not in request.param}
    )


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_reaches_the_parameter_map_and_comes_back(field, every_value):
    of_lists = ("modify_mixlist", "mixlist_edits", "all_white", "white_only")
    of_lists += ("keep_costly_islands",)
    needed = {"precision_mode": every_value["precision_mode"]} if field in of_lists else {}
    if field == "overflow":
        needed = {"emulate": True}
    if field in ("lower_collectives", "rewrites"):
        needed = {"precision_mode": every_value["precision_mode"]}
    options = PrecisionOptions(**{field: every_value[field]}, **needed)
    parameter_map = options.to_parameter_map()
    assert set(parameter_map) == {field, *needed}
    assert PrecisionOptions.from_parameter_map(parameter_map) == options
    assert getattr(options, field) == every_value[field]


def test_all_fields_together_round_trip(full):
    assert len(full.to_dict()) >= len(FIELDS) - 5
    assert PrecisionOptions.from_parameter_map(full.to_parameter_map()) == full
    assert PrecisionOptions.from_json(full.to_json()) == full
    assert PrecisionOptions(**full.to_dict()) == full


def test_what_is_not_set_is_not_passed_on():
    assert PrecisionOptions().to_parameter_map() == {}
    assert PrecisionOptions().to_json() == "{}"
    options = PrecisionOptions(strict=False)
    assert options.to_parameter_map() == {"strict": attr_value_pb2.AttrValue(b=False)}


def test_the_optimizer_entry_holds_the_parameter_map():
    entry = PrecisionOptions(precision_mode="force_fp16", strict=True).custom_optimizer()
    assert entry.name == "NpuOptimizer"
    assert entry.parameter_map["precision_mode"].s == b"force_fp16"
    assert entry.parameter_map["strict"].b is True
    assert len(entry.parameter_map) == 2


def test_options_are_frozen_values():
    options = PrecisionOptions(precision_mode="force_fp16")
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.precision_mode = "force_fp32"
    same = PrecisionOptions(precision_mode="force_fp16")
    assert options == same
    assert hash(options) == hash(same)


def test_paths_may_be_path_objects_and_are_kept_as_text(mixlist, tmp_path):
    options = PrecisionOptions(
        precision_mode="allow_mix_precision",
        modify_mixlist=pathlib.Path(mixlist(black=["Relu"])),
        report_dir=tmp_path,
    )
    assert options.modify_mixlist == mixlist(black=["Relu"])
    assert options.report_dir == str(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"precision_mode": True}, "precision_mode: got True (bool), expected str"),
        ({"precision_mode": pathlib.Path("force_fp16")}, "(PosixPath), expected str"),
        ({"modify_mixlist": 3}, "modify_mixlist: got 3 (int), expected str, os.PathLike or a"),
        ({"strict": "yes"}, "strict: got 'yes' (str), expected bool"),
        ({"fold_constants": 1}, "fold_constants: got 1 (int), expected bool"),
        ({"precision_mode": "\ud800"}, "surrogates not allowed"),
        ({"precision_mode": "allow_mix_precison"}, "did you mean 'allow_mix_precision'?"),
        ({"precision_mode": "bf16"}, "did you mean 'allow_mix_precision_bf16'?"),
        ({"precision_mode": "allow_fp32_to_bf"}, "did you mean 'allow_fp32_to_bf16'?"),
        ({"precision_mode_v2": "bfloat16"}, "did you mean 'mixed_bfloat16'?"),
    ],
)
def test_wrong_values_are_refused_at_once(fields, message):
    with pytest.raises(ValueError) as error:
        PrecisionOptions(**fields)
    assert message in str(error.value)


def test_parameters_without_effect_have_no_field():
    parameter_map = PrecisionOptions(precision_mode="force_fp16").to_parameter_map()
    parameter_map["use_off_line"] = attr_value_pb2.AttrValue(b=True)
    options = PrecisionOptions.from_parameter_map(parameter_map)
    assert options == PrecisionOptions(precision_mode="force_fp16")


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("precision_mode", attr_value_pb2.AttrValue(b=True), "precision_mode"),
        ("strict", attr_value_pb2.AttrValue(s=b"true"), "strict"),
        ("precison_mode", attr_value_pb2.AttrValue(s=b"force_fp16"), "'precision_mode'"),
    ],
)
def test_a_parameter_map_the_optimizer_would_refuse_is_refused(parameter, value, message):
    with pytest.raises(ValueError, match=message):
        PrecisionOptions.from_parameter_map({parameter: value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"precison_mode": "force_fp16"}', "did you mean 'precision_mode'?"),
        ('["precision_mode"]', "expected a JSON object"),
        ('{"strict": true, "strict": false}', "'strict' is given 2 times"),
        ('{"strict": "true"}', "expected bool"),
        ('{"strict": ', "Expecting value"),
    ],
)
def test_json_that_is_no_options_is_refused(text, message):
    with pytest.raises(ValueError) as error:
        PrecisionOptions.from_json(text)
    assert message in str(error.value)


def test_json_holds_only_what_is_set():
    options = PrecisionOptions(precision_mode="force_fp16", strict=True)
    assert json.loads(options.to_json()) == {"precision_mode": "force_fp16", "strict": True}


def test_fields_by_keyword_replace_those_of_the_options():
    options = PrecisionOptions(precision_mode="force_fp16", strict=True)
    assert resolve(options, {"strict": False}) == PrecisionOptions(
        precision_mode="force_fp16", strict=False
    )
    assert resolve(None, {}) == PrecisionOptions()


def test_a_misspelt_keyword_is_a_type_error_with_a_guess():
    with pytest.raises(TypeError, match="did you mean 'modify_mixlist'?"):
        resolve(None, {"modify_mixlst": "x.json"})


def test_a_mode_in_place_of_options_is_a_type_error_that_says_how():
    with pytest.raises(TypeError, match="precision_mode="):
        resolve("allow_mix_precision", {})
