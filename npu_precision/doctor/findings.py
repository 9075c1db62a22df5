"""Turns the facts about an installation into findings, each with its fix."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

from npu_precision import _library_file
from npu_precision.doctor.facts import ONEDNN_VARIABLE

# An error keeps the package from working, a warning a part of it; a note is about speed.
ERROR, WARNING, NOTE = "error", "warning", "note"
# Ratios closer to 1 count as noise.
_SLOWER, _FASTER = 1.1, 0.9
_OLD_PROTOBUF = "pip install 'protobuf<3.21'"
_LOW_TYPES = {"allow_mix_precision": "float16", "allow_mix_precision_bf16": "bfloat16"}
_INSTRUCTIONS = {
    "float16": ("avx512_fp16", "amx_fp16"),
    "bfloat16": ("avx512_bf16", "amx_bf16"),
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that is wrong.

    Attributes:
        severity: ERROR, WARNING or NOTE.
        what: the problem.
        fix: the remedy, mostly a command.
    """

    severity: str
    what: str
    fix: str


def findings(facts: dict[str, Any]) -> list[Finding]:
    """The findings, the worst first, from the result of facts.collect()."""
    found = [finding for check in _CHECKS for finding in check(facts)]
    return sorted(found, key=lambda finding: (ERROR, WARNING, NOTE).index(finding.severity))


def _failed_step(facts: dict[str, Any]) -> Iterator[Finding]:
    for failed in facts["errors"]:
        step, error = failed["step"], failed["error"]
        if step in ("packages", "tensorflow"):
            if failed["missing"] == "tensorflow":
                yield _no_tensorflow(facts)
            else:
                what = f"TensorFlow does not import: {error}"
                yield Finding(ERROR, what, _fix_of_import(error, facts["packages"] or {}))
        elif step == "library":
            # The messages of _library_file end with the remedy.
            what, _, _ = error.replace("ImportError: ", "").partition(_library_file.REMEDY)
            what = re.sub(r"[\s:;,]+(or)?\s*$", "", what)
            yield Finding(ERROR, what, _library_file.REMEDY)
        else:
            what = f"a small network does not run in all modes: {error}"
            yield Finding(ERROR, what, "see `npu-precision doctor --debug`, and report it")


def _no_tensorflow(facts: dict[str, Any]) -> Finding:
    what = f"TensorFlow is not installed for {facts['python']['executable']}"
    libraries = facts["libraries"]
    if not libraries:
        return Finding(ERROR, what, f"install it, and then {_library_file.REMEDY}")
    install = f"pip install 'tensorflow=={libraries[-1]}.*'"
    known = ", ".join(libraries)
    return Finding(ERROR, what, f"`{install}` (npu_precision has libraries for {known} here)")


def _fix_of_import(error: str, packages: dict[str, str | None]) -> str:
    numpy, protobuf = packages.get("numpy"), packages.get("protobuf")
    if "SIGILL" in error:
        return (
            "this CPU lacks instructions that TensorFlow was compiled for, such as AVX: install a "
            "TensorFlow that was compiled for it"
        )
    # protobuf 4.21 says "cannot not be created".
    if re.search("Descriptors cannot (not )?be created directly", error):
        return f"`{_OLD_PROTOBUF}` (protobuf {protobuf} is installed)"
    if "runtime_version" in error or "gencode" in error:
        return f"`pip install --upgrade protobuf` (protobuf {protobuf} is installed)"
    if re.search("numpy|_ARRAY_API", error, re.IGNORECASE) and (numpy or "").startswith("2."):
        return f"`pip install 'numpy<2'` (numpy {numpy} is installed)"
    return (
        f"`pip check` shows what does not fit together (numpy {numpy}, protobuf {protobuf} are "
        "installed); `npu-precision doctor --debug` shows more"
    )


def _too_new_protobuf(facts: dict[str, Any]) -> Iterator[Finding]:
    """TensorFlow 1.15 imports with a newer protobuf only if that runs in Python, which is slow."""
    tensorflow, protobuf = facts["tensorflow"], (facts["packages"] or {}).get("protobuf")
    if tensorflow is None or protobuf is None or not tensorflow["version"].startswith("1."):
        return
    if tuple(int(part) for part in re.findall(r"\d+", protobuf)[:2]) >= (3, 21):
        what = (
            f"TensorFlow {tensorflow['version']} needs protobuf<3.21, and {protobuf} is installed"
        )
        yield Finding(WARNING, what, f"`{_OLD_PROTOBUF}`")


