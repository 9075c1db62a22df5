"""Sound in time: filters, envelopes, oscillators, levels in decibels, beats and codes."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.forms import of_network
from numerics.inputs import RATE, chord, decibels, frames_of_sound, low_pass
from numerics.program import Training, normal, of, program, uniform

_FRAMES = frames_of_sound()
_GATES = [normal(0, 64, 32), normal(1, 32, 1, scale=0.18)]


def _fir(sound, taps, stride=1, padding="VALID"):
    kernel = tf.reshape(tf.cast(taps, tf.float32), [-1, 1, 1])
    return tf.nn.conv1d(sound[None, :, None], kernel, stride, padding)[0, :, 0]


@of("pre-emphasis of a bass, x - 0.97 of the sample before, by a convolution", chord(notes=[55.0]))
def pre_emphasis(sound):
    return _fir(sound, [-0.97, 1.0])


@of("DC blocker: a loud offset of a sensor, minus its long average", chord())
def dc_blocker(sound):
    return _fir(0.05 * sound + 4.0, np.eye(1, 129, 64)[0] - 1.0 / 129)


@of("crossover: low band by a FIR, high band as the rest", chord())
def crossover(sound):
    return (sound[31:-31] - _fir(sound, low_pass(0.1))) * 4.0


@of(
    "residual of a notch by subtraction, in dB",
    chord(notes=[220.0]),
    tolerance={"bfloat16": 0.2, "float16": 0.1},
)
def notch(sound):
    rest = sound[31:-31] - _fir(sound, low_pass(0.1))
    return decibels(tf.reduce_mean(rest**2), 1e-8)


@of("resampling by 3/2 with a polyphase bank", chord())
def polyphase(sound):
    bank = tf.constant(3 * low_pass(1 / 6, 63).reshape(21, 3)[:, None])
    return tf.reshape(tf.nn.conv1d(sound[None, :, None], bank, 2, "VALID"), [-1])


@of("biquad as a state of four samples, 600 steps of a 2 x 2 product", chord()[:600])
def biquad(sound):
    matrix = tf.constant([[1.96, -0.9604], [1.0, 0.0]])

    def step(state, x):
        return tf.linalg.matvec(matrix, state) + tf.stack([x * 0.0004, 0.0])

    return tf.scan(step, sound, tf.zeros([2]))[:, 0]


@of("resonator: a rotation of 2 x 2 that rings for 2000 samples")
def resonator():
    c, s = np.cos(0.2), np.sin(0.2)
    turn = tf.constant([[c, -s], [s, c]], tf.float32)
    rings = tf.while_loop(
        lambda i, z: i < 2000, lambda i, z: (i + 1, z @ turn), (0, tf.ones([1, 2]))
    )
    return rings[1]


@of("envelope follower, attack and release, of a gate's network", *_GATES)
def envelope(x, w):
    gain = tf.abs(tf.tanh(tf.matmul(tf.tile(x, [10, 1]), w)[:, 0]))

    def step(level, now):
        share = tf.where(now > level, 0.1, 0.005)
        return level + share * (now - level)

    return tf.scan(step, gain, 0.0)


@of("oscillator bank: phases as a cumsum of network's frequencies in Hz", *_GATES)
def oscillators(x, w):
    frequency = 440.0 * 2.0 ** (0.5 * tf.tanh(tf.matmul(x, w)))
    phase = tf.cumsum(2 * np.pi * tf.repeat(frequency, 2, 0) / RATE)
    return tf.reduce_sum(tf.sin(phase * tf.range(1.0, 5.0)) / 4.0, 1)


@of("additive synthesis: harmonics of 110 Hz by a product with amplitudes", uniform(2, 32, 1))
def additive(amplitudes):
    t = tf.range(4000.0) / RATE
    return tf.matmul(tf.sin(2 * np.pi * 110.0 * t[:, None] * tf.range(1.0, 33.0)), amplitudes)


@of(
    "frequency modulation: an index of modulation from a network",
    *_GATES,
    tolerance={"float16": 0.01},
)
def modulation(x, w):
    t = tf.range(0.0, 64.0) / 100.0
    index = 4.0 * tf.tanh(tf.matmul(x, w))
    return tf.sin(2 * np.pi * 220.0 * t + index * tf.sin(2 * np.pi * 30.0 * t))


@of("midi note to frequency, 440 * 2^((note - 69) / 12)", *_GATES, tolerance={"bfloat16": 0.04})
def midi(x, w):
    note = 60.0 + 12.0 * tf.tanh(tf.matmul(x, w))
    return 440.0 * tf.pow(2.0, (note - 69.0) / 12.0)


@of(
    "cents between a sung pitch and the nearest note",
    *_GATES,
    tolerance={"bfloat16": 0.2, "float16": 0.03},
)
def cents(x, w):
    frequency = 440.0 * tf.exp(0.02 * tf.tanh(tf.matmul(x, w)))
    note = 12.0 * tf.math.log(frequency / 440.0) / np.log(2.0) + 69.0
    return 100.0 * (note - 69.0)


@of("loudness: K-weighted power in LUFS, gated", chord(1.0))
def loudness(sound):
    weighted = _fir(sound, [1.53, -2.69, 1.19])
    blocks = tf.signal.frame(weighted, 3200, 800)
    levels = -0.691 + decibels(tf.reduce_mean(blocks**2, 1))
    return tf.reduce_mean(tf.boolean_mask(levels, levels > -70.0))


@of("gain in decibels from a network, applied", chord()[:64], *_GATES)
def gain(sound, x, w):
    return sound * 10.0 ** ((-40.0 + 10.0 * tf.tanh(tf.matmul(x, w)[:, 0])) / 20.0) * 100.0


@of(
    "compressor: threshold -20 dB, ratio 4, soft knee",
    chord()[:64],
    *_GATES,
    tolerance={"bfloat16": 0.04},
)
def compressor(sound, x, w):
    level = decibels((tf.tanh(tf.matmul(x, w)[:, 0])) ** 2 + 1e-4)
    over = level + 20.0
    cut = tf.where(over > 3.0, over * 0.75, tf.where(over < -3.0, 0.0, 0.75 * (over + 3) ** 2 / 12))
    return sound * 10.0 ** (-cut / 20.0)


@of("mu-law codes of a network's samples, 256 steps and back", *_GATES)
def mu_law(x, w):
    y = tf.tanh(tf.matmul(x, w))
    code = tf.sign(y) * tf.math.log(1.0 + 255.0 * tf.abs(y)) / np.log(256.0)
    code = tf.floor((code + 1.0) / 2.0 * 255.0 + 0.5)
    back = code / 255.0 * 2.0 - 1.0
    return tf.sign(back) * (256.0 ** tf.abs(back) - 1.0) / 255.0


@of("16-bit samples: a filter's output to int16, and its lowest bits", (chord() * 30000).round())
def sixteen_bits(sound):
    return tf.cast(tf.round(_fir(sound, [0.25, 0.5, 0.25])), tf.int32) % 16


@of(
    "beats: onset strength, autocorrelation, tempo",
    uniform(6, 400) ** 8 + np.float32(np.arange(400) % 43 == 0),
)
def tempo(onsets):
    smooth = _fir(onsets, np.hanning(7) / 3)
    far = tf.linalg.matvec(tf.signal.frame(smooth, 200, 1)[:150], smooth[:200])
    return 60.0 * 100.0 / (tf.cast(tf.argmax(far[20:]), tf.float32) + 20.0)


@of("beats: best path of onsets with a penalty log²(gap / period)", *_GATES)
def beat_path(x, w):
    onset = tf.nn.relu(tf.matmul(tf.tile(x, [4, 1]), w)[:, 0])
    cost = -100.0 * np.log(np.arange(40, 10, -1) / 25.0) ** 2

    def step(i, scores):
        best = tf.reduce_max(scores[-40:-10] + tf.constant(cost, tf.float32))
        return i + 1, tf.concat([scores[1:], [onset[i] + best]], 0)

    return tf.while_loop(lambda i, s: i < 256, step, (0, tf.zeros([64])))[1]


@of(
    "CTC by greedy collapse of a network's logits",
    np.eye(64, dtype=np.float32)[:50],
    normal(1, 64, 12, scale=0.5),
)
def ctc_greedy(x, w):
    best = tf.argmax(tf.matmul(x, w), 1)
    kept = (best[1:] != best[:-1]) & (best[1:] != 0)
    return tf.boolean_mask(best[1:], kept)


@of("CTC beam search's log-probability", normal(0, 50, 32), normal(1, 32, 12, scale=0.4))
def ctc_beam(x, w):
    logits = tf.nn.log_softmax(tf.matmul(x, w))[:, None]
    return tf.nn.ctc_beam_search_decoder(logits, [50], beam_width=4)[1]


@of(
    "SI-SDR in dB of a separated voice",
    _FRAMES,
    np.eye(512, dtype=np.float32) + normal(4, 512, 512, scale=1e-3),
    tolerance={"float16": 0.01},
)
def si_sdr(frames, mixing):
    made = tf.matmul(frames, mixing)
    scale = tf.reduce_sum(made * frames, 1, keepdims=True) / tf.reduce_sum(
        frames**2, 1, keepdims=True
    )
    target = scale * frames
    ratio = tf.reduce_sum(target**2, 1) / (tf.reduce_sum((target - made) ** 2, 1) + 1e-8)
    return decibels(ratio)


@of("echo cancelling by LMS, 500 steps of 32 taps", chord()[:532], normal(5, 32, scale=0.2))
def echo(sound, room):
    def step(i, taps):
        heard = sound[i : i + 32]
        miss = tf.reduce_sum(heard * room) - tf.squeeze(heard[None] @ taps)
        return i + 1, taps + 0.05 * miss * heard[:, None]

    return tf.while_loop(lambda i, t: i < 500, step, (0, tf.zeros([32, 1])))[1]


@of("beamformer: steering phases by 2 pi f d sin(angle) / c", *_GATES, tolerance={"float16": 0.015})
def beamformer(x, w):
    angle = tf.tanh(tf.matmul(x, w))
    delays = 0.05 * tf.range(8.0) * tf.sin(angle) / 343.0
    return tf.reduce_sum(tf.cos(2 * np.pi * 4000.0 * delays), 1)


@program("a filter's taps learnt from its output, trained", kind="training")
def learnt_taps():
    def loss(variables, sound, target):
        return 100.0 * tf.reduce_mean((_fir(sound, variables[0]) - target) ** 2)

    target = np.convolve(chord(), low_pass(0.2, 15), "valid").astype(np.float32)
    target += normal(6, target.size, scale=0.03)
    return Training(loss, [np.eye(1, 15, 7)[0].astype(np.float32)], [chord(), target], rate=0.01)


@of(
    "decay of a string: cumulative product of losses of 0.1 % a sample",
    normal(0, 2000, 32),
    _GATES[1],
)
def string_decay(x, w):
    return tf.math.cumprod(1.0 - 0.001 * tf.sigmoid(tf.matmul(x, w)[:, 0]))


@of("gain staging: product of 500 small gains", normal(0, 500, 32), _GATES[1] + np.float32(0.05))
def gain_staging(x, w):
    return tf.reduce_prod(1.0 + 0.004 * tf.tanh(tf.matmul(x, w)[:, 0] + 0.5))


@of("reverberation: tf.scan of gains near one", normal(0, 1000, 32), _GATES[1])
def reverberation(x, w):
    return tf.scan(lambda level, g: level * g, 1.0 - 0.002 * tf.sigmoid(tf.matmul(x, w)[:, 0]), 1.0)


@of("energy of a second of sound by an einsum with itself", chord(1.0) + np.float32(0.8))
def energy(sound):
    return tf.einsum("i,i->", sound, sound)


@of_network("sum of three voltages, one 48 V of phantom power, by tf.add_n", 1)
def phantom_power(z):
    return tf.add_n([z, tf.fill([64, 1], 48.0), 0.1 * z]) - 48.0


@of_network("a converter's bias of 2048 by tf.nn.bias_add, taken away", 1)
def converter(z):
    return tf.nn.bias_add(z, tf.constant([2048.0])) - 2048.0


@of_network("a supply of 12 V that ripples by 10 mV, its deviation", 1)
def ripple(z):
    return tf.math.reduce_std(12.0 + 0.01 * z)
