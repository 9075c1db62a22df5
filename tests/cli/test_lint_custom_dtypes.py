"""npu-precision lint of a customize_dtypes file, which is detected by its content."""

from __future__ import annotations

import pytest

# The content of the file, and the message about it.
FOUND = {
    "scope/conv1::InputDtype:float16,OutputDtype:float32": ["m.json: nothing to be said"],
    "OpType::MatMulV2:InputDtype:float16,float16,OutputDtype:float16": [
        "m.json:1:1: note: 'MatMulV2' stands for MatMul [ascend-name]"
    ],
    "OpType::Relo:InputDtype:float16,OutputDtype:float16": [
        "m.json:1:1: warning: 'Relo' is not an op type of TensorFlow or Ascend; did you mean "
        "'Relu'? [unknown-op]"
    ],
    "# First.\nscope/conv1::InputDtype:float16 # and last": ["m.json: nothing to be said"],
    "OpType::Placeholder:OutputDtype:float16": [
        "m.json:1:1: warning: 'Placeholder' is never changed, whatever its dtypes are to be "
        "[never-changed]"
    ],
    "a::InputDtype:float16\nb::InputDtype:float32\na::InputDtype:float16": [
        "m.json:3:1: warning: 'a' has these dtypes at m.json:1:1 already [redundant]"
    ],
}


@pytest.mark.parametrize("text", FOUND)
def test_what_is_said(text, lint):
    assert lint(text) == FOUND[text]


def test_all_errors_are_told_and_the_status_is_1(lint):
    told = lint("conv1:InputDtype:float16\na::Inputdtype:fp16\na::OutputDtype:float99", status=1)
    assert [line.partition(" error: ")[0] for line in told] == [
        "m.json:1:6:",
        "m.json:2:4:",
        "m.json:2:15:",
        "m.json:3:16:",
    ]
    assert "did you mean 'InputDtype'?" in told[1]
    assert "did you mean 'float16'?" in told[2]


def test_what_can_be_fixed_is_fixed_and_the_rest_stays_as_written(lint, tmp_path):
    text = (
        "conv1:InputDtype:fp16 , OutputDtype:float32\r\n"
        "\r\n"
        "OpType::Relo:inputdtype:half,OutputDtype:float16\r\n"
        "OpType::Relu:InputDtype:float16,OutputDtype:float16\r\n"
        "last::InputDtype:float32"
    )
    *fixed, rest = lint(text, "--fix")
    assert len(fixed) == 6
    assert all(line.startswith("fixed: ") for line in fixed)
    assert rest == "m.json: nothing to be said"
    assert (tmp_path / "m.json").read_bytes().decode() == (
        "conv1::InputDtype:float16 , OutputDtype:float32\r\n"
        "\r\n"
        "OpType::Relu:InputDtype:float16,OutputDtype:float16\r\n"
        "last::InputDtype:float32"
    )


def test_on_a_model_lines_that_cannot_be_followed_are_told(lint, graph_file):
    model = graph_file("x = Placeholder(shape=4x4) \n a = MatMul(x, x) \n b = Relu(a)")
    told = lint("x::OutputDtype:float16\nc::OutputDtype:float16\n", "--model", model)
    assert told == [
        "m.json:2:1: warning: 'c' matches no node of the graph [no-match]",
        "m.json:1:1: warning: 'x' cannot be followed: neutral_source (1 node, 'x') [not-followed]",
    ]
