"""The contenders on a GPU, and the settings of TensorFlow in which each runs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import tensorflow as tf
from gpu_rows import Row
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

import npu_precision

tf1 = tf.compat.v1
BASELINE = "float32"
EXACT = "no tf32"


@dataclasses.dataclass(frozen=True)
class Contender:
    """A contender.

    Attributes:
        policy: Keras' policy of the model.
        mode: our precision_mode, or None.
        is_amp: whether TensorFlow's auto_mixed_precision runs.
        has_tf32: whether float32's products and convolutions may be computed in TF32.
        rewrites: the option of our mode.
        is_bare: whether NpuOptimizer is an entry in custom_optimizers alone, which runs after
            TensorFlow's layout optimizer and remapper.
    """

    policy: str = "float32"
    mode: str | None = None
    is_amp: bool = False
    has_tf32: bool = True
    rewrites: str = "all"
    is_bare: bool = False

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        """Context in which its functions and sessions run."""
        experimental = tf.config.experimental
        tf32_before = experimental.tensor_float_32_execution_enabled()
        options_before = tf.config.optimizer.get_experimental_options()
        amp_before = options_before.get("auto_mixed_precision", False)
        experimental.enable_tensor_float_32_execution(self.has_tf32)
        tf.config.optimizer.set_experimental_options({"auto_mixed_precision": self.is_amp})
        try:
            with npu_precision.autocast(self.options) if self.mode else contextlib.nullcontext():
                yield
        finally:
            experimental.enable_tensor_float_32_execution(tf32_before)
            tf.config.optimizer.set_experimental_options({"auto_mixed_precision": amp_before})

    @property
    def options(self) -> npu_precision.PrecisionOptions:
        """The options of our mode."""
        return npu_precision.PrecisionOptions(precision_mode=self.mode, rewrites=self.rewrites)

    def config(self) -> tf1.ConfigProto:
        """The ConfigProto of its sessions."""
        if self.mode and not self.is_bare:
            return npu_precision.npu_config_proto(options=self.options)
        config = tf1.ConfigProto()
        if self.is_bare:
            rewrite_options = config.graph_options.rewrite_options
            rewrite_options.custom_optimizers.append(self.options.custom_optimizer())
        if self.is_amp:
            rewrite_options = config.graph_options.rewrite_options
            rewrite_options.auto_mixed_precision = RewriterConfig.ON
        return config


CONTENDERS = {
    BASELINE: Contender(),
    EXACT: Contender(has_tf32=False),
    "tf amp": Contender(is_amp=True),
    "keras fp16": Contender(policy="mixed_float16"),
    "keras bf16": Contender(policy="mixed_bfloat16"),
    "npu fp16": Contender(mode="allow_mix_precision"),
    "npu bf16": Contender(mode="allow_mix_precision_bf16"),
    "npu fp16 plain": Contender(mode="allow_mix_precision", rewrites="none"),
    "npu fp16 bare": Contender(mode="allow_mix_precision", is_bare=True),
}


def of_row(row: Row, rewrites: Sequence[str]) -> dict[str, Contender]:
    """The contenders of a row, by name: also ours in float16 with each of `rewrites`."""
    found = dict(CONTENDERS)
    for text in rewrites:
        found[f"npu fp16 {text}"] = Contender(mode="allow_mix_precision", rewrites=text)
    if row.is_compiled:
        # Grappler leaves out what XLA compiles, and our rewrites for kernels do, too.
        found = {
            name: each for name, each in found.items() if not each.is_amp and each.rewrites == "all"
        }
    if row.kind == "frozen":
        return {name: each for name, each in found.items() if each.policy == "float32"}
    del found["npu fp16 bare"]
    return found
