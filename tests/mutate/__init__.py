"""`make mutate`: breaks one line after the other, and shows that tests notice each."""

import os

# Before any module imports TensorFlow, whose start-up chatter would bury the table.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
