"""Wide & Deep on synthetic advertising data: embeddings, NPUEstimator, train_and_evaluate."""

import argparse
import os
import random

import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.npu_init import *

FIELDS = {"site": 50, "user": 200, "device": 8, "hour": 24}
EMBEDDING = 8

parser = argparse.ArgumentParser()
parser.add_argument("--precision_mode", default="allow_mix_precision")
parser.add_argument("--batch_size", type=int, default=128)
parser.add_argument("--max_steps", type=int, default=120)
parser.add_argument("--model_dir", default=os.path.join(os.getcwd(), "wide_deep"))
args = parser.parse_args()
random.seed(1)


def make_data(count=4096):
    rng = np.random.RandomState(0)
    taste = {name: rng.normal(size=size) for name, size in FIELDS.items()}
    features = {name: rng.randint(size, size=count) for name, size in FIELDS.items()}
    features["dense"] = rng.normal(size=[count, 6]).astype(np.float32)
    score = sum(taste[name][features[name]] for name in FIELDS) + features["dense"][:, 0]
    labels = (score + rng.normal(scale=0.5, size=count) > 0).astype(np.float32)
    return features, labels


def input_fn(training):
    data = tf.data.Dataset.from_tensor_slices(make_data())
    if training:
        data = data.shuffle(4096, seed=2).repeat()
    return data.batch(args.batch_size, drop_remainder=True)


def model_fn(features, labels, mode, params):
    bias = tf.get_variable("wide_bias", [1], initializer=tf.zeros_initializer())
    wide = []
    embedded = [features["dense"]]
    for name in sorted(FIELDS):
        ids = features[name]
        weights = tf.get_variable(
            name + "_wide", [FIELDS[name], 1], initializer=tf.zeros_initializer()
        )
        table = tf.get_variable(
            name + "_embedding",
            [FIELDS[name], EMBEDDING],
            initializer=tf.truncated_normal_initializer(stddev=0.1, seed=1),
        )
        wide.append(tf.nn.embedding_lookup(weights, ids))
        embedded.append(tf.nn.embedding_lookup(table, ids))
    net = tf.concat(embedded, axis=1)
    for i, units in enumerate(params["hidden_units"]):
        net = tf.layers.dense(net, units, activation=tf.nn.relu, name="deep_%d" % i)
        net = tf.layers.dropout(
            net, 0.1, seed=3, training=mode == tf.estimator.ModeKeys.TRAIN, name="drop_%d" % i
        )
    logits = tf.squeeze(tf.add_n(wide) + bias + tf.layers.dense(net, 1, name="deep_logits"), axis=1)
    probability = tf.sigmoid(logits)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"auc": tf.metrics.auc(labels, probability)}
        return NPUEstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = NPUDistributedOptimizer(tf.train.AdagradOptimizer(0.1))
    train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    return NPUEstimatorSpec(mode, loss=loss, train_op=train_op)


run_config = NPURunConfig(
    model_dir=args.model_dir,
    tf_random_seed=1,
    save_checkpoints_steps=args.max_steps,
    log_step_count_steps=40,
    session_config=tf.ConfigProto(allow_soft_placement=True, log_device_placement=False),
    precision_mode=args.precision_mode,
    enable_data_pre_proc=True,
    hcom_parallel=True,
    graph_memory_max_size=str(26 * 1024 * 1024 * 1024),
    profiling_config=ProfilingConfig(enable_profiling=False),
)
estimator = NPUEstimator(model_fn=model_fn, config=run_config, params={"hidden_units": [64, 32]})
metrics, _ = tf.estimator.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(
        lambda: input_fn(True), max_steps=args.max_steps, hooks=npu_hooks_append()
    ),
    tf.estimator.EvalSpec(lambda: input_fn(False), steps=None, throttle_secs=0),
)
print("auc", float(metrics["auc"]))
print("loss", float(metrics["loss"]))
