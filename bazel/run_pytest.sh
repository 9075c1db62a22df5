#!/usr/bin/env bash
# Runs pytest on files of the project, against the library that Bazel built.
# Usage: run_pytest.sh PYTHON LIBRARY PIPELINE_DRIVER PYTEST_ARGUMENT...
set -euo pipefail
python=$1 library=$2 driver=$3
shift 3
# Takes the place of npu_precision/_lib, which Bazel does not know.
export NPU_PRECISION_LIBRARY="$PWD/$library"
export NPU_PRECISION_PIPELINE_DRIVER="$PWD/$driver"
# The package under test is the one among Bazel's declared inputs, not an installed one.
export PYTHONPATH="$PWD"
export HOME="$TEST_TMPDIR"
exec "$PWD/$python" -m pytest -p no:cacheprovider --basetemp="$TEST_TMPDIR/pytest" "$@"
