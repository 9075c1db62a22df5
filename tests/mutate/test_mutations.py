"""Each mutation in the list still applies to the files as they are, and names existing tests."""

from __future__ import annotations

import ast
import collections
import functools

import pytest

from mutate import __main__ as make_mutate
from mutate.list_of_mutations import MUTATIONS
from mutate.mutation import ROOT, Mutation


def test_names_are_unique():
    counts = collections.Counter(mutation.name for mutation in MUTATIONS)
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_applies(mutation):
    assert mutation.problem() is None
    assert mutation.new != mutation.old
    assert mutation.breaks.endswith(".")
    assert mutation.tests
    for test in mutation.tests:
        assert_exists(test)


def assert_exists(test):
    """Fails unless `make test` runs it: the file has the test and, with parameters, the id."""
    file, _, name = test.partition("::")
    name, bracket, parameter = name.partition("[")
    text, tests = names_of_tests(file)
    assert not name or name in tests, test
    assert not name or not tests[name], f"{test} is in `make test-full` alone"
    # An id of strings, which is what mutations name, is there as a text.
    if bracket:
        assert parameter[-1] == "]", test
        assert f'"{parameter[:-1]}"' in text, test


@functools.lru_cache(maxsize=None)
def names_of_tests(file):
    """The text of a file below tests/, and of each of its tests whether it is marked full."""
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    nodes = ast.parse(text).body
    return text, {
        node.name: any(getattr(each, "attr", "") == "full" for each in node.decorator_list)
        for node in nodes
        if isinstance(node, ast.FunctionDef)
    }


@pytest.fixture
def outcome(tmp_path, monkeypatch):
    """outcome(mutation, status of pytest) -> the outcome in a project of one file."""
    original = tmp_path / "original"
    original.mkdir()
    (original / "file.py").write_text("a = 1\nb = 2\nb = 2\n")
    seen = []

    def run(mutation, status):
        def run_tests(copy, tests, *_):
            seen.append(((copy / "file.py").read_text(), tests))
            return status, "printed"

        monkeypatch.setattr(make_mutate, "run_tests", run_tests)
        told = make_mutate.outcome_of(mutation, original, tmp_path / f"copy{len(seen)}")[0]
        assert (original / "file.py").read_text() == "a = 1\nb = 2\nb = 2\n"
        return told, seen

    return run


def mutation_of(old):
    return Mutation("file/it", "file.py", old, "a = 3", "It breaks.", ("test_it.py",))


@pytest.mark.parametrize(
    ("status", "expected"), [(0, "NOT NOTICED"), (1, "noticed"), (2, "NO ANSWER"), (-11, "noticed")]
)
def test_the_status_of_the_tests_tells_whether_it_is_noticed(outcome, status, expected):
    told, seen = outcome(mutation_of("a = 1"), status)
    assert told == expected
    assert seen == [("a = 3\nb = 2\nb = 2\n", ["test_it.py"])]


@pytest.mark.parametrize("old", ["b = 2", "c = 3"])
def test_a_text_that_is_not_there_exactly_once_no_longer_applies(outcome, old):
    assert outcome(mutation_of(old), 1) == ("NO LONGER APPLIES", [])


def test_what_a_mutation_leaves_unused_in_cxx_is_no_error(tmp_path, monkeypatch):
    original = tmp_path / "original"
    original.mkdir()
    (original / "file.cc").write_text("Use(a);\n")
    built = []
    monkeypatch.setattr(
        make_mutate, "build", lambda copy: built.append((copy / "file.cc").read_text())
    )
    monkeypatch.setattr(make_mutate, "run_tests", lambda *_: (1, "printed"))
    mutation = Mutation("file/it", "file.cc", "Use(a);", "", "It breaks.", ("test_it.py",))
    assert make_mutate.outcome_of(mutation, original, tmp_path / "copy")[0] == "noticed"
    assert built == ['#pragma GCC diagnostic warning "-Wunused"\n\n']


def test_a_pass_without_mutations_is_told_apart_from_an_unknown_name(monkeypatch, capsys):
    monkeypatch.setattr(
        make_mutate, "MUTATIONS", [each for each in MUTATIONS if "same_padding" not in each.name]
    )
    for name, message in (
        ("same_padding", "--only: same_padding has no mutations"),
        ("same_paddin", "and no file is named so; did you mean 'same_padding'?"),
        ("xyzzy", "no mutation has 'xyzzy' in its name, and no file is named so\n"),
    ):
        monkeypatch.setattr("sys.argv", ["mutate", "--only", name])
        with pytest.raises(SystemExit):
            make_mutate.main()
        assert message in capsys.readouterr().err
