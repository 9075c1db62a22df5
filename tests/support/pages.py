"""The documents that readers see, as paths from the root."""

from support import ROOT

PAGES = (
    "README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
)
