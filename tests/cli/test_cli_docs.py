"""docs/cli.md and the tutorials: their commands, in order, print the output that the page shows."""

from __future__ import annotations

import re

import pytest
from support import ROOT
from support.console_pages import assert_same_but_measured, run_page
from support.report_files import needs_page
from support.tf_versions import (
    IS_OF_THE_DOCS,
    needs_functions_by_default,
    needs_outputs_of_the_docs,
)

TUTORIALS = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs/tutorials").glob("*.md"))]


@needs_outputs_of_the_docs
@needs_page
@pytest.mark.parametrize("page", ["docs/cli.md", *TUTORIALS])
def test_the_commands_print_what_the_page_says(page, tmp_path):
    assert run_page(page, tmp_path) >= 5


@needs_functions_by_default
@needs_page
@pytest.mark.skipif(IS_OF_THE_DOCS, reason="it is compared word by word, above")
@pytest.mark.parametrize("page", TUTORIALS)
def test_a_tutorial_can_be_followed_on_another_tensorflow(page, tmp_path):
    assert run_page(page, tmp_path, compares=False) >= 5


SHOWN = "a\n...\nd\n"


@pytest.mark.parametrize("printed", ["a\nd\n", "a\nb\nc\nd\n"])
def test_a_page_may_leave_lines_out(printed):
    assert_same_but_measured(printed, SHOWN)


@pytest.mark.parametrize("printed", ["b\na\nd\n", "a\nb\n", "a\nb\nd\ne\n", ""])
def test_lines_that_a_page_shows_are_printed_and_no_others(printed):
    with pytest.raises(AssertionError):
        assert_same_but_measured(printed, SHOWN)


def test_every_subcommand_is_on_the_page(command):
    page = (ROOT / "docs" / "cli.md").read_text()
    listed = re.findall(r"^  (\w+)  ", command("--help").partition("Commands:")[2], re.M)
    assert len(listed) >= 4
    assert all(f"\n## {name}: " in page for name in listed)
