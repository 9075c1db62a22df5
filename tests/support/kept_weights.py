"""What the tests of weights that are kept in the low type share."""

from __future__ import annotations

import json

import numpy as np

import npu_precision

SHAPE = [64, 48]


def numbers(seed, shape=SHAPE):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def options(precision_mode="allow_mix_precision_bf16", **fields):
    return npu_precision.PrecisionOptions(precision_mode=precision_mode, strict=True, **fields)


def rewrites_in(folder):
    return [
        (entry["by"], entry["before"], entry["after"])
        for path in folder.rglob("*.json")
        for entry in json.loads(path.read_text())["rewrites"]
    ]
