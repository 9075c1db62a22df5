"""The flight recorder: records ranges of tensors and gradients while a model trains."""
