"""Outputs of the command: complete or not at all, whatever interrupts, and apart from inputs."""

from __future__ import annotations

import os

import pytest

from npu_precision import outputs


def written(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize("after", [1, 2])
def test_an_interrupt_between_renames_loses_neither_folder(after, tmp_path, monkeypatch):
    written(tmp_path / "out", "mark", "old")
    rename, done = os.rename, []

    def interrupted(*names):
        rename(*names)
        done.append(names)
        if len(done) == after:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupted)
    folder = outputs.new_folder(tmp_path / "out", force=True, mark=("mark",))
    with pytest.raises(KeyboardInterrupt), folder as made:
        written(made, "mark", "new")
    assert (tmp_path / "out" / "mark").read_text() == ("old" if after == 1 else "new")
    assert os.listdir(str(tmp_path)) == ["out"]


@pytest.mark.parametrize(
    ("written_to", "read", "message"),
    [
        (["a"], ["a"], "what is read"),
        (["a/b"], ["a"], "what is read"),
        (["a"], ["a/b/c"], "what is read"),
        (["a", "./a"], [], "another output"),
        (["a", "a/b"], [], "another output"),
        (["a/b", "a"], [None], "another output"),
    ],
)
def test_outputs_that_overlap_are_refused(written_to, read, message):
    with pytest.raises(ValueError, match=message):
        outputs.check_apart(written_to, read)


def test_outputs_apart_are_fine():
    outputs.check_apart(["a/b", None, "a/c", "ab"], ["d", None, "a/bc"])
