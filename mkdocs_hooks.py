"""Hooks of mkdocs: files outside docs/ become part of the site, so that links to them work.

README.md, CONTRIBUTING.md and CHANGELOG.md become pages. Any other file that a page links to is
copied to files/. The links in the sources are those that work on GitHub. A link to a file that does
not exist is left as it is, and `mkdocs build --strict` fails on it.
"""

from __future__ import annotations

import pathlib
import posixpath
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = pathlib.Path(__file__).parent
# By file of the repository: the page of the site.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
# By file of the site: the file of the repository. `make page-packages` installs the scripts.
PACKAGES = "report_page/node_modules"
ASSETS = {
    "assets/javascripts/mermaid.js": f"{PACKAGES}/@mermaid-js/tiny/dist/mermaid.tiny.js",
    "assets/javascripts/iframe-worker.js": f"{PACKAGES}/iframe-worker/shim/index.js",
    "assets/stylesheets/site.css": "docs/site.css",
}
SOURCES = {page: source for source, page in PAGES.items()}
FETCHED = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>"
)
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")


def source_of(page: str) -> str:
    """The file of the repository that a page of the site is made from."""
    return SOURCES.get(page, f"docs/{page}")


def linked_file(page: str, link: str) -> str | None:
    """The file of the repository that a link of this page leads to, None where there is none."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source_of(page)), link))
    return path if not path.startswith("..") and (ROOT / path).is_file() else None


def place(path: str) -> str:
    """Where the site has a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path[len("docs/") :]
    # mkdocs leaves out names that start with a dot.
    return "files/" + re.sub(r"(^|/)\.", r"\1", path)


def rewrite_links(page: str, markdown: str) -> str:
    """The text of a page, its links leading to the site's copies."""

    def replace(match: re.Match[str]) -> str:
        path = linked_file(page, match[1])
        return posixpath.relpath(place(path), posixpath.dirname(page) or ".") if path else match[1]

    return LINK.sub(replace, markdown)


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages and the copies."""
    # Here, so that the tests can load this file in an environment without mkdocs.
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for place_in_site, source in ASSETS.items():
        files.append(File.generated(config, place_in_site, abs_src_path=str(ROOT / source)))
    copies = set()
    for file in files.documentation_pages():
        for link in LINK.findall(file.content_string):
            path = linked_file(file.src_uri, link)
            if path and place(path).startswith("files/"):
                copies.add(path)
    for path in sorted(copies):
        files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page."""
    return rewrite_links(page.file.src_uri, markdown)


def fetched(html: str) -> list[str]:
    """The elements of a page that a browser would load from a network."""
    return [match[0] for match in FETCHED.finditer(html)]


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Fails the build if a page needs a network."""
    from mkdocs.exceptions import PluginError

    found = fetched(output)
    if found:
        raise PluginError(f"{page.file.src_uri}: loads {found[0]}, expected a file of the site")
    return output
