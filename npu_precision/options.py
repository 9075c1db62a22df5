"""The options of the precision optimizer, as one frozen value."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import rewriter_config_pb2

from npu_precision import _errors, _library, _rewrites

OPTIMIZER_NAME: str = _library.describe()["optimizer"]

_MIXLIST = "modify_mixlist"
# Fields that take an os.PathLike too.
PATH_FIELDS = (
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
        precision_mode: one of npu_bridge's precision modes, such as "allow_mix_precision". By
            default, enable() and autocast() choose a mixed mode that suits the device; sessions
            and models in files take "allow_fp32_to_fp16". See docs/modes.md.
        precision_mode_v2: the newer name of a mode, such as "mixed_bfloat16"; not with
            precision_mode.
        modify_mixlist: path of a JSON file that edits the white, black and gray lists, or its
            content as a mapping, such as `{"black-list": {"to-add": ["Exp"]}}`, which is kept as
            JSON. Mixed modes only. See docs/mixlist.md.
        mixlist_edits: the same JSON as text, applied after that file. It is meant for programs, so
            an entry that matches nothing produces no warning. Mixed modes only.
        customize_dtypes: path of a file with the dtypes of the inputs and outputs of op types and
            nodes, a line each. See docs/mixlist.md#customize_dtypes-the-dtypes-of-one-op-or-node.
        all_white: treats ops of the gray and black lists as white unless an edit says otherwise.
            Ops that only update a variable or sum over a loop stay float32. Ops between the last
            matrix or convolution op and a scaled loss follow the lists. Mixed modes only.
        white_only: keeps ops of the gray list in float32 unless an edit says otherwise, as if they
            were black. Mixed modes only; not with all_white.
        keep_costly_islands: keeps nodes in float32 where the Casts around them cost more time than
            lowering saves: lowered nodes between float32 ones, of known shapes (but for the batch),
            with small products, such as a MatMul of 64 columns or fewer between two black ops.
            Nodes that an edit makes white are lowered. The reason in the ledger is
            casts_cost_more. Mixed modes only.
        lower_compiled: lowers functions that XLA compiles (`jit_compile=True`) too, which is the
            default. Without a mode, on a CPU, enable() and autocast() set it to False: there, XLA's
            code is slower in bfloat16 than in float32. See docs/options.md#what-xla-compiles.
        autocast_only: decides only about ops that autocast() marked while the graph was built; all
            others keep their dtype. Not with a mode. See
            docs/options.md#autocast-lower-some-ops-only.
        target: the device whose lists and kernels decide: "host" (default), "ascend910",
            "ascend910b" or "ascend310p". See docs/modes.md#targets.
        ops_info_dir: path of a folder of ops-info files that replaces the target's lists. See
            docs/mixlist.md#ops-info-of-your-own.
        ops_info_overlay: path of a folder of ops-info files that is applied after the target's
            lists, or after ops_info_dir. Its entry for an op replaces the whole earlier entry.
        float16_compute: the dtype in which nodes compute that were lowered to float16: "native",
            float16; "float32", float32 on values rounded to float16; "auto" (default), float32
            where the graph runs on a CPU that only emulates float16. Unless it is "native",
            matrix products of bfloat16 compute in float32 on a CPU without oneDNN's kernels of
            them, where TensorFlow's truncate. With `emulate` only "auto".
            See docs/options.md#float16-on-a-cpu.
        rewrites: which rewrites for speed and size run, by name: a mapping such as
            `{"layer_norm": False}`, or a text such as "-layer_norm", "none" or "none,layer_norm".
            See docs/options.md#rewrites-for-speed-and-size.
        lower_collectives: sums gradients over the workers of tf.distribute in the low type, where
            the gradient comes from a Cast to float32: the sum moves before that Cast, once the
            workers have agreed on it. Mixed modes and force_fp16. See docs/distributed.md.
        report_dir: path of a folder for the ledgers, one per graph. It is created if needed. See
            docs/ledger.md.
        dump_passes_dir: path of a folder for dumps. Each graph gets a folder in it, with the graph
            as text, one node a line: as it was given, and after each pass that changed it. It is
            created if needed.
        strict: an internal failure fails the run instead of leaving the graph as it was. Each pass
            is also checked: it must report correctly whether it changed the graph. Warnings do not
            become errors.
        emulate: computes lowered nodes in float32, and rounds their inputs and outputs to the low
            type. This shows what a mode costs in accuracy if its kernels are missing or slow. Modes
            that lower only.
        overflow: the result of rounding a value that is too large for float16: "inf", an infinity;
            or "saturate", 65504 with the sign of the value, and a flag that loss scaling reads (see
            docs/loss-scaling.md#overflow-of-an-emulated-ascend-910). By default "saturate" for the
            target "ascend910". Only with `emulate`.

    Creating an instance checks it as the optimizer would, and reads the files that it names.

    Raises:
        ValueError: a wrong type, or anything the optimizer would fail the run for, with its text.

    Source: the parameters of npu_bridge's NpuOptimizer by their names (precision_mode,
    precision_mode_v2, modify_mixlist, customize_dtypes); the other fields are our own.
    """

    precision_mode: str | None = None
    precision_mode_v2: str | None = None
    modify_mixlist: str | Mapping[str, Any] | None = None
    mixlist_edits: str | None = None
    customize_dtypes: str | None = None
    all_white: bool | None = None
    white_only: bool | None = None
    keep_costly_islands: bool | None = None
    lower_compiled: bool | None = None
    autocast_only: bool | None = None
    target: str | None = None
    ops_info_dir: str | None = None
    ops_info_overlay: str | None = None
    float16_compute: str | None = None
    rewrites: str | Mapping[str, bool] | None = None
    lower_collectives: bool | None = None
    report_dir: str | None = None
    dump_passes_dir: str | None = None
    strict: bool | None = None
    emulate: bool | None = None
    overflow: str | None = None

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
        fields = ((name, getattr(self, name)) for name in FIELD_NAMES)
        return {name: value for name, value in fields if value is not None}

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
# By what a group is about, its first field. Documents show the groups.
GROUPS = {
    "What is lowered": "precision_mode",
    "The device": "target",
    "What else is rewritten": "rewrites",
    "Where files are written": "report_dir",
    "How it is checked": "strict",
}
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
    if name == _MIXLIST and isinstance(value, Mapping):
        return _as_json(value)
    if name in PATH_FIELDS and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, expected):
        wanted = "str or os.PathLike" if name in PATH_FIELDS else expected.__name__
        if name == _MIXLIST:
            wanted = "str, os.PathLike or a mapping with the content of the file"
        raise ValueError(f"{name}: got {_errors.got(value)}, expected {wanted}")
    return value


