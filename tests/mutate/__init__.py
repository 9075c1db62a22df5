"""`make mutate`: breaks one line after the other, and shows that tests notice each."""

import os

# Set before any module imports TensorFlow: its start-up messages would bury the table.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
