"""Loss scaling: strategies, GradScaler, npu_bridge's optimizers, and the flight recorder."""
