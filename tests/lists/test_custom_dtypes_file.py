"""The file customize_dtypes: its valid lines, and its errors with line and column."""

import pytest

import npu_precision


@pytest.fixture
def check(tmp_path):
    """check(text) reads a file as the optimizer does, and returns the error without its path."""

    def read(text, **options):
        path = tmp_path / "dtypes.cfg"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        options = {"precision_mode": "allow_mix_precision", **options}
        with pytest.raises(ValueError, match="customize_dtypes") as error:
            npu_precision.PrecisionOptions(customize_dtypes=str(path), **options)
        return str(error.value).replace(str(path), "F")

    return read


RIGHT = [
    "",
    "conv1::InputDtype:float16,OutputDtype:float32\n",
    "scope/conv1::InputDtype:float16,float16,OutputDtype:float16",
    # A file of Windows, with empty lines, spaces, and the mark of UTF-8.
    "\ufeffOpType::Relu : InputDtype: float16 , OutputDtype: int8 \r\n\r\n",
    "OpType::MatMulV2:InputDtype:float16,float16,float32,OutputDtype:float32\n"
    "OpType::BatchMatMul:InputDtype:float16,float16,OutputDtype:float32\n"
    "OpType::BatchMatMulV2:InputDtype:float16,float16,OutputDtype:float32\n",
    "a::OutputDtype:bfloat16\n",
    # Comments, alone and behind a line.
    "# Of the encoder: a::Nonsense:1\n\na::OutputDtype:float16  # the last layer\n  # end",
    "a::InputDtype:float16\na::InputDtype:float16,float16\n",
    # Yolo is an op of Ascend that TensorFlow does not have.
    "OpType::Yolo:InputDtype:float16,OutputDtype:float16\n",
]


@pytest.mark.parametrize("mode", ["allow_mix_precision", "force_fp32", "must_keep_origin_dtype"])
@pytest.mark.parametrize("text", RIGHT)
def test_what_is_read(tmp_path, text, mode):
    path = tmp_path / "dtypes.cfg"
    path.write_bytes(text.encode())
    npu_precision.PrecisionOptions(precision_mode=mode, customize_dtypes=path)


FORMAT = "NAME::InputDtype:DTYPE,...,OutputDtype:DTYPE,... or OpType::TYPE:InputDtype:..."
DTYPES = (
    "float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, "
    "uint64, bool"
)
WRONG = {
    "conv1:InputDtype:float16": f"F:1:6: got 'conv1:InputDtype:float16', expected {FORMAT}",
    "\nconv1": f"F:2:1: got 'conv1', expected {FORMAT}",
    "  ::InputDtype:float16": f"F:1:3: got no name of a node, expected {FORMAT}",
    "OpType:::InputDtype:float16": f"F:1:9: got no op type, expected {FORMAT}",
    "conv1::": f"F:1:8: got no dtypes for 'conv1', expected {FORMAT}",
    "OpType::Relu": f"F:1:13: got no dtypes for 'Relu', expected {FORMAT}",
    "conv1::float16": "F:1:8: got 'float16', expected InputDtype: or OutputDtype:",
    "conv1::InputDType:float16": (
        "F:1:8: got 'InputDType', expected one of InputDtype, OutputDtype; "
        "did you mean 'InputDtype'?"
    ),
    "conv1::InputDtype:float16,InputDtype:float16": "F:1:27: got InputDtype twice for 'conv1'",
    "conv1::InputDtype:fp16": (
        f"F:1:19: got dtype 'fp16', expected one of {DTYPES}; did you mean 'float16'?"
    ),
    "conv1::InputDtype:float16,,float16": f"F:1:27: got no dtype, expected one of {DTYPES}",
    "conv1::InputDtype:float16,OutputDtype:": f"F:1:39: got no dtype, expected one of {DTYPES}",
    "a::InputDtype:float16\nb::InputDtype:float32\na::InputDtype:float32": (
        "F: 'a' at F:3:1 and 'a' at F:1:1 give the node 'a' different dtypes; keep one of the two"
    ),
    "a::InputDtype:float16\na::InputDtype:float16,float16\na::InputDtype:float16,float32": (
        "F: 'a' at F:3:1 and 'a' at F:1:1 give the node 'a' different dtypes; keep one of the two"
    ),
    "OpType::MatMulV2:InputDtype:float16\nOpType::MatMul:InputDtype:float32": (
        "F: 'MatMul' at F:2:1 and 'MatMulV2' at F:1:1 give the op type 'MatMul' different dtypes; "
        "keep one of the two"
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_an_error(check, text):
    assert check(text) == f"customize_dtypes: {WRONG[text]}"


def test_bytes_that_are_no_text_are_shown_escaped(check):
    message = check(b"\xff\x00conv")
    assert "F:1:1: got " in message
    assert message.isascii()


def test_a_file_that_is_not_there():
    with pytest.raises(ValueError, match="customize_dtypes: .*no/such/file"):
        npu_precision.PrecisionOptions(customize_dtypes="no/such/file")
