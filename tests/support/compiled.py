"""Compiles programs and libraries for tests, from the library's objects and with its flags.

setup.py's NPU_PRECISION_CXXFLAGS and NPU_PRECISION_BUILD apply here too, so that `make sanitize`
compiles its programs with sanitizers. The results stay next to the objects, for other workers and
the next run, until one of their inputs changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import subprocess
import sys

from support import ROOT

sys.path.insert(0, str(ROOT / "cc"))
import build_flags
import embed_configs


def compile_program(source, folder):
    """Compiles a source of tests/cc with a main(), and the passes without the TensorFlow shell.

    Returns the path of the program. It is in `folder` if another build system made the library.
    """
    flags = _flags()
    libraries = next(flag[2:] for flag in flags.link if flag.startswith("-L"))
    link = [
        # The program uses no symbol of the library that registers the ops, but the passes look the
        # ops up.
        "-Wl,--no-as-needed",
        *(flag for flag in flags.link if flag != "-shared"),
        f"-Wl,-rpath,{libraries}",
    ]
    output = _folder(flags, folder) / pathlib.Path(source).stem
    _compile(flags, [ROOT / "tests/cc" / source, *_objects(flags, "graph_passes")], link, output)
    return output


def compile_library(source, folder):
    """Compiles the library with failing_x.cc of tests/cc in place of x.cc; returns its path."""
    flags = _flags()
    output = _folder(flags, folder) / f"{pathlib.Path(source).stem}.so"
    replaced = pathlib.Path(source).stem.replace("failing_", "", 1)
    objects = [*_objects(flags, "graph_passes"), *_objects(flags, "cc")]
    kept = [file for file in objects if file.stem != replaced]
    assert len(kept) == len(objects) - 1
    files = [ROOT / "tests/cc" / source, _embedded_configs(output.parent), *kept]
    _compile(flags, files, flags.link, output)
    return output


def compile_copy(copy, output):
    """Makes the library of a copy of the project; compiles only the sources that differ."""
    flags = _flags()
    files = [_embedded_configs(output.parent)]
    for folder in ("graph_passes", "cc"):
        for source in sorted((copy / folder).rglob("*.cc")):
            name = source.relative_to(copy)
            built = (_build(flags) / name).with_suffix(".o")
            is_ours = (ROOT / name).exists() and (ROOT / name).read_bytes() == source.read_bytes()
            files.append(built if is_ours and built.exists() else source)
    _compile(flags, files, [*flags.grappler_link, *flags.link], output, include=copy)


def _embedded_configs(folder):
    """Writes the source with the files of configs/; returns its path."""
    source = folder / "embedded_configs.cc"
    # Replaced as a whole, because another worker may be compiling the file.
    part = source.with_name(f"{source.name}.{os.getpid()}")
    part.write_text(embed_configs.generate(ROOT / "configs"), encoding="ascii")
    os.replace(str(part), str(source))
    return source


def _flags():
    extra = os.environ.get("NPU_PRECISION_CXXFLAGS", "")
    return build_flags.build_flags(build_flags.installed_tensorflow(), extra)


def _build(flags):
    return ROOT / os.environ.get("NPU_PRECISION_BUILD", "build") / f"tf-{flags.version}"


def _folder(flags, otherwise):
    if not _build(flags).exists():
        return pathlib.Path(otherwise)
    folder = _build(flags) / "tests"
    folder.mkdir(exist_ok=True)
    return folder


def _objects(flags, folder):
    """The objects of a folder, or its sources if another build system made the library."""
    sources = sorted((ROOT / folder).rglob("*.cc"))
    objects = [_build(flags) / source.relative_to(ROOT).with_suffix(".o") for source in sources]
    return objects if all(file.exists() for file in objects) else sources


def _compile(flags, files, link, output, include=ROOT):
    command = [
        *os.environ.get("CXX", "g++").split(),
        *flags.compile,
        f"-I{include}",
        *(part for folder in flags.include_dirs for part in ("-isystem", folder)),
        *map(str, files),
        # Libraries come after the objects that need them: the linker reads from left to right.
        *link,
        "-o",
    ]
    made_of = _digest(command, files)
    note = output.with_name(f"{output.name}.made_of")
    with output.with_name(f"{output.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if output.exists() and note.exists() and note.read_text() == made_of:
            return
        command.append(f"{output}.part")
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert result.returncode == 0, result.stdout
        os.replace(f"{output}.part", str(output))
        note.write_text(made_of)


def _digest(command, files):
    """A hash of a program's inputs: its command, its files, and the headers that they include."""
    digest = hashlib.sha256(" ".join(command).encode())
    headers = [*sorted((ROOT / "graph_passes").rglob("*.h")), *sorted((ROOT / "cc").glob("*.h"))]
    for file in [*files, *headers]:
        digest.update(file.read_bytes())
    return digest.hexdigest()
