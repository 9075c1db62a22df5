"""Writes files and folders completely or not at all, and replaces others only if asked to."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator


def check_apart(written: Iterable[str | None], read: Iterable[str | None]) -> None:
    """Checks that outputs do not overlap each other or the inputs.

    Two paths overlap if they are equal or if one contains the other.

    Args:
        written: the names of the outputs; None for outputs that are not wanted.
        read: the names of input files and folders, or None.

    Raises:
        ValueError: two overlap.
    """
    taken = [pathlib.Path(os.path.realpath(name)) for name in read if name is not None]
    others: list[pathlib.Path] = []
    for name in written:
        if name is None:
            continue
        path = pathlib.Path(os.path.realpath(name))
        if any(_overlap(path, each) for each in taken):
            raise ValueError(
                f"output {name!r} is, is in, or holds what is read; expected another name"
            )
        if any(_overlap(path, each) for each in others):
            raise ValueError(
                f"output {name!r} is, is in, or holds another output; expected names apart"
            )
        others.append(path)


def _overlap(one: pathlib.Path, other: pathlib.Path) -> bool:
    return one == other or one in other.parents or other in one.parents


@contextlib.contextmanager
def new_file(
    path: str | os.PathLike[str], force: bool = False, required: bool = True
) -> Iterator[pathlib.Path]:
    """Context of a file to write, which appears under its name only when it is complete.

    Entering checks that the file can be written, before hours of work.

    Args:
        path: its name; missing parent folders are created.
        force: whether to replace an existing file.
        required: whether writing nothing is an error; otherwise an existing file stays.

    Raises:
        FileExistsError: the file exists and force is not set, or a folder has the name.
        OSError: the file cannot be written.
    """
    target = pathlib.Path(os.path.realpath(str(path)))  # A link stays, and points to the new file.
    is_folders = str(path).endswith(os.sep)
    if is_folders or str(path) == "-" or (target.exists() and not target.is_file()):
        raise FileExistsError(f"output {str(path)!r} is no file, expected the name of one")
    if target.exists() and not force:
        raise FileExistsError(f"output {str(path)!r} exists; --force replaces it")
    with _beside(target) as folder:
        written = folder / target.name
        yield written
        if not required and not written.exists():
            return
        if target.exists():
            shutil.copymode(str(target), str(written))
        os.replace(written, target)


@contextlib.contextmanager
def optional_file(
    path: str | None, force: bool = False, required: bool = True
) -> Iterator[pathlib.Path | None]:
    """The same as new_file, or None if there is no path."""
    if path is None:
        yield None
        return
    with new_file(path, force, required) as file:
        yield file


@contextlib.contextmanager
def new_folder(
    path: str | os.PathLike[str], force: bool = False, mark: tuple[str, ...] = ()
) -> Iterator[pathlib.Path]:
    """Context of a folder to create, which appears under its name only when it is complete.

    The folder that it yields does not exist yet.

    Args:
        path: its name; missing parent folders are created.
        force: whether to replace an existing folder that holds one of the files in mark.
        mark: names of files; a folder without any of them is never replaced.

    Raises:
        FileExistsError: a file or folder of this name exists and may not be replaced.
        OSError: the folder cannot be written.
    """
    target = pathlib.Path(os.path.realpath(str(path)))
    if target.exists() and not force:
        raise FileExistsError(f"output {str(target)!r} exists; --force replaces it")
    if target.exists() and not any(target.joinpath(name).is_file() for name in mark):
        raise FileExistsError(
            f"output {str(target)!r} exists and has no {' or '.join(mark)} in it: --force would "
            "delete something else"
        )
    with _beside(target) as folder:
        made = folder / target.name
        yield made
        _put(made, target, folder / "replaced")


def _put(made: pathlib.Path, target: pathlib.Path, replaced: pathlib.Path) -> None:
    if not target.exists():
        os.rename(made, target)
        return
    try:
        os.rename(target, replaced)
        os.rename(made, target)
    except BaseException:  # The old folder comes back, also after an interrupt.
        if replaced.exists() and not target.exists():
            os.rename(replaced, target)
        raise


# The outputs that are being made, by their temporary folders.
_pending: dict[pathlib.Path, pathlib.Path] = {}
# No space is left on the disk.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def _beside(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """Context of a temporary folder beside the target, from where a rename is one atomic step.

    Raises:
        OSError: the folder cannot be made, or there is no space left for its content;
            the text names the target.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = pathlib.Path(tempfile.mkdtemp(dir=str(target.parent), prefix=f".{target.name}."))
    except OSError as error:
        raise OSError(f"output {str(target)!r} cannot be written: {error.strerror}") from error
    _pending[folder] = target
    try:
        yield folder
    except OSError as error:
        if error.errno not in _FULL or _written_by(error) != target:
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        del _pending[folder]
        shutil.rmtree(folder, ignore_errors=True)


def _written_by(error: OSError) -> pathlib.Path | None:
    """Finds the output whose write has failed, among those being made."""
    named = [pathlib.Path(name) for name in (error.filename, error.filename2) if name]
    if named:
        of_folders = (target for folder, target in _pending.items() if _holds(folder, named))
        return next(of_folders, None)
    # Errors of Python's own writes name no file. It is the newest file, or the output begun last.
    times = {
        target: max((file.lstat().st_mtime_ns for file in folder.rglob("*")), default=-1)
        for folder, target in reversed(list(_pending.items()))
    }
    return max(times, key=lambda target: times[target], default=None)


def _holds(folder: pathlib.Path, files: Iterable[pathlib.Path]) -> bool:
    return any(folder in file.parents for file in files)
