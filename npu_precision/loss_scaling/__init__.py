"""Loss scaling: strategies, and npu_bridge's optimizers over them."""
