"""What the tests build on: texts and files of graphs, models, trainings, and checks of results."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
