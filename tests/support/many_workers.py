"""The example for many workers, and its output as docs/distributed.md shows it."""

from __future__ import annotations

import re

from support import ROOT

SCRIPT = ROOT / "examples" / "many_workers.py"


def documented():
    """The output of each worker, which is the same alone and with others."""
    return _block("step 0: ")


def documented_log():
    """The line of the log about the training step on two workers."""
    return _block(r"\d+ of \d+ matrix and convolution ops ").strip()


def _block(start):
    page = (ROOT / "docs" / "distributed.md").read_text()
    return re.search(rf"```text\n({start}.*?)```", page, re.DOTALL)[1]
