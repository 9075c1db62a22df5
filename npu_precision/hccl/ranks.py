"""Reads the rank and the number of processes from environment variables of Ascend and
tf.distribute.

    TF_CONFIG           chief and workers with their addresses, and the task of this one
    RANK_TABLE_FILE     Ascend's list of servers and devices; RANK_ID is the rank of this process
    RANK_ID, RANK_SIZE  the rank and the number of processes, all on this machine

One process alone is rank 0 of 1. Ascend names no ports: rank r has HCCL_IF_BASE_PORT + r, from
60000 on.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

_BASE_PORT = 60000
# HCCL's own default.
_EXEC_TIMEOUT = 1836


@dataclasses.dataclass(frozen=True)
class Ranks:
    """The processes of one training.

    Attributes:
        rank: the rank of this process, from 0.
        addresses: the addresses of all, as "10.0.0.1:60000", in the order of their ranks.
        source: the source of these facts, for messages.
    """

    rank: int
    addresses: tuple[str, ...]
    source: str

    @property
    def size(self) -> int:
        """The number of processes."""
        return len(self.addresses)

    def local_ranks(self) -> list[int]:
        """The ranks of the processes on this machine."""
        hosts = [address.rpartition(":")[0] for address in self.addresses]
        return [rank for rank, host in enumerate(hosts) if host == hosts[self.rank]]


def current() -> Ranks:
    """The ranks as the environment has them now.

    Raises:
        ValueError: the environment contradicts itself, or a file cannot be read.
    """
    if os.environ.get("RANK_TABLE_FILE"):
        return _of_rank_table(os.environ["RANK_TABLE_FILE"])
    if "RANK_SIZE" in os.environ:
        size = _number("RANK_SIZE")
        if size < 1:
            raise ValueError(f"RANK_SIZE: got {size}, expected 1 or more")
        addresses = tuple(f"127.0.0.1:{_base_port() + rank}" for rank in range(size))
        rank = _number("RANK_ID") if size > 1 or "RANK_ID" in os.environ else 0
        return _checked(Ranks(rank, addresses, "RANK_SIZE"), "RANK_ID")
    if os.environ.get("TF_CONFIG"):
        return _of_tf_config(os.environ["TF_CONFIG"])
    return Ranks(0, (f"127.0.0.1:{_base_port()}",), "no TF_CONFIG, RANK_SIZE or RANK_TABLE_FILE")


def _of_rank_table(path: str) -> Ranks:
    table = _parsed("RANK_TABLE_FILE", _content(path))
    base = _base_port()
    addresses = {}
    try:
        for server in table["server_list"]:
            for device in server["device"]:
                rank = int(device["rank_id"])
                addresses[rank] = f"{server['server_id']}:{base + rank}"
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"RANK_TABLE_FILE {path}: expected server_list[].server_id and "
            f"server_list[].device[].rank_id, got none of {error}"
        ) from None
    if sorted(addresses) != list(range(len(addresses))):
        raise ValueError(
            f"RANK_TABLE_FILE {path}: got the ranks {sorted(addresses)}, expected each of "
            f"0 to {len(addresses) - 1}"
        )
    rank = _number("RANK_ID") if len(addresses) > 1 else 0
    in_order = tuple(addresses[rank] for rank in sorted(addresses))
    return _checked(Ranks(rank, in_order, f"RANK_TABLE_FILE {path}"), "RANK_ID")


def _of_tf_config(text: str) -> Ranks:
    config = _parsed("TF_CONFIG", text)
    cluster, task = config.get("cluster") or {}, config.get("task") or {}
    ordered = [(job, n) for job in ("chief", "worker") for n in range(len(cluster.get(job, ())))]
    own = (task.get("type"), int(task.get("index", 0)))
    if own not in ordered:
        # Evaluators and parameter servers take no part; a TF_CONFIG without a cluster is one
        # process.
        return Ranks(0, (f"127.0.0.1:{_base_port()}",), "TF_CONFIG")
    addresses = tuple(cluster[job][n] for job, n in ordered)
    return Ranks(ordered.index(own), addresses, "TF_CONFIG")


def _checked(ranks: Ranks, variable: str) -> Ranks:
    if not 0 <= ranks.rank < ranks.size:
        raise ValueError(
            f"{variable}: got {ranks.rank}, expected 0 to {ranks.size - 1}, since there are "
            f"{ranks.size} ranks ({ranks.source})"
        )
    return ranks


def _base_port() -> int:
    return _number("HCCL_IF_BASE_PORT") if "HCCL_IF_BASE_PORT" in os.environ else _BASE_PORT


def exec_timeout() -> int:
    """Seconds that a session.run may take, HCCL_EXEC_TIMEOUT; 0 is no limit.

    Raises:
        ValueError: it is no number, or less than 0.
    """
    seconds = _number("HCCL_EXEC_TIMEOUT") if "HCCL_EXEC_TIMEOUT" in os.environ else _EXEC_TIMEOUT
    if seconds < 0:
        raise ValueError(f"HCCL_EXEC_TIMEOUT: got {seconds}, expected seconds, or 0 for no limit")
    return seconds


def _number(variable: str) -> int:
    text = os.environ.get(variable)
    if text is None:
        raise ValueError(f"{variable}: not set, expected the number of this process, from 0")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{variable}: got {text!r}, expected a whole number") from None


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ValueError(f"RANK_TABLE_FILE {path}: {error.strerror}") from None


def _parsed(variable: str, text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{variable}: not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ValueError(f"{variable}: expected a JSON object, got {text[:40]!r}")
    return parsed
