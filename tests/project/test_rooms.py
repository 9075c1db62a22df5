"""Imports and includes between the rooms of npu_precision/ and graph_passes/ point one way.

The tables below are the rule. The map that explains it is in docs/architecture.md.
"""

from __future__ import annotations

import ast
import pathlib
import re
import textwrap

import pytest

THIS_FILE = pathlib.Path(__file__).name
# The root is found from this file, at any depth below it.
ROOT = next(path for path in pathlib.Path(__file__).parents if (path / "setup.py").exists())

# The rooms that each room of npu_precision/ may import from. All rooms may import from the core:
# the files beside them that are not in PUBLIC_PATHS.
PYTHON_ROOMS: dict[str, set[str]] = {
    "core": set(),
    "distribute": set(),
    "session": {"distribute"},
    "hccl": set(),
    "loss_scaling": {"hccl"},
    "amp": {"session", "loss_scaling"},
    "npu_bridge": {"session", "loss_scaling", "hccl"},
    "npu_device": {"session", "loss_scaling", "hccl", "npu_bridge"},
    "offline": set(),
    "explain": {"offline"},
    "accuracy": {"offline"},
    "tuning": {"session", "offline", "explain", "accuracy"},
    "flight": {"session", "hccl", "loss_scaling", "explain"},
    "dumps": {"explain", "flight"},
    "training": {"session", "loss_scaling", "explain", "accuracy", "tuning", "flight"},
    "guard": {"session", "hccl", "loss_scaling", "tuning", "flight", "training"},
    "doctor": {"session", "offline", "explain"},
    "compat": {"npu_bridge"},
    "cli": {
        "offline",
        "explain",
        "accuracy",
        "tuning",
        "flight",
        "dumps",
        "training",
        "doctor",
        "compat",
    },
    "launch": {"session", "npu_bridge", "explain", "flight", "guard", "cli"},
}
# Folders that belong to the core, as the files do.
CORE_FOLDERS = {"_tf_compat"}
# Files that only re-export names from rooms, to users. They may import from every room. Nothing but
# __init__ imports from them.
PUBLIC_PATHS = {
    "__init__",
    "estimator",
    "explanation",
    "model_file",
    "npu_init",
    "npu_ops",
    "report",
    "run_config",
    "tensorboard",
    "util",
}

# The rooms that each room of graph_passes/ may include. The files beside the rooms, such as the
# pipeline, may include all of them, and no room may include those files.
CXX_ROOMS: dict[str, set[str]] = {
    "graph": set(),
    "lists": {"graph"},
    "analysis": {"lists", "graph"},
    "decide": {"analysis", "lists", "graph"},
    "rewrite": {"decide", "analysis", "lists", "graph"},
    "fuse": {"rewrite", "decide", "analysis", "lists", "graph"},
}
# Text that no file of graph_passes/ may contain, and the reason.
NOT_IN_PASSES = {
    r'#include\s*[<"]cc/': "passes do not know the shell that calls them",
    r'#include\s*[<"]tensorflow/core/grappler': "passes do not know Grappler",
    r"#include\s*<(fstream|filesystem)>": "passes read no files; their text is handed to them",
    r"#include\s*<(chrono|ctime)>": "passes read no clock",
    r"\bgetenv\b": "passes do not read the environment",
}


def python_violations(root: pathlib.Path) -> list[str]:
    """The imports in the wrong direction in root/npu_precision, one sentence each."""
    not_for_us = outsiders(root)
    found = []
    for path in sorted((root / "npu_precision").rglob("*.py")):
        name = path.relative_to(root)
        for line, target in imports(path):
            if target.partition(".")[0] in not_for_us:
                found.append(
                    f"{name.as_posix()}:{line}: imports {target}; the package may not import from "
                    "tests/, benchmarks/ or examples/"
                )
            else:
                found += _python_violations(root, name, line, target)
    return found


