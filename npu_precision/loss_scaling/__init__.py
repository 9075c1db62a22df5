"""Loss scaling: one implementation for npu_bridge's optimizers, GradScaler and amp."""
