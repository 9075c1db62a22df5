"""Every module can be imported, with each Python and each TensorFlow."""

import importlib
import re

import pytest
from support import ROOT

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "npu_precision").rglob("*.py")
    if path.stem not in ("__init__", "__main__")
)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_can_be_imported(module):
    """This includes modules that only one command needs and imports at its first use."""
    try:
        importlib.import_module(module)
    except (ImportError, RuntimeError) as error:
        says_what_it_needs = re.search(
            r"got TensorFlow \S+, expected|is for TensorFlow", str(error)
        )
        if not says_what_it_needs:
            raise
        pytest.skip(str(error))
