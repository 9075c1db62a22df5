"""Stores the runs of a comparison in a folder, so that it can be continued."""

from __future__ import annotations

import hashlib
import json
import pathlib
from typing import Any

import numpy as np

from npu_precision import outputs
from npu_precision.training.curves import Curves

SCHEMA = "npu_precision.training-state/1"
_ABOUT = "about.json"


class RunStore:
    """Runs by their keys, each in a file.

    Args:
        folder: created if it does not exist.
        about: the facts that the runs depend on, by the user's names for them.

    Raises:
        OSError: the folder cannot be written.
        ValueError: the folder holds runs of another training, or other files.
    """

    def __init__(self, folder: pathlib.Path, about: dict[str, str]) -> None:
        self._folder = folder
        description = folder / _ABOUT
        if folder.exists() and any(folder.iterdir()) and not description.exists():
            raise ValueError(f"state {str(folder)!r} has other files in it, expected a new folder")
        if description.exists():
            known = self._read(description)
            changed = [name for name in about if known.get(name) != about[name]]
            if changed:
                raise ValueError(
                    f"state {str(folder)!r} is about another {' and '.join(changed)}; expected a "
                    "new folder"
                )
            return
        with outputs.new_file(description, force=True) as file:
            file.write_text(json.dumps({"schema": SCHEMA, **about}, indent=1), encoding="utf-8")

    def get(self, key: str) -> Curves | None:
        """Returns a stored run, or None.

        Raises:
            ValueError: its file is damaged.
        """
        path = self._path(key)
        if not path.exists():
            return None
        try:
            with np.load(str(path), allow_pickle=False) as arrays:
                texts = json.loads(str(arrays["texts"]))
                count = len(texts["names"])
                return Curves(
                    arrays["losses"],
                    arrays["norms"],
                    arrays["batches"],
                    texts["names"],
                    texts["ops"],
                    [arrays[f"first{index}"] for index in range(count)],
                    [arrays[f"last{index}"] for index in range(count)],
                )
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"{str(path)!r} is no run of a training: {error}") from error

    def put(self, key: str, run: Curves) -> None:
        """Writes a run.

        Raises:
            OSError: it cannot be written.
        """
        arrays: dict[str, Any] = {
            "losses": run.losses,
            "norms": run.norms,
            "batches": run.batches,
            "texts": np.array(json.dumps({"names": run.names, "ops": run.ops})),
        }
        for index, (first, last) in enumerate(zip(run.first, run.last)):
            arrays[f"first{index}"], arrays[f"last{index}"] = first, last
        with outputs.new_file(self._path(key), force=True) as file:
            np.savez(str(file), **arrays)

    def _path(self, key: str) -> pathlib.Path:
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.npz"

    def _read(self, description: pathlib.Path) -> dict[str, str]:
        try:
            known = json.loads(description.read_text(encoding="utf-8"))
            if known["schema"] != SCHEMA:
                raise ValueError(f"got schema {known['schema']!r}, expected {SCHEMA!r}")
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{str(description)!r} is no state: {error!r}") from error
        return known
