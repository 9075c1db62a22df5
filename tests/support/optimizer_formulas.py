"""The formulas of optimizers in numpy: float64 throughout, with betas as float32 has them."""

from __future__ import annotations

import numpy as np


def as_float32(*values):
    """The values that float32 has for them."""
    return [float(np.float32(value)) for value in values]


def sgd(x, grads, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    """torch.optim.SGD: the variable after a step per gradient, and the slots."""
    (lr,), buffer = as_float32(lr), None
    for grad in grads:
        g = grad + weight_decay * x
        if not momentum:
            x = x - lr * g
            continue
        buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
        x = x - lr * (g + momentum * buffer if nesterov else buffer)
    return x, {} if buffer is None else {"momentum_buffer": buffer}


def adam(
    x,
    grads,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    amsgrad=False,
    decoupled=False,
):
    """torch.optim.Adam, and AdamW if decoupled."""
    lr, beta1, beta2 = as_float32(lr, *betas)
    m = v = largest = np.zeros_like(x)
    for step, grad in enumerate(grads, 1):
        g = grad if decoupled else grad + weight_decay * x
        x = x * (1 - lr * weight_decay) if decoupled else x
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        largest = np.maximum(largest, v)
        root = np.sqrt((largest if amsgrad else v) / (1 - beta2**step))
        x = x - lr * m / (1 - beta1**step) / (root + eps)
    slots = {"exp_avg": m, "exp_avg_sq": v}
    return x, {**slots, "max_exp_avg_sq": largest} if amsgrad else slots


def adamw(x, grads, lr=1e-3, weight_decay=1e-2, **others):
    """torch.optim.AdamW."""
    return adam(x, grads, lr, weight_decay=weight_decay, decoupled=True, **others)
