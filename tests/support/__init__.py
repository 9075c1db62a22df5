"""Helpers of the tests: graphs as text and in files, models, trainings, checks of results."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
