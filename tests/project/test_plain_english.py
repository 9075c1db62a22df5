"""The documents are in plain English: they have none of the phrases that readers stumble over.

A list of phrases cannot find every hard sentence. It keeps out the phrases that were found before.
"""

from __future__ import annotations

import re

import pytest
from support import ROOT
from support.pages import PAGES

# By phrase: what to write instead, and a sentence that has the phrase.
INSTEAD = {
    r"\bfor who (?:knows|needs|does not|has no)\b": (
        "for Apex users",
        "amp, for who knows Apex",
    ),
    r"\b[Ww]ho [^.;:]{3,40} leaves [^.;:]{1,40} out\b": (
        "Skip x if you do not need y",
        "Who does not need to see the gradients leaves them out.",
    ),
    r"\b(?:is|are|was|were) told\b": (
        "the log says, or: an error says",
        "A build whose interface differs is told so once.",
    ),
    r"\bWhat [^.;:,|?]{1,60}, (?:is|are) ": (
        "a noun: The format is detected from the content",
        "What a file is, is read off its content.",
    ),
    r"\bread off\b": ("is detected from", "What a file is, is read off its content."),
    r"\bhears? (?:no|a|it|that|nothing|at)\b|\bhears \"": ("has the vote", "It hears no vote."),
    r"\b(?:mends?|mended|mending)\b": ("fix", "lint mends the file."),
    r"\bhand(?:s|ed)? (?:it |them )?(?:on|over)\b": (
        "pass, return, give",
        "It hands over a graph.",
    ),
    r"\bif need be\b": ("if needed", "a folder, made if need be"),
    r"\bits kin\b": ("and similar ops", "Log and its kin"),
    r"\bwarned of\b": ("produces a warning", "such nodes are warned of"),
    r"\bof its sign\b": ("with its sign", "65504 of its sign"),
}


def prose(page: str) -> str:
    """The page without code, as one line per paragraph."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"(?<=\S)\n(?=[^\n|#-])", " ", text)
    return re.sub(r"`[^`\n]*`", "x", text)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_phrase_that_readers_stumble_over(page):
    text = prose(page)
    found = [
        f"{match[0]!r}; write instead: {instead}"
        for phrase, (instead, _) in INSTEAD.items()
        for match in re.finditer(phrase, text)
    ]
    assert not found, f"{page}: " + "\n".join(found)


@pytest.mark.parametrize("phrase", INSTEAD)
def test_each_phrase_is_found_in_its_example(phrase):
    assert re.search(phrase, INSTEAD[phrase][1])


def anchors(page: str) -> set[str]:
    """The anchors of the page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_to_a_section_lead_to_its_heading(page):
    folder = (ROOT / page).parent
    for target, anchor in re.findall(r"\]\(([\w./-]*)#([^)]+)\)", prose(page)):
        path = (folder / target).resolve() if target else ROOT / page
        if path.suffix == ".md":
            assert anchor in anchors(str(path.relative_to(ROOT))), f"{target}#{anchor}"
