# ruff: noqa: F403, F405 - the star import is how npu_bridge scripts have it.
import tempfile

from sklearn.datasets import load_digits

from npu_precision.npu_init import *

images, digits = load_digits(return_X_y=True)


def input_fn():
    data = tf.data.Dataset.from_tensor_slices((images.astype("float32") / 16, digits))
    return data.shuffle(2000, seed=1).batch(32)


def serving_input_fn():
    image = tf.placeholder(tf.float32, [None, 64])
    return tf.estimator.export.TensorServingInputReceiver(image, {"image": image})


def model_fn(features, labels, mode):
    hidden = tf.layers.dense(features, 128, activation=tf.nn.relu)
    logits = tf.layers.dense(hidden, 10, name="logits")
    digit = tf.argmax(logits, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"digit": digit})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = tf.train.AdamOptimizer().minimize(loss, tf.train.get_global_step())
    metrics = {"accuracy": tf.metrics.accuracy(labels, digit)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


npu_config = NPURunConfig(
    model_dir=tempfile.mkdtemp(),
    save_checkpoints_steps=50,
    session_config=tf.ConfigProto(allow_soft_placement=True, log_device_placement=False),
    precision_mode="allow_mix_precision",
    modify_mixlist="mixlist.json",
)
classifier = NPUEstimator(model_fn=model_fn, config=npu_config)  # or tf.estimator.Estimator
classifier.train(input_fn=input_fn, max_steps=50)
print("accuracy", classifier.evaluate(input_fn=input_fn)["accuracy"])
print("first digit", next(classifier.predict(input_fn=input_fn))["digit"])
print("exported to", classifier.export_saved_model(tempfile.mkdtemp(), serving_input_fn).decode())
