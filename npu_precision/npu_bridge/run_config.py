"""NPURunConfig: an Estimator's RunConfig with precision options."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from npu_precision import _errors, _library, _tf_compat
from npu_precision.options import FIELD_NAMES, PrecisionOptions, attr_value
from npu_precision.session import sessions

_RunConfig: Any = _tf_compat.estimator_class("RunConfig")


class ProfilingConfig:
    """npu_bridge's record of profiling settings, accepted so that scripts run unchanged.

    Its arguments become attributes. They have no effect on stock TensorFlow; the log says so.

    Source: npu_bridge's ProfilingConfig(enable_profiling=False, profiling_options=None).
    """

    def __init__(
        self, enable_profiling: bool = False, profiling_options: Any = None, **others: Any
    ) -> None:
        self.enable_profiling = enable_profiling
        self.profiling_options = profiling_options
        vars(self).update(others)

    def __repr__(self) -> str:
        return _record(self)


class DumpConfig:
    """npu_bridge's record of dump settings, accepted so that scripts run unchanged.

    Its arguments become attributes. They have no effect on stock TensorFlow; the log says so.

    Source: npu_bridge's DumpConfig(enable_dump=False, dump_path=None, dump_step=None,
    dump_mode="output", enable_dump_debug=False, dump_debug_mode="all").
    """

    def __init__(
        self,
        enable_dump: bool = False,
        dump_path: str | None = None,
        dump_step: str | None = None,
        dump_mode: str = "output",
        enable_dump_debug: bool = False,
        dump_debug_mode: str = "all",
        **others: Any,
    ) -> None:
        self.enable_dump = enable_dump
        self.dump_path = dump_path
        self.dump_step = dump_step
        self.dump_mode = dump_mode
        self.enable_dump_debug = enable_dump_debug
        self.dump_debug_mode = dump_debug_mode
        vars(self).update(others)

    def __repr__(self) -> str:
        return _record(self)


class NPURunConfig(_RunConfig):
    """A tf.estimator.RunConfig whose sessions run the precision optimizer.

    Works with tf.estimator.Estimator as with NPUEstimator. Takes, by keyword:

    - every argument of tf.estimator.RunConfig (model_dir, save_checkpoints_steps, ...);
      session_config becomes npu_config_proto(session_config, ...), in a copy;
    - every field of PrecisionOptions (precision_mode, modify_mixlist, report_dir, ...), each of
      which can be read back as a property;
    - npu_bridge's other arguments (iterations_per_loop, dump_config, ...), with values of any
      type. They have no effect on stock TensorFlow; the optimizer names them once in its log.

    Raises:
        ValueError: a wrong precision option, or one that session_config contradicts.
        TypeError: an unknown name.
        RuntimeError: this TensorFlow has no tf.estimator.

    Source: npu_bridge's NPURunConfig.
    """

    def __init__(self, **arguments: Any) -> None:
        for name in arguments:
            if name not in _argument_names():
                raise TypeError(
                    f"NPURunConfig: unknown argument {name!r}"
                    f"{_errors.did_you_mean(name, _argument_names())}"
                )
        precision = {name: arguments.pop(name) for name in FIELD_NAMES if name in arguments}
        inert = {
            name: arguments.pop(name)
            for name in _library.describe()["inert_parameters"]
            if name in arguments
        }
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
    return [*base, *FIELD_NAMES, *_library.describe()["inert_parameters"]]


def _record(config: object) -> str:
    fields = ", ".join(f"{name}={value!r}" for name, value in vars(config).items())
    return f"{type(config).__name__}({fields})"
