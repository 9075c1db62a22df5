"""The names in a dump, for what writes and what reads one; npu_bridge/dumps.py says all of them."""

from __future__ import annotations

import re

# The folder, beside those of the models, that has their graphs: {model}/{model id}.pb.
GRAPHS = ".graphs"
# The table of names that are too long for a file: the file's name, and the name.
LONG_NAMES = "mapping.csv"


def clean(name: str) -> str:
    """The name of an op, or its type, as in the names of files."""
    return re.sub(r"[./\\ ]", "_", name)
