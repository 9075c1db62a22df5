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
import re
import subprocess
import sys

from support import ROOT

sys.path.insert(0, str(ROOT / "cc"))
import build_flags
import embed_configs

FOLDERS = ("graph_passes", "cc")


def compile_program(source, folder, kernels=(), extra=()):
    """Compiles a source of tests/cc with a main(), and the passes without the TensorFlow shell.

    Args:
        source: its name.
        folder: where the program goes if another build system made the library.
        kernels: sources of cc/ that it needs too.
        extra: more flags, for what is not an object yet.

    Returns:
        The path of the program.
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
    output = _folder(flags, folder) / "_".join([pathlib.Path(source).stem, *extra])
    sources = [ROOT / "tests/cc" / source, *(ROOT / "cc" / name for name in kernels)]
    _compile(flags, [*extra, *sources, *_groups(flags, "graph_passes")], link, output)
    return output


def compile_library(source, folder):
    """Compiles the library with failing_x.cc of tests/cc in place of x.cc; returns its path."""
    flags = _flags()
    output = _folder(flags, folder) / f"{pathlib.Path(source).stem}.so"
    replaced = f"{pathlib.Path(source).stem.replace('failing_', '', 1)}.cc"
    groups = _all_groups(flags)
    ((changed, members),) = (
        item for item in groups.items() if replaced in (member.name for member in item[1])
    )
    # The others of its group, as one source again.
    others = output.with_name(f"{output.stem}_others.cc")
    named = [each for each in members if each.name != replaced]
    _write(others, "".join(f'#include "{each}"\n' for each in named))
    kept = [each for each in groups if each != changed]
    files = [ROOT / "tests/cc" / source, others, _embedded_configs(output.parent), *kept]
    _compile(flags, files, flags.link, output, read=[ROOT / each for each in named])
    return output


def compile_copy(copy, output):
    """Makes the library of a copy of the project; compiles only what differs."""
    flags = _flags()
    files = [_embedded_configs(output.parent)]
    left = {each.relative_to(copy) for name in FOLDERS for each in (copy / name).rglob("*.cc")}
    for built, members in _all_groups(flags).items():
        is_ours = all(
            member in left and (ROOT / member).read_bytes() == (copy / member).read_bytes()
            for member in members
        )
        if is_ours and built.suffix == ".o":
            files.append(built)
            left -= set(members)
    files += sorted(copy / each for each in left)
    _compile(flags, files, [*flags.grappler_link, *flags.link], output, include=copy)


def _embedded_configs(folder):
    """Writes the source with the files of configs/; returns its path."""
    source = folder / "embedded_configs.cc"
    _write(source, embed_configs.generate(ROOT / "configs"))
    return source


def _write(source, text):
    """Replaces a source as a whole, because another worker may be compiling it."""
    part = source.with_name(f"{source.name}.{os.getpid()}")
    part.write_text(text, encoding="ascii")
    os.replace(str(part), str(source))


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


def members_of(group):
    """The sources that a group of setup.py includes."""
    return [pathlib.Path(each) for each in re.findall(r'#include "(.*)"', group.read_text())]


def _groups(flags, folder):
    """By object, the sources of a folder that it was made of; by source, if another build system
    made the library.
    """
    made = {}
    for group in sorted((_build(flags) / "groups").glob(f"{folder}_*.cc")):
        made[group.with_suffix(".o")] = members_of(group)
    if made and all(built.exists() for built in made):
        return made
    sources = sorted((ROOT / folder).rglob("*.cc"))
    return {source: [source.relative_to(ROOT)] for source in sources}


def _all_groups(flags):
    return {**_groups(flags, FOLDERS[0]), **_groups(flags, FOLDERS[1])}


def _compile(flags, files, link, output, include=ROOT, read=()):
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
    made_of = _digest(command, [*files, *read])
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
    for file in (each for each in [*files, *headers] if isinstance(each, pathlib.Path)):
        digest.update(file.read_bytes())
    return digest.hexdigest()
