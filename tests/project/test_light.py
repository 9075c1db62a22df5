"""Importing the package adds little to importing TensorFlow: rarely used modules come later."""

from __future__ import annotations

import json

import pytest

import npu_precision

# Prints the modules that `import npu_precision` imports in addition to TensorFlow's.
ADDED = """\
import json, sys
import tensorflow
before = set(sys.modules)
import npu_precision
{then}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
NOT_ALWAYS = {"click", "keras", "npu_precision_command", "rich", "tensorflow_estimator"}
# Code that imports each module.
LATER = {
    "npu_precision.amp": "npu_precision.amp.initialize",
    "npu_precision.estimator": "npu_precision.NPUEstimator",
    "npu_precision.run_config": "npu_precision.npu_run_config_init",
}


def added_modules(run_cold_python, then=""):
    return set(json.loads(run_cold_python(ADDED.format(then=then)).stdout.splitlines()[-1]))


def test_importing_the_package_imports_nothing_that_is_rarely_needed(run_cold_python):
    added = added_modules(run_cold_python)
    assert "npu_precision._library" in added
    assert added & set(LATER) == set()
    assert {name.partition(".")[0] for name in added} & NOT_ALWAYS == set()


def test_what_comes_later_comes_when_it_is_asked_for(run_cold_python):
    assert added_modules(run_cold_python, then="\n".join(LATER.values())) >= set(LATER)


def test_all_public_names_are_listed_and_come_with_a_star():
    names: dict[str, object] = {}
    exec("from npu_precision import *", names)
    for name in npu_precision.__all__:
        assert names[name] is getattr(npu_precision, name)
    assert set(npu_precision.__all__) <= set(dir(npu_precision))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'npu_precision' has no attribute 'NPURunConfg'"):
        npu_precision.NPURunConfg  # noqa: B018
