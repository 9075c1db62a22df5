"""--accept writes golden texts into the file of the test, and nothing else."""

from __future__ import annotations

import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 8), reason="Python 3.7 does not say where a literal ends"
)
TEST = '''
from support.check_rewrite import assert_same_text

def test_text():
    assert_same_text(
        "a = Exp(x)\\nb = Neg(a)",
        """
        a = Exp(x)
        """,
        "the rewritten graph",
    )

def test_other():
    assert "ä" == "ä"
'''


@pytest.fixture
def run(pytester):
    """run(text, *flags) -> pytest's result, and the text of the test file afterwards."""

    def start(text, *flags):
        path = pytester.path / "test_text.py"
        path.write_text(text, encoding="utf-8")
        return pytester.runpytest("-p", "support.accept", *flags), path.read_text("utf-8")

    return start


def test_the_new_text_takes_the_place_of_the_literal(run):
    result, text = run(TEST, "--accept")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*accepted: test_text.py has the new text*"])
    assert text == TEST.replace("        a = Exp(x)\n", "        a = Exp(x)\n        b = Neg(a)\n")
    result, _ = run(text)
    result.assert_outcomes(passed=2)


def test_without_the_flag_the_file_stays(run):
    result, text = run(TEST)
    result.assert_outcomes(passed=1, failed=1)
    assert text == TEST


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"""\n        a = Exp(x)\n        """', '"a = " + "Exp(x)"', "is not written out there"),
        ('assert "ä" == "ä"', 'assert "a = Exp(x)" == "a = Exp(x)"', "stands there 3 times"),
    ],
)
def test_a_text_that_is_computed_or_repeated_is_left_to_the_author(run, old, new, why):
    changed = TEST.replace(old, new)
    result, text = run(changed, "--accept")
    result.stdout.fnmatch_lines([f"*not accepted: the text {why}*"])
    assert text == changed
