"""Keras models with real architectures and weights that look trained.

Freshly initialised weights mislead: TensorFlow folds zero biases and identity batch
norms away, and an untrained head gives all inputs nearly the same logits, so that a comparison
proves nothing. Here biases are not zero, batch norms hold the statistics of what they normalize,
and the logits of different inputs differ by SPREAD.
"""

from __future__ import annotations

import contextlib
import os
from random import seed as seed_python

import numpy as np
import tensorflow as tf

CLASSES = 10
BATCH = 4
# Standard deviation, over inputs, of each logit.
SPREAD = 2.0
# The number of inputs that the statistics are taken from. The deepest batch norm gets at least one
# pixel of each.
CALIBRATION = 32
WORDS = 1000
SEED = 7
# Names of the applications whose first layers normalize pixels of 0 to 255.
_OF_BYTES = ("efficientnet", "mobilenetv3")


def resnet50():
    return application("ResNet50", 64)


def mobilenet_v2():
    return application("MobileNetV2", 64)


def efficientnet_b0():
    return application("EfficientNetB0", 64)


def densenet121():
    return application("DenseNet121", 64)


def inception_v3():
    """Inception v3 for its smallest images, 75 by 75."""
    return application("InceptionV3", 75)


def lstm_gru():
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input([12, 16]),
            layers.LSTM(32, return_sequences=True),
            layers.GRU(24),
            layers.Dense(CLASSES),
        ]
    )


def bert_base():
    """BERT base with a small vocabulary, whose size only matters for the look-up."""
    return bert(length=8)


def bert_small():
    return bert(
        length=12,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        # With 64 terms, this makes products as large as the usual 0.02 does with 768.
        initializer_range=0.07,
    )


MODELS = {
    builder.__name__: builder
    for builder in (
        resnet50,
        mobilenet_v2,
        efficientnet_b0,
        densenet121,
        inception_v3,
        lstm_gru,
        bert_small,
        bert_base,
    )
}

# A model with a third of a gigabyte of weights: it is tested frozen in every mode, otherwise in
# bfloat16 only.
LARGE = "bert_base"
SMALL = [name for name in MODELS if name != LARGE]


def build(name):
    """Builds a model of MODELS with one input; its outputs are logits [batch, CLASSES]."""
    return with_realistic_weights(MODELS[name])


def with_realistic_weights(builder):
    """The builder's model with weights as if trained; its last kernel makes the logits."""
    set_seed()
    model = builder()
    _randomize_biases_and_norms(model)
    _shift_batch_norms(model)
    take_batch_norm_statistics(model)
    _spread_logits(model)
    return model


def set_seed():
    """Like tf.keras.utils.set_random_seed, without the warnings that Keras 2.15 then gives.

    It warns whenever it draws a seed, because it passes a float, 1e9, as the limit of an integer.
    """
    seed_python(SEED)
    np.random.seed(SEED)
    tf.random.set_seed(SEED)


