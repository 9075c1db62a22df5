"""A corpus: graphs, the options to rewrite each with, and the files that the options name.

It is a folder with

    graphs/DIGEST.pb   a MetaGraphDef as OptimizeGraph takes it
    files/DIGEST/NAME  a mixlist, or a folder with ops-info files
    cases.jsonl        a Case per line

The options name files relative to this folder, so that ledgers and errors that quote a path do not
depend on the place of the corpus.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import shutil
from collections.abc import Iterator

GRAPHS, FILES, CASES = "graphs", "files", "cases.jsonl"
PATH_OPTIONS = ("modify_mixlist", "ops_info_dir", "ops_info_overlay")
CPU, GPU = "CPU:0", "GPU:0"


@dataclasses.dataclass(frozen=True)
class Case:
    """One rewrite.

    Attributes:
        name: its name in the report of differences.
        graph: the digest of its MetaGraphDef.
        graph_id: the graph's name in the ledger.
        options: the optimizer's parameters, except report_dir.
        devices: the devices of Grappler's cluster.
    """

    name: str
    graph: str
    graph_id: str
    options: dict[str, str | bool | int | float]
    devices: tuple[str, ...] = (CPU,)

    def described(self) -> str:
        """The name and the options."""
        options = ", ".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        devices = "" if self.devices == (CPU,) else f" on {', '.join(self.devices)}"
        return f"{self.name} ({options}){devices}"


class Corpus:
    """Writes and reads the folder of a corpus. Duplicates are kept once."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self._keys: set[str] = set()
        for name in (GRAPHS, FILES):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def add_graph(self, meta_graph: bytes) -> str:
        """Keeps a serialized MetaGraphDef; returns its digest."""
        digest = hashlib.sha256(meta_graph).hexdigest()[:24]
        path = self.graph_path(digest)
        if not path.exists():
            path.write_bytes(meta_graph)
        return digest

    def graph_path(self, digest: str) -> pathlib.Path:
        return self.folder / GRAPHS / f"{digest}.pb"

    def add_case(self, case: Case) -> None:
        """Adds a case, unless there is one that differs at most in its name."""
        options = {
            name: self._kept(str(value)) if name in PATH_OPTIONS else value
            for name, value in case.options.items()
        }
        case = dataclasses.replace(case, options=options)
        key = json.dumps([case.graph, case.graph_id, case.options, case.devices], sort_keys=True)
        if key not in self._keys:
            self._keys.add(key)
            with (self.folder / CASES).open("a") as file:
                file.write(json.dumps(dataclasses.asdict(case)) + "\n")

    def _kept(self, given: str) -> str:
        """A copy of the file or folder, as a path relative to this folder.

        A path that does not exist, for a test of the error, stays as it is.
        """
        path = pathlib.Path(given)
        if not path.exists() or path.parts[:1] == (FILES,):
            return given
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        digest = hashlib.sha256()
        for file in files:
            digest.update(file.name.encode() + b"\0")
            digest.update(file.read_bytes() if file.is_file() else b"")
        target = pathlib.Path(FILES, digest.hexdigest()[:12], path.name)
        if not (self.folder / target).exists():
            (self.folder / target).parent.mkdir(exist_ok=True)
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, self.folder / target)
        return str(target)

    def add_files(self, other: Corpus) -> None:
        """Copies the files of another corpus, whose cases may then be added."""
        for source in sorted((other.folder / FILES).iterdir()):
            target = self.folder / FILES / source.name
            if not target.exists():
                shutil.copytree(str(source), str(target))

    def cases(self) -> Iterator[Case]:
        """The cases in the order in which they were added."""
        path = self.folder / CASES
        for line in path.read_text().splitlines() if path.exists() else ():
            fields = json.loads(line)
            yield Case(**{**fields, "devices": tuple(fields["devices"])})
