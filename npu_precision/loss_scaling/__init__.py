"""Loss scaling: strategies, and over them npu_bridge's optimizers and GradScaler."""
