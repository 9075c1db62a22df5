"""Python processes that begin with TensorFlow imported: forks of a server that has imported it.

Importing TensorFlow takes seconds, and the tests start hundreds of processes. A test of imports, or
of variables that TensorFlow reads while it is imported, needs a Python of its own.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.forkserver
import os
import pathlib
import runpy
import sys
import tempfile
from unittest import mock

# Scripts see the log of TensorFlow, whose level is read once.
_OF_SERVER = {"TF_CPP_MIN_LOG_LEVEL": "0"}


def fits(environment):
    """Whether a script with these variables, beside those of this process, may run in a fork."""
    return all(
        value == _OF_SERVER.get(name)
        for name, value in environment.items()
        if name.startswith(("TF_", "PYTHON", "LD_"))
    )


class WarmProcess:
    """A script that runs in a fork, in a session of its own; as a subprocess.Popen.

    Args:
        arguments: what follows `python`: a script, `-m` and a module, or `-c` and code; then what
            that gets.
        cwd: the folder that it runs in.
        env: its environment.
        stdout, stderr: the files that get what it writes.
    """

    def __init__(self, arguments, cwd, env, stdout, stderr):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tensorflow"])
        with mock.patch.dict(os.environ, _OF_SERVER):
            multiprocessing.forkserver.ensure_running()
        texts = [str(each) for each in arguments]
        files = [str(each) for each in (stdout, stderr)]
        self._process = context.Process(target=_run, args=(texts, str(cwd), dict(env), *files))
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        """The status, negative for a signal; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout=None):
        """Waits for the end, or so many seconds; returns poll()."""
        self._process.join(timeout)
        return self.poll()

    def kill(self):
        """Sends a SIGKILL."""
        self._process.kill()


def _run(arguments, cwd, env, stdout, stderr):
    """Becomes the script, as if Python had been started with it."""
    os.setsid()
    for number, path in ((1, stdout), (2, stderr)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.dont_write_bytecode = True
    kind = arguments[0] if arguments[0] in ("-c", "-m") else ""
    what, sys.argv[1:] = (arguments[1], arguments[2:]) if kind else (arguments[0], arguments[1:])
    sys.argv[0] = kind or what
    installed = [path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix))]
    given = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = ["" if kind else str(pathlib.Path(what).resolve().parent), *given, *installed]
    for name in [name for name in sys.modules if name.partition(".")[0] == "support"]:
        del sys.modules[name]
    status = 0
    try:
        if kind == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        elif kind == "-c":
            exec(compile(what, "<string>", "exec"), sys.modules["__main__"].__dict__)
        else:
            runpy.run_path(what, run_name="__main__")
    except SystemExit as error:
        status = error.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    # Ends as Python does: os._exit(), which multiprocessing uses, would run no exit handlers.
    ctypes.pythonapi.Py_Exit(status)


def run(arguments, cwd, env, timeout):
    """Runs a script to its end: (status, stdout, stderr).

    Raises:
        TimeoutError: it took more than `timeout` seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, name) for name in ("stdout", "stderr")]
        process = WarmProcess(arguments, cwd, env, *files)
        status = process.wait(timeout)
        if status is None:
            process.kill()
            process.wait()
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    if status is None:
        raise TimeoutError(f"{arguments[0]} took more than {timeout} s: {texts[1][-2000:]}")
    return (status, *texts)
