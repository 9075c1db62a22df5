# ruff: noqa: F403, F405 - the star import is how npu_bridge scripts have it.
from sklearn.datasets import load_digits

from npu_precision.npu_init import *

images, digits = load_digits(return_X_y=True)
with tf.Graph().as_default():
    x = tf.placeholder(tf.float32, [None, 64])
    labels = tf.placeholder(tf.int32, [None])
    hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("hidden", [64, 128])))
    logits = tf.matmul(hidden, tf.get_variable("logits", [128, 10]))
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)

    manager = ExponentialUpdateLossScaleManager(
        init_loss_scale=2**32, incr_every_n_steps=1000, decr_every_n_nan_or_inf=2, decr_ratio=0.5
    )
    optimizer = NPULossScaleOptimizer(tf.train.AdamOptimizer(0.01), manager)
    global_step = tf.train.get_or_create_global_step()
    train = optimizer.minimize(loss, global_step)

    config = npu_config_proto(precision_mode="allow_mix_precision")
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        for step in range(200):
            batch = slice(step % 20 * 64, step % 20 * 64 + 64)
            feed = {x: images[batch] / 16, labels: digits[batch]}
            fetches = [train, loss, "loss_scale:0", "overflow_status_reduce_all:0"]
            _, value, scale, made = session.run(fetches, feed)
        print("made", session.run(global_step), "of 200 steps")
        print(f"last: loss {value:.2f}, scale {scale:.0f}, made {made}")
