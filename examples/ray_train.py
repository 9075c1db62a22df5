"""Trains many_workers.py, as it is, with two workers of Ray Train on this machine."""

import os
import pathlib
import runpy

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray listens at the loopback address alone, as it does on Windows and macOS.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")

import ray
from ray.train import ScalingConfig
from ray.train.tensorflow import TensorflowTrainer

SCRIPT = pathlib.Path(__file__).resolve().with_name("many_workers.py")


def train_loop_per_worker():
    runpy.run_path(str(SCRIPT), run_name="__main__")


ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100_000_000)
TensorflowTrainer(train_loop_per_worker, scaling_config=ScalingConfig(num_workers=2)).fit()
