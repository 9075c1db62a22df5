"""The command npu-precision: what the optimizer decides, shown and shaped from a terminal."""
