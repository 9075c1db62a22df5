"""The build: flags for a TensorFlow, the embedded configs, and setup.py's incremental builds."""

import importlib.util
import platform
import re
import subprocess
import sys

import pytest
from support import ROOT
from support.build_project import RELEASE_VERSION, BuildProject, write

from npu_precision import _library


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "cc" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build_flags = load_script("build_flags")
embed_configs = load_script("embed_configs")


# The embedded configs.

ODD_FILES = {
    "host/every_byte.json": bytes(range(256)),
    "host/cpu/raw_string_end.json": b'{"a)": ")"}\n)" R"(\\\n',
    "host/cpu/long_line.json": b'"' * 100_000,
    "trigraphs.json": b"??/ ??' %: <: \\u0041\r\n\r",
    "empty.json": b"",
}

PRINT_FILES = """\
#include <cstdio>
#include "cc/embedded_configs.h"
int main() {
  for (const auto& file : npu_precision::EmbeddedConfigs()) {
    std::printf("%s %zu\\n", file.path, file.size);
    std::fwrite(file.text, 1, file.size + 1, stdout);
  }
}
"""


def write_odd_files(folder, names):
    for name in names:
        write(folder / name).write_bytes(ODD_FILES[name])


@pytest.mark.parametrize("standard", ["c++14", "c++17"])
def test_embedded_files_keep_every_byte(tmp_path, standard):
    write_odd_files(tmp_path / "configs", ODD_FILES)
    subprocess.run(
        [sys.executable, ROOT / "cc/embed_configs.py", tmp_path / "configs", tmp_path / "files.cc"],
        check=True,
    )
    program = write(tmp_path / "print.cc", PRINT_FILES)
    command = ["g++", f"-std={standard}", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}"]
    command += [program, tmp_path / "files.cc", "-o", tmp_path / "print"]
    subprocess.run(command, check=True)
    printed = subprocess.run([tmp_path / "print"], check=True, stdout=subprocess.PIPE).stdout
    expected = [
        f"{name} {len(ODD_FILES[name])}\n".encode() + ODD_FILES[name] + b"\0"
        for name in sorted(ODD_FILES)
    ]
    assert printed == b"".join(expected)


def test_embedded_source_does_not_depend_on_the_order_of_creation(tmp_path):
    write_odd_files(tmp_path / "one", ODD_FILES)
    write_odd_files(tmp_path / "two", reversed(list(ODD_FILES)))
    assert embed_configs.generate(tmp_path / "one") == embed_configs.generate(tmp_path / "two")


def test_embedding_nothing_is_an_error(tmp_path):
    write(tmp_path / "configs/host/notes.txt")
    with pytest.raises(FileNotFoundError, match=r"no \*\.json file under .*configs"):
        embed_configs.generate(tmp_path / "configs")


# The flags.


def tensorflow_build(folder, version, *, standard=("--std=c++17",), files=()):
    for name in files:
        write(folder / name)
    return build_flags.TensorFlowBuild(
        version,
        [f"-I{folder}/include", "-D_GLIBCXX_USE_CXX11_ABI=1", *standard],
        [f"-L{folder}", "-l:libtensorflow_framework.so.2"],
    )


@pytest.mark.parametrize(
    ("version", "suffix"),
    [("2.99.3", ""), ("2.99.3-rc1", "-rc1"), ("2.99.3.dev20300101", ".dev20300101")],
)
def test_newer_tensorflow_gets_its_version_defined(tmp_path, version, suffix):
    newer = tensorflow_build(tmp_path, version, files=[RELEASE_VERSION])
    defines = [f for f in build_flags.build_flags(newer).compile if f.startswith("-DTF_")]
    assert defines == [
        "-DTF_MAJOR_VERSION=2",
        "-DTF_MINOR_VERSION=99",
        "-DTF_PATCH_VERSION=3",
        f'-DTF_VERSION_SUFFIX="{suffix}"',
    ]


def test_odd_version_of_a_newer_tensorflow_is_an_error(tmp_path):
    newer = tensorflow_build(tmp_path, "head", files=[RELEASE_VERSION])
    with pytest.raises(ValueError, match="'head' is not of the form MAJOR.MINOR.PATCH"):
        build_flags.build_flags(newer)


def test_tensorflow_2_links_both_of_its_libraries(tmp_path):
    current = tensorflow_build(tmp_path, "2.15.1", files=["libtensorflow_cc.so.2"])
    flags = build_flags.build_flags(current)
    assert not [flag for flag in flags.compile if flag.startswith("-DTF_")]
    assert flags.link[-2:] == ["-l:libtensorflow_framework.so.2", "-l:libtensorflow_cc.so.2"]


def test_tensorflow_1_is_compiled_as_cxx14(tmp_path):
    flags = build_flags.build_flags(tensorflow_build(tmp_path, "1.15.5", standard=()))
    assert "-std=c++14" in flags.compile
    assert "-l:libtensorflow_cc.so.2" not in flags.link


