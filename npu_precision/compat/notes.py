"""What cannot be read from our modules: names of npu_bridge and kin that they do not have.

For `collect`, which writes names.json. A name that a module has by now needs no line here: the
module is right.

Source: the module paths and names that public Ascend scripts and Huawei's public documentation of
TF Adapter use.
"""

from __future__ import annotations

_NPU_OP = "an op of the NPU; write TensorFlow's own"
_OPENS = "leave it out: it opens and closes an NPU"
_LARS = "write tf.norm of the weights and of the gradients, and their ratio"
_EMBEDDING = "an embedding service of NPUs; write tf.nn.embedding_lookup on a variable"

# Modules that are not here at all: what to write instead.
MODULES: dict[str, str] = {
    "npu_bridge.embedding": _EMBEDDING,
    "npu_bridge.estimator.npu_aicore_ops": _NPU_OP,
    "npu_bridge.estimator.npu.keras_to_npu": "write tf.keras.estimator.model_to_estimator",
    "npu_bridge.estimator.npu.npu_common": _OPENS,
    "npu_bridge.estimator.npu.npu_decorator": "leave it out: it is about the memory of an NPU",
    "npu_bridge.estimator.npu.npu_dynamic_rnn": "write tf.nn.dynamic_rnn",
    "npu_bridge.estimator.npu.npu_plugin": _OPENS,
    "npu_bridge.estimator.npu.npu_rnn": "write tf.nn.dynamic_rnn",
    "npu_bridge.estimator.npu.npu_saver": "write tf.train.Saver",
    "npu_bridge.experimental": _NPU_OP,
    "npu_bridge.helper": "leave it out: it loads the ops of the NPU",
    "npu_bridge.image": "write tf.image",
    "npu_bridge.npu_cpu": "an op of the NPU's own CPU; write TensorFlow's own",
    "npu_bridge.profiler": "write tf.profiler, or tf.compat.v1.profiler for sessions",
    "npu_bridge.tbe": _NPU_OP,
    "npu_device": "write npu_precision.enable(precision_mode=...)",
}

# Names that a module does not have: what to write instead. "*" stands for those not listed.
NAMES: dict[str, dict[str, str]] = {
    "npu_bridge.npu_init": {
        "DynamicInputConfig": "leave it out: shapes may differ from step to step here",
        "NPUCheckpointSaverHook": "write tf.train.CheckpointSaverHook",
        "NPUOutputTensorHook": "write tf.train.LoggingTensorHook",
        "keras_to_npu": "write from npu_bridge.estimator.npu import keras_to_npu",
        "npu_hook": "write from npu_bridge.estimator.npu import npu_hook",
        "npu_rnn": "write tf.nn.dynamic_rnn",
    },
    "npu_bridge.estimator.npu_ops": {
        "LARS": _LARS,
        "LARSV2": _LARS,
        "outfeed_dequeue_op": "fetch the tensors in session.run",
        "outfeed_enqueue_op": "fetch the tensors in session.run",
        "stop_outfeed_dequeue_op": "leave it out, as outfeed_enqueue_op",
        "*": _NPU_OP,
    },
    "npu_bridge.estimator.npu_unary_ops": {"*": _NPU_OP},
    "npu_bridge.estimator.npu.npu_hook": {
        "NPUCheckpointSaverHook": "write tf.train.CheckpointSaverHook",
        "NPUOutputTensorHook": "write tf.train.LoggingTensorHook",
        "TellMeStepOrLossHook": "leave it out: it informs an NPU about steps",
    },
}

# Names that have no effect here though their own docstring does not say so.
NO_EFFECT = ("ExperimentalConfig",)

# Modules with the names of another one.
SAME = {"npu_device.compat.v1": "npu_bridge"}

# Calls whose results have fields that scripts read and write.
RESULTS = ("npu_device.global_options()",)