def imports(path: pathlib.Path) -> list[tuple[int, str]]:
    """(line, dotted name) of all imports of a file, also inside functions.

    For `from a import b`, the name is a.b, whether b is a module or not.
    """
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            dots = "." * node.level
            found += [(node.lineno, f"{dots}{node.module or ''}.{n.name}") for n in node.names]
    return sorted(found)


def _python_violations(root: pathlib.Path, path: pathlib.Path, line: int, target: str) -> list[str]:
    where = f"{path.as_posix()}:{line}: imports {target}"
    if target.startswith("."):
        return [f"{where}, relatively; expected an import that begins with npu_precision"]
    package, _, rest = target.partition(".")
    if package != "npu_precision":
        return []
    own = path.parts[1] if len(path.parts) > 2 and path.parts[1] not in CORE_FOLDERS else "core"
    if own not in PYTHON_ROOMS:
        return [unknown_room(path, "PYTHON_ROOMS")]
    allowed = PYTHON_ROOMS[own] | {own, "core"}
    if own == "core" and path.stem in PUBLIC_PATHS | {"__main__"}:
        own = path.name
        allowed = set(PYTHON_ROOMS) | (PUBLIC_PATHS if path.stem == "__init__" else set())
    theirs = _room_of(root, rest.partition(".")[0])
    if theirs in allowed:
        return []
    what = f"npu_precision/{theirs}.py" if theirs in PUBLIC_PATHS else f"room {theirs}"
    return [f"{where} ({what}); {own} may import from {', '.join(sorted(allowed))}"]


def _room_of(root: pathlib.Path, name: str) -> str:
    """The room or public path that contains npu_precision.name."""
    folder = root / "npu_precision"
    if name in CORE_FOLDERS:
        return "core"
    if name in PUBLIC_PATHS or (folder / name).is_dir():
        return name
    return "core" if (folder / f"{name}.py").exists() else "__init__"


def outsiders(root: pathlib.Path) -> set[str]:
    """Names by which tests, benchmarks and examples could be imported."""
    folders = ("tests", "benchmarks", "examples")
    files = (path for folder in folders for path in (root / folder).rglob("*.py"))
    return {*folders, *(path.stem for path in files)} - {"__init__"}


def cxx_violations(root: pathlib.Path) -> list[str]:
    """The includes in the wrong direction in root/graph_passes, one sentence each."""
    found = []
    for path in sorted((root / "graph_passes").rglob("*")):
        if path.suffix not in {".h", ".cc"}:
            continue
        name = path.relative_to(root)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found += _cxx_violations(name, number, line)
    return found


def _cxx_violations(path: pathlib.Path, number: int, line: str) -> list[str]:
    where = f"{path.as_posix()}:{number}:"
    found = [
        f"{where} has {line.strip()}; {why}"
        for pattern, why in NOT_IN_PASSES.items()
        if re.search(pattern, line)
    ]
    own = path.parts[1] if len(path.parts) > 2 else None
    if own is not None and own not in CXX_ROOMS:
        return [unknown_room(path, "CXX_ROOMS")]
    included = re.match(r'\s*#include\s*"graph_passes/(?:(\w+)/)?[^"]+"', line)
    if included is None or own is None:
        return found
    allowed = CXX_ROOMS[own] | {own}
    if included[1] not in allowed:
        rooms = ", ".join(sorted(allowed))
        found.append(f"{where} has {line.strip()}; {own} may include from {rooms}")
    return found


def unknown_room(path: pathlib.Path, table: str) -> str:
    return (
        f"{path.as_posix()}: {path.parts[1]!r} is no known room of {path.parts[0]}/; add it to "
        f"{table} in {THIS_FILE}, with the rooms that it may use, and to docs/architecture.md"
    )


@pytest.mark.parametrize("violations", [python_violations, cxx_violations])
def test_imports_and_includes_point_one_way(violations):
    found = violations(ROOT)
    assert not found, "\n" + "\n".join(dict.fromkeys(found))


