"""A SavedModel's exported function may be called with shapes other than its signature's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default

import npu_precision

pytestmark = needs_functions_by_default

# As a share of the largest value. A bfloat16 convolution of 27 products rounds by less.
TOLERANCE = 3e-2


class Shrinks(tf.Module):
    """A model for any image; for the signature's size, its zeros are the padding of SAME."""

    def __init__(self):
        values = np.random.RandomState(0).randn(3, 3, 3, 8)
        self.weights = tf.Variable(values.astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3])])
    def of_any_size(self, image):
        padded = tf.pad(image, [[0, 0], [0, 1], [0, 1], [0, 0]])
        return tf.nn.conv2d(padded, self.weights, [1, 2, 2, 1], "VALID")

    @tf.function(input_signature=[tf.TensorSpec([1, 32, 32, 3])])
    def of_one_size(self, image):
        return {"result": self.of_any_size(image)}


@pytest.mark.parametrize("size", [32, 33])
def test_a_function_has_the_shapes_of_all_its_callers(tmp_path, size):
    module = Shrinks()
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=module.of_one_size)
    npu_precision.convert_saved_model(
        tmp_path / "saved", tmp_path / "converted", precision_mode="allow_mix_precision_bf16"
    )
    loaded = tf.saved_model.load(str(tmp_path / "converted"))
    image = tf.constant(np.random.RandomState(1).randn(1, size, size, 3).astype(np.float32))
    want, got = module.of_any_size(image).numpy(), loaded.of_any_size(image).numpy()
    assert got.shape == want.shape
    assert np.abs(got - want).max() < TOLERANCE * np.abs(want).max()
