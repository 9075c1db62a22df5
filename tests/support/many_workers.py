"""The example for many workers, and what docs/distributed.md says that it prints."""

from __future__ import annotations

import re

from support import ROOT

SCRIPT = ROOT / "examples" / "many_workers.py"


def documented():
    """What each worker prints, alone or with others."""
    page = (ROOT / "docs" / "distributed.md").read_text()
    return re.search(r"```text\n(step 0: .*?)```", page, re.DOTALL)[1]
