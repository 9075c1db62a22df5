"""The workflow, the hooks and .editorconfig agree with .ci/run, `make lint` and the formatters."""

import itertools
import json
import re
import subprocess
import sys

import pytest
from support import ROOT

# Bazel's tests see only the inputs that it declares.
pytestmark = pytest.mark.skipif(not (ROOT / ".github").exists(), reason="needs a whole checkout")

WORKFLOW = ".github/workflows/ci.yml"
HOOKS = ".pre-commit-config.yaml"


def read_yaml(path):
    return pytest.importorskip("yaml").safe_load((ROOT / path).read_text())


# The workflow.


def each_session(command):
    """`nox -s a b -- flags` as a command for each session; other commands unchanged."""
    before, option, after = command.partition("nox -s ")
    if not option:
        return [command]
    sessions, dashes, flags = after.partition(" -- ")
    return [f"{before}{option}{session}{dashes}{flags}" for session in sessions.split()]


def commands(text):
    """The commands of make and of .venv in a shell script."""
    lines = (line.strip() for line in text.splitlines())
    found = (each_session(line) for line in lines if line.startswith(("make ", ".venv/bin/")))
    return set(itertools.chain.from_iterable(found))


def test_workflow_runs_the_steps_of_ci_run():
    (job,) = read_yaml(WORKFLOW)["jobs"].values()
    wanted = commands((ROOT / ".ci/run").read_text())
    assert wanted
    run = set()
    for row in job["strategy"]["matrix"]["include"]:
        for step in job["steps"]:
            run |= commands(step.get("run", "").replace("${{ matrix.run }}", row["run"]))
    assert run == wanted


def test_actions_are_pinned_to_commits():
    used = re.findall(r"\buses: *(.*)", (ROOT / WORKFLOW).read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", action)


def test_workflow_may_only_read_and_ends_in_time():
    workflow = read_yaml(WORKFLOW)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "permissions" not in job
        assert job["timeout-minutes"] <= 90


# The hooks.


def hooks():
    return [hook for repo in read_yaml(HOOKS)["repos"] for hook in repo["hooks"]]


def linter(command):
    """The check that a command of `make lint` or a hook runs: its tool and selecting flags."""
    found = re.findall(
        r"bin/(ruff (?:check|format)|mypy|clang-format|tsc|prettier)\b"
        r"|bin/(check-jsonschema) .*?(--builtin-schema \S+)",
        command,
    )
    assert len(found) == 1, f"not a linter that this test knows: {command}"
    return " ".join(filter(None, found[0]))


def test_hooks_are_the_linters_of_make_lint():
    up_to_date = ["--old-file=.venv/.requirements", "--old-file=page-packages"]
    printed = subprocess.run(
        ["make", "--dry-run", *up_to_date, "lint"],
        cwd=str(ROOT),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    lines = [line for line in printed.splitlines() if not line.startswith("make")]
    assert sorted(map(linter, lines)) == sorted(linter(hook["entry"]) for hook in hooks())


def test_hooks_fetch_nothing_and_change_nothing():
    repos = read_yaml(HOOKS)["repos"]
    assert {repo["repo"] for repo in repos} == {"local"}
    assert {hook["language"] for hook in hooks()} == {"system"}
    for hook in hooks():
        assert hook["entry"].startswith(".venv/bin/")
        assert not re.search(r"--(fix|write)| -i\b", hook["entry"])


def test_pre_commit_accepts_the_hooks():
    pytest.importorskip("pre_commit")
    command = [sys.executable, "-m", "pre_commit", "validate-config", HOOKS]
    subprocess.run(command, cwd=str(ROOT), check=True)


# The editor.


def editor_settings():
    """The settings of .editorconfig, by pattern."""
    sections = re.split(r"^\[(.*)\]$", (ROOT / ".editorconfig").read_text(), flags=re.MULTILINE)
    return {
        pattern: dict(re.findall(r"^(\w+) = (\S+)$", text, flags=re.MULTILINE))
        for pattern, text in zip(sections[1::2], sections[2::2])
    }


def test_editors_agree_with_the_formatters():
    settings = editor_settings()
    ruff = re.search(r"\nline-length = (\d+)\n", (ROOT / "pyproject.toml").read_text())
    clang_format = re.search(r"\nColumnLimit: (\d+)\n", (ROOT / ".clang-format").read_text())
    prettier = json.loads((ROOT / "report_page/package.json").read_text())["prettier"]
    assert settings["*.py"] == {"indent_size": "4", "max_line_length": ruff.group(1)}
    assert settings["*.{cc,h}"] == {"max_line_length": clang_format.group(1)}
    assert settings["*.{ts,css}"] == {"max_line_length": str(prettier["printWidth"])}
    assert settings["*"]["indent_size"] == "2"  # Google's style of C++, and prettier's default.
    assert settings["Makefile"] == {"indent_style": "tab"}


def test_every_file_is_as_editors_would_leave_it():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=str(ROOT), stdout=subprocess.PIPE)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    names = filter(None, listed.stdout.decode().split("\0"))
    odd = []
    for path in (ROOT / name for name in names):
        # A file that is deleted but not yet committed is no file.
        content = path.read_bytes() if path.is_file() else b""
        if b"\0" in content or not content:
            continue
        text = content.decode("utf-8")
        tabs = path.name != "Makefile" and re.search(r"^ *\t", text, re.MULTILINE)
        blanks = re.search(r"[ \t\r]$", text, re.MULTILINE)
        if tabs or blanks or not text.endswith("\n"):
            odd.append(path.name)
    assert odd == []
