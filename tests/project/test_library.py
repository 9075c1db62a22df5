"""The shared library: any import of the package loads it, or the error says why it did not."""

import ctypes
import dataclasses
import shutil
import subprocess

import pytest
import tensorflow as tf
from support import ROOT

import npu_precision
from npu_precision import PrecisionOptions, _library


@pytest.fixture
def package_without_library(tmp_path):
    """A folder for PYTHONPATH with the package's Python files only."""
    files = shutil.ignore_patterns("_lib", "__pycache__")
    shutil.copytree(ROOT / "npu_precision", tmp_path / "elsewhere" / "npu_precision", ignore=files)
    return tmp_path / "elsewhere"


@pytest.mark.parametrize(
    "module", ["npu_precision", "npu_precision.npu_init", "npu_precision.npu_bridge.hooks"]
)
def test_importing_any_module_loads_the_optimizer(run_python, module):
    process = run_python(
        f"import {module}\n"
        "from npu_precision._tf_compat import op_definition\n"
        "print(op_definition('NpuPrecisionError').attr[0].name)\n"
    )
    assert process.stdout == "message\n"


def test_a_library_for_another_tensorflow_is_named_with_the_command_that_fixes_it(
    run_cold_python, package_without_library
):
    folder = package_without_library / "npu_precision" / "_lib"
    folder.mkdir()
    for minor in ("1.14", "2.99"):
        (folder / f"npu_optimizer.tf-{minor}.so").touch()
    process = run_cold_python(
        "import npu_precision.options",
        check=False,
        PYTHONPATH=str(package_without_library),
        NPU_PRECISION_LIBRARY="",
    )
    assert process.returncode == 1
    error = process.stderr.splitlines()[-1]
    assert error.startswith("ImportError: npu_precision has no library for TensorFlow")
    assert tf.__version__ in error
    assert "there are those for 1.14, 2.99, in " in error
    assert "make build" in error
    assert "pip install --no-build-isolation --force-reinstall --no-deps --no-binary " in error


def test_no_library_at_all_is_said_as_such(run_cold_python, package_without_library):
    process = run_cold_python(
        "import npu_precision",
        check=False,
        PYTHONPATH=str(package_without_library),
        NPU_PRECISION_LIBRARY="",
    )
    assert "ImportError: npu_precision has no library" in process.stderr
    assert "nor for any other" in process.stderr


def test_without_tensorflow_the_error_says_how_to_get_one(run_cold_python):
    process = run_cold_python(
        "import sys\nsys.modules['tensorflow'] = None\nimport npu_precision", check=False
    )
    assert process.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: npu_precision needs a TensorFlow, and this Python has none: install "
        "the one that you want, or the newest with `pip install 'npu-precision[tensorflow]'`"
    )


def undefined_symbol(path):
    source = path.with_suffix(".cc")
    source.write_text("void of_another_tensorflow(); void call() { of_another_tensorflow(); }")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", path, source], check=True)
    return "of_another_tensorflow"


def not_a_library(path):
    path.write_text("not an ELF file, but longer than an ELF header, which is 64 bytes long")
    return "invalid ELF header"


def not_ours(path):
    source = path.with_suffix(".cc")
    source.write_text("void nothing() {}")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", path, source], check=True)
    return "undefined symbol: NpuPrecision"


@pytest.mark.parametrize("make", [undefined_symbol, not_a_library, not_ours])
def test_a_library_that_does_not_load_is_reported_with_the_loaders_reason(
    run_python, tmp_path, make
):
    path = tmp_path / "npu_optimizer.so"
    reason = make(path)
    process = run_python("import npu_precision", check=False, NPU_PRECISION_LIBRARY=str(path))
    error = next(line for line in process.stderr.splitlines() if line.startswith("ImportError"))
    assert f"{path} does not load into TensorFlow {tf.__version__}" in error
    assert reason in process.stderr
    assert "make build" in process.stderr


def test_a_path_that_is_no_file_is_reported(run_python, tmp_path):
    process = run_python(
        "import npu_precision", check=False, NPU_PRECISION_LIBRARY=str(tmp_path / "none.so")
    )
    assert "ImportError: NPU_PRECISION_LIBRARY names" in process.stderr


def test_python_and_cpp_have_the_same_options_with_the_same_types():
    in_python = {
        field.name: "b" if field.type == "bool | None" else "s"
        for field in dataclasses.fields(PrecisionOptions)
    }
    assert in_python == _library.describe()["parameters"]


def test_describe_lists_modes_and_targets():
    described = _library.describe()
    assert "allow_mix_precision" in described["modes"]
    assert "mixed_bfloat16" in described["modes_v2"]
    assert "host" in described["targets"]
    assert "use_off_line" in described["inert_parameters"]


@pytest.mark.parametrize("group", [None, "parameters", "marks"])
def test_a_library_of_other_sources_is_named_when_python_knows_more(group):
    described = _library.describe() if group is None else _library.describe()[group]
    with pytest.raises(ImportError, match=r"says nothing of 'newer': it was built from other s"):
        described["newer"]


def test_messages_with_any_bytes_come_back():
    entry = npu_precision.PrecisionOptions().custom_optimizer()
    entry.parameter_map["precision_mode"].s = b"\xff\x00\xf0\x9f\x98\x80"
    with pytest.raises(ValueError, match="precision_mode"):
        _library.check_options(entry)


def test_bytes_that_are_no_proto_are_refused():
    data = b"\xff" * 7
    library = ctypes.CDLL(str(_library._library_path()))
    library.NpuPrecisionCheckOptions.restype = ctypes.c_void_p
    message = library.NpuPrecisionCheckOptions(data, len(data))
    assert message
    library.NpuPrecisionFree(ctypes.c_void_p(message))