@pytest.mark.parametrize("rooms", [PYTHON_ROOMS, CXX_ROOMS], ids=["Python", "C++"])
def test_the_tables_have_no_cycles(rooms):
    placed: set[str] = set()
    while len(placed) < len(rooms):
        free = {room for room in rooms if room not in placed and rooms[room] <= placed}
        assert free, f"a cycle among {', '.join(sorted(set(rooms) - placed))}"
        placed |= free


def test_the_python_tables_name_what_is_there():
    folder = ROOT / "npu_precision"
    rooms = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert rooms == CORE_FOLDERS | set(PYTHON_ROOMS) - {"core"}
    assert {path.stem for path in folder.glob("*.py")} >= PUBLIC_PATHS


@pytest.mark.parametrize("name", sorted(PUBLIC_PATHS - {"__init__"}))
def test_a_public_path_has_no_code_of_its_own(name):
    tree = ast.parse((ROOT / "npu_precision" / f"{name}.py").read_text(encoding="utf-8"))
    docstring, *rest = tree.body
    assert ast.get_docstring(tree)
    assert {type(node) for node in rest} <= {ast.ImportFrom, ast.Assign}


def planted(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return root


WELL_BUILT_PYTHON = {
    "npu_precision/__init__.py": "from npu_precision.util import keep\n",
    "npu_precision/util.py": "from npu_precision.npu_bridge.util import keep\n",
    "npu_precision/options.py": "import dataclasses\n",
    "npu_precision/npu_bridge/util.py": "from npu_precision import options\nkeep = options\n",
    "npu_precision/offline/model_file.py": "from npu_precision.options import PrecisionOptions\n",
    "npu_precision/explain/story.py": "from npu_precision.offline import model_file\n",
    "npu_precision/cli/explain.py": "from npu_precision.explain import story\n",
    "tests/text_graph.py": "",
    "benchmarks/measure.py": "",
}


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        pytest.param(
            "npu_precision/offline/saved_model.py",
            "import os\nfrom npu_precision.explain import story\n",
            "npu_precision/offline/saved_model.py:2: imports npu_precision.explain.story "
            "(room explain); offline may import from core, offline",
            id="a_room_below",
        ),
        pytest.param(
            "npu_precision/explain/lint.py",
            """\
            def lint():
                import npu_precision.cli.explain
            """,
            "npu_precision/explain/lint.py:2: imports npu_precision.cli.explain (room cli); "
            "explain may import from core, explain, offline",
            id="inside_of_a_function",
        ),
        pytest.param(
            "npu_precision/ledger.py",
            "from npu_precision import offline\n",
            "npu_precision/ledger.py:1: imports npu_precision.offline (room offline); core may "
            "import from core",
            id="core",
        ),
        pytest.param(
            "npu_precision/npu_bridge/npu_init.py",
            "from npu_precision.util import keep\n",
            "npu_precision/npu_bridge/npu_init.py:1: imports npu_precision.util.keep "
            "(npu_precision/util.py); npu_bridge may import from core, hccl, loss_scaling, "
            "npu_bridge, session",
            id="a_public_path",
        ),
        pytest.param(
            "npu_precision/cli/lint.py",
            "from npu_precision import PrecisionOptions\n",
            "npu_precision/cli/lint.py:1: imports npu_precision.PrecisionOptions "
            "(npu_precision/__init__.py); cli may import from accuracy, cli, compat, core, doctor, "
            "dumps, explain, flight, offline, training, tuning",
            id="the_package_itself",
        ),
        pytest.param(
            "npu_precision/cli/lint.py",
            "from .explain import story\n",
            "npu_precision/cli/lint.py:1: imports .explain.story, relatively; expected an import "
            "that begins with npu_precision",
            id="relative",
        ),
        pytest.param(
            "npu_precision/options.py",
            "import measure\n",
            "npu_precision/options.py:1: imports measure; the package may not import from tests/, "
            "benchmarks/ or examples/",
            id="a_benchmark",
        ),
        pytest.param(
            "npu_precision/attic/old.py",
            "from npu_precision import options\n",
            "npu_precision/attic/old.py: 'attic' is no known room of npu_precision/; add it to "
            f"PYTHON_ROOMS in {THIS_FILE}, with the rooms that it may use, and to "
            "docs/architecture.md",
            id="an_unknown_room",
        ),
    ],
)
def test_a_planted_import_is_found(tmp_path, file, text, expected):
    assert python_violations(planted(tmp_path, WELL_BUILT_PYTHON)) == []
    assert python_violations(planted(tmp_path, {file: text})) == [expected]


