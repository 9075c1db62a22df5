"""Takes the pictures in docs/pictures: `make pictures`.

They show the report of the training in docs/tutorials/keras.md.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

from support import ROOT
from support.browser import PATIENCE, RECENT, browser
from support.report_page import go_to

FOLDER = ROOT / "docs" / "pictures"
TUTORIAL = ROOT / "docs" / "tutorials" / "keras.md"
SIZE: Any = {"width": 1280, "height": 800}


def main() -> None:
    """Trains, writes the report, and takes the pictures."""
    (script,) = re.findall(r"^```python\n(.*?)^```$", TUTORIAL.read_text(), re.M | re.S)
    with tempfile.TemporaryDirectory() as folder:

        def python(*arguments: str) -> None:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, check=True)

        python("-c", script, "ledgers")
        python("-m", "npu_precision_command", "report", "ledgers", "-o", "report.html")
        with browser(RECENT) as started:
            page = started.new_context(viewport=SIZE, color_scheme="light").new_page()
            page.set_default_timeout(PATIENCE)
            page.goto((pathlib.Path(folder) / "report.html").as_uri())
            page.wait_for_selector(".outline .row")
            _take(page, "report")
            go_to(page, "reader/hidden/Gelu/Erf")
            page.locator("#search").press("Escape")
            _take(page, "story")
            page.get_by_role("tab", name="Layers").click()
            _take(page, "layers")


def _take(page: Any, name: str) -> None:
    page.wait_for_timeout(500)  # Opened scopes are drawn in the next frame.
    page.screenshot(path=str(FOLDER / f"{name}.png"))


if __name__ == "__main__":
    main()
