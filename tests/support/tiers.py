"""The tiers of tests, as a pytest plugin: --tier=fast, test (the default), full or gpu.

    fast   for use while editing: no other process, no browser, no training, tiny corpora
    test   every change must pass it: every file of tests takes part
    full   everything, with large random corpora; from new seeds if --hypothesis-seed names one
    gpu    on a GPU: those of fast, and what else computes on it; see support/gpu.py

Two marks say which tests the smaller tiers leave out. A test is `slow` if fast leaves it out. It is
`full` if only the full tier runs it; its file has a short case of the same kind without the mark.

A random corpus asks here for its size.
"""

from __future__ import annotations

import subprocess
import zlib

import pytest
from hypothesis import HealthCheck, settings

from support.tf_versions import LARGEST_SHARE

# By tier: the marks that it leaves out, the share of a random corpus, and the minutes that a run
# may take on two quiet cores; of gpu, on 16 beside a GPU. The minutes are only shown: no run fails
# because it takes longer.
TIERS = {
    "fast": (("slow", "full"), 0.02, 2),
    "test": (("full",), 0.1, 12),
    "full": ((), 1.0, 60),
    "gpu": (("slow", "full"), 0.02, 5),
}

# The rooms where every test is slow, and why. The fast tier does not even import them.
SLOW_ROOMS = {
    "accuracy": "runs whole models",
    "amp": "trains",
    "ascend_scripts": "runs whole scripts, several times",
    "cli": "reads, freezes and runs whole models",
    "explain": "reads whole models",
    "handoffs": "converts whole models",
    "launch": "starts whole programs",
    "launchers": "starts Ray",
    "loss_scaling": "trains",
    "models": "builds, runs and trains whole models",
    "page": "starts a browser, or a Node.js",
    "project": "starts compilers and scripts",
    "training": "trains",
    "tuning": "runs whole models, many times",
}
# By room or file that the tier gpu has too: the marks that it leaves out there.
GPU_TOO = {
    "accuracy": ("full",),
    "amp": ("full",),
    "cli/test_compare.py": ("full",),
    "cli/test_compare_outputs.py": ("full",),
    "cli/test_doctor.py": ("full",),
    "cli/test_tune.py": ("full",),
    "flight": ("full",),
    "guard": ("full",),
    "loss_scaling": ("full",),
    "models/test_numerics_corpus.py": (),
    "training/test_comparer.py": ("full",),
    "tuning": ("full",),
}
# A test that asks for one of these starts a process.
SLOW_FIXTURES = {"chromium", "pipeline_driver", "run_cold_python", "run_python", "run_workers"}

_chosen = {"tier": "test", "seed": None}


def corpus_size(count: int) -> int:
    """How many of the `count` examples of a corpus run in the tier: at least one."""
    return max(1, round(count * min(TIERS[_chosen["tier"]][1], LARGEST_SHARE)))


def corpus_seeds(count: int) -> range:
    """The seeds of a corpus of `count` examples: from 0, or from a number by --hypothesis-seed."""
    seed = _chosen["seed"]
    first = 0 if seed is None else zlib.crc32(str(seed).encode()) % 2**31
    return range(first, first + corpus_size(count))


def corpus_settings(count: int) -> settings:
    """The settings of hypothesis for a corpus of `count` examples.

    The examples are the same in each run. Only with --hypothesis-seed, which derandomize would
    ignore, they follow from that seed.
    """
    return settings(
        max_examples=corpus_size(count),
        derandomize=_chosen["seed"] is None,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def mostly_full(values, short):
    """The values for parametrize: those in `short` are in `make test`, the others are full.

    `short` names a pytest.param by its id.
    """
    params = {}
    for value in values:
        if isinstance(value, type(pytest.param())):
            params[value.id] = value
        else:
            params[value] = pytest.param(value)
    assert set(short) < set(params), sorted(set(short) - set(params))
    return [
        param if name in short else param._replace(marks=[*param.marks, pytest.mark.full])
        for name, param in params.items()
    ]


def pytest_addoption(parser):
    """Adds --tier."""
    parser.addoption("--tier", choices=sorted(TIERS), default="test", help="which tests to run")


def pytest_configure(config):
    """Notes the tier before any test module is imported."""
    _chosen.update(tier=config.getoption("tier"), seed=config.getoption("hypothesis_seed", None))


def pytest_report_header(config):
    """The tier and the flag that repeats the run."""
    seed = _chosen["seed"]
    return f"tier: {_chosen['tier']}" + (f", --hypothesis-seed={seed}" if seed is not None else "")


def room_of(nodeid):
    """The room of a test, by its id or its path; "" for a file beside the rooms."""
    folders = nodeid.split("::")[0].split("/")
    return folders[1] if len(folders) > 2 else ""


def _gpu_too(nodeid):
    """The marks that the tier gpu leaves out in this file, or None if it is as the fast one."""
    path = nodeid.split("::")[0].partition("/")[2]
    return GPU_TOO.get(path, GPU_TOO.get(room_of(nodeid)))


def pytest_ignore_collect(collection_path, config):
    """Keeps a small tier from importing what it leaves out."""
    tier = config.getoption("tier")
    if tier not in ("fast", "gpu") or config.rootpath not in collection_path.parents:
        return None
    relative = collection_path.relative_to(config.rootpath).as_posix()
    if tier == "gpu" and _gpu_too(relative) is not None:
        return None
    return room_of(relative) in SLOW_ROOMS or None


def pytest_itemcollected(item):
    """Marks as slow what is, by its room or by what it asks for."""
    if room_of(item.nodeid) in SLOW_ROOMS or SLOW_FIXTURES & set(item.fixturenames):
        item.add_marker("slow")


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    """Fails a file whose tests are all `full`: every file takes part in `make test`."""
    outcome = yield
    report = outcome.get_result()
    tests = report.result if isinstance(collector, pytest.Module) and report.passed else []
    if tests and all(test.get_closest_marker("full") for test in tests):
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid}: every test is marked full; give `make test` one"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Deselects the tests that the tier leaves out."""
    tier = config.getoption("tier")
    kept, left_out = [], []
    for item in items:
        too = _gpu_too(item.nodeid) if tier == "gpu" else None
        marks = TIERS[tier][0] if too is None else too
        (left_out if any(map(item.get_closest_marker, marks)) else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.fixture(autouse=True)
def _no_process_in_the_fast_tier(request, monkeypatch):
    if request.config.getoption("tier") == "fast":

        def refuse(*_, **__):
            pytest.fail("a test of the fast tier starts a process: mark it slow")

        monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
