"""Builds the shared library; everything else about the package is in pyproject.toml.

`python setup.py build_ext --inplace` compiles graph_passes/**/*.cc and cc/*.cc, in groups, in
parallel and only what changed, against the TensorFlow that this Python imports, and puts
npu_precision/_lib/npu_optimizer.tf-<TensorFlow's minor version>.so in place. Objects are kept
in build/tf-<version>/, so libraries for several TensorFlows live side by side. The commands are in
compile_commands.json there, for clangd and clang-tidy; a build in place copies it to the root.

It also brings the page of `npu-precision report` up to date, where there is a Node.js: see
report_page/build_page.py. Without one the library is built all the same.

Environment: CXX is the compiler (g++); NPU_PRECISION_CXXFLAGS is appended to the flags of every
compilation and of the link, as in NPU_PRECISION_CXXFLAGS="-g -fsanitize=undefined";
NPU_PRECISION_BUILD is the folder for objects, "build" if not given. For the wheel of all
TensorFlows (`make wheel`): NPU_PRECISION_MANYLINUX=1 links a library without symbols that
manylinux_2_28 lacks, and NPU_PRECISION_LIBRARIES names a folder of such libraries, which are
packaged instead of one that is built.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError, LinkError

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # Setuptools up to 70, so always on Python 3.7, leaves it to a package.
    from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parent
LIBRARY_FOLDER = "npu_precision/_lib"
SOURCE_FOLDERS = ("cc", "graph_passes")
# On two cores, all sources took 229 s alone, 113 s in groups of four, and 102 s in groups of six.
# Larger groups gain little, and are compiled again as a whole when a source changes.
SOURCES_PER_OBJECT = 6
OLD_SYMBOLS = pathlib.Path("wheels/old_symbols.cc")
PRECOMPILED = pathlib.Path("cc/precompiled.h")
STARTUP = "npu_precision.pth"
COMPILE_COMMANDS = "compile_commands.json"  # The name that clangd and clang-tidy look for.

# A PEP 517 front end does not put the project on the path.
sys.path[:0] = [str(ROOT / "cc"), str(ROOT / "report_page")]
import build_flags  # noqa: E402
import build_page  # noqa: E402
import embed_configs  # noqa: E402
import source_groups  # noqa: E402


def sources(folder: str) -> list[pathlib.Path]:
    """The hand-written sources, relative to ROOT and sorted: the link order is reproducible."""
    return sorted(path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.cc"))


def write_if_changed(output: pathlib.Path, text: str) -> None:
    """Writes text, under a temporary name first, unless that is what the file holds.

    An object of a source that did not change thus stays current, and an editor that watches the
    file is left alone.
    """
    if output.exists() and output.read_text(encoding="utf-8") == text:
        return
    partial = output.with_name(output.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, output)


def in_shell(command: list[str]) -> str:
    return " ".join(map(shlex.quote, command))


def recorded_command(output: pathlib.Path) -> pathlib.Path:
    return output.with_name(output.name + ".command")


def is_current(output: pathlib.Path, command: list[str], inputs: list[pathlib.Path]) -> bool:
    """Whether output was made by this very command and no input has changed since."""
    record = recorded_command(output)
    if not output.exists() or not record.exists() or record.read_text() != in_shell(command):
        return False
    made_at = output.stat().st_mtime_ns
    return all(path.exists() and path.stat().st_mtime_ns <= made_at for path in inputs)


def run_compiler(command: list[str], output: pathlib.Path, error: type[Exception]) -> None:
    """Runs command, which writes output under a temporary name, and only then renames it.

    An interrupted run thus leaves no half-written file, and a process that has the former library
    loaded keeps it. The time stamp is that of the start: an input saved meanwhile counts as newer.
    """
    sys.stdout.flush()
    partial = output.with_name(output.name + ".partial")
    started_at = time.time_ns()
    try:
        result = subprocess.run(
            [*command, "-o", str(partial)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except FileNotFoundError:
        raise error(
            f"no C++ compiler: {command[0]} not found. Install it (Debian: apt-get install g++), "
            f"or name another in the environment variable CXX."
        ) from None
    sys.stderr.write(result.stdout)
    if result.returncode != 0:
        raise error(f"the compiler failed, as it says above: {in_shell(command)}")
    os.utime(partial, ns=(started_at, started_at))
    os.replace(partial, output)
    recorded_command(output).write_text(in_shell(command))


def compile_commands(sources: list[pathlib.Path], folder: pathlib.Path, command: list[str]) -> str:
    """The compilation database: for each source a command that compiles it alone."""
    entries = []
    for source in sources:
        output = str(folder / source.with_suffix(".o"))
        entries.append(
            {
                "directory": str(ROOT),
                "file": str(source),
                "output": output,
                "command": in_shell([*command, str(source), "-o", output]),
            }
        )
    return json.dumps(entries, indent=1) + "\n"


def write_groups(folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes a source for each group of sources, which includes them; returns their paths."""
    written = []
    for name in SOURCE_FOLDERS:
        groups = source_groups.grouped(sources(name), SOURCES_PER_OBJECT)
        paths = [folder / f"{name}_{number}.cc" for number in range(len(groups))]
        for path, group in zip(paths, groups):
            write_if_changed(path, "".join(f'#include "{source}"\n' for source in group))
        for path in folder.glob(f"{name}_*.cc"):  # What is left of more groups.
            if path not in paths:
                path.unlink()
        written += [path.relative_to(ROOT) for path in paths]
    return written


