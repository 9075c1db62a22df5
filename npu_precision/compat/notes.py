"""Facts that cannot be read from our modules: names of npu_bridge and kin that they lack.

For `collect`, which writes names.json. A name that a module has needs no line here: the module
takes precedence.

Source: the module paths and names that public Ascend scripts and Huawei's public documentation of
TF Adapter use.
"""

from __future__ import annotations

_NPU_OP = "an op of the NPU; write TensorFlow's own"
_OPENS = "leave it out: it opens and closes an NPU"
_EMBEDDING = "an embedding service of NPUs; write tf.nn.embedding_lookup on a variable"

# Modules that do not exist here, and what to write instead.
MODULES: dict[str, str] = {
    "npu_bridge.embedding": _EMBEDDING,
    "npu_bridge.estimator.npu_aicore_ops": _NPU_OP,
    "npu_bridge.estimator.npu.npu_decorator": "leave it out: it is about the memory of an NPU",
    "npu_bridge.estimator.npu.npu_saver": "write tf.train.Saver",
    "npu_bridge.experimental": _NPU_OP,
    "npu_bridge.image": "write tf.image",
    "npu_bridge.profiler": "write tf.profiler, or tf.compat.v1.profiler for sessions",
    "npu_bridge.tbe": _NPU_OP,
}

# Names that a module lacks, and what to write instead. "*" stands for all others.
NAMES: dict[str, dict[str, str]] = {
    "npu_bridge.npu_init": {
        "DynamicInputConfig": "leave it out: shapes may differ from step to step here",
        "keras_to_npu": "write from npu_bridge.estimator.npu import keras_to_npu",
        "npu_hook": "write from npu_bridge.estimator.npu import npu_hook",
    },
    "npu_bridge.estimator.npu_ops": {
        "outfeed_dequeue_op": "fetch the tensors in session.run",
        "outfeed_enqueue_op": "fetch the tensors in session.run",
        "stop_outfeed_dequeue_op": "leave it out, as outfeed_enqueue_op",
        "*": _NPU_OP,
    },
    "npu_bridge.estimator.npu_unary_ops": {"*": _NPU_OP},
}

# Names that have no effect here although their docstring does not say so.
NO_EFFECT = ("ExperimentalConfig",)

# Modules with the names of another one.
SAME = {"npu_device.compat.v1": "npu_bridge"}

# Calls whose results have fields that scripts read and write.
RESULTS = ("npu_device.global_options()",)
