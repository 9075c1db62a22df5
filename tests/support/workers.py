"""Runs a script in several processes on this machine, as the tasks of one cluster.

The benchmarks use this module too.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from support import ROOT, python_path, warm_python

_TAIL = 4000
# A part of a worker's stderr if another process has its port.
TAKEN = "Address already in use"


def run_workers(folder, script, *args, count=2, jobs=None, killed=None, timeout=240, **environment):
    """Runs the script as each task of a cluster; returns the output of each.

    Each task has TF_CONFIG in its environment, with free addresses of this machine. No task is left
    running.

    Args:
        folder: the tasks run in a new folder in it.
        script: the text of a Python program.
        *args: the arguments of the program.
        count: the number of workers.
        jobs: instead of a count, the number of tasks by job; outputs are in this order. In a
            cluster with a "ps", tasks are servers: they are ended when the chief has ended.
        killed: the index of a task that a SIGKILL ends. The others must end by themselves, with
            any status.
        timeout: the seconds that all tasks together may take.
        **environment: more variables of the environment.

    Raises:
        AssertionError: a task failed, which ends the others at once, or the time is over. The
            message shows the end of each task's stderr.
    """
    jobs = jobs or {"worker": count}
    for _ in range(3):
        here = _new_folder(folder)
        problem = _run(here, script, args, places(jobs), killed, timeout, environment)
        total = sum(jobs.values())
        if problem is None:
            return [(here / f"stdout{index}").read_text() for index in range(total)]
        errors = [(here / f"stderr{index}").read_text() for index in range(total)]
        # Another process may have got the port between its choice and its use.
        if not any(TAKEN in text for text in errors):
            break
    tails = [f"worker {index}:\n{text[-_TAIL:]}" for index, text in enumerate(errors)]
    raise AssertionError("\n".join([problem, *tails]))


def _new_folder(folder):
    here = next(
        path
        for path in (folder / f"workers{number}" for number in itertools.count())
        if not path.exists()
    )
    here.mkdir()
    return here


def _run(here, script, args, tasks, killed, timeout, environment):
    """Runs the tasks; returns the failure, or None."""
    (here / "script.py").write_text(script)
    command = ["script.py", *map(str, args)]
    if not warm_python.fits(environment):
        command = [sys.executable, "-B", *command]
    awaited = [
        index
        for index, task in enumerate(tasks)
        if "ps" not in task["cluster"] or task["task"]["type"] == "chief"
    ]
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(_task(command, task, here, index, environment))
            for index, task in enumerate(tasks)
        ]
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            statuses = [process.poll() for process in processes]
            if killed is None:
                for index, status in enumerate(statuses):
                    if status:
                        return f"worker {index} ended with status {status}"
            elif statuses[killed] not in (None, -signal.SIGKILL):
                return f"worker {killed} was to be killed, and ended with {statuses[killed]}"
            if all(statuses[index] is not None for index in awaited):
                return None
            time.sleep(0.05)
        return f"workers {[i for i in awaited if statuses[i] is None]} took {timeout} s"


@contextlib.contextmanager
def _task(command, task, here, index, environment):
    # Files, since a pipe that nobody reads would block a worker once it is full.
    files = here / f"stdout{index}", here / f"stderr{index}"
    if command[0] == "script.py":
        variables = _variables(task, environment)
        with _ended(warm_python.WarmProcess(command, here, variables, *files)) as process:
            yield process
        return
    with files[0].open("w") as stdout, files[1].open("w") as stderr:
        options = {"cwd": here, "env": environment, "stdout": stdout, "stderr": stderr}
        with worker(command, task, **options) as process:
            yield process


def _variables(place, environment):
    variables = {**os.environ, "PYTHONPATH": python_path(ROOT), "TF_CONFIG": json.dumps(place)}
    variables.update(environment or {})
    return variables


@contextlib.contextmanager
def worker(command, place, *, env=None, **options):
    """Context of a worker's process; the process and its children end with the context.

    Args:
        command: the command, as a list.
        place: one of places().
        env: variables to add to this process's environment.
        **options: further options of subprocess.Popen.
    """
    with process_session(command, env=_variables(place, env), **options) as process:
        yield process


@contextlib.contextmanager
def process_session(command, **options):
    """Context of a process in a session of its own; it and its children end with the context.

    Args:
        command: the command, as a list.
        **options: options of subprocess.Popen.
    """
    with _ended(subprocess.Popen(command, start_new_session=True, **options)) as process:
        yield process


@contextlib.contextmanager
def _ended(process):
    """A process that leads a session, all of which ends with the block."""
    try:
        yield process
    finally:
        # Repeated until there are none: a process may start another one in between.
        pids = living(process.pid)
        while pids:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
            pids = living(process.pid)
        process.wait()


def living(session):
    """The ids of the processes in a session, of any process group, without zombies."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, of = stat.read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                found.append(int(stat.parent.name))
    return found


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


def places(jobs):
    """The TF_CONFIG of each task of a cluster, job by job.

    Addresses are of the loopback interface, with ports that were free a moment ago.

    Args:
        jobs: the number of tasks by job, as {"worker": 2}.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(sum(jobs.values()))]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = iter([f"127.0.0.1:{each.getsockname()[1]}" for each in sockets])
    cluster = {job: [next(addresses) for _ in range(count)] for job, count in jobs.items()}
    return [
        {"cluster": cluster, "task": {"type": job, "index": index}}
        for job, count in jobs.items()
        for index in range(count)
    ]
