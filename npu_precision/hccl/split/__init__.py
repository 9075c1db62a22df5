"""The package of Ascend's hccl.split."""
