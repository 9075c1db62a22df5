"""What a worker or parameter server of a ParameterServerStrategy runs; TF_CONFIG says which."""

import tensorflow as tf

import npu_precision  # The functions that the coordinator sends are optimized here.

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
tf.distribute.Server(
    resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id
).join()