def test_tensorflow_headers_are_system_headers(tmp_path):
    flags = build_flags.build_flags(tensorflow_build(tmp_path, "2.15.1"))
    assert flags.include_dirs[0] == f"{tmp_path}/include"
    assert not [flag for flag in flags.compile if flag.startswith("-I")]


def test_extra_flags_come_last_in_both_steps(tmp_path):
    flags = build_flags.build_flags(tensorflow_build(tmp_path, "2.15.1"), "-g '-DX=\"a b\"'")
    assert flags.compile[-2:] == flags.link[-2:] == ["-g", '-DX="a b"']


def test_missing_tensorflow_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(SystemExit, match=r"cannot import one .* Run `make build`"):
        build_flags.installed_tensorflow()


# setup.py, on a small project.

UNNAMED = """\
namespace npu_precision {{
namespace {{

{}

}}  // namespace
}}  // namespace npu_precision
"""


@pytest.fixture
def project(tmp_path):
    return BuildProject(tmp_path)


LINK = "linking npu_optimizer.tf-2.99.so"
HEADER = "precompiled.h"
OF_CC, OF_PASSES = "cc_0.cc", "graph_passes_0.cc"


def test_setup_builds_only_what_changed(project):
    status, steps, complaints = project.build()
    assert (status, complaints) == (0, "")
    page = ["bundling report_page.html", "package-lock.json"]
    assert steps == sorted(["embedded_configs.cc", LINK, OF_CC, OF_PASSES, HEADER, *page])
    assert project.library.exists()
    assert project.library.with_name("report_page.html").exists()
    assert project.build()[1] == []

    (project.folder / "graph_passes/one.h").write_text("int One();\n\n")
    assert project.build()[1] == [OF_PASSES, LINK]

    (project.folder / "configs/host/ops.json").write_text("{ }\n")
    assert project.build()[1] == ["embedded_configs.cc", LINK]

    (project.folder / "cc/major.cc").unlink()
    assert project.build()[1] == [LINK]

    (project.folder / "cc/precompiled.h").write_text("#include <cstdint>\n")
    every = ["embedded_configs.cc", OF_PASSES, LINK, HEADER]
    assert project.build()[1] == every
    assert project.build(NPU_PRECISION_CXXFLAGS="-g")[1] == every


def test_sources_that_define_the_same_name_for_themselves_are_compiled_apart(project):
    for name, what in (("a", "class Reader {};"), ("b", "constexpr int kMost = 1, kNone = 2;")):
        write(project.folder / f"graph_passes/{name}.cc", UNNAMED.format(what))
    assert project.build()[0] == 0
    (group,) = project.groups("graph_passes")
    assert group == ["graph_passes/a.cc", "graph_passes/b.cc", "graph_passes/one.cc"]

    write(project.folder / "graph_passes/c.cc", UNNAMED.format("struct Reader {};"))
    write(project.folder / "graph_passes/d.cc", UNNAMED.format("const char kNone[] = {0};"))
    status, steps, complaints = project.build()
    assert (status, complaints) == (0, "")
    assert "graph_passes_1.cc" in steps
    group, other = project.groups("graph_passes")
    assert other == ["graph_passes/c.cc", "graph_passes/d.cc"]

    for name in "abcd":
        (project.folder / f"graph_passes/{name}.cc").unlink()
    assert project.build()[0] == 0  # What is left of the second group is not linked.
    assert project.groups("graph_passes") == [["graph_passes/one.cc"]]


def test_setup_shows_what_the_compiler_says_and_keeps_the_former_library(project):
    assert project.build()[0] == 0
    former = project.library.read_bytes()
    write(project.folder / "graph_passes/one.cc", "int One() { int unused; return 1; }\n")
    status, _, complaints = project.build()
    assert status == 1
    assert "graph_passes/one.cc:1:17: error: unused variable" in complaints
    assert "Traceback" not in complaints
    assert project.library.read_bytes() == former


def test_setup_names_the_symbol_that_tensorflow_lacks(project):
    write(project.folder / "cc/major.cc", "int Missing();\nint Major() { return Missing(); }\n")
    status, _, complaints = project.build()
    assert status == 1
    assert "undefined reference to `Missing()'" in complaints
    assert not project.library.exists()


def test_setup_without_a_compiler_says_how_to_get_one(project):
    status, _, complaints = project.build(CXX="no-such-compiler")
    assert status == 1
    assert "no C++ compiler: no-such-compiler not found. Install it" in complaints
    assert "Traceback" not in complaints


def test_setup_without_node_warns_and_builds_the_library(project):
    status, _, complaints = project.build(NPU_PRECISION_NODE=str(project.folder / "no-node"))
    assert status == 0
    assert complaints.startswith("warning: npu-precision report will not work: ")
    assert "no-node does not run: install Node.js 18 or newer" in complaints
    assert project.library.exists()
    assert not project.library.with_name("report_page.html").exists()


