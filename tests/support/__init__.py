"""Helpers of the tests: graphs as text and in files, models, trainings, checks of results."""

import os
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
# Where the packages of these tests are, if not in the environment of this Python.
_INHERITED = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))


def python_path(*folders):
    """The PYTHONPATH of a process that finds what is in the folders, and what this one finds."""
    return os.pathsep.join([*map(str, folders), *_INHERITED])
