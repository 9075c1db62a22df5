"""The table of what `make test-wheel` found: printed, or with --write put into docs/install.md."""

from __future__ import annotations

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "wheel" / "results"
PAGE = ROOT / "docs" / "install.md"
BEGIN, END = "<!-- make test-wheel: begin -->\n", "<!-- end -->\n"


def table() -> str:
    """In Markdown, a row for each TensorFlow and Python."""
    results = [json.loads(file.read_text()) for file in RESULTS.glob("*.json")]
    if not results:
        sys.exit(f"there are no results in {RESULTS}: run `make test-wheel`")
    results.sort(
        key=lambda result: [
            [int(part) for part in re.findall(r"\d+", result[name])]
            for name in ("tensorflow", "python")
        ]
    )
    steps = list(results[0]["steps"])
    rows = [
        ["TensorFlow", "Python", *(step.replace("_", " ") for step in steps)],
        ["---"] * (len(steps) + 2),
        *(
            [result["tensorflow"], result["python"], *(result["steps"][step] for step in steps)]
            for result in results
        ),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """Prints the table, or writes it."""
    if "--write" not in sys.argv[1:]:
        print(table(), end="")
        return
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
