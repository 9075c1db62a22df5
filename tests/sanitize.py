"""Builds library and test programs with sanitizers, apart from the others, and runs tests on them.

`make sanitize` runs this. Arguments go to pytest. The library of `make build` stays as it is:
all outputs are in build/sanitize, and NPU_PRECISION_LIBRARY names the library there. The status is
not 0 if a test fails, or if AddressSanitizer reports anything, in pytest or in a process that a
test started. An error that UndefinedBehaviorSanitizer finds ends the process and fails the test.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "sanitize"
REPORTS = BUILD / "reports"

FLAGS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",  # Undefined behaviour ends the process, so the test fails.
    # TensorFlow's headers (absl) lay out hash tables in another way if they see this macro, and its
    # library, compiled without, would read ours wrongly. The code is instrumented all the same.
    "-U__SANITIZE_ADDRESS__",
    "-O1",
    "-g1",  # Line numbers in reports.
    "-fno-omit-frame-pointer",
]
# These options only switch off reports about other libraries, none about ours.
OPTIONS = {
    # No leak reports: Python and TensorFlow never free some memory. Abort on an error: the default
    # status is 1, with which a test program reports that it refuses a graph.
    "ASAN_OPTIONS": f"detect_leaks=0:abort_on_error=1:log_path={REPORTS / 'report'}",
    "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",  # Next to ASan it has no log_path.
}
# Rooms and files that do not test C++, or run only C++ that other tests run too. A browser does not
# start if AddressSanitizer is loaded before it.
LEFT_OUT = [
    "models",
    "page",
    "project",
    "cli/test_cli_docs.py",
    "cli/test_command.py",
    "loss_scaling/test_loss_scaled_training.py",
    "random/test_random_graph_checks.py",
    "random/test_random_graphs.py",
    "random/test_random_sessions.py",
    "npu_bridge/test_estimator.py",
]


def compiler_file(name):
    command = [*os.environ.get("CXX", "g++").split(), f"-print-file-name={name}"]
    return subprocess.check_output(command, universal_newlines=True).strip()


def main(arguments):
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir(parents=True)
    environment = {
        **os.environ,
        "NPU_PRECISION_CXXFLAGS": " ".join(FLAGS),
        "NPU_PRECISION_BUILD": str(BUILD.relative_to(ROOT)),
    }
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", str(BUILD)]
    subprocess.run(build, cwd=str(ROOT), env=environment, check=True)

    (library,) = (BUILD / "npu_precision" / "_lib").glob("npu_optimizer.tf-*.so")
    environment["NPU_PRECISION_LIBRARY"] = str(library)
    # Python itself is not linked with the sanitizer, so the sanitizer is preloaded, as the first
    # library. It wraps functions of libstdc++. Without libstdc++ loaded next to it, it would not
    # find them, and end the process at the first exception.
    libraries = [compiler_file("libasan.so"), compiler_file("libstdc++.so")]
    environment["LD_PRELOAD"] = " ".join(libraries)
    environment.update(OPTIONS)
    # Without pytest's faulthandler, whose signal handler would come before the sanitizer's. With
    # --capture=sys, UBSan's report on stderr is not lost if pytest dies.
    pytest = [sys.executable, "-m", "pytest", "-p", "no:faulthandler", "--capture=sys"]
    pytest += [f"--ignore=tests/{name}" for name in LEFT_OUT]
    status = subprocess.run([*pytest, *arguments], cwd=str(ROOT), env=environment).returncode

    reports = sorted(REPORTS.iterdir())
    for report in reports:
        print(report.read_text(errors="replace"))
    print(f"make sanitize: {len(reports)} reports in {REPORTS.relative_to(ROOT)}")
    return status or bool(reports)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