def _as_json(mixlist: Mapping[str, Any]) -> str:
    """The JSON of a mixlist; the optimizer checks what is in it."""

    def plain(value: Any, place: str) -> Any:
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    raise ValueError(f"{place}: got the key {_errors.got(key)}, expected str")
            return {key: plain(each, f"{place}[{json.dumps(key)}]") for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(each, f"{place}[{number}]") for number, each in enumerate(value)]
        if value is None or isinstance(value, (str, bool, int, float)):
            return value
        raise ValueError(f"{place}: got {_errors.got(value)}, expected what JSON has")

    return json.dumps(plain(mixlist, _MIXLIST))


def mixlist_file(options: PrecisionOptions) -> str | None:
    """The file of modify_mixlist; None if there is none, or if the mixlist was given itself."""
    given = options.modify_mixlist
    assert given is None or isinstance(given, str)
    # As the optimizer tells them apart.
    return None if given is None or given.startswith("{") else given


def mixlist_content(options: PrecisionOptions) -> bytes | None:
    """The content of modify_mixlist, as JSON; None if there is none.

    Raises:
        OSError: its file cannot be read.
    """
    file = mixlist_file(options)
    if file is not None:
        return pathlib.Path(file).read_bytes()
    return None if options.modify_mixlist is None else str(options.modify_mixlist).encode()


def resolve(options: PrecisionOptions | None, fields: Mapping[str, Any]) -> PrecisionOptions:
    """Resolves the options of a call, for functions with the parameters (options=None, **fields).

    Raises:
        TypeError: options is not a PrecisionOptions, or a name is not one of its fields.
        ValueError: a wrong value.
    """
    check_arguments(options, fields)
    if options is not None and not fields:
        return options
    # One instance, since each is checked as the optimizer would, files included.
    return PrecisionOptions(**fields) if options is None else dataclasses.replace(options, **fields)


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


def with_mode(options: PrecisionOptions, mode: str, what: str) -> PrecisionOptions:
    """The options with a mode, by its older or newer name.

    Args:
        options: the options, with another mode or none.
        mode: the name.
        what: what gave it, for an error.

    Raises:
        ValueError: there is no such mode.
    """
    why_not = _library.why_no_mode(mode)
    if why_not is not None:
        raise ValueError(f"{what}: {why_not}")
    is_newer = mode not in _library.describe()["modes"]
    return dataclasses.replace(
        options,
        precision_mode=None if is_newer else mode,
        precision_mode_v2=mode if is_newer else None,
    )


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


# What the command calls them, and an option that is gone.
_OTHER_NAMES = {"mixlist": "modify_mixlist", "mode": "precision_mode", "for_onednn": "rewrites"}


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
