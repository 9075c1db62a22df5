"""The choice of the library for a TensorFlow version, and the small graph that tests it."""

import os
import stat
import sys
import tempfile

import pytest

from npu_precision import _library_file


@pytest.fixture
def libraries(tmp_path):
    """libraries("2.15", "2.21") -> a folder with empty libraries for these versions."""

    def make(*minors):
        for minor in minors:
            (tmp_path / f"npu_optimizer.tf-{minor}.so").touch()
        return tmp_path

    return make


@pytest.mark.parametrize("version", ["2.15.1", "2.15.0", "2.15.0-rc1", "2.15.1.post1"])
def test_the_library_of_the_minor_version_is_loaded(libraries, version):
    folder = libraries("2.1", "2.9", "2.15", "2.21")
    assert _library_file.find(version, folder).name == "npu_optimizer.tf-2.15.so"


def test_a_newer_tensorflow_than_any_known_is_one_sentence_with_what_to_do(libraries):
    with pytest.raises(ImportError) as raised:
        _library_file.find("2.22.0-dev20261101", libraries("2.9", "2.21"))
    message = str(raised.value)
    assert message.startswith(
        "TensorFlow 2.22.0-dev20261101 is newer than those that npu_precision has libraries for "
        "(2.9, 2.21): install one of these, or set NPU_PRECISION_ALLOW_UNTESTED=1 to try the "
        "nearest library, or build it "
    )
    assert "\n" not in message


@pytest.mark.parametrize(
    ("version", "nearest"), [("2.22.0", "2.21"), ("2.16.1", "2.15"), ("2.3.0", "2.9")]
)
def test_an_untested_tensorflow_gets_the_nearest_library_if_that_is_asked_for(
    libraries, monkeypatch, version, nearest
):
    monkeypatch.setenv("NPU_PRECISION_ALLOW_UNTESTED", "1")
    folder = libraries("2.9", "2.15", "2.21")
    assert _library_file.find(version, folder).name == f"npu_optimizer.tf-{nearest}.so"


def test_what_is_no_version_is_refused(libraries):
    with pytest.raises(ImportError, match="got TensorFlow 'unknown', expected a version like"):
        _library_file.find("unknown", libraries("2.15"))


# The small graph.


@pytest.fixture
def python(tmp_path, monkeypatch):
    """python("exit 1") -> the calls of a script in place of the Python that rewrites the graph."""
    calls = tmp_path / "calls"

    def write(script):
        path = tmp_path / "bin" / "python3"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "$NPU_PRECISION_LIBRARY $*" >> {calls}\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(sys, "executable", str(path))
        return lambda: calls.read_text().splitlines() if calls.exists() else []

    return write


@pytest.fixture
def prove(tmp_path, monkeypatch):
    """prove("2.15.1") runs the proof; notes are written only in this test's folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    folder = tmp_path / "lib"
    folder.mkdir()
    library = folder / "npu_optimizer.tf-2.15.so"
    library.write_text("of no use")

    def run(version="2.15.1"):
        _library_file.prove(library, version, "/site/tensorflow")

    run.library = library
    return run


def test_a_library_is_proved_once_for_each_tensorflow(prove, python):
    calls = python("exit 0")
    prove()
    prove()
    assert calls() == [f"{prove.library} -m npu_precision.offline.self_rewrite"]
    prove("2.15.0")
    assert len(calls()) == 2
    prove.library.write_text("another")
    prove("2.15.0")
    assert len(calls()) == 3


def test_where_there_is_no_cache_folder_that_is_noted_in_the_one_for_temporary_files(
    prove, python, tmp_path
):
    (tmp_path / "cache").write_text("no folder")
    calls = python("exit 0")
    prove()
    prove()
    assert len(calls()) == 1
    assert len(list((tmp_path / "temporary/npu_precision").iterdir())) == 1


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo first; echo 'RuntimeError: it was not lowered' >&2; exit 1", "it was not lowered"),
        (f"echo 'ImportError: other sources; {_library_file.REMEDY}.'; exit 1", "other sources"),
        ("kill -SEGV $$", "signal 11"),
        ("exit 1", "?"),
    ],
)
def test_what_does_not_work_is_an_error_at_each_import(prove, python, script, reason):
    calls = python(script)
    for _ in range(2):
        with pytest.raises(ImportError) as raised:
            prove()
        message = str(raised.value)
        assert f"{prove.library} does not work with TensorFlow 2.15.1" in message
        assert f"({reason})" in message.replace("RuntimeError: ", "").replace("ImportError: ", "")
        assert message.count(_library_file.REMEDY) == 1
    assert len(calls()) == 2


def test_a_program_that_embeds_python_is_not_started_anew(prove, python, tmp_path, monkeypatch):
    calls = python("exit 1")
    program = tmp_path / "bin" / "blender"
    os.rename(sys.executable, program)
    monkeypatch.setattr(sys, "executable", str(program))
    prove()
    assert calls() == []


@pytest.mark.slow
def test_the_small_graph_is_rewritten_by_the_library(run_python):
    run_python("from npu_precision.offline.self_rewrite import main; main()")


@pytest.mark.slow
def test_a_graph_that_is_not_lowered_is_an_error(run_python):
    process = run_python(
        "from npu_precision.offline import self_rewrite\n"
        "self_rewrite.rewrite_graph_def = lambda graph, *_, **__: (graph, None)\n"
        "self_rewrite.main()\n",
        check=False,
    )
    assert "RuntimeError: a matrix product was not lowered" in process.stderr
