"""Runs a script in several processes that are the workers of one cluster, on this machine.

Benchmarks use the processes too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

from support import ROOT

_TAIL = 4000
# What a worker writes to stderr if another process has its port.
TAKEN = "Address already in use"


def run_workers(folder, script, *args, count=2, timeout=240, **environment):
    """Runs the script as each of the workers; returns what each printed.

    Each has TF_CONFIG in its environment, with addresses that are free here. None is left running.

    Args:
        folder: an empty folder, in which the workers run.
        script: the text of a Python program.
        *args: its arguments.
        count: the number of workers.
        timeout: seconds that all of them may take together.
        **environment: more variables.

    Raises:
        AssertionError: one failed, which ends the others at once, or the time is over. It shows the
            end of what each wrote to stderr.
    """
    for attempt in range(3):
        here = folder / f"workers{attempt}"
        here.mkdir()
        problem = _run(here, script, args, count, timeout, environment)
        if problem is None:
            return [(here / f"stdout{index}").read_text() for index in range(count)]
        errors = [(here / f"stderr{index}").read_text() for index in range(count)]
        # Another process may have got the port between its choice and its use.
        if not any(TAKEN in text for text in errors):
            break
    tails = [f"worker {index}:\n{text[-_TAIL:]}" for index, text in enumerate(errors)]
    raise AssertionError("\n".join([problem, *tails]))


def _run(here, script, args, count, timeout, environment):
    """Runs the workers; returns what went wrong, or None."""
    (here / "script.py").write_text(script)
    command = [sys.executable, "-B", "script.py", *map(str, args)]
    with contextlib.ExitStack() as stack:
        # Files, since a pipe that nobody reads would block a worker once it is full.
        workers = [
            stack.enter_context(
                worker(
                    command,
                    place,
                    cwd=here,
                    env=environment,
                    stdout=stack.enter_context((here / f"stdout{index}").open("w")),
                    stderr=stack.enter_context((here / f"stderr{index}").open("w")),
                )
            )
            for index, place in enumerate(places(count))
        ]
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            statuses = [worker.poll() for worker in workers]
            for index, status in enumerate(statuses):
                if status:
                    return f"worker {index} ended with status {status}"
            if None not in statuses:
                return None
            time.sleep(0.05)
        return f"workers {[i for i, each in enumerate(statuses) if each is None]} took {timeout} s"


@contextlib.contextmanager
def worker(command, place, *, env=None, **options):
    """A process that is a worker; it, and what it started, end with the block.

    Args:
        command: what to run, as a list.
        place: one of places().
        env: variables to add to those of this process.
        **options: more of those of subprocess.Popen.
    """
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CONFIG": json.dumps(place)}
    variables.update(env or {})
    process = subprocess.Popen(command, env=variables, start_new_session=True, **options)
    try:
        yield process
    finally:
        # The whole session: a worker may have started processes.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def adjacent_ports(count):
    """The first of `count` ports in a row, all of them free a moment ago."""
    while True:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                for number in range(1, count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + number))
                return port


def places(count):
    """The TF_CONFIG of each worker of a cluster: loopback addresses that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    return [
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        for index in range(count)
    ]
