"""Runs the rest of a program in a mode: its tf.functions, and its sessions."""

from __future__ import annotations

import atexit
import dataclasses
import itertools
import logging
import os
import pathlib
import sys

from tensorflow.core.protobuf import config_pb2

import npu_precision_startup
from npu_precision import _library, _tf_compat, outputs
from npu_precision.flight.recorder import FlightRecorder
from npu_precision.launch import guards, settings, trial
from npu_precision.launch.settings import Settings
from npu_precision.launch.step_times import StepTimes
from npu_precision.session import functions, rewriter_config

_LOGGER = logging.getLogger("npu_precision")


def apply_environment() -> None:
    """Applies what the environment says.

    Raises:
        ValueError: a variable has a wrong value.
        OSError: a file or folder that one names cannot be used.
    """
    is_trial = trial.start_from_environment()
    found = settings.from_environment(os.environ)
    if found is None:
        return
    launched = os.environ.get(npu_precision_startup.LAUNCHED_PID)
    is_main = launched == str(os.getpid())
    if found.record is not None and launched and not is_main:
        # Two recorders would write their lines into one file.
        own = os.path.join(found.record, f"process_{os.getpid()}")
        found = dataclasses.replace(found, record=own)
    if not is_main and not is_trial:
        names = " ".join(f"{name}={value}" for name, value in found.to_environment().items())
        _LOGGER.warning("from the environment: %s", names)
    Applied(found, is_main)


class Applied:
    """A mode that is in force until the process ends.

    Args:
        given: how the program runs, with absolute paths.
        is_main: whether it is the program that was asked for, not a process that this one starts.

    Raises:
        ValueError, OSError: a file or folder cannot be used.
    """

    def __init__(self, given: Settings, is_main: bool) -> None:
        self._given = given
        self._is_main = is_main
        self._process = os.getpid()
        self._options = given.options
        self._recorder: FlightRecorder | None = None
        self._times: StepTimes | None = None
        self._guards: guards.Guards | None = None
        self._unreached: set[str] = set()
        self._is_on = True
        if given.healed is not None:
            self._options = guards.with_healed(given.options, given.healed)
            self._guards = guards.Guards(given.healed)
        if given.record is not None:
            self._recorder = FlightRecorder(given.record)
            self._recorder.__enter__()
        _tf_compat.map_session_configs(self._with_optimizer)
        if given.times:
            self._times = StepTimes(self._put_in_force)
        else:
            self._put_in_force()
        atexit.register(self._end)

    def stop(self) -> None:
        """Ends it: what runs from now on runs as it did before."""
        self._is_on = False
        functions.disable()
        atexit.unregister(self._end)
        self._end()

    def _put_in_force(self) -> None:
        functions.put_in_force(self._options, self._unreached.add)

    def _with_optimizer(self, config: config_pb2.ConfigProto) -> config_pb2.ConfigProto:
        """The config of a session that names no optimizer of ours, with it."""
        rewrite = config.graph_options.rewrite_options
        if not self._is_on or rewriter_config.names_npu_optimizer(rewrite):
            return config
        if rewrite.disable_meta_optimizer:
            self._unreached.add("a session whose config has disable_meta_optimizer")
            return config
        result = config_pb2.ConfigProto()
        result.CopyFrom(config)
        parameters = self._options.to_parameter_map()
        rewriter_config.configure(result.graph_options.rewrite_options, parameters)
        return result

    def _end(self) -> None:
        """Says what came of it."""
        if os.getpid() != self._process:  # A copy of the process that os.fork() made.
            return
        if self._recorder is not None:
            self._recorder.__exit__(None, None, None)
        float_nodes, lowered = _library.lowered_so_far()
        if sys.stderr is None or not (self._is_main or float_nodes):
            return
        who = "" if self._is_main else f" (process {self._process})"
        sys.stderr.write(f"npu_precision{who}: {'. '.join(self._lines(float_nodes, lowered))}.\n")

    def _lines(self, float_nodes: int, lowered: int) -> list[str]:
        what = f"{lowered} of {float_nodes} float nodes" if float_nodes else "nothing"
        lines = [f"{self._given.mode} lowered {what}"]
        if not float_nodes:
            lines.append("No tf.function and no session computed in float32 or a low type")
        lines += [f"Not reached: {each}" for each in sorted(self._unreached)]
        if self._times is not None:
            lines.append(self._times.summary())
        if self._guards is not None:
            lines.append(self._guards.summary())
        if self._given.record is not None:
            lines.append(f"`npu-precision flight {self._given.record}` shows what was recorded")
        if self._is_main and float_nodes:
            lines.append(self._page())
        return lines

    def _page(self) -> str:
        folder = self._options.report_dir
        if folder is None:
            return "--report-dir FOLDER shows why"
        # These take long to import.
        from npu_precision.explain import report, run_ledgers

        try:
            run, explained = run_ledgers.load_run(folder)
            page = _new_name(pathlib.Path(folder))
            with outputs.new_file(page) as file:
                report.write_report(file, run, explained)
        except (OSError, ValueError) as error:
            return f"No page was written: {error}"
        return f"The page: {page}"


def _new_name(folder: pathlib.Path) -> pathlib.Path:
    others = (f"page-{number}.html" for number in itertools.count(2))
    names = map(folder.joinpath, itertools.chain(["page.html"], others))
    return next(name for name in names if not name.exists())
