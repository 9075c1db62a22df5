"""The package of Ascend's hccl.manage."""
