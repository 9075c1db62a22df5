"""setup.py builds the wheel for all TensorFlow versions, which `make test-wheel` tries."""

import re
import shutil
import subprocess
import sys

import pytest
from support import ROOT
from support.build_project import BuildProject, write

sys.path.append(str(ROOT))
from wheels.minors import MINORS

# A source that calls functions with a newer version in glibc or libstdc++ since manylinux_2_28.
NEWER = """\
#include <sys/stat.h>
#include <cmath>
#include <memory>
#include <vector>
double One(double x, std::vector<int>* v, const std::shared_ptr<int>& p) {
  struct stat found;
  const auto copy = p;
  v->resize(static_cast<size_t>(x));
  const int* numbers = new int[v->size()]();
  const double sum = std::exp(x) + std::log(x) + stat("/", &found) + numbers[0] + *copy;
  delete[] numbers;
  return sum;
}
"""


@pytest.fixture
def project(tmp_path):
    return BuildProject(tmp_path)


def test_given_libraries_are_packed_instead_of_one_that_is_built(project):
    given = [f"npu_optimizer.tf-{minor}.so" for minor in ("2.98", "2.99")]
    for name in given:
        write(project.folder / "given" / name, name)
    assert project.build("--build-lib=out", NPU_PRECISION_LIBRARIES="given")[0] == 0
    packed = sorted((project.folder / "out/npu_precision/_lib").glob("*.so"))
    assert [file.name for file in packed] == given
    assert [file.read_text() for file in packed] == given
    assert not (project.folder / "build/tf-2.99.0").exists()


def test_a_folder_without_libraries_is_refused(project):
    status, _, complaints = project.build("--build-lib=out", NPU_PRECISION_LIBRARIES="nothing")
    assert status == 1
    assert "NPU_PRECISION_LIBRARIES: there is no library in nothing" in complaints


def test_a_library_for_manylinux_needs_no_symbol_that_is_too_new(project):
    shutil.copy(ROOT / "wheels/old_symbols.cc", write(project.folder / "wheels/old_symbols.cc"))
    write(project.folder / "graph_passes/one.cc", NEWER)
    status, _, complaints = project.build(NPU_PRECISION_MANYLINUX="1")
    assert (status, complaints) == (0, "")
    symbols = subprocess.check_output(["objdump", "-T", project.library], text=True)
    needed = re.findall(r"(GLIBC|GLIBCXX)_([\d.]+)", symbols)
    newest = {"GLIBC": [0], "GLIBCXX": [0]}
    for library, version in needed:
        newest[library] = max(newest[library], [int(part) for part in version.split(".")])
    assert newest["GLIBC"] <= [2, 28]
    assert newest["GLIBCXX"] <= [3, 4, 25]


def test_what_each_change_is_tested_with_is_in_the_wheel_too():
    pinned = (ROOT / "noxfile.py").read_text()
    for minor in re.findall(r'"tf\d+": \("tf([\d.]+)"', pinned):
        assert minor in MINORS
