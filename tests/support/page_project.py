"""A report_page/ of a few lines and a script in place of Node.js, to test the page's build."""

from __future__ import annotations

import shutil
import stat
import sys

from support import ROOT

# A script in place of node and esbuild, and of npm, which is called by its own name.
FAKE_NODE = """\
#!{python}
import json, pathlib, sys
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("{version}")
elif pathlib.Path(sys.argv[0]).name == "npm":
    package = pathlib.Path("node_modules/drawing")
    package.mkdir(parents=True, exist_ok=True)
    (package / "package.json").write_text('{{"name": "drawing", "version": "1.2.3"}}')
    (package / "LICENSE").write_text("Do what you like.")
    with open("npm.log", "a") as log:
        log.write(" ".join(arguments) + "\\\\n")
else:
    options = dict(each[2:].split("=", 1) for each in arguments if "=" in each)
    source = pathlib.Path(arguments[1]).read_text()
    if "mistake" in source:
        sys.exit("src/main.ts:1:1: a mistake")
    pathlib.Path(options["outfile"]).write_text(source)
    inputs = {{"src/main.ts": {{}}, "node_modules/drawing/index.js": {{}}}}
    pathlib.Path(options["metafile"]).write_text(json.dumps({{"inputs": inputs}}))
"""


class PageProject:
    """A folder report_page/ for tests.

    Attributes:
        folder: report_page/.
        node: the path of the script in place of Node.js.
    """

    def __init__(self, root):
        self.folder = root / "report_page"
        (self.folder / "src").mkdir(parents=True)
        shutil.copy(str(ROOT / "report_page" / "build_page.py"), str(self.folder))
        shutil.copy(str(ROOT / "report_page" / "src" / "page.html"), str(self.folder / "src"))
        for name in ("package.json", "package-lock.json", ".npmrc"):
            (self.folder / name).write_text("{}\n")
        (self.folder / "src" / "main.ts").write_text("draw();\n")
        (self.folder / "src" / "style.css").write_text("body {}\n")
        self.node = root / "node" / "node"
        self.write_node("v20.1.0")

    def write_node(self, version):
        self.node.parent.mkdir(exist_ok=True)
        text = FAKE_NODE.format(python=sys.executable, version=version).replace("\\\\n", "\\n")
        for name in ("node", "npm"):
            script = self.node.with_name(name)
            script.write_text(text)
            script.chmod(script.stat().st_mode | stat.S_IXUSR)

    def installed(self):
        """The calls of npm, one entry each."""
        log = self.folder / "npm.log"
        return log.read_text().splitlines() if log.exists() else []
