"""The flight recorder: what is in tensors and gradients while a model trains."""
