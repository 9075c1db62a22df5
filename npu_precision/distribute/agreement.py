"""Makes the workers of a cluster agree on lower_collectives, or raises an error that says why not.

A worker that adds up its gradients in bfloat16, while another does so in float32, hangs,
or gets numbers that mean nothing. So each worker publishes what its decisions depend on, in the
key-value store of TensorFlow's coordination service, which tf.distribute starts. A worker with
lower_collectives reads the others' facts, and compares.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import threading
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from npu_precision import _library, _tf_compat
from npu_precision._version import __version__
from npu_precision.options import PrecisionOptions, mixlist_file

# Seconds that a worker waits for another one's facts. Preparing data may delay a worker.
WAIT_SECONDS = 300

# Options about one process that do not change what is computed.
_OF_PROCESS = ("report_dir", "dump_passes_dir", "strict")
_OF_FILES = ("modify_mixlist", "customize_dtypes", "ops_info_dir", "ops_info_overlay")
_LOWERS = "adds up in the low type"

_lock = threading.Lock()
# The agreements by cluster and options.
_agreements: dict[tuple[_tf_compat.Cluster | None, PrecisionOptions], str] = {}
_in_force = "none"


def ask(options: PrecisionOptions) -> None:
    """Asks the other workers, if there are any, and passes the agreement to the optimizer.

    All workers must call this with the same options, in the same order. A second call with the same
    options returns at once. Options without lower_collectives are only published, for workers that
    ask.

    Raises:
        ValueError: another worker has other options, files or versions, or did not publish them.
        tf.errors.UnavailableError: another worker has died.
    """
    cluster = _tf_compat.cluster_of_process()
    key = (cluster, options)
    # Not under the lock, which a thread holds while it waits for another worker.
    if key not in _agreements:
        with _lock:
            if key not in _agreements:
                number = sum(known == cluster for known, _ in _agreements)
                _agreements[key] = _agree(cluster, options, number)
    # Calls of other threads without lower_collectives do not undo the agreement.
    if options.lower_collectives:
        _tell_optimizer(_agreements[key])


def _tell_optimizer(agreement: str) -> None:
    global _in_force
    if agreement != _in_force:
        _library.set_collective_agreement(agreement)
        _in_force = agreement


def _agree(cluster: _tf_compat.Cluster | None, options: PrecisionOptions, number: int) -> str:
    if cluster is None or len(cluster.workers) == 1:
        return "lower" if can_reduce(options) else "keep"
    if not cluster.has_store:
        return "none"
    own = _facts(options)
    cluster.publish(_key(number, cluster.worker), json.dumps(own))
    if not options.lower_collectives:
        return "none"
    facts = {cluster.worker: own}
    for worker in cluster.workers:
        if worker != cluster.worker:
            published = cluster.read(_key(number, worker), WAIT_SECONDS)
            if published is None:
                raise _refusal(
                    cluster,
                    f"lower_collectives: {worker} did not say within {WAIT_SECONDS} s that it adds "
                    f"up gradients in a low type, as {cluster.worker} is to; the script of each "
                    f"worker must call enable() or autocast() with the same options, and change "
                    f"them where another one does",
                )
            facts[worker] = json.loads(published)
    facts = {worker: facts[worker] for worker in cluster.workers}
    differences = _differences(facts)
    if differences:
        what = "; in ".join(differences)
        raise _refusal(cluster, f"lower_collectives: the workers differ in {what}")
    return "lower" if all(each[_LOWERS] for each in facts.values()) else "keep"


def _refusal(cluster: _tf_compat.Cluster, message: str) -> ValueError:
    """The error of this worker, which other workers that wait for it also get."""
    cluster.tell_all(message)
    return ValueError(message)


def _key(number: int, worker: str) -> str:
    return f"npu_precision/{number}{worker}"


def _facts(options: PrecisionOptions) -> dict[str, Any]:
    """The facts that the decisions of this worker depend on, by name."""
    facts: dict[str, Any] = {"npu_precision": __version__, "TensorFlow": tf.__version__}
    # A mixlist that is no file is a fact itself.
    mixlist = None if mixlist_file(options) else options.modify_mixlist
    for name, value in sorted(options.to_dict().items()):
        if name not in _OF_PROCESS:
            is_file = name in _OF_FILES and value != mixlist
            facts[name] = _digest(pathlib.Path(str(value))) if is_file else value
    # Decisions depend on kernels, and a GPU has others.
    facts["device"] = "GPU" if _tf_compat.has_gpu() else "CPU"
    facts[_LOWERS] = can_reduce(options)
    return facts


def can_reduce(options: PrecisionOptions) -> bool:
    """Whether kernels here add up gradients in the low type of the options' mode."""
    mode = options.precision_mode or options.precision_mode_v2
    dtypes = _library.describe()["mixed_modes"]
    dtype = tf.as_dtype(dtypes.get(mode, "float16"))
    return _library.can_reduce(dtype.as_datatype_enum, _tf_compat.has_gpu())


def _digest(path: pathlib.Path) -> str:
    """Hashes a file, or the JSON files below a folder."""
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    digest = hashlib.sha256()
    try:
        for file in files:
            digest.update(str(file.relative_to(path)).encode() + file.read_bytes())
    except OSError as error:  # The optimizer reports it in full.
        return f"unreadable: {error.strerror}"
    return f"content {digest.hexdigest()[:12]}"


def _differences(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The differences, a phrase each: precision_mode: 'a' on WORKER, 'b' on WORKER."""
    names = dict.fromkeys(name for each in facts.values() for name in each if name != _LOWERS)
    phrases = []
    for name in names:
        values = {worker: each.get(name, "not given") for worker, each in facts.items()}
        if len(set(map(str, values.values()))) > 1:
            said = ", ".join(f"{value!r} on {worker}" for worker, value in values.items())
            phrases.append(f"{name}: {said}")
    return phrases
