"""`make replay REF=COMMIT`: compares two builds of the optimizer on the same corpus of graphs."""

import os

# Set before any module imports TensorFlow: its start-up messages would hide the report.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
