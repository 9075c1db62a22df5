"""Pages in a headless Chromium, a development dependency in report_page/package.json.

Its npm package is compressed; it is unpacked once, into build/.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import subprocess
import sys

import pytest

from support import ROOT

PACKAGE = ROOT / "report_page" / "node_modules" / "@sparticuz" / "chromium"
UNPACK = 'console.log(await (await import("@sparticuz/chromium")).default.executablePath())'
# Draws without a GPU, and sends no requests to the network.
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()

# In milliseconds; a busy machine may take long.
PATIENCE = 120_000

needs_browser = pytest.mark.skipif(
    importlib.util.find_spec("playwright") is None or not PACKAGE.is_dir(),
    reason="the browser is only in the default environment, after `make page-packages`",
)


def executable():
    """The path of the browser."""
    version = json.loads((PACKAGE / "package.json").read_text())["version"]
    folder = ROOT / "build" / f"chromium-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # Only one of several workers unpacks.
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.exists():
            sys.path.insert(0, str(ROOT / "report_page"))
            import build_page

            unpacked = subprocess.run(
                [*build_page.find_tools().node, "--input-type=module", "--eval", UNPACK],
                cwd=str(ROOT / "report_page"),
                env={**os.environ, "TMPDIR": str(folder)},
                check=True,
                capture_output=True,
                text=True,
            )
            done.write_text(unpacked.stdout.strip())
    return done.read_text()


@contextlib.contextmanager
def browser():
    """A browser; no page of it can reach a network."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=executable(), args=FLAGS, timeout=PATIENCE
        )
        yield started
        started.close()
