"""The options of the precision optimizer, as one frozen value."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import rewriter_config_pb2

from npu_precision import _errors, _library, _rewrites

OPTIMIZER_NAME: str = _library.describe()["optimizer"]

_PATH_FIELDS = (
    "modify_mixlist",
    "customize_dtypes",
    "ops_info_dir",
    "ops_info_overlay",
    "report_dir",
    "dump_passes_dir",
)


@dataclasses.dataclass(frozen=True)
class PrecisionOptions:
    """All options of the optimizer; None stands for the default.

    Attributes:
        precision_mode: one of npu_bridge's precision modes, such as "allow_mix_precision".
        precision_mode_v2: the newer name of a mode, such as "mixed_bfloat16"; not with
            precision_mode.
        modify_mixlist: path of a JSON file that edits the white, black and gray lists; only in the
            mixed modes.
        customize_dtypes: path of a file with the dtypes of the inputs and outputs of op types and
            nodes, a line each; in every mode.
        mixlist_edits: the same JSON as text, on top of that file: for programs, such as
            npu_precision.amp.
        all_white: treats ops of the gray and black lists as white unless the edits say otherwise.
            Nodes that only update a variable, or sum over a loop, stay float32, and the lists
            decide about a scaled loss. In the mixed modes.
        keep_costly_islands: keeps nodes in float32 that the lists would lower, if the Casts around
            them take more time than they save, judged by the shapes; see "casts_cost_more" in
            docs/ledger.md. Mixed modes only.
        autocast_only: decides only about ops that autocast() marked while a graph was built; all
            others keep their dtype. Not with a mode.
        float16_compute: the dtype in which nodes lowered to float16 compute: "native",
            in float16; "float32", in float32 on values rounded to float16; "auto" (default), in
            float32 where the graph runs on a CPU without fast float16. Not with emulate.
        target: the device whose abilities and lists decide: "host" (default), "ascend910",
            "ascend910b" or "ascend310p".
        ops_info_dir: folder of ops-info JSON files that replaces the target's own.
        ops_info_overlay: folder of ops-info JSON files that come on top of the target's own, or of
            those of ops_info_dir. Their entry for an op replaces the whole earlier one.
        report_dir: folder that gets one ledger (JSON) per optimized graph.
        dump_passes_dir: folder that gets one folder per optimized graph, with the graph as text
            after each pass that changed it.
        strict: makes an internal failure fail the run, instead of leaving the graph as it was.
        rewrites: which rewrites for speed and size run, by name: a mapping such as
            {"layer_norm": False}, or a text such as "-layer_norm", "none" or "none,layer_norm".
            Other rewrites are as the target has them, or as a first item "all" or "none" says.
        lower_collectives: adds up gradients that come out of a Cast to float32 over the workers of
            tf.distribute before that Cast, in the low type, once the workers have agreed on it.
            This sends half the bytes, and rounds the sums; see docs/distributed.md.
        average_before: divides gradients before they are added up in the low type, and multiplies
            afterwards, both by a power of two, so that no sum of finite numbers overflows; by
            default in float16 alone. Only with lower_collectives.
        for_onednn: says that an offline result is for CPUs where TensorFlow computes with oneDNN,
            as it does by default on x86-64 since 2.9. Then `grouped_convolutions` and
            `means_as_pools` also run offline. Without oneDNN such a convolution is an error, and
            such a mean adds up in the low type. It has no effect in a session, where this is known.
        emulate: computes lowered nodes in float32 and rounds their values to the low type. Shows
            the accuracy of the mode on a machine without kernels for it. In the modes that lower.
        overflow: the result for values that `emulate` rounds to float16 and that do not fit: "inf",
            an infinity; or "saturate", 65504 of its sign, with a flag that loss scaling reads, as
            on an Ascend 910. By default "saturate" for the target "ascend910". Only with `emulate`.
        quiet: writes no line per optimized graph to the log; warnings stay. The offline
            conversions, which return the ledger, set it by default.

    Creating an instance checks it as the optimizer would, and reads the files that it names.

    Raises:
        ValueError: a wrong type, or anything the optimizer would fail the run for, with its text.

    Source: the parameters of npu_bridge's NpuOptimizer by their names (precision_mode,
    precision_mode_v2, modify_mixlist, customize_dtypes); the other fields are our own.
    """

    precision_mode: str | None = None
    precision_mode_v2: str | None = None
    modify_mixlist: str | None = None
    customize_dtypes: str | None = None
    mixlist_edits: str | None = None
    all_white: bool | None = None
    keep_costly_islands: bool | None = None
    autocast_only: bool | None = None
    float16_compute: str | None = None
    target: str | None = None
    ops_info_dir: str | None = None
    ops_info_overlay: str | None = None
    report_dir: str | None = None
    dump_passes_dir: str | None = None
    strict: bool | None = None
    rewrites: str | Mapping[str, bool] | None = None
    lower_collectives: bool | None = None
    average_before: bool | None = None
    for_onednn: bool | None = None
    emulate: bool | None = None
    overflow: str | None = None
    quiet: bool | None = None

    def __post_init__(self) -> None:
        """Checks every field, first its type, then through the optimizer's own parser."""
        for name, kind in _FIELD_TYPES.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _of_type(name, value, kind))
        _library.check_options(self.custom_optimizer())

    def to_parameter_map(self) -> dict[str, attr_value_pb2.AttrValue]:
        """The fields that are set, as the values of a CustomGraphOptimizer's parameter_map."""
        return {name: attr_value(value) for name, value in self.to_dict().items()}

    @classmethod
    def from_parameter_map(
        cls, parameter_map: Mapping[str, attr_value_pb2.AttrValue]
    ) -> PrecisionOptions:
        """The reverse of to_parameter_map.

        Parameters of npu_bridge without effect on stock TensorFlow have no field and are left out.

        Raises:
            ValueError: a parameter is unknown or has the wrong type, with the optimizer's text.
        """
        entry = rewriter_config_pb2.RewriterConfig.CustomGraphOptimizer(name=OPTIMIZER_NAME)
        for name, value in parameter_map.items():
            entry.parameter_map[name].CopyFrom(value)
        _library.check_options(entry)
        fields: dict[str, Any] = {
            name: plain_value(parameter_map[name])
            for name in ACCEPTED_NAMES
            if name in parameter_map
        }
        return cls(**fields)

    def to_dict(self) -> dict[str, str | bool]:
        """The fields that are set."""
        fields = dataclasses.asdict(self)
        return {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> str:
        """The fields that are set, as a JSON object."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> PrecisionOptions:
        """The reverse of to_json.

        Raises:
            ValueError: not a JSON object, a name that is no field or is given twice, a wrong value.
        """
        fields = json.loads(text, object_pairs_hook=_unique)
        if not isinstance(fields, dict):
            raise ValueError(f"got {_errors.got(fields)}, expected a JSON object of options")
        for name in fields:
            if name not in ACCEPTED_NAMES:
                raise ValueError(_unknown_field(name))
        return cls(**fields)

    def custom_optimizer(self) -> rewriter_config_pb2.RewriterConfig.CustomGraphOptimizer:
        """The entry of RewriterConfig.custom_optimizers that stands for these options."""
        entry = rewriter_config_pb2.RewriterConfig.CustomGraphOptimizer(name=OPTIMIZER_NAME)
        for name, value in self.to_parameter_map().items():
            entry.parameter_map[name].CopyFrom(value)
        return entry


_FIELD_TYPES = {
    field.name: bool if field.type == "bool | None" else str
    for field in dataclasses.fields(PrecisionOptions)
}
FIELD_NAMES = tuple(_FIELD_TYPES)
# And the older names for parts of `rewrites`.
ACCEPTED_NAMES = (*FIELD_NAMES, *_rewrites.OLD_NAMES)

_init_fields = PrecisionOptions.__init__


@functools.wraps(_init_fields)
def _init_names(self: PrecisionOptions, *values: Any, **fields: Any) -> None:
    _init_fields(self, *values, **_rewrites.without_old_names(fields))


PrecisionOptions.__init__ = _init_names  # type: ignore[method-assign]


def _of_type(name: str, value: Any, expected: type) -> Any:
    """Returns the value of a field, a path as text."""
    if name == "rewrites":
        return _rewrites.as_text(value)
    if name in _PATH_FIELDS and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, expected):
        wanted = "str or os.PathLike" if name in _PATH_FIELDS else expected.__name__
        raise ValueError(f"{name}: got {_errors.got(value)}, expected {wanted}")
    return value


def resolve(options: PrecisionOptions | None, fields: Mapping[str, Any]) -> PrecisionOptions:
    """Resolves the options of a call, for functions with the parameters (options=None, **fields).

    Raises:
        TypeError: options is not a PrecisionOptions, or a name is not one of its fields.
        ValueError: a wrong value.
    """
    check_arguments(options, fields)
    return dataclasses.replace(options or PrecisionOptions(), **fields)


def parameters(
    options: PrecisionOptions | None, fields: Mapping[str, Any]
) -> dict[str, attr_value_pb2.AttrValue]:
    """Like resolve(...).to_parameter_map(), for a parameter_map that already holds parameters.

    Checks names and types only. The caller checks the merged parameters as a whole.

    Raises:
        TypeError: as resolve.
        ValueError: a value of the wrong type.
    """
    check_arguments(options, fields)
    result = options.to_dict() if options else {}
    for name, value in _rewrites.without_old_names(fields).items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _of_type(name, value, _FIELD_TYPES[name])
    return {name: attr_value(value) for name, value in result.items()}


def check_arguments(options: PrecisionOptions | None, fields: Mapping[str, Any]) -> None:
    """Raises only the errors of resolve() that are about types and names, not values."""
    if options is not None and not isinstance(options, PrecisionOptions):
        raise TypeError(
            f"options: got {_errors.got(options)}, expected PrecisionOptions; name a mode with "
            f"precision_mode=..."
        )
    for name in fields:
        if name not in ACCEPTED_NAMES:
            raise TypeError(_unknown_field(name))


def attr_value(value: object) -> attr_value_pb2.AttrValue:
    """The AttrValue of a parameter; values of other types become text."""
    if isinstance(value, bool):
        return attr_value_pb2.AttrValue(b=value)
    if isinstance(value, int):
        return attr_value_pb2.AttrValue(i=value)
    if isinstance(value, float):
        return attr_value_pb2.AttrValue(f=value)
    return attr_value_pb2.AttrValue(s=value if isinstance(value, bytes) else str(value).encode())


def plain_value(value: attr_value_pb2.AttrValue) -> str | bool | int | float:
    """The value of a parameter; bytes become text."""
    kind = value.WhichOneof("value")
    if kind in ("b", "i", "f"):
        return getattr(value, kind)
    return value.s.decode("utf-8")


# The names of options in other interfaces, such as the command.
_OTHER_NAMES = {"mixlist": "modify_mixlist", "mode": "precision_mode"}


def _unknown_field(name: str) -> str:
    other = _OTHER_NAMES.get(name)
    meant = f" (did you mean {other!r}?)" if other else _errors.did_you_mean(name, FIELD_NAMES)
    return f"unknown option {name!r}{meant}; the options are {', '.join(FIELD_NAMES)}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is given {names.count(name)} times, expected once")
    return dict(pairs)
