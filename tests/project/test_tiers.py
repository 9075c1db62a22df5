"""The tiers of tests: what each runs, and that no file drops out of `make test`."""

from __future__ import annotations

import collections

import pytest
from support import ROOT, tiers

MARKED = """
    import pytest

    def test_quick(): pass

    @pytest.mark.slow
    def test_slow(): pass

    @pytest.mark.full
    def test_full(): pass
"""
STARTS_A_PROCESS = """
    import subprocess

    def test_quick(): subprocess.run(["true"])
"""
CORPUS = """
    from support.tiers import corpus_seeds

    def test_seeds(): print("seeds:", list(corpus_seeds(50)))
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """run(*flags, path=text of a test file, ...) -> pytest's result with the tiers' plugin."""
    monkeypatch.setattr(tiers, "_chosen", dict(tiers._chosen))
    pytester.makeini("[pytest]\nmarkers =\n  slow\n  full\n")

    def start(*flags, **files):
        for path, text in files.items():
            file = pytester.path / "tests" / (path.replace("__", "/") + ".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(line[4:] for line in text.splitlines()) + "\n")
        return pytester.runpytest_inprocess("-p", "support.tiers", "-p", "no:xdist", *flags)

    return start


@pytest.mark.parametrize(("tier", "passed"), [("fast", 1), ("test", 2), ("full", 3)])
def test_a_tier_leaves_out_what_is_marked(run, tier, passed):
    run(f"--tier={tier}", passes__test_x=MARKED).assert_outcomes(
        passed=passed, deselected=3 - passed
    )


def test_the_tier_is_that_of_make_test_if_none_is_named(run):
    run(passes__test_x=MARKED).assert_outcomes(passed=2, deselected=1)


def test_the_fast_tier_leaves_out_whole_rooms_and_does_not_import_them(run):
    files = {"passes__test_x": MARKED, "models__test_y": "    raise Exception"}
    run("--tier=fast", **files).assert_outcomes(passed=1, deselected=2)
    run(**files).assert_outcomes(errors=1)


def test_every_file_has_a_test_that_is_in_make_test(run):
    text = "    import pytest\n    pytestmark = pytest.mark.full\n    def test_x(): pass\n"
    result = run("--tier=full", passes__test_x=text, passes__test_y=MARKED)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*test_x.py: every test is marked full; give `make test` one"])


def test_each_file_has_a_name_of_its_own():
    """Of two files of one name, pytest imports the first in a run, and refuses the other."""
    names = collections.Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_a_test_that_starts_a_process_is_not_for_the_fast_tier(run):
    run("--tier=fast", passes__test_x=STARTS_A_PROCESS).assert_outcomes(failed=1)
    run(passes__test_x=STARTS_A_PROCESS).assert_outcomes(passed=1)


@pytest.mark.parametrize(("tier", "last"), [("fast", 0), ("test", 4)])
def test_the_tier_says_how_large_a_corpus_is(run, tier, last):
    result = run(f"--tier={tier}", "-s", passes__test_x=CORPUS)
    result.stdout.fnmatch_lines([f"*seeds: {list(range(last + 1))}".replace("[", "[[]")])


def test_a_seed_that_is_named_moves_the_corpus(run):
    result = run("--hypothesis-seed=7", "-s", passes__test_x=CORPUS)
    result.stdout.fnmatch_lines(["tier: test, --hypothesis-seed=7"])
    result.stdout.no_fnmatch_line("*seeds: [[]0, *")
    assert result.ret == 0
