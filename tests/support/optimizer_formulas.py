"""The formulas of optimizers in numpy: float64 throughout, with betas as float32 has them."""

from __future__ import annotations

import numpy as np


def as_float32(*values):
    """The values, rounded to float32."""
    return [float(np.float32(value)) for value in values]


def sgd(x, grads, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    """torch.optim.SGD; returns the variable after a step per gradient, and the slots."""
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


def adadelta(x, grads, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0):
    """torch.optim.Adadelta."""
    lr, rho = as_float32(lr, rho)
    squares = deltas = np.zeros_like(x)
    for grad in grads:
        g = grad + weight_decay * x
        squares = rho * squares + (1 - rho) * g * g
        delta = np.sqrt(deltas + eps) / np.sqrt(squares + eps) * g
        deltas = rho * deltas + (1 - rho) * delta * delta
        x = x - lr * delta
    return x, {"square_avg": squares, "acc_delta": deltas}


def rmsprop(
    x, grads, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False
):
    """torch.optim.RMSprop."""
    (lr,) = as_float32(lr)
    squares = mean = buffer = np.zeros_like(x)
    for grad in grads:
        g = grad + weight_decay * x
        squares = alpha * squares + (1 - alpha) * g * g
        mean = alpha * mean + (1 - alpha) * g
        step = g / (np.sqrt(squares - mean * mean if centered else squares) + eps)
        buffer = momentum * buffer + step
        x = x - lr * buffer
    slots = {"square_avg": squares}
    slots.update({"momentum_buffer": buffer} if momentum else {})
    return x, {**slots, "grad_avg": mean} if centered else slots


def rmsprop_tf(
    x,
    grads,
    lr=1e-2,
    alpha=0.9,
    eps=1e-10,
    weight_decay=0.0,
    momentum=0.0,
    centered=False,
    decoupled_decay=False,
    lr_in_momentum=True,
):
    """timm.optim.RMSpropTF; without a momentum, its buffer is lr * step."""
    lr, alpha = as_float32(lr, alpha)
    squares, mean, buffer = np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
    for grad in grads:
        x = x * (1 - lr * weight_decay) if decoupled_decay else x
        g = grad if decoupled_decay else grad + weight_decay * x
        squares = squares + (1 - alpha) * (g * g - squares)
        mean = mean + (1 - alpha) * (g - mean)
        step = g / np.sqrt((squares - mean * mean if centered else squares) + eps)
        buffer = momentum * buffer + (lr * step if lr_in_momentum else step)
        x = x - (buffer if lr_in_momentum else lr * buffer)
    slots = {"square_avg": squares, "momentum_buffer": buffer}
    return x, {**slots, "grad_avg": mean} if centered else slots


def lamb(x, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, adam=False):
    """LAMB without bias correction, the norm of the variable at most 10."""
    (lr,), (beta1, beta2) = as_float32(lr), betas
    m = v = np.zeros_like(x)
    for g in grads:
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        step = m / (np.sqrt(v) + eps) + weight_decay * x
        norm, of_step = min(np.linalg.norm(x), 10.0), np.linalg.norm(step)
        ratio = 1.0 if adam or norm == 0 or of_step == 0 else norm / of_step
        x = x - lr * ratio * step
    return x, {"exp_avg": m, "exp_avg_sq": v}


def bert_factor(step, warmup, t_total, schedule):
    """The factor of BertAdam's learning rate in this step, the first being 0."""
    if t_total == -1:
        return 1.0
    done, warmup = step / t_total, max(warmup, 0)
    if done < warmup:
        return done / warmup
    return {
        "warmup_linear": max((done - 1) / (warmup - 1), 0.0),
        "warmup_constant": 1.0,
        "warmup_cosine": 0.5 * (1 + np.cos(np.pi * done)),
        "warmup_poly": max(1 - done, 0.0) ** 0.5,
    }[schedule]


def bert_adam(
    x,
    grads,
    lr,
    warmup=-1,
    t_total=-1,
    schedule="warmup_linear",
    b1=0.9,
    b2=0.99,
    e=1e-6,
    weight_decay=0.01,
):
    """BertAdam of pytorch-pretrained-bert, without clipping."""
    lr, b1, b2 = as_float32(lr, b1, b2)
    m = v = np.zeros_like(x)
    for step, g in enumerate(grads):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        factor = bert_factor(step, warmup, t_total, schedule)
        x = x - lr * factor * (m / (np.sqrt(v) + e) + weight_decay * x)
    return x, {"exp_avg": m, "exp_avg_sq": v}


def projected(x, g, step, delta, wd_ratio, eps):
    """AdamP's projection, for each unit of the last axis, or for the whole: (step, ratio)."""
    for columns in (x.reshape(-1, x.shape[-1]), x.reshape(-1, 1)):
        rows = g.reshape(columns.shape)
        norms = np.linalg.norm(columns, axis=0)
        cosine = np.abs((columns * rows).sum(0)) / (norms * np.linalg.norm(rows, axis=0) + eps)
        if cosine.max() < delta / np.sqrt(len(columns)):
            unit = columns / (norms + eps)
            moved = step.reshape(columns.shape)
            return (moved - unit * (unit * moved).sum(0)).reshape(x.shape), wd_ratio
    return step, 1.0


def adam_p(
    x,
    grads,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    delta=0.1,
    wd_ratio=0.1,
    nesterov=False,
):
    """AdamP."""
    lr, beta1, beta2 = as_float32(lr, *betas)
    m = v = np.zeros_like(x)
    for number, g in enumerate(grads, 1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        step = beta1 * m + (1 - beta1) * g if nesterov else m
        step = step / (np.sqrt(v / (1 - beta2**number)) + eps)
        ratio = 1.0
        if x.ndim > 1:
            step, ratio = projected(x, g, step, delta, wd_ratio, eps)
        x = x * (1 - lr * weight_decay * ratio) - lr / (1 - beta1**number) * step
    return x, {"exp_avg": m, "exp_avg_sq": v}
