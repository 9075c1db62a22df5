"""Public path of write_graph; the code is in explain/tensorboard.py."""

from npu_precision.explain.tensorboard import write_graph

__all__ = ["write_graph"]
