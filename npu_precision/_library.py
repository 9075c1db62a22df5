"""Loads the shared library, once, and calls its C functions.

Importing any module of the package imports this one, which registers the optimizer "NpuOptimizer"
and the op that carries its error messages with TensorFlow.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

try:
    import tensorflow as tf
except ModuleNotFoundError as _error:
    if _error.name != "tensorflow":
        raise
    raise ModuleNotFoundError(
        "npu_precision needs a TensorFlow, and this Python has none: install the one that you "
        "want, or the newest with `pip install 'npu-precision[tensorflow]'`",
        name="tensorflow",
    ) from None
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import rewriter_config_pb2

from npu_precision import _library_file
from npu_precision._library_file import MISFIT, PATH_VARIABLE, REMEDY

_FOLDER = pathlib.Path(__file__).resolve().parent / "_lib"


def _library_path() -> pathlib.Path:
    given = os.environ.get(PATH_VARIABLE)
    if not given:
        path = _library_file.find(tf.__version__, _FOLDER).resolve()
        _library_file.prove(path, tf.__version__, str(pathlib.Path(tf.__file__).parent))
        return path
    path = pathlib.Path(given)
    if not path.is_file():
        raise ImportError(f"{PATH_VARIABLE} names {given!r}, which is not a file; {REMEDY}.")
    # TensorFlow identifies a library by its path: a library loaded from two paths would register
    # the op twice.
    return path.resolve()


def _load() -> ctypes.CDLL:
    try:
        tf.load_library(str(PATH))
        library = ctypes.CDLL(str(PATH))
        for name in (
            "NpuPrecisionBodyFacts",
            "NpuPrecisionCheckMode",
            "NpuPrecisionCheckOptions",
            "NpuPrecisionDrainFlight",
            "NpuPrecisionCallBoundaries",
            "NpuPrecisionDescribe",
            "NpuPrecisionFileFormat",
            "NpuPrecisionLintCustomDtypes",
            "NpuPrecisionCount",
            "NpuPrecisionIdleModes",
            "NpuPrecisionLintMixlist",
            "NpuPrecisionLintOpsInfo",
            "NpuPrecisionLists",
            "NpuPrecisionKeptCasts",
            "NpuPrecisionTakeSaturations",
        ):
            # Not c_char_p: ctypes would copy the text and lose the pointer, which must be freed.
            getattr(library, name).restype = ctypes.c_void_p
        library.NpuPrecisionBodyFacts.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_char_p,
        ]
        library.NpuPrecisionCallBoundaries.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(ctypes.c_size_t),
        ]
        library.NpuPrecisionCheckMode.argtypes = [ctypes.c_char_p]
        library.NpuPrecisionCheckOptions.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        library.NpuPrecisionCount.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        library.NpuPrecisionDescribe.argtypes = []
        library.NpuPrecisionLintMixlist.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_char_p,
            ctypes.c_size_t,
        ]
        for lint in (library.NpuPrecisionLintOpsInfo, library.NpuPrecisionLintCustomDtypes):
            lint.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
        library.NpuPrecisionFileFormat.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        library.NpuPrecisionLists.argtypes = [ctypes.c_char_p]
        library.NpuPrecisionKeptCasts.argtypes = []
        library.NpuPrecisionTakeSaturations.argtypes = []
        library.NpuPrecisionLoweredSoFar.argtypes = [ctypes.POINTER(ctypes.c_int64)] * 2
        library.NpuPrecisionLoweredSoFar.restype = None
        library.NpuPrecisionTakeOverflow.argtypes = []
        library.NpuPrecisionTakeOverflow.restype = ctypes.c_int
        library.NpuPrecisionSetCollectiveAgreement.argtypes = [ctypes.c_int]
        library.NpuPrecisionSetCollectiveAgreement.restype = None
        library.NpuPrecisionCanReduce.argtypes = [ctypes.c_int, ctypes.c_int]
        library.NpuPrecisionCanReduce.restype = ctypes.c_int
        library.NpuPrecisionOpenFlight.argtypes = [ctypes.c_int, ctypes.c_char_p]
        library.NpuPrecisionOpenFlight.restype = None
        library.NpuPrecisionCloseFlight.argtypes = []
        library.NpuPrecisionCloseFlight.restype = None
        library.NpuPrecisionDrainFlight.argtypes = [ctypes.c_int]
        library.NpuPrecisionFree.argtypes = [ctypes.c_void_p]
        library.NpuPrecisionFree.restype = None
    except (tf.errors.OpError, OSError, AttributeError) as error:
        raise ImportError(
            f"{PATH} does not load into TensorFlow {tf.__version__}: {error}. {MISFIT}; {REMEDY}."
        ) from error
    return library


PATH = _library_path()
_LIBRARY = _load()


def _text(function: Callable[..., int | None], *args: Any) -> str | None:
    """Calls a function that returns malloc'd UTF-8 or NULL."""
    pointer = function(*args)
    if not pointer:
        return None
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        _LIBRARY.NpuPrecisionFree(pointer)


