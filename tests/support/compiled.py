"""Compiles what tests need besides the library: around its objects, and with its flags.

setup.py's NPU_PRECISION_CXXFLAGS and NPU_PRECISION_BUILD count here too, so that `make sanitize`
gets all of its programs with sanitizers.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from support import ROOT

sys.path.insert(0, str(ROOT / "cc"))
import build_flags
import embed_configs


def compile_program(source, output):
    """The passes alone, without the TensorFlow shell, and a source of tests/cc with a main()."""
    flags = _flags()
    libraries = next(flag[2:] for flag in flags.link if flag.startswith("-L"))
    link = [
        # Nothing refers to the library that registers the ops, yet the passes look them up.
        "-Wl,--no-as-needed",
        *(flag for flag in flags.link if flag != "-shared"),
        f"-Wl,-rpath,{libraries}",
    ]
    _compile(flags, [ROOT / "tests/cc" / source, *_objects(flags, "graph_passes")], link, output)


def compile_library(source, output):
    """The library with a source of tests/cc in the place of the one it is named for: failing_x.cc
    stands for x.cc.
    """
    flags = _flags()
    replaced = pathlib.Path(source).stem.replace("failing_", "", 1)
    objects = [*_objects(flags, "graph_passes"), *_objects(flags, "cc")]
    kept = [file for file in objects if file.stem != replaced]
    assert len(kept) == len(objects) - 1
    embedded = output.with_name("embedded_configs.cc")
    embedded.write_text(embed_configs.generate(ROOT / "configs"), encoding="ascii")
    _compile(flags, [ROOT / "tests/cc" / source, embedded, *kept], flags.link, output)


def _flags():
    extra = os.environ.get("NPU_PRECISION_CXXFLAGS", "")
    return build_flags.build_flags(build_flags.installed_tensorflow(), extra)


def _objects(flags, folder):
    """The objects of a folder; the sources where another build system made the library."""
    build = ROOT / os.environ.get("NPU_PRECISION_BUILD", "build") / f"tf-{flags.version}"
    sources = sorted((ROOT / folder).rglob("*.cc"))
    objects = [build / source.relative_to(ROOT).with_suffix(".o") for source in sources]
    return objects if all(file.exists() for file in objects) else sources


def _compile(flags, files, link, output):
    command = [
        *os.environ.get("CXX", "g++").split(),
        *flags.compile,
        f"-I{ROOT}",
        *(part for folder in flags.include_dirs for part in ("-isystem", folder)),
        *map(str, files),
        # After what needs them: the linker reads from left to right.
        *link,
        "-o",
        str(output),
    ]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert result.returncode == 0, result.stdout
