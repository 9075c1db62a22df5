"""Files and folders that a command writes: complete or not at all, and never over others."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator


def check_apart(written: Iterable[str | None], read: Iterable[str | None]) -> None:
    """Checks that no output takes the place of another, or of what is read, or is around it.

    Args:
        written: the names of files to write; None of them that are not asked for.
        read: the names of files and folders, likewise; of a folder, all that is in it.

    Raises:
        ValueError: one does.
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
def new_file(path: str | os.PathLike[str], force: bool = False) -> Iterator[pathlib.Path]:
    """A file to write, which appears under its name only when all of it is written.

    Entering checks that it can be written, so that nobody waits for hours to learn it cannot.

    Args:
        path: its name; folders that it is in are made.
        force: replace a file of this name.

    Raises:
        FileExistsError: there is one, and force is not set, or a folder of this name.
        OSError: it cannot be written.
    """
    target = pathlib.Path(os.path.realpath(str(path)))  # A link stays, to the file that is new.
    is_folders = str(path).endswith(os.sep)
    if is_folders or str(path) == "-" or (target.exists() and not target.is_file()):
        raise FileExistsError(f"output {str(path)!r} is no file, expected the name of one")
    if target.exists() and not force:
        raise FileExistsError(f"output {str(path)!r} exists; --force replaces it")
    with _beside(target) as folder:
        written = folder / target.name
        yield written
        if target.exists():
            shutil.copymode(str(target), str(written))
        os.replace(written, target)


@contextlib.contextmanager
def optional_file(path: str | None, force: bool = False) -> Iterator[pathlib.Path | None]:
    """new_file, or None where there is no path."""
    if path is None:
        yield None
        return
    with new_file(path, force) as file:
        yield file


@contextlib.contextmanager
def new_folder(
    path: str | os.PathLike[str], force: bool = False, mark: tuple[str, ...] = ()
) -> Iterator[pathlib.Path]:
    """A folder to make, which appears under its name only when it is complete.

    Args:
        path: its name; folders that it is in are made. What is yielded does not exist yet.
        force: replace a folder of this name, if it holds one of the files in mark.
        mark: names of files, one of which is in every folder that may be replaced.

    Raises:
        FileExistsError: there is something of this name that may not be replaced.
        OSError: it cannot be written.
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
    except BaseException:  # An interrupt, too: what was there comes back.
        if replaced.exists() and not target.exists():
            os.rename(replaced, target)
        raise


@contextlib.contextmanager
def _beside(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder in the target's, from where a rename is one step; it is gone afterwards."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(dir=str(target.parent), prefix=f".{target.name}.")
    except OSError as error:
        raise OSError(f"output {str(target)!r} cannot be written: {error.strerror}") from error
    try:
        yield pathlib.Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