def check_options(entry: rewriter_config_pb2.RewriterConfig.CustomGraphOptimizer) -> None:
    """Parses the parameters as the optimizer would, files included.

    Raises:
        ValueError: the optimizer would fail the run; the text is its message.
    """
    data = entry.SerializeToString(deterministic=True)
    message = _text(_LIBRARY.NpuPrecisionCheckOptions, data, len(data))
    if message is not None:
        raise ValueError(message)


def why_no_mode(name: str) -> str | None:
    """Says why a name is not that of a precision mode, older or newer; None if it is."""
    return _text(_LIBRARY.NpuPrecisionCheckMode, name.encode())


def body_facts(graph_def: graph_pb2.GraphDef, known: Iterable[str]) -> dict[str, Any]:
    """What is known of functions from a graph with its whole library.

    Args:
        graph_def: the graph.
        known: names of functions that can be called from outside this graph.

    Returns:
        "roles", by function; "choices", a list of If and Case nodes, each with "body", the name of
        its function, or ""; "node"; "paths", pairs of an input and an output, as one list; "read",
        by the body of a While, the results that its condition reads, each its place and how, as
        one list. The values are those of marks: see graph_passes/graph/marks.h. "fit_in_place", the
        functions, "" for the graph, that can be decided about with all bodies in place.
    """
    graph = graph_def.SerializeToString(deterministic=True)
    fixed = json.dumps({"known": sorted(known)}).encode()
    answer = _text(_LIBRARY.NpuPrecisionBodyFacts, graph, len(graph), fixed)
    assert answer is not None
    return json.loads(answer)


def move_casts_out_of_calls(
    entry: rewriter_config_pb2.RewriterConfig.CustomGraphOptimizer,
    graph_def: graph_pb2.GraphDef,
    known: Iterable[str],
    kept: Iterable[tuple[str, str]],
) -> tuple[graph_pb2.GraphDef, list[dict[str, str]]] | None:
    """Runs the pass call_boundaries over a graph and the functions in its library.

    Args:
        entry: the parameters, which say whether the pass is on.
        graph_def: the rewritten graph; it is not changed.
        known: names of functions that can be called from outside this graph.
        kept: nodes that keep their dtype, as (function, node); the function is "" for the graph's.

    Returns:
        A new graph, and its rewrites in the form of a ledger; None if nothing changed. Each rewrite
        names its function in "body".
    """
    data = entry.SerializeToString(deterministic=True)
    graph = graph_def.SerializeToString(deterministic=True)
    fixed = json.dumps({"known": sorted(known), "kept": sorted(map(list, kept))}).encode()
    result, size = ctypes.c_void_p(), ctypes.c_size_t()
    answer = _text(
        _LIBRARY.NpuPrecisionCallBoundaries,
        *(data, len(data), graph, len(graph), fixed),
        *(ctypes.byref(result), ctypes.byref(size)),
    )
    if answer is None:
        return None
    try:
        rewritten = graph_pb2.GraphDef.FromString(ctypes.string_at(result, size.value))
    finally:
        _LIBRARY.NpuPrecisionFree(result)
    return rewritten, json.loads(answer)


