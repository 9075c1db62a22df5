"""The command npu-precision: shows and changes what the optimizer decides."""
