"""Outputs of the command: complete or absent, even if interrupted, and never over an input."""

from __future__ import annotations

import errno
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


def full(path):
    """A file on a full disk."""
    path.symlink_to("/dev/full")
    return path


@pytest.mark.parametrize("failing", ["page", "plot"])
def test_a_full_disk_is_an_error_with_the_name_of_the_output_and_leaves_nothing(failing, tmp_path):
    def write():
        page, plot = outputs.new_file(tmp_path / "page"), outputs.new_file(tmp_path / "plot")
        with page as page_file, plot as plot_file:
            for file in (page_file, plot_file):
                (full(file) if file.name == failing else file).write_text("text")

    with pytest.raises(OSError, match="No space left") as caught:
        write()
    assert caught.value.filename == str(tmp_path / failing)
    assert list(tmp_path.iterdir()) == []


def test_in_a_folder_a_full_disk_is_an_error_with_the_name_of_the_folder(tmp_path):
    def write():
        with outputs.new_folder(tmp_path / "logs") as outer, outputs.new_folder(outer) as inner:
            inner.mkdir()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(inner / "events"))

    with pytest.raises(OSError, match="No space left") as caught:
        write()
    assert caught.value.filename == str(tmp_path / "logs")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_elsewhere_is_not_blamed_on_an_output(tmp_path):
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/elsewhere/file")
    with pytest.raises(OSError, match="No space left") as caught, outputs.new_file(tmp_path / "x"):
        raise error
    assert caught.value is error


def test_nothing_written_is_an_error_unless_the_file_is_not_required(tmp_path):
    with pytest.raises(FileNotFoundError), outputs.new_file(tmp_path / "a"):
        pass
    (tmp_path / "b").write_text("mine")
    with outputs.new_file(tmp_path / "b", force=True, required=False):
        pass
    assert (tmp_path / "b").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
