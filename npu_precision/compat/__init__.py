"""Checks which names of npu_bridge, npu_device and hccl in a script exist here; runs no script."""
