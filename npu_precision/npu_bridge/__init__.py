"""Stand-ins for what Ascend scripts import from npu_bridge, under the same names."""
