import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import npu_precision

images, digits = load_digits(return_X_y=True)
images = images.astype("float32") / 16
dense = tf.keras.layers.Dense
model = tf.keras.Sequential([tf.keras.Input([64], name="inputs"), dense(128, "relu"), dense(10)])
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"])

# From here on it applies to every tf.function, in all threads, and so to Keras' fit and predict.
npu_precision.enable(precision_mode="allow_mix_precision_bf16", report_dir="ledgers")
model.fit(images, digits, epochs=3, verbose=0)
npu_precision.disable()

# Only what runs inside, in this thread; a decorator too. In a tf.function: the ops made there.
with npu_precision.autocast(dtype="bfloat16"):
    model.predict(images, verbose=0)

# Offline: the results need nothing of npu_precision to run.
options = npu_precision.PrecisionOptions(precision_mode_v2="mixed_bfloat16", strict=True)
tf.saved_model.save(model, "model")
npu_precision.convert_saved_model("model", "model_bf16", options)
np.savez("inputs.npz", inputs=images)  # For the commands further down.

with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, [None, 64], name="x")
    tf.nn.softmax(tf.matmul(x, tf.ones([64, 10]), name="logits"), name="probabilities")
graph_def = graph.as_graph_def()
graph_def, ledger = npu_precision.rewrite_graph_def(graph_def, "probabilities", options)
for node in ledger.nodes:
    print(node.name, node.op, node.decision, node.reason, node.cause)
