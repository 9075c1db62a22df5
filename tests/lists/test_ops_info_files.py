"""The content of ops-info files in CANN's format, and the findings about invalid content."""

import json

import pytest

from npu_precision import PrecisionOptions, _library


def told(text):
    """ "severity: text [rule]" of each finding about a file f.json."""
    text = text if isinstance(text, str) else json.dumps(text)
    return [
        f"{found['place']}: {found['severity']}: {found['text']} [{found['rule']}]"
        for found in _library.lint_ops_info("f.json", text.encode())
    ]


def reduce(flag):
    return {"precision_reduce": {"flag": flag}}


def test_the_keys_of_canns_format_that_mean_nothing_here_are_accepted_in_silence():
    entry = {
        "attr": {"list": "transpose_x1,transpose_x2"},
        "attr_transpose_x1": {"defaultValue": "false", "paramType": "optional", "type": "bool"},
        "dynamicFormat": {"flag": "true"},
        "dynamicRankSupport": {"flag": "true"},
        "dynamicShapeSupport": {"flag": "true"},
        "heavyOp": {"flag": "true"},
        "input0": {
            "dtype": "float16,int32,float32",
            "format": "ND,ND,ND",
            "name": "x1",
            "paramType": "required",
            "reshapeType": "NC",
            "shape": "all",
            "unknownshape_format": "ND,ND,ND",
        },
        "needCheckSupport": {"flag": "true"},
        "op": {"pattern": "broadcast"},
        "opFile": {"value": "mat_mul"},
        "opInterface": {"value": "mat_mul"},
        "output0": {"name": "y", "dtype": "float16"},
        "precision_reduce": {"flag": "true"},
        "slicePattern": {"value": "elemwise"},
    }
    assert told({"MatMulV2": entry, "Yolo": {}}) == []


# The content of the file, and the findings about it.
FILES = {
    "": ["f.json: error: the file is empty, expected a JSON object [structure]"],
    '{"Relu": {}': [
        "f.json: error: not valid JSON. Line 1, Column 12: Missing ',' or '}' in object "
        "declaration [structure]"
    ],
    '{"Relu": {}, "Relu": {}}': [
        "f.json: error: not valid JSON. Line 1, Column 14: Duplicate key: 'Relu' [structure]"
    ],
    '{"Relu": []}': ["f.json:1:10: error: got a list, expected an object [structure]"],
    '{"Relu": {"input0": "float16"}}': [
        "f.json:1:21: error: got the string 'float16', expected an object, such as "
        '{"dtype": "float16"} [structure]'
    ],
    '{"Relu": {"input0": {"dtype": ["float16"]}}}': [
        "f.json:1:31: error: got a list, expected dtype names separated by commas [structure]"
    ],
    '{"Relu": {"Input0": {"dtype": "float16"}}}': [
        "f.json:1:21: error: got key 'Input0', expected one like \"input0\" [unknown-key]"
    ],
    '{"Relu": {"output": {"dtype": "float16"}}}': [
        "f.json:1:21: error: got key 'output', expected one like \"output0\" [unknown-key]"
    ],
    '{"Relu": {"precision_reduced": {"flag": "true"}}}': [
        "f.json:1:32: error: got key 'precision_reduced'; did you mean 'precision_reduce'? "
        "[unknown-key]"
    ],
    '{"Relu": {"input0": {"dtypes": "float16"}}}': [
        "f.json:1:32: error: got key 'dtypes'; did you mean 'dtype'? [unknown-key]"
    ],
    '{"Relu": {"opfile": {"value": "relu"}}}': [
        "f.json:1:21: warning: got key 'opfile', which CANN's format does not have, so it has no "
        "effect; did you mean 'opFile'? [unknown-key]"
    ],
    '{"why": 3, "Relu": {}}': [
        "f.json:1:9: error: got a number, expected a text, why the ops of the file are on their "
        "list [structure]"
    ],
    '{"Reluu": {}}': [
        "f.json:1:11: warning: 'Reluu' is not an op type of TensorFlow or Ascend; did you mean "
        "'Relu'? [unknown-op]"
    ],
}


@pytest.mark.parametrize("text", FILES)
def test_what_is_wrong_is_told_with_its_place(text):
    assert told(text) == FILES[text]


def test_a_file_may_say_why_its_ops_are_on_their_list():
    assert told({"why": "it is steep", "Exp": reduce("false")}) == []


def test_an_unknown_dtype_is_told_with_a_guess():
    (line,) = told({"Relu": {"input0": {"dtype": "float16,float61"}}})
    assert line.startswith("f.json:1:31: error: got dtype 'float61', expected one of bfloat16, ")
    assert line.endswith("did you mean 'float16'? [structure]")


def test_two_names_of_one_op_that_say_the_opposite_are_an_error():
    assert told({"ReduceSum": reduce("true"), "ReduceSumD": reduce("false")}) == [
        "f.json:1:69: error: 'ReduceSum' (white, at f.json:1:15) and 'ReduceSumD' (black, at "
        "f.json:1:69) both stand for Sum in TensorFlow; it can be on one list only [contradiction]"
    ]


def test_of_two_names_of_one_op_the_one_that_keeps_more_is_taken():
    """CANN's own files have such pairs: the D form of a mean is black, the other gray."""
    assert told({"ReduceMeanD": reduce("false"), "ReduceMean": {}}) == [
        "f.json:1:17: note: 'ReduceMean' (gray, at f.json:1:72) and 'ReduceMeanD' (black, at "
        "f.json:1:17) both stand for Mean in TensorFlow; 'ReduceMeanD' is taken [two-names]"
    ]


@pytest.mark.parametrize("parameter", ["ops_info_dir", "ops_info_overlay"])
@pytest.mark.parametrize("text", [text for text, lines in FILES.items() if ": error:" in lines[0]])
def test_what_is_an_error_fails_a_run_with_the_same_text(parameter, text, tmp_path):
    (tmp_path / "f.json").write_text(text)
    place, _, message = FILES[text][0].replace("f.json", f"{tmp_path}/f.json").partition(" error: ")
    with pytest.raises(ValueError) as raised:
        PrecisionOptions(precision_mode="allow_mix_precision", **{parameter: str(tmp_path)})
    assert str(raised.value) == f"{parameter}: {place} {message.rpartition(' [')[0]}"


def test_a_file_is_of_ops_info_if_it_names_an_op():
    assert _library.file_format(b'{"Relu": {}, "no such op": {}}') == "ops-info"
    assert _library.file_format(b'// An op of Ascend.\n{"Yolo": {}}') == "ops-info"
    assert _library.file_format(b'{"black-list": {"to-add": ["Relu"]}}') == "modify_mixlist"
    assert _library.file_format(b'{"blacklist": {}}') == "modify_mixlist"
    assert _library.file_format(b"") == "modify_mixlist"
