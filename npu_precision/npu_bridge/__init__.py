"""What scripts of Ascend import from npu_bridge, under the names that they know."""