WELL_BUILT_CXX = {
    "graph_passes/pipeline.cc": '#include "graph_passes/rewrite/insert_casts.h"\n',
    "graph_passes/rewrite/insert_casts.h": '#include "graph_passes/decide/decision.h"\n',
    "graph_passes/decide/decision.h": """\
        #include <string>

        #include "graph_passes/decide/reason.h"
        #include "graph_passes/graph/graph_view.h"
        #include "tensorflow/core/framework/graph.pb.h"
        """,
}


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        pytest.param(
            "graph_passes/graph/graph_view.cc",
            '#include <string>\n#include "graph_passes/lists/op_lists.h"\n',
            'graph_passes/graph/graph_view.cc:2: has #include "graph_passes/lists/op_lists.h"; '
            "graph may include from graph",
            id="a_room_above",
        ),
        pytest.param(
            "graph_passes/decide/decide_precision.cc",
            '#include "graph_passes/ledger.h"\n',
            'graph_passes/decide/decide_precision.cc:1: has #include "graph_passes/ledger.h"; '
            "decide may include from analysis, decide, graph, lists",
            id="the_top",
        ),
        pytest.param(
            "graph_passes/pipeline.h",
            '#include "cc/parameters.h"\n',
            'graph_passes/pipeline.h:1: has #include "cc/parameters.h"; passes do not know the '
            "shell that calls them",
            id="the_shell",
        ),
        pytest.param(
            "graph_passes/lists/ops_info.cc",
            '#include "tensorflow/core/grappler/utils.h"\n',
            'graph_passes/lists/ops_info.cc:1: has #include "tensorflow/core/grappler/utils.h"; '
            "passes do not know Grappler",
            id="grappler",
        ),
        pytest.param(
            "graph_passes/lists/ops_info.cc",
            "#include <fstream>\n",
            "graph_passes/lists/ops_info.cc:1: has #include <fstream>; passes read no files; "
            "their text is handed to them",
            id="a_file",
        ),
        pytest.param(
            "graph_passes/ledger.cc",
            "#include <chrono>\n",
            "graph_passes/ledger.cc:1: has #include <chrono>; passes read no clock",
            id="a_clock",
        ),
        pytest.param(
            "graph_passes/ledger.cc",
            'auto home = std::getenv("HOME");\n',
            'graph_passes/ledger.cc:1: has auto home = std::getenv("HOME");; passes do not read '
            "the environment",
            id="the_environment",
        ),
        pytest.param(
            "graph_passes/attic/old.cc",
            "#include <string>\n",
            "graph_passes/attic/old.cc: 'attic' is no known room of graph_passes/; add it to "
            f"CXX_ROOMS in {THIS_FILE}, with the rooms that it may use, and to "
            "docs/architecture.md",
            id="an_unknown_room",
        ),
    ],
)
def test_a_planted_include_is_found(tmp_path, file, text, expected):
    assert cxx_violations(planted(tmp_path, WELL_BUILT_CXX)) == []
    assert cxx_violations(planted(tmp_path, {file: text})) == [expected]


def test_the_map_has_every_room():
    house = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    house = house.split("### graph_passes/")[1].split("### The build")[0]
    rooms = set(re.findall(r"^\| `(\w+)/` \|", house, re.M))
    assert rooms == {*CXX_ROOMS, *PYTHON_ROOMS} - {"core"}