def lint_mixlist(
    entry: rewriter_config_pb2.RewriterConfig.CustomGraphOptimizer, text: bytes
) -> dict[str, list[dict[str, Any]]]:
    """Parses a mixlist, and reports what is wrong with it.

    Args:
        entry: the parameters. modify_mixlist names the file for messages; it need not exist.
        text: the content of the mixlist.

    Returns:
        "entries", empty if the text is no JSON object. An entry has: "list", as "black-list";
        "add", whether it is in to-add; "text", as written; "place", as "FILE:LINE:COLUMN".
        "findings", errors first. A finding has: "severity", "rule", "place", "text", "fixable". If
        fixable, also "replacement"; "begin" and "end", the offsets of the entry; and
        "previous_end", the end of the previous entry of the same list.

    Raises:
        ValueError: the other parameters are refused.
    """
    data = entry.SerializeToString(deterministic=True)
    answer = _text(_LIBRARY.NpuPrecisionLintMixlist, data, len(data), text, len(text))
    assert answer is not None
    result = json.loads(answer)
    if "error" in result:
        raise ValueError(result["error"])
    return result


def lint_custom_dtypes(file: str, text: bytes) -> list[dict[str, Any]]:
    """Returns the findings about a customize_dtypes file, in the form of lint_mixlist.

    Args:
        file: its name, for messages; it need not exist.
        text: its content.
    """
    answer = _text(_LIBRARY.NpuPrecisionLintCustomDtypes, os.fsencode(file), text, len(text))
    assert answer is not None
    return json.loads(answer)


def file_format(text: bytes) -> str:
    """Which file a content is of.

    The result is "modify_mixlist", "customize_dtypes", "ops-info", or "fusion_switch_file".
    """
    answer = _text(_LIBRARY.NpuPrecisionFileFormat, text, len(text))
    assert answer is not None
    return answer


def lint_ops_info(file: str, text: bytes) -> list[dict[str, Any]]:
    """Returns the findings about an ops-info file, errors first, in the form of lint_mixlist.

    Args:
        file: its name, for messages.
        text: its content.
    """
    answer = _text(_LIBRARY.NpuPrecisionLintOpsInfo, os.fsencode(file), text, len(text))
    assert answer is not None
    return json.loads(answer)


def lists(target: str) -> dict[str, Any]:
    """The built-in lists of a target.

    Returns:
        "target"; "dtype", the dtypes that the target computes in unless an op's entry says
        otherwise, as "float16,float32";
        "lists_of", the target whose lists are below its own, or "";
        "folders", by name: "" for all devices, or the name of a device folder. Each has its ops by
        TensorFlow's name, or by Ascend's if TensorFlow has no such op: "list", as "white";
        "tensorflow", whether this TensorFlow has the op; "ascend", Ascend's other names for it;
        "place", in configs/; "entry", in the format of CANN's ops-info files.

    Raises:
        ValueError: there is no such target.
    """
    answer = _text(_LIBRARY.NpuPrecisionLists, target.encode())
    assert answer is not None
    result = json.loads(answer)
    if "error" in result:
        raise ValueError(result["error"])
    return result


