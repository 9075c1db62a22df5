"""NPURunConfig: an Estimator's RunConfig with precision options."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from npu_precision import _errors, _library, _tf_compat
from npu_precision.npu_bridge.configs import (
    DumpConfig,
    ExperimentalConfig,
    MemoryConfig,
    ProfilingConfig,
)
from npu_precision.options import ACCEPTED_NAMES, PrecisionOptions, attr_value
from npu_precision.session import sessions

__all__ = [
    "DumpConfig",
    "ExperimentalConfig",
    "MemoryConfig",
    "NPURunConfig",
    "ProfilingConfig",
    "npu_run_config_init",
]

_RunConfig: Any = _tf_compat.estimator_class("RunConfig")


class NPURunConfig(_RunConfig):
    """A tf.estimator.RunConfig whose sessions run the precision optimizer.

    Works with tf.estimator.Estimator as with NPUEstimator. Takes, by keyword:

    - every argument of tf.estimator.RunConfig (model_dir, save_checkpoints_steps, ...);
      session_config becomes npu_config_proto(session_config, ...), in a copy;
    - every field of PrecisionOptions (precision_mode, modify_mixlist, report_dir, ...), each of
      which can be read back as a property;
    - iterations_per_loop, which NPUEstimator trains by: how many steps each session.run makes;
      tf.estimator.Estimator does not, as the log says;
    - dump_config, a DumpConfig;
    - npu_bridge's other arguments (profiling_config, ...), with values of any type. They have no
      effect on stock TensorFlow; the optimizer names them once in its log.

    Raises:
        ValueError: a wrong precision option, or one that session_config contradicts.
        TypeError: an unknown name.
        RuntimeError: this TensorFlow has no tf.estimator.

    Source: npu_bridge's NPURunConfig.
    """

    def __init__(self, memory_config: MemoryConfig | None = None, **arguments: Any) -> None:
        for name in arguments:
            if name not in _argument_names():
                raise TypeError(
                    f"NPURunConfig: unknown argument {name!r}"
                    f"{_errors.did_you_mean(name, _argument_names())}"
                )
        precision = {name: arguments.pop(name) for name in ACCEPTED_NAMES if name in arguments}
        inert = {
            name: arguments.pop(name)
            for name in _library.describe()["inert_parameters"]
            if name in arguments
        }
        if isinstance(inert.get("dump_config"), DumpConfig):
            inert.update(inert.pop("dump_config").parameters())
        if isinstance(memory_config, MemoryConfig):
            inert.update(memory_config.parameters())
        self._precision_options = PrecisionOptions(**precision)
        self._npu_parameters = self._precision_options.to_parameter_map()
        for name, value in inert.items():
            if value is not None:
                self._npu_parameters[name] = attr_value(value)
        # The base class first: it makes its own session_config if none is given and a cluster is
        # described.
        super().__init__(**arguments)
        self._session_config = sessions.config_with_parameters(
            self.session_config, self._npu_parameters
        )

    def replace(self, **kwargs: Any) -> NPURunConfig:
        """Like tf.estimator.RunConfig.replace; a new session_config gets the old one's options.

        Raises:
            ValueError: a property that cannot be replaced, or a session_config that contradicts
                the options.
        """
        if kwargs.get("session_config") is not None:
            kwargs["session_config"] = sessions.config_with_parameters(
                kwargs["session_config"], self._npu_parameters
            )
        return super().replace(**kwargs)

    @property
    def precision_options(self) -> PrecisionOptions:
        """The precision options that were given; session_config may hold more."""
        return self._precision_options


def _option_property(name: str) -> property:
    def read(self: NPURunConfig) -> Any:
        return getattr(self.precision_options, name)

    return property(read, doc=f"PrecisionOptions.{name} as given, or None.")


for _field in dataclasses.fields(PrecisionOptions):
    setattr(NPURunConfig, _field.name, _option_property(_field.name))


def npu_run_config_init(
    run_config: Any = None, options: PrecisionOptions | None = None, **fields: Any
) -> Any:
    """A RunConfig whose sessions run the precision optimizer.

    Args:
        run_config: a tf.estimator.RunConfig, which is not changed; None for a default one.
        options: the precision options.
        **fields: fields of PrecisionOptions, on top of options.

    Returns:
        A new RunConfig.

    Raises:
        ValueError: as npu_config_proto.
        TypeError: as npu_config_proto; run_config is no RunConfig.
        RuntimeError: this TensorFlow has no tf.estimator.

    Source: npu_bridge's npu_run_config_init(run_config=None).
    """
    if run_config is None:
        run_config = _RunConfig()
    elif not isinstance(run_config, _RunConfig):
        raise TypeError(
            f"run_config: got {_errors.got(run_config)}, expected tf.estimator.RunConfig"
        )
    return run_config.replace(
        session_config=sessions.npu_config_proto(run_config.session_config, options, **fields)
    )


def _argument_names() -> list[str]:
    base = [name for name in inspect.signature(_RunConfig.__init__).parameters if name != "self"]
    return [*base, *ACCEPTED_NAMES, *_library.describe()["inert_parameters"]]
