"""The options to rewrite each graph of a corpus with: every mode, with its further options."""

from __future__ import annotations

from typing import Dict, Tuple, Union

from npu_precision import _library
from replay.corpus import CPU, GPU

Options = Dict[str, Union[str, bool]]
Variant = Tuple[Options, Tuple[str, ...]]  # with the devices


def variants() -> list[Variant]:
    """Every mode on every target: alone, with each of its further options, and with a GPU."""
    described = _library.describe()
    modes = [(mode, target) for mode in described["modes"] for target in described["targets"]]
    return [variant for mode in modes for variant in _of_mode(*mode)] + [
        ({"precision_mode_v2": mode, "strict": True}, (CPU,)) for mode in described["modes_v2"]
    ]


def _of_mode(mode: str, target: str) -> list[Variant]:
    plain: Options = {"precision_mode": mode, "target": target, "strict": True}
    folding: Options = {**plain, "fold_constants": True}
    found: list[Variant] = [(plain, (CPU,)), (folding, (CPU,)), (folding, (CPU, GPU))]
    if mode not in ("force_fp32", "must_keep_origin_dtype"):
        found.append(({**plain, "emulate": True}, (CPU,)))
    if "mix" in mode:
        found.append(({**folding, "all_white": True}, (CPU,)))
    if mode in ("allow_mix_precision", "force_fp16"):
        found.append(({**plain, "float16_compute": "float32"}, (CPU,)))
    return found


def variants_of_turn(turn: int) -> list[Variant]:
    """Every mode once; targets and options take turns."""
    groups: dict[object, list[Variant]] = {}
    for variant in variants():
        if "precision_mode" in variant[0]:  # The other variants use other names of the same modes.
            groups.setdefault(variant[0]["precision_mode"], []).append(variant)
    return [group[(turn + number) % len(group)] for number, group in enumerate(groups.values())]
