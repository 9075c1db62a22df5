"""Maps the optimization levels O0 to O3, with overrides, to a mode, lists and a loss scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from npu_precision import _errors
from npu_precision.amp import registered
from npu_precision.loss_scaling import strategies
from npu_precision.options import ACCEPTED_NAMES, PrecisionOptions
from npu_precision.session import low_types

_LARGEST_SCALE = 2.0**24
_FIRST_SCALE = 2.0**16
# The fields of PrecisionOptions that the level sets; overrides may not.
_DECIDED = ("precision_mode", "precision_mode_v2", "mixlist_edits", "all_white")
# Entries of a mixlist: fused batch norms by op type, and batch norms of several ops by the name
# scopes that TensorFlow gives them.
_BATCH_NORMS = [
    *(f"FusedBatchNorm{kin}{version}" for kin in ("", "Grad") for version in ("", "V2", "V3")),
    "node:(.*/)?(batchnorm|moments)(_[0-9]+)?(_grad)?/.*",
]


@dataclasses.dataclass(frozen=True)
class Properties:
    """A level with its overrides, by the names of Apex.

    Attributes:
        options: fields of PrecisionOptions.
        notes: the overrides that have no effect, a sentence each.
    """

    opt_level: str
    enabled: bool = True
    patch_torch_functions: bool = False
    master_weights: bool = True
    keep_batchnorm_fp32: bool | None = None
    loss_scale: float | str = 1.0
    min_loss_scale: float | None = None
    max_loss_scale: float = _LARGEST_SCALE
    num_losses: int = 1
    cast_model_type: tf.DType = tf.float16
    cast_model_outputs: tf.DType | None = None
    combine_grad: bool = False
    combine_ddp: bool = False
    verbosity: int = 1
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def strategy(self) -> Any:
        """The strategy for each loss scale."""
        if self.loss_scale == "dynamic":
            least = self.min_loss_scale or strategies.DynamicLossScale.min_scale
            first = max(least, min(_FIRST_SCALE, self.max_loss_scale))
            return strategies.DynamicLossScale(
                first, min_scale=least, max_scale=self.max_loss_scale
            )
        if self.loss_scale == 1.0:
            return strategies.NoLossScale()
        return strategies.FixedLossScale(float(self.loss_scale))

    def precision_options(self) -> PrecisionOptions:
        """The mode and the lists."""
        mode = low_types.MODES[tf.bfloat16 if self.cast_model_type == tf.bfloat16 else tf.float16]
        if self.opt_level == "O0":
            return PrecisionOptions(precision_mode="force_fp32", **self.options)
        if self.opt_level == "O3" and not self.keep_batchnorm_fp32:
            return PrecisionOptions(precision_mode="force_fp16", **self.options)
        added = registered.registered()
        if self.keep_batchnorm_fp32:
            known = {op for ops in added.values() for op in ops}
            kept = [op for op in _BATCH_NORMS if op not in known]
            added["black"] = added.get("black", []) + kept
        return PrecisionOptions(
            precision_mode=mode,
            mixlist_edits=registered.as_mixlist(added) if added else None,
            all_white=self.opt_level != "O1" or None,
            **self.options,
        )


LEVELS = {
    "O0": Properties("O0", cast_model_type=tf.float32, master_weights=False),
    "O1": Properties("O1", patch_torch_functions=True, loss_scale="dynamic"),
    "O2": Properties("O2", keep_batchnorm_fp32=True, loss_scale="dynamic"),
    "O3": Properties("O3", keep_batchnorm_fp32=False),
}
SUMMARIES = {
    "O0": "everything in float32",
    "O1": "the lists decide what is lowered",
    "O2": "everything is lowered but batch norms and what updates variables",
    "O3": "everything is lowered",
}
OVERRIDES = tuple(
    field.name
    for field in dataclasses.fields(Properties)
    if field.name not in ("opt_level", "options", "notes")
)
# Overrides that are checked but change nothing.
_BY_LEVEL_ALONE = ("patch_torch_functions", "master_weights")


def properties(opt_level: str, overrides: Mapping[str, Any]) -> Properties:
    """Applies overrides to a level; those that are None change nothing.

    Raises:
        ValueError: an unknown level, a wrong value, or one that makes no sense at this level.
        TypeError: an unknown override.
    """
    if opt_level not in LEVELS:
        hint = "; the letter is O, not zero" if str(opt_level)[:1] == "0" else ""
        raise ValueError(
            f"opt_level: got {_errors.got(opt_level)}, expected one of {', '.join(LEVELS)}{hint}"
        )
    given = {name: value for name, value in overrides.items() if value is not None}
    options = {name: given.pop(name) for name in list(given) if name in ACCEPTED_NAMES}
    for name in given:
        if name not in OVERRIDES:
            names = (*OVERRIDES, *ACCEPTED_NAMES)
            raise TypeError(
                f"unknown override {name!r}{_errors.did_you_mean(name, names)}; the overrides are "
                f"{', '.join(OVERRIDES)}, and the fields of PrecisionOptions"
            )
    for name in _DECIDED:
        if name in options:
            raise ValueError(f"{name}: got {options[name]!r}, but opt_level decides that")
    given = {name: _parsed(name, value) for name, value in given.items()}
    if given.get("cast_model_type") == tf.bfloat16:
        given.setdefault("loss_scale", 1.0)  # bfloat16 has the range of float32
    _check_patches(opt_level, given)
    notes = tuple(_notes(opt_level, given))
    for name in [name for name in given if name in _BY_LEVEL_ALONE]:
        given.pop(name)
    result = dataclasses.replace(LEVELS[opt_level], **given, options=options, notes=notes)
    _check_sense(result, given)
    return result


def _check_patches(opt_level: str, given: Mapping[str, Any]) -> None:
    is_default = LEVELS[opt_level].patch_torch_functions
    patches = given.get("patch_torch_functions", is_default)
    if patches and not is_default:
        raise ValueError(
            f"patch_torch_functions: True makes no sense at {opt_level}, where "
            f"{SUMMARIES[opt_level]}; take O1, where the lists decide op by op"
        )
    if not patches and is_default:
        raise ValueError(
            "patch_torch_functions: False makes no sense at O1, where the lists decide op by op; "
            "take O2, which lowers everything but batch norms"
        )


def _notes(opt_level: str, given: Mapping[str, Any]) -> Iterator[str]:
    """The overrides that have no effect, a sentence each."""
    if given.get("master_weights") is False and opt_level != "O0":
        yield "master_weights=False: variables stay float32 at every level, as master weights are"
    fixed = given.get("loss_scale", LEVELS[opt_level].loss_scale)
    for name in ("min_loss_scale", "max_loss_scale"):
        if name in given and fixed != "dynamic":
            yield f"{name}: the loss scale is fixed, {fixed}"


def _parsed(name: str, value: Any) -> Any:
    """Checks and converts a value: options often come as text, from a command line."""
    if name in ("enabled", "combine_grad", "combine_ddp", "keep_batchnorm_fp32", *_BY_LEVEL_ALONE):
        if isinstance(value, str):
            value = {"True": True, "False": False}.get(value, value)
        if not isinstance(value, bool):
            raise ValueError(f"{name}: got {_errors.got(value)}, expected a bool")
    elif name in ("loss_scale", "min_loss_scale", "max_loss_scale"):
        if name == "loss_scale" and value == "dynamic":
            return value
        value = _number(value) if isinstance(value, str) else value
        strategies.check_scale(name, value)
        value = float(value)
    elif name == "num_losses":
        strategies.check_count(name, value)
    elif name in ("cast_model_type", "cast_model_outputs"):
        value = _dtype(name, value)
    elif name == "verbosity" and (isinstance(value, bool) or value not in (0, 1)):
        raise ValueError(f"verbosity: got {_errors.got(value)}, expected 0 or 1")
    return value


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _dtype(name: str, value: Any) -> tf.DType:
    dtype = low_types.dtype_or_none(value)
    if dtype is None:
        raise ValueError(f"{name}: got {_errors.got(value)}, expected a tf.DType")
    return dtype


def _check_sense(result: Properties, given: Mapping[str, Any]) -> None:
    level = result.opt_level
    if level != "O0" and result.cast_model_type not in (tf.float16, tf.bfloat16):
        raise ValueError(
            f"cast_model_type: got {result.cast_model_type.name}, expected float16 or bfloat16"
        )
    if level == "O0":
        for name, own in (("keep_batchnorm_fp32", None), ("cast_model_type", tf.float32)):
            if name in given and given[name] is not own:
                raise ValueError(f"{name}: makes no sense at O0, which computes all in float32")
    if level == "O1" and given.get("keep_batchnorm_fp32") is False:
        raise ValueError(
            "keep_batchnorm_fp32: False makes no sense at O1, where the lists decide about batch "
            'norms: to lower them, call amp.register_half_function("FusedBatchNormV3")'
        )
    if level == "O3" and result.cast_model_type == tf.bfloat16 and not result.keep_batchnorm_fp32:
        raise ValueError(
            "cast_model_type: bfloat16 makes no sense at O3: no precision mode forces it; take O2"
        )
    if result.cast_model_outputs not in (None, tf.float32):
        raise ValueError(
            f"cast_model_outputs: got {result.cast_model_outputs.name}, but what is fetched or "
            "returned keeps its dtype at every level; expected float32, which is what it has"
        )
    if result.loss_scale != "dynamic":
        return
    if (result.min_loss_scale or 0.0) > result.max_loss_scale:
        raise ValueError(
            f"min_loss_scale: got {result.min_loss_scale}, which is above max_loss_scale, "
            f"{result.max_loss_scale}"
        )
