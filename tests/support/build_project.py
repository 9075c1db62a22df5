"""A project of two small sources, and a folder that stands for TensorFlow, to test setup.py."""

import os
import shutil
import subprocess
import sys

from support import ROOT
from support.compiled import members_of
from support.page_project import PageProject

RELEASE_VERSION = "include/tensorflow/core/public/release_version.h"


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


FAKE_TENSORFLOW = """\
import pathlib
__version__ = "2.99.0"
_folder = pathlib.Path(__file__).parent
class sysconfig:
    get_compile_flags = lambda: [f"-I{_folder}/include", "--std=c++17"]
    get_link_flags = lambda: [f"-L{_folder}", "-l:libtensorflow_framework.so.2"]
"""


class BuildProject:
    """A project of two sources in a folder.

    Attributes:
        folder: the folder.
        library: where a build in place puts the library.
        page: its report_page/.
    """

    def __init__(self, folder):
        self.folder = folder
        self.library = folder / "npu_precision/_lib/npu_optimizer.tf-2.99.so"
        for name in ["setup.py", "cc/build_flags.py", "cc/embed_configs.py", "cc/source_groups.py"]:
            shutil.copy(ROOT / name, write(folder / name))
        shutil.copy(ROOT / "cc/embedded_configs.h", folder / "cc")
        self.page = PageProject(folder)
        write(folder / "configs/host/ops.json", "{}\n")
        write(folder / "graph_passes/one.h", "int One();\n")
        write(
            folder / "graph_passes/one.cc", '#include "graph_passes/one.h"\nint One() {return 1;}'
        )
        write(folder / "cc/precompiled.h", "#include <cstddef>\n")
        write(folder / "cc/major.cc", "int Major() { return TF_MAJOR_VERSION; }\n")
        package = folder / "site/tensorflow"
        write(package / "__init__.py", FAKE_TENSORFLOW)
        write(package / RELEASE_VERSION)
        framework = package / "libtensorflow_framework.so.2"
        subprocess.run(["g++", "-shared", "-x", "c++", os.devnull, "-o", framework], check=True)

    def build(self, *where, **environment):
        """Runs setup.py; returns its exit status, the steps that it printed, and its complaints.

        The library goes into the source tree, unless where has other arguments for build_ext.
        """
        paths = [str(self.folder / "site"), os.environ.get("PYTHONPATH", "")]
        result = subprocess.run(
            [sys.executable, "setup.py", "--quiet", "build_ext", *(where or ["--inplace"])],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "NPU_PRECISION_NODE": str(self.page.node),
                **environment,
            },
            capture_output=True,
            text=True,
        )
        steps = sorted(line.split("/")[-1] for line in result.stdout.splitlines())
        return result.returncode, steps, result.stderr

    def groups(self, folder):
        """The sources of a folder that were compiled together."""
        found = sorted(self.folder.glob(f"build/tf-2.99.0/groups/{folder}_*.cc"))
        return [[str(member) for member in members_of(file)] for file in found]