def _untested_library(facts: dict[str, Any]) -> Iterator[Finding]:
    library, tensorflow = facts["library"], facts["tensorflow"]
    if library is None:
        return
    minor = "{}.{}".format(*_library_file.minor_of(tensorflow["version"]))
    if library["minor"] not in (None, minor):
        what = f"the library is for TensorFlow {library['minor']}, and tried with {minor}"
        yield Finding(WARNING, what, _library_file.REMEDY)
    if not library["proved"]:
        why = f", as {_library_file.PATH_VARIABLE} names it" if library["given"] else ""
        what = f"the library was not proved in a process of its own{why}"
        proof = f"`{facts['python']['executable']} -m npu_precision.offline.self_rewrite`"
        yield Finding(NOTE, what, f"{proof} proves it, if it ends without an error")


def _report_page(facts: dict[str, Any]) -> Iterator[Finding]:
    page = facts["report_page"]
    if page is not None and page["error"] is not None:
        what = f"`npu-precision report` will not work: {page['error']}"
        yield Finding(WARNING, what, "`make build` in a checkout, or install the package again")


def _onednn(facts: dict[str, Any]) -> Iterator[Finding]:
    onednn = facts["onednn"]
    if onednn is None or onednn["on"]:
        return
    if onednn["included"]:
        given = "" if onednn["variable"] is None else f" ({ONEDNN_VARIABLE}={onednn['variable']})"
        what = f"oneDNN, which computes fast in the low types on a CPU, is switched off{given}"
        yield Finding(WARNING, what, f"`export {ONEDNN_VARIABLE}=1`")
    elif not facts["gpus"]:
        what = "this TensorFlow comes without oneDNN, which computes fast in the low types"
        yield Finding(NOTE, what, "use TensorFlow 2.9 or newer on x86")


def _hidden_gpu(facts: dict[str, Any]) -> Iterator[Finding]:
    if not facts["nvidia_driver"] or facts["gpus"] != []:
        return
    if facts["tensorflow"]["build"].get("is_cuda_build"):
        fix = "`pip install 'tensorflow[and-cuda]=={}'`".format(facts["tensorflow"]["version"])
        fix += "; CUDA_VISIBLE_DEVICES must name it, if it is set"
    else:
        fix = "install a TensorFlow that is built with CUDA (tensorflow, not tensorflow-cpu)"
    yield Finding(WARNING, "there is a driver for NVIDIA GPUs, but TensorFlow sees no GPU", fix)


def _costs(facts: dict[str, Any]) -> Iterator[Finding]:
    costs: dict[str, list[dict[str, Any]]] = {}
    for cost in facts["costs"] or []:
        costs.setdefault(cost["mode"], []).append(cost)
    faster = [
        mode
        for mode, each in costs.items()
        if all(cost["lowered"] and cost["ratio"] <= _SLOWER for cost in each)
        and any(cost["ratio"] < _FASTER for cost in each)
    ]
    for mode, each in costs.items():
        low_type = _LOW_TYPES[mode]
        kept = [cost["network"] for cost in each if not cost["lowered"]]
        if kept:
            what = f"{mode} lowers no {' and no '.join(kept)} here: there are no {low_type} kernels"
            yield Finding(NOTE, what, "use a newer TensorFlow, or `emulate=True` for accuracy")
        slow = [cost for cost in each if cost["lowered"] and cost["ratio"] > _SLOWER]
        if slow:
            times = " and ".join(f"{cost['ratio']:.1f} times ({cost['network']})" for cost in slow)
            what = f"{mode} takes {times} as long as float32{_lacks(low_type, facts)}"
            others = f"`{faster[0]}`, or " if faster else ""
            fix = f"for speed use {others}float32 (`must_keep_origin_dtype`)"
            yield Finding(NOTE, what, fix)


def _no_bfloat16(facts: dict[str, Any]) -> Iterator[Finding]:
    """The finding if no modes were measured."""
    lacks = _lacks("bfloat16", facts)
    if facts["tensorflow"] is not None and facts["costs"] is None and lacks:
        what = f"modes that lower to bfloat16 may be slower than float32{lacks}"
        yield Finding(NOTE, what, "`npu-precision doctor` without --no-measure measures it")


def _lacks(low_type: str, facts: dict[str, Any]) -> str:
    features, names = facts["cpu"]["features"], _INSTRUCTIONS[low_type]
    if facts["gpus"] or features is None or any(features[name] for name in names):
        return ""
    return f": this CPU has neither {' nor '.join(names)}"


_CHECKS: tuple[Callable[[dict[str, Any]], Iterator[Finding]], ...] = (
    _failed_step,
    _too_new_protobuf,
    _untested_library,
    _report_page,
    _onednn,
    _hidden_gpu,
    _costs,
    _no_bfloat16,
)
