"""`make replay REF=commit`: what two builds of the optimizer make of the same corpus of graphs."""

import os

# Before any module imports TensorFlow, whose start-up chatter would bury the report.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
