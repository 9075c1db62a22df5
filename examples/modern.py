import tensorflow as tf

import npu_precision

model = tf.keras.Sequential([tf.keras.Input([64], name="inputs"), tf.keras.layers.Dense(10)])

# Only what runs inside, in this thread; a decorator too. In a tf.function: the ops made there.
with npu_precision.autocast(dtype="bfloat16"):
    model.predict(tf.ones([2, 64]), verbose=0)

# Offline: the results need nothing of npu_precision to run.
options = npu_precision.PrecisionOptions(precision_mode_v2="mixed_bfloat16", strict=True)
tf.saved_model.save(model, "model")
npu_precision.convert_saved_model("model", "model_bf16", options)

with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, [None, 64], name="x")
    tf.nn.softmax(tf.matmul(x, tf.ones([64, 10]), name="logits"), name="probabilities")
graph_def = graph.as_graph_def()
graph_def, ledger = npu_precision.rewrite_graph_def(graph_def, "probabilities", options)
for node in ledger.nodes:
    print(node.name, node.op, node.decision, node.reason, node.cause)
