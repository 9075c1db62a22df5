"""What a script of npu_bridge, npu_device or hccl finds here, said without running it."""
