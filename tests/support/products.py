"""The matrices that the fixtures `product` and `low_type` of tests/sessions multiply."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

X = tf.constant(np.random.default_rng(1).normal(size=[4, 32]).astype(np.float32))
