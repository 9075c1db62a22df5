"""The compiler and linker flags of the library for one TensorFlow, each with its reason.

The one source of them: setup.py imports this module, Bazel's repository rule
(bazel/tensorflow.bzl) runs it and reads the JSON that it prints.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import sys
from typing import NamedTuple


class TensorFlowBuild(NamedTuple):
    """What the installed TensorFlow says about how it was built (tf.sysconfig)."""

    version: str
    compile_flags: list[str]
    link_flags: list[str]


class BuildFlags(NamedTuple):
    """How to build the library; include_dirs are absolute, to be given as -isystem."""

    version: str
    include_dirs: list[str]
    compile: list[str]
    # Before `link`, for what uses Grappler: the library, not the passes alone.
    grappler_link: list[str]
    link: list[str]


OWN_COMPILE_FLAGS = [
    "-O2",  # A model starts after the rewrite, and graphs have up to 100 000 nodes.
    "-fno-math-errno",  # A square root that may set errno is no vector instruction.
    "-DNDEBUG",  # As TensorFlow's wheels are compiled: some of its headers' inline code asks.
    "-fPIC",  # It goes into a shared library.
    "-fvisibility=hidden",  # Exports only what is marked: no clash with another plug-in's symbols.
    "-Wall",
    "-Wextra",
    "-Werror",  # A warning is fixed when it appears; TensorFlow's headers are exempt (-isystem).
    # Names that every supported TensorFlow has (tensorflow::Status) are deprecated in the newest.
    "-Wno-deprecated-declarations",
]

OWN_LINK_FLAGS = [
    "-shared",
    "-Wl,--no-undefined",  # A symbol this TensorFlow lacks fails the build, not the user's import.
]

_PYWRAP = "python/_pywrap_tensorflow_internal.so"


def installed_tensorflow() -> TensorFlowBuild:
    """Asks the TensorFlow that this Python imports; exits with a sentence when there is none."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # A build log needs no word on GPUs.
    try:
        import tensorflow as tf
    except ImportError as error:
        sys.exit(
            f"npu_precision is compiled against the TensorFlow of the Python that builds it, and "
            f"{sys.executable} cannot import one ({error}). Run `make build`, which sets up an "
            f"environment, or install TensorFlow for this Python first."
        )
    return TensorFlowBuild(
        tf.__version__, tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags()
    )


def version_defines(version: str, include_dir: pathlib.Path) -> list[str]:
    """Returns -D flags for the version macros that newer TensorFlows (2.21) leave to the builder.

    Raises:
      ValueError: version does not look like 2.21.0, 2.21.0-rc1 or 2.21.0.dev20260101.
    """
    if not (include_dir / "tensorflow/core/public/release_version.h").exists():
        return []
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(.*)", version)
    if match is None:
        raise ValueError(f"TensorFlow version {version!r} is not of the form MAJOR.MINOR.PATCH")
    major, minor, patch, suffix = match.groups()
    return [
        f"-DTF_MAJOR_VERSION={major}",
        f"-DTF_MINOR_VERSION={minor}",
        f"-DTF_PATCH_VERSION={patch}",
        f'-DTF_VERSION_SUFFIX="{suffix}"',
    ]


def build_flags(tensorflow: TensorFlowBuild, extra: str = "") -> BuildFlags:
    """Returns the flags for that TensorFlow; extra is shell-quoted and wins, as it comes last."""
    include_dir = _flag_value(tensorflow.compile_flags, "-I")
    library_dir = _flag_value(tensorflow.link_flags, "-L")
    compile_flags = [flag for flag in tensorflow.compile_flags if not flag.startswith("-I")]
    if not any(flag.lstrip("-").startswith("std=") for flag in compile_flags):
        # None is named up to 2.10. They export absl::string_view, which C++17 makes another type,
        # and 2.10 alone was compiled as C++17.
        is_2_10 = tensorflow.version.startswith("2.10.")
        compile_flags.append("-std=c++17" if is_2_10 else "-std=c++14")
    compile_flags += version_defines(tensorflow.version, include_dir)
    link_flags = list(tensorflow.link_flags)
    grappler_link_flags = []
    if (library_dir / "libtensorflow_cc.so.2").exists():
        # TensorFlow 2 keeps half of what the framework library used to export in this one.
        link_flags.append("-l:libtensorflow_cc.so.2")
    elif (library_dir / _PYWRAP).exists():
        # TensorFlow 1.15 has Grappler twice: in the framework library, and in Python's extension,
        # whose copy runs. Their hash tables differ, so a mix of the two crashes.
        grappler_link_flags.append(f"-l:{_PYWRAP}")
    extra_flags = shlex.split(extra)
    return BuildFlags(
        version=tensorflow.version,
        # RE2's headers are not on TensorFlow's own include path, but are in its wheel.
        include_dirs=[str(include_dir), str(include_dir / "external/com_googlesource_code_re2")],
        compile=OWN_COMPILE_FLAGS + compile_flags + extra_flags,
        grappler_link=grappler_link_flags,
        link=OWN_LINK_FLAGS + link_flags + extra_flags,
    )


def _flag_value(flags: list[str], prefix: str) -> pathlib.Path:
    return pathlib.Path(next(flag[len(prefix) :] for flag in flags if flag.startswith(prefix)))


if __name__ == "__main__":
    print(json.dumps(build_flags(installed_tensorflow())._asdict()))
