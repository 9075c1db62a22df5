"""`make test-full` remembers what has passed for a commit, and runs the rest."""

from __future__ import annotations

import json
import subprocess
import sys

import full
import pytest

PASSES = ("always passes", [sys.executable, "-c", ""])
FAILS = ("always fails", [sys.executable, "-c", "raise SystemExit(1)"])


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """An empty commit in a folder of its own, on which make test-full runs."""
    monkeypatch.setattr(full, "ROOT", tmp_path)
    monkeypatch.setattr(full, "MEMORY", tmp_path / "build" / "test-full")
    (tmp_path / ".gitignore").write_text("build/\n")
    author = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=str(tmp_path), check=True)
    return tmp_path


@pytest.fixture
def run(monkeypatch, capsys):
    """run(parts, *arguments) -> (status, the names of the parts that ran, the table)."""

    def start(parts, *arguments):
        monkeypatch.setattr(full, "PARTS", parts)
        monkeypatch.setattr(sys, "argv", ["full.py", *arguments])
        status = full.main()
        lines = capsys.readouterr().out.splitlines()
        ran = [line.split()[1].rstrip(":") for line in lines if line.startswith("== ")]
        return status, ran, "\n".join(line for line in lines if line.startswith("  "))

    return start


def test_what_has_passed_is_not_run_again_unless_it_is_named(repository, run):
    parts = {"one": PASSES, "two": FAILS}
    status, ran, table = run(parts)
    assert (status, ran) == (1, ["one", "two"])
    assert "one       passed" in table
    assert "two       FAILED" in table
    assert run(parts)[:2] == (1, ["two"])
    assert run({**parts, "two": PASSES})[:2] == (0, ["two"])
    assert run(parts)[:2] == (0, [])
    assert run(parts, "--parts=one")[:2] == (0, ["one"])


def test_another_commit_has_passed_nothing(repository, run):
    run({"one": PASSES})
    author = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    command = ["git", *author, "commit", "-q", "--allow-empty", "-m", "second"]
    subprocess.run(command, cwd=str(repository), check=True)
    assert run({"one": PASSES})[:2] == (0, ["one"])


def test_nothing_is_remembered_of_a_tree_with_changes(repository, run):
    (repository / "new.py").write_text("")
    assert run({"one": PASSES})[:2] == (0, ["one"])
    assert not (repository / "build").exists()


def test_nothing_is_remembered_of_a_tree_that_was_edited_meanwhile(repository, run):
    edits = ("edits", [sys.executable, "-c", "open('new.py', 'w')"])
    assert run({"edits": edits})[0] == 0
    assert not (repository / "build").exists()


def test_the_seed_is_new_in_each_run_and_remembered(repository, run):
    seeds = set()
    for _ in range(2):
        run({"one": PASSES}, "--parts=one")
        (file,) = (repository / "build" / "test-full").iterdir()
        seeds.add(json.loads(file.read_text())["one"]["seed"])
    assert len(seeds) == 2
    run({"one": PASSES}, "--parts=one", "--seed=7")
    assert json.loads(file.read_text())["one"]["seed"] == 7


def test_an_unknown_part_is_an_error_that_names_the_parts(run, capsys):
    with pytest.raises(SystemExit):
        run({"one": PASSES}, "--parts=won")
    assert "PARTS: unknown part 'won'; the parts are one" in capsys.readouterr().err


def test_a_check_runs_no_part(run):
    assert run({"one": PASSES}, "--parts=one", "--check") == (0, [], "")
    with pytest.raises(SystemExit):
        run({"one": PASSES}, "--parts=won", "--check")
