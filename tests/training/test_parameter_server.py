"""TF1's parameter server: variables and their updates are in a different task from the model."""

from __future__ import annotations

import socket

import numpy as np
import pytest
import tensorflow as tf
from support.training_runs import (
    FLOAT32,
    LOW_TYPES,
    MODES,
    TOLERANCE,
    config_for,
    dense_loss,
    dtypes_of,
    uses_variable,
)

tf1 = tf.compat.v1


@pytest.fixture(scope="module")
def worker():
    """The server of a worker, whose parameter server is another one in this process."""
    sockets = [socket.socket() for _ in range(2)]
    for taken in sockets:
        taken.bind(("localhost", 0))
    addresses = [f"localhost:{taken.getsockname()[1]}" for taken in sockets]
    for taken in sockets:
        taken.close()
    cluster = tf.train.ClusterSpec({"ps": addresses[:1], "worker": addresses[1:]})
    servers = [tf1.train.Server(cluster, job_name=job, task_index=0) for job in ("ps", "worker")]
    return servers[1]


def train_on(server, mode, use_resource):
    """The losses, and the nodes of a step with the devices they ran on."""
    losses, metadata = [], tf1.RunMetadata()
    options = tf1.RunOptions(output_partition_graphs=True)
    with tf.Graph().as_default():
        tf1.set_random_seed(1)
        with tf1.device(tf1.train.replica_device_setter(ps_tasks=1)):
            loss, feeds = dense_loss(use_resource)
            step = tf1.train.AdamOptimizer(0.01).minimize(loss)
        with tf1.train.MonitoredTrainingSession(server.target, config=config_for(mode)) as session:
            for feed in feeds:
                losses.append(session.run([loss, step], feed, options, metadata)[0])
    return losses, [node for graph in metadata.partition_graphs for node in graph.node]


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("mode", MODES)
def test_weights_are_float32_on_the_server_and_low_on_the_way(mode, use_resource, worker):
    losses, nodes = train_on(worker, mode, use_resource)
    expected, _ = train_on(worker, FLOAT32, use_resource)
    np.testing.assert_allclose(losses, expected, rtol=0, atol=TOLERANCE[mode])
    assert losses != expected

    low = LOW_TYPES[mode].name
    on_server = [node for node in nodes if "/job:ps" in node.device]
    users = [node for node in nodes if uses_variable(node)]
    assert {node.device for node in users} == {on_server[0].device}
    assert not [node for node in users if low in dtypes_of(node)]
    sent = [dtypes_of(node) for node in on_server if node.op == "_Send"]
    assert sent.count({low}) >= 4
    assert {"float32"} not in sent