def count(entries: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Counts entries of ledgers.

    Args:
        entries: "nodes", "casts", "rewrites" and "collectives", each as in a ledger's JSON.

    Returns:
        "totals", the counts of docs/ledger.md, in which bytes are sums over all tensors of known
        size;
        "sentence", the counts in words.

    Raises:
        ValueError: an entry is not of that form.
    """
    text = json.dumps(entries).encode()
    answer = _text(_LIBRARY.NpuPrecisionCount, text, len(text))
    assert answer is not None
    result = json.loads(answer)
    if "error" in result:
        raise ValueError(result["error"])
    return result


def lowered_so_far() -> tuple[int, int]:
    """The numbers of float nodes that mixed and force modes saw and lowered in this process."""
    float_nodes, lowered = ctypes.c_int64(), ctypes.c_int64()
    _LIBRARY.NpuPrecisionLoweredSoFar(ctypes.byref(float_nodes), ctypes.byref(lowered))
    return float_nodes.value, lowered.value


def idle_modes() -> list[str]:
    """Lines about modes that have lowered nothing in sessions, and that no warning was about."""
    return json.loads(_text(_LIBRARY.NpuPrecisionIdleModes) or "[]")  # type: ignore[no-any-return]


def take_overflow() -> bool:
    """Whether a value saturated in an emulated graph since the last call of this, by any caller."""
    return bool(_LIBRARY.NpuPrecisionTakeOverflow())


def take_saturations() -> dict[str, int]:
    """The number of values that saturated since the last call of this, by the node's name."""
    text = _text(_LIBRARY.NpuPrecisionTakeSaturations)
    assert text is not None
    return json.loads(text)


def kept_casts() -> dict[str, int]:
    """The copies of variables in a low type that low_weights keeps in this process.

    Returns:
        "kept": how many; "bytes": their size; "made": how often a copy was made or written anew.
    """
    text = _text(_LIBRARY.NpuPrecisionKeptCasts)
    assert text is not None
    return json.loads(text)  # type: ignore[no-any-return]


class _Description(dict):  # type: ignore[type-arg]
    """A part of what describe() returns."""

    def __missing__(self, key: str) -> None:
        raise ImportError(
            f"{PATH} says nothing of {key!r}: it was built from other sources than this Python "
            f"code; {REMEDY}."
        )


@functools.lru_cache(maxsize=None)
def describe() -> dict[str, Any]:
    """Describes the optimizer: its parameters, their values, and the names it shares with Python.

    Returns:
        "optimizer": its name in a RewriterConfig; "error_op": the type of a node that fails a run;
        "ledger_schema"; "renamed_suffix": appended to the name of a node when a Cast takes over the
        name;
        "mixed_modes": the low type ("float16", "bfloat16") of each mixed mode, by either name;
        "mixed_mode_of": the mixed mode that is taken by default, by low type;
        "modes_for_speed": the modes, by either name, that change more than dtypes for speed;
        "modes", "modes_v2", "targets", "inert_parameters", "decisions", "ascend_ops":
        lists of names;
        "old_rewrite_keys": the older parameters that `rewrites` replaces, and their rewrites;
        "marks": attributes of nodes, see _marks.py;
        "parameters": the AttrValue field ("s", "b") of each parameter by its name;
        "rules" that decide about nodes, in order, each with "name"; "because", the reason for its
        position;
        "reasons" of decisions, each with "word"; "kind", see graph_passes/decide/reasons.h;
        "sentence", with {cause} and {by};
        "passes", in order, each with "name"; "because", the reason for its position; "summary",
        what it does; "purpose", if it can be switched: "speed", "size", "network" or "emulation".
    """
    text = _text(_LIBRARY.NpuPrecisionDescribe)
    assert text is not None
    return json.loads(text, object_hook=_Description)


def can_reduce(dtype: int, has_gpu: bool) -> bool:
    """Whether this machine has kernels that add up tensors of that DataType over workers."""
    return bool(_LIBRARY.NpuPrecisionCanReduce(dtype, has_gpu))


_WATCHES = {"lowered": 1, "all": 2}


def open_flight(watch: str, selection: Mapping[str, Any]) -> None:
    """Watches tensors of the graphs that TensorFlow makes ready to run from now on.

    Args:
        watch: "lowered", what is computed in a low type or rounded to one; "all", all floats of up
            to 32 bits.
        selection: the members of FlightSelection in cc/flight_store.h.
    """
    _LIBRARY.NpuPrecisionOpenFlight(_WATCHES[watch], json.dumps(selection).encode())


def close_flight() -> None:
    """Stops recording. drain_flight() still returns what was recorded."""
    _LIBRARY.NpuPrecisionCloseFlight()


def drain_flight(finished: bool) -> list[dict[str, Any]]:
    """Takes what was recorded since the last call of this.

    Args:
        finished: whether no graph is running. If not, steps that may be running are left.

    Returns:
        An entry per graph that ran: "graph", a number; "steps", its runs since open_flight();
        "dropped", how many steps found no memory to be recorded in; "recorded", an entry per step:
        "step", and lists with an element per tensor: "largest" finite magnitude, "elements",
        "zeros", "over", "under", "infinities", "nans", "iteration" and "fault", as in
        cc/tensor_counts.h; and "statistics", lists by their names, if they are asked for. The first
        time, "tensors", each with "node", "op", "port", "device", "dtype", "low_type", "place" and
        "loop", as in graph_passes/analysis/watched_tensors.h.
    """
    text = _text(_LIBRARY.NpuPrecisionDrainFlight, finished)
    assert text is not None
    return json.loads(text)


_AGREEMENTS = {"none": 0, "lower": 1, "keep": 2}


def set_collective_agreement(agreement: str) -> None:
    """Passes the agreement of the workers to the optimizer.

    Args:
        agreement: "none", the workers were not asked; "lower", gradients are added up in the low
            type; "keep", in float32.
    """
    _LIBRARY.NpuPrecisionSetCollectiveAgreement(_AGREEMENTS[agreement])