def examples(model, count=BATCH, seed=0):
    """Inputs that differ from each other as images, sequences or sentences do."""
    random = np.random.default_rng(seed)
    shape = [int(size) for size in model.inputs[0].shape[1:]]
    if model.inputs[0].dtype in (tf.int32, "int32"):
        words = random.integers(1, WORDS, [count, *shape])
        lengths = random.integers(shape[0] // 2, shape[0] + 1, [count, 1])
        return np.where(np.arange(shape[0]) < lengths, words, 0).astype(np.int32)
    if len(shape) == 2:
        return np.cumsum(random.normal(scale=0.5, size=[count, *shape]), axis=1).astype(np.float32)
    return _images(random, count, shape, bytes_expected=model.name.lower().startswith(_OF_BYTES))


def application(name, size):
    """A model of tf.keras.applications for square images of this size."""
    return getattr(tf.keras.applications, name)(
        weights=None, input_shape=(size, size, 3), classes=CLASSES, classifier_activation=None
    )


def bert(length, layer_norm_eps=1e-3, **sizes):
    """An encoder for sentences of this length and a classifier; `sizes` are BertConfig's.

    The default epsilon is that of TensorFlow's fused layer norm, which ignores the graph's epsilon.
    With another one, such as BERT's real 1e-12, results would depend on which ops are fused.
    """
    with _environment_kept():
        # The import sets TF_USE_LEGACY_KERAS. A Python started later with it would find no Keras.
        import transformers

        config = transformers.BertConfig(vocab_size=WORDS, layer_norm_eps=layer_norm_eps, **sizes)
        encoder = transformers.TFBertModel(config)
    ids = tf.keras.Input([length], dtype=tf.int32)
    mask = tf.cast(ids > 0, tf.int32)
    pooled = encoder.bert(ids, attention_mask=mask).pooler_output
    return tf.keras.Model(ids, tf.keras.layers.Dense(CLASSES)(pooled))


def gpt2(length, **sizes):
    """A decoder of texts of this length and a classifier of its last state.

    `sizes` are GPT2Config's.
    """
    with _environment_kept():
        import transformers  # as in bert()

        decoder = transformers.TFGPT2Model(transformers.GPT2Config(vocab_size=WORDS, **sizes))
    ids = tf.keras.Input([length], dtype=tf.int32)
    mask = tf.cast(ids > 0, tf.int32)
    states = decoder.transformer(ids, attention_mask=mask, use_cache=False).last_hidden_state
    return tf.keras.Model(ids, tf.keras.layers.Dense(CLASSES)(states[:, -1]))


def t5_encoder(length, **sizes):
    """T5's encoder of texts of this length, and a classifier of the mean of its states.

    `sizes` are T5Config's; its defaults are those of T5-small.
    """
    with _environment_kept():
        import transformers  # as in bert()

        encoder = transformers.TFT5EncoderModel(transformers.T5Config(vocab_size=WORDS, **sizes))
    ids = tf.keras.Input([length], dtype=tf.int32)
    mask = tf.cast(ids > 0, tf.int32)
    states = encoder.encoder(ids, attention_mask=mask).last_hidden_state
    return tf.keras.Model(ids, tf.keras.layers.Dense(CLASSES)(tf.reduce_mean(states, axis=1)))


@contextlib.contextmanager
def _environment_kept():
    before = dict(os.environ)
    try:
        # TensorFlow looks for Keras once, at its first use.
        assert tf.keras.Model
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _images(random, count, shape, bytes_expected):
    """Smooth fields of colour, some pale, some bright, with a little noise."""
    coarse = random.normal(size=[count, 5, 5, shape[-1]])
    smooth = tf.image.resize(coarse, shape[:2], "bicubic").numpy()
    contrast = random.uniform(0.3, 1.5, [count, 1, 1, 1])
    colour = random.normal(scale=0.7, size=[count, 1, 1, shape[-1]])
    images = smooth * contrast + colour + random.normal(scale=0.1, size=[count, *shape])
    if bytes_expected:
        images = np.clip(128 + 60 * images, 0, 255)
    return images.astype(np.float32)


def _randomize_biases_and_norms(model):
    random = np.random.default_rng(SEED)
    reach = {"gamma": 0.4, "beta": 0.3, "bias": 0.2}
    for variable in model.trainable_variables:
        kind = variable.name.split("/")[-1].split(":")[0]
        if kind in reach:
            noise = random.uniform(-reach[kind], reach[kind], variable.shape)
            variable.assign(variable + noise.astype(np.float32))


def take_batch_norm_statistics(model, count=CALIBRATION):
    """Gives the batch norms the statistics of `count` inputs, in one step."""
    norms = _batch_norms(model)
    before = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    if norms:
        model(examples(model, count, SEED), training=True)
    for layer, momentum in zip(norms, before):
        layer.momentum = momentum


def _batch_norms(model):
    return [layer for layer in model.layers if hasattr(layer, "moving_variance")]


def _shift_batch_norms(model):
    """Keeps a random net from being chaotic, which trained nets are not.

    In a net whose activations are centred on a ReLU's bend, each layer moves two close inputs
    further apart, until only noise is left.
    """
    for layer in _batch_norms(model):
        layer.beta.assign(layer.beta + 1.0)


def _spread_logits(model):
    last = next(layer for layer in reversed(model.layers) if hasattr(layer, "kernel"))
    kernel, bias = last.kernel, last.bias
    inputs = examples(model, CALIBRATION, SEED)
    logits = model(inputs, training=False).numpy()
    kernel.assign(kernel * (SPREAD / logits.std(axis=0)))
    logits = model(inputs, training=False).numpy()
    bias.assign(bias - logits.mean(axis=0) + np.linspace(-1, 1, CLASSES, dtype=np.float32))