def included_files(depfile: pathlib.Path) -> list[pathlib.Path]:
    """The files that the compiler read, as its -MMD output (a make rule) lists them."""
    if not depfile.exists():
        return []
    _, _, files = depfile.read_text().replace("\\\n", " ").partition(": ")
    return [ROOT / name for name in files.split()]


def compile_file(
    source: pathlib.Path, output: pathlib.Path, command: list[str], also_read: list[pathlib.Path]
) -> None:
    """Compiles one file, unless its output is current.

    Args:
        source: relative to ROOT.
        output: what the compiler writes.
        command: the compiler and its flags.
        also_read: what the compiler reads and does not say that it does.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    depfile = output.with_suffix(".d")
    command = [*command, "-MMD", "-MF", str(depfile), str(source)]
    files = included_files(depfile)
    if not files or not is_current(output, command, [*files, *also_read]):
        sys.stdout.write(f"compiling {source}\n")  # Unlike print, whole lines from every thread.
        run_compiler(command, output, CompileError)


def precompile_header(folder: pathlib.Path, compiler: list[str]) -> pathlib.Path:
    """Compiles what nearly every source reads; returns the header to be given with -include."""
    header = folder / PRECOMPILED.name
    write_if_changed(header, f'#include "{PRECOMPILED}"\n')
    # Beside the header, under this name, compilers find it.
    output = header.with_name(f"{header.name}.gch")
    compile_file(header.relative_to(ROOT), output, [*compiler, "-x", "c++-header"], [])
    return header


def compile_source(
    source: pathlib.Path, folder: pathlib.Path, command: list[str], header: pathlib.Path
) -> pathlib.Path:
    """Compiles one source with a precompiled header; returns the object."""
    output = folder / source.with_suffix(".o").name
    precompiled = header.with_name(f"{header.name}.gch")
    compile_file(source, output, command, [precompiled])
    return output


def build_folder() -> pathlib.Path:
    return ROOT / os.environ.get("NPU_PRECISION_BUILD", "build")


def for_manylinux() -> bool:
    return os.environ.get("NPU_PRECISION_MANYLINUX") == "1"


def given_libraries() -> list[pathlib.Path]:
    """The libraries of NPU_PRECISION_LIBRARIES, where it is set."""
    folder = os.environ.get("NPU_PRECISION_LIBRARIES")
    if not folder:
        return []
    libraries = sorted(pathlib.Path(folder).glob("npu_optimizer.tf-*.so"))
    if not libraries:
        raise LinkError(f"NPU_PRECISION_LIBRARIES: there is no library in {folder}")
    return libraries


def build_library() -> pathlib.Path:
    """Brings the library in build/tf-<version>/ up to date and returns it."""
    flags = build_flags.build_flags(
        build_flags.installed_tensorflow(), os.environ.get("NPU_PRECISION_CXXFLAGS", "")
    )
    folder = build_folder() / f"tf-{flags.version}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # Two builds at once would share temporary names.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return compile_and_link(flags, folder)


def compile_and_link(flags: build_flags.BuildFlags, folder: pathlib.Path) -> pathlib.Path:
    embedded = folder / "embedded_configs.cc"
    write_if_changed(embedded, embed_configs.generate(ROOT / "configs"))
    groups = folder / "groups"
    groups.mkdir(exist_ok=True)
    compiled = [embedded.relative_to(ROOT), *write_groups(groups)]
    if for_manylinux():
        compiled.append(OLD_SYMBOLS)
    cxx = shlex.split(os.environ.get("CXX", "g++"))
    system_includes = [flag for path in flags.include_dirs for flag in ("-isystem", path)]
    compiler = [*cxx, *flags.compile, "-I.", *system_includes]
    header = precompile_header(folder, compiler)
    command = [*compiler, "-include", str(header), "-c"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(
            pool.map(lambda source: compile_source(source, groups, command, header), compiled)
        )
    alone = [source for name in SOURCE_FOLDERS for source in sources(name)]
    write_if_changed(
        folder / COMPILE_COMMANDS,
        compile_commands([embedded.relative_to(ROOT), *alone], folder, command),
    )

    # Within a minor version TensorFlow keeps its binary interface.
    minor = ".".join(flags.version.split(".")[:2])
    library = folder / f"npu_optimizer.tf-{minor}.so"
    # Libraries come after the objects that need them: the linker reads from left to right.
    link = [*cxx, *map(str, objects), *flags.grappler_link, *flags.link]
    if for_manylinux():
        link.append("-s")  # Nobody debugs it, and it is a fifth smaller.
    if not is_current(library, link, objects):
        sys.stdout.write(f"linking {library.name}\n")
        run_compiler(link, library, LinkError)
    return library


def report_page() -> list[pathlib.Path]:
    """The page of reports, or nothing where it cannot be built: it alone needs Node.js."""
    try:
        return [build_page.build_page(build_folder())]
    except build_page.PageError as error:
        sys.stderr.write(f"warning: npu-precision report will not work: {error}\n")
        return []


class BuildLibrary(build_ext):
    """Puts library and page into the source tree (--inplace, editable) or into the wheel's."""

    def run(self) -> None:
        libraries = given_libraries() or [build_library()]
        made = [*libraries, *report_page()]
        in_place = self.inplace or self.editable_mode
        if in_place:
            # Other builds may have flags that a reader of the sources does not want: sanitizers.
            commands = libraries[0].with_name(COMPILE_COMMANDS).read_text(encoding="utf-8")
            write_if_changed(ROOT / COMPILE_COMMANDS, commands)
        folder = (ROOT if in_place else pathlib.Path(self.build_lib)) / LIBRARY_FOLDER
        if not in_place:
            # A wheel holds these libraries; one for another TensorFlow may be left from before.
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        old_page = folder / build_page.NAME
        if made == libraries and old_page.exists():  # It may not know this package's data.
            old_page.unlink()
        for file in made:
            partial = folder / (file.name + ".partial")
            shutil.copy2(file, partial)
            os.replace(partial, folder / file.name)
        self.placed = [] if in_place else [str(folder / file.name) for file in made]

    def get_outputs(self) -> list[str]:
        return self.placed

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class BuildPython(build_py):
    """Adds the file by which a Python process applies NPU_PRECISION_MODE, wherever it starts."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file(STARTUP, os.path.join(self.build_lib, STARTUP))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        outputs: list[str] = super().get_outputs(include_bytecode)
        return [*outputs, *([] if self.editable_mode else [os.path.join(self.build_lib, STARTUP)])]


class PlatformWheel(bdist_wheel):
    """The library is loaded by TensorFlow, not by Python: any Python 3, but this platform only."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


setup(
    # Makes the wheel platform specific; the sources are found by build_library.
    ext_modules=[Extension("npu_precision._lib.npu_optimizer", sources=[])],
    cmdclass={
        "build_ext": BuildLibrary,
        "build_py": BuildPython,
        "bdist_wheel": PlatformWheel,
    },
)
