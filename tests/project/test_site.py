"""The documentation site: links that leave docs/, and the pages of the API."""

import importlib.util
import re

import pytest
from support import ROOT

import npu_precision
from npu_precision import amp


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("mkdocs_hooks", ROOT / "mkdocs_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("training.md", "[a](../examples/keras_fit.py)", "[a](files/examples/keras_fit.py)"),
        ("reference/api.md", "[a](../../Makefile)", "[a](../files/Makefile)"),
        ("release.md", "[a](../.github/workflows/ci.yml)", "[a](files/github/workflows/ci.yml)"),
        ("training.md", "[a](../README.md)", "[a](index.md)"),
        ("index.md", "[a](docs/options.md#strict)", "[a](options.md#strict)"),
        ("index.md", "[a](CONTRIBUTING.md)", "[a](contributing.md)"),
        ("reference/api.md", "[a](../options.md)", "[a](../options.md)"),
    ],
)
def test_a_link_to_a_file_of_the_repository_leads_to_the_site(hooks, page, text, expected):
    assert hooks.rewrite_links(page, text) == expected


@pytest.mark.parametrize(
    "text",
    ["[a](../examples/missing.py)", "[a](../../outside)", "[a](https://a.b/c)", "[a](#strict)"],
)
def test_a_link_to_no_file_stays_for_the_strict_build_to_judge(hooks, text):
    assert hooks.rewrite_links("training.md", text) == text


def test_what_a_page_would_fetch_is_found(hooks):
    script = '<script src="https://unpkg.com/mermaid"></script>'
    assert hooks.fetched(f'<a href="https://a.b">a</a>{script}') == [script.partition("</")[0]]
    assert hooks.fetched('<script src="assets/a.js"></script><link href="a.css">') == []


def documented():
    pages = (ROOT / "docs" / "reference").glob("*.md")
    text = "\n".join(page.read_text() for page in pages)
    return sorted(re.findall(r"^::: npu_precision\.(\S+)$", text, re.M))


def test_every_public_name_is_on_one_page_of_the_api():
    names = [*npu_precision.__all__, *(f"amp.{name}" for name in amp.__all__)]
    assert documented() == sorted(names)
