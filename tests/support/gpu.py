"""pytest --tier=gpu: the tests that compute on a GPU, and what is different there.

    make test-gpu                                      all of them
    make test-gpu GPU_FLAGS="--failed-from build/gpu/tests.xml"
    make test-gpu GPU_FLAGS=--rehearse                 one in 50 of them, on a CPU

Golden graphs are of a CPU: in their rooms, nodes without a device are decided for one, on any
machine. Where there is a GPU, check_rewrite() decides such graphs for it too, and runs them on it.

A test that is about the kernels or the passes of CPUs says so, and why: @pytest.mark.cpu("..."). It
is skipped where TensorFlow sees a GPU.

A rehearsal needs no GPU. Decisions are as beside one, and the CPU computes: it shows which tests
know only a CPU's decisions.
"""

from __future__ import annotations

import contextlib
import pathlib
import re

import pytest
import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision._tf_compat import graphs
from support.devices import decided_for
from support.tiers import room_of

# A rehearsal runs one in so many tests.
_REHEARSED = 50
_RESULTS = pathlib.Path("build", "gpu", "tests.xml")
GOLDEN_ROOMS = ("control_flow", "lists", "passes", "random")

# What TensorFlow says where a CPU lacks a kernel or a part of it.
_LACKS = re.compile(
    "No OpKernel was registered|Fusion is not implemented|Op does not support .* inputs"
)

_devices_of_this_machine = graphs._device_names
# Whether the tests run beside a GPU, or as if they did.
_beside_a_gpu = {"rehearsed": False}


def rehearses():
    """Whether a CPU computes what is decided for a GPU."""
    return _beside_a_gpu["rehearsed"]


def device_names():
    """The devices that graphs are decided for, as "CPU:0"."""
    return [*_devices_of_this_machine(), *(["GPU:0"] if rehearses() else [])]


def is_beside_a_gpu():
    """Whether there is a GPU, or a rehearsal is as if there were."""
    return any(name.startswith("GPU:") for name in device_names())


@contextlib.contextmanager
def without_what_only_a_gpu_has():
    """Context that ends where a rehearsal needs a kernel that CPUs lack."""
    try:
        yield
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
        if not rehearses() or not _LACKS.search(str(error)):
            raise


def pytest_addoption(parser):
    """Adds --rehearse."""
    parser.addoption(
        "--rehearse",
        nargs="?",
        type=int,
        const=_REHEARSED,
        metavar="N",
        help=f"without a GPU: --tier=gpu, decided for a GPU; one in N tests, if neither --only nor "
        f"--failed-from says which; {_REHEARSED}",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Refuses to pass for a test of a GPU where there is none."""
    tier, one_in = config.getoption("tier"), config.getoption("rehearse")
    rehearsed = one_in is not None
    if rehearsed and tier != "gpu":
        raise pytest.UsageError(f"--rehearse: got --tier={tier}, expected gpu")
    if rehearsed and one_in < 1:
        raise pytest.UsageError(f"--rehearse: got {one_in}, expected 1 or more")
    if rehearsed and _tf_compat.has_gpu():
        raise pytest.UsageError("--rehearse: TensorFlow sees a GPU here; leave it out")
    if tier == "gpu" and not rehearsed and not _tf_compat.has_gpu():
        raise pytest.UsageError(
            f"--tier=gpu: TensorFlow {tf.__version__} sees no GPU here; --rehearse runs some of "
            "its tests on the CPU"
        )
    if tier == "gpu" and config.getoption("results") is None:
        config.option.results = config.rootpath / _RESULTS
    _beside_a_gpu["rehearsed"] = rehearsed
    # A product in TF32 has 10 bits of precision, and tests compare float32's with numpy's.
    if _tf_compat.has_gpu():
        tf.config.experimental.enable_tensor_float_32_execution(False)
    graphs._device_names = device_names


def pytest_unconfigure():
    """Graphs are converted for the devices of this machine again."""
    graphs._device_names = _devices_of_this_machine


def pytest_report_header(config):
    """The devices of --tier=gpu."""
    return f"devices: {', '.join(device_names())}" if config.getoption("tier") == "gpu" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Skips the tests of CPUs beside a GPU; a rehearsal keeps some of all."""
    chosen = config.getoption("only") or config.getoption("failed_from")
    one_in = 1 if chosen else config.getoption("rehearse") or 1
    config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % one_in])
    items[:] = items[::one_in]
    for item in items if is_beside_a_gpu() else ():
        for mark in item.iter_markers("cpu"):
            item.add_marker(pytest.mark.skip(reason=f"about CPUs: {mark.args[0]}"))


@pytest.fixture(autouse=True)
def _golden_graphs_are_decided_for_a_cpu(request):
    is_golden = room_of(request.node.nodeid) in GOLDEN_ROOMS
    with decided_for(["CPU:0"]) if is_golden and is_beside_a_gpu() else contextlib.nullcontext():
        yield