# Names that cc/precompiled.h gives to each source in a build by setup.py, but not by Bazel.
GIVEN = {
    r"\bTF_RETURN_IF_ERROR\(|\berrors::": "tensorflow/core/lib/core/errors.h",
    r"\bStr(Cat|Append)\(": "absl/strings/str_cat.h",
}


@pytest.mark.parametrize("folder", ["graph_passes", "cc"])
def test_sources_include_what_the_precompiled_header_gives_them_too(folder):
    lacking = []
    for source in sorted((ROOT / folder).rglob("*.cc")):
        own = source.with_suffix(".h")
        text = source.read_text() + (own.read_text() if own.exists() else "")
        for use, header in GIVEN.items():
            if re.search(use, text) and f'#include "{header}"' not in text:
                lacking.append((source.name, header))
    assert lacking == []


# The versions of TensorFlow.

ENVIRONMENTS = re.findall(
    r'"(tf\d+)": \("(tf[\d.]+)", "([\d.]+)"\)', (ROOT / "noxfile.py").read_text()
)
VERSION_QUESTIONS = {
    "*.py": r"__version__\s*([<>=!]=|[<>.\[])|tf\.version\b|\btf\.VERSION\b|hasattr\(tf\b",
    "*.h": r"TF_(MAJOR|MINOR|PATCH)_VERSION|TF_AT_LEAST|TF_GRAPH_DEF_VERSION",
    "*.cc": r"TF_(MAJOR|MINOR|PATCH)_VERSION|TF_AT_LEAST|TF_GRAPH_DEF_VERSION",
}


@pytest.mark.parametrize("folder", ["npu_precision", "cc", "graph_passes"])
def test_only_the_compat_files_ask_for_the_version_of_tensorflow(folder):
    asking = {
        path.relative_to(ROOT / folder).parts[0] if "_tf_compat" in path.parts else path.name
        for pattern, question in VERSION_QUESTIONS.items()
        for path in (ROOT / folder).rglob(pattern)
        if re.search(question, path.read_text())
    }
    allowed = {
        # Doctor looks at a TensorFlow with which the package may not import.
        "npu_precision": {"_tf_compat", "examination.py"},
        "cc": {"tf_compat.h"},
    }
    assert asking == allowed.get(folder, set())


# Code that distinguishes optimizers of Keras 2 and 3, and code that changes an object's class.
KERAS_QUESTIONS = (
    r'hasattr\(\w+, "(apply|get_scaled_loss|_backend_update_step)"\)|"__class__"|__class__ = '
)


def test_only_the_compat_files_ask_for_the_version_of_keras():
    asking = {
        path.relative_to(ROOT / "npu_precision").as_posix()
        for path in (ROOT / "npu_precision").rglob("*.py")
        if re.search(KERAS_QUESTIONS, path.read_text())
    }
    # The second changes layers, of any Keras.
    assert asking == {"_tf_compat/optimizers.py", "amp/parallel/convert.py"}


def locked(requirements):
    lines = (ROOT / "requirements" / f"{requirements}.lock").read_text().splitlines()
    pins = (line.lower().replace("_", "-") for line in lines if not line.startswith("#"))
    return dict(pin.split("==") for pin in pins)


@pytest.mark.parametrize(("session", "requirements", "python"), ENVIRONMENTS)
def test_every_environment_is_locked_to_what_it_asks_for(session, requirements, python):
    versions = locked(requirements)
    wanted = (ROOT / "requirements" / f"{requirements}.in").read_text().splitlines()
    for line in filter(None, (line.partition("#")[0].strip() for line in wanted)):
        name, equals, version = re.fullmatch(r"([\w-]+)(==)?(.*)", line).groups()
        assert name in versions, "run `make lock`"
        assert not equals or versions[name] == version, "run `make lock`"


def test_the_environments_are_both_ends_of_the_range_and_the_last_with_estimator():
    assert [requirements for _, requirements, _ in ENVIRONMENTS] == ["tf1.15", "tf2.15", "tf2.21"]
    (first, last) = re.search(
        r'"tensorflow>=([\d.]+),<([\d.]+)"', (ROOT / "pyproject.toml").read_text()
    ).groups()
    assert locked("tf1.15")["tensorflow"].startswith(f"{first}.")
    major, minor, _ = locked("tf2.21")["tensorflow-cpu"].split(".")
    assert last == f"{major}.{int(minor) + 1}"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names instructions of x86-64")
def test_square_roots_of_updates_are_vector_instructions():
    """Adam has one for each element of a weight. One that may set errno is computed by itself."""
    listing = subprocess.run(
        ["objdump", "--disassemble", _library.PATH], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"\bv?sqrtps\b", listing)
