"""What `python -m npu_precision` was told, and the environment that tells it to other processes."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping

import npu_precision_startup
from npu_precision import _errors, _library
from npu_precision.options import PATH_FIELDS, PrecisionOptions, mixlist_file, with_mode

MODE, MIXLIST, REPORT_DIR, HEALED, RECORD, TIME, OPTIONS = npu_precision_startup.VARIABLES
_BY_FIELD = {"modify_mixlist": MIXLIST, "report_dir": REPORT_DIR}


@dataclasses.dataclass(frozen=True)
class Settings:
    """How programs run.

    Attributes:
        options: the options, with a mode.
        healed: the mixlist of a PrecisionGuard, or None.
        record: the folder of a FlightRecorder, or None.
        times: whether the first steps run in float32, to compare their time with that of others.
    """

    options: PrecisionOptions
    healed: str | None = None
    record: str | None = None
    times: bool = False

    @property
    def mode(self) -> str:
        """The name of the mode, older or newer."""
        mode = self.options.precision_mode or self.options.precision_mode_v2
        assert mode is not None
        return mode

    def absolute(self) -> Settings:
        """The same with absolute paths: a process may run elsewhere, or go there.

        Raises:
            ValueError: a folder to write to is a file.
        """
        for path in (self.options.report_dir, self.record):
            if path is not None and os.path.isfile(path):
                raise ValueError(f"{path!r} is a file, expected a folder")
        healed, record = (path and os.path.abspath(path) for path in (self.healed, self.record))
        return Settings(absolute(self.options), healed, record, self.times)

    def to_environment(self) -> dict[str, str]:
        """The variables that say the same; for settings with absolute paths."""
        options = self.options.to_dict()
        variables = {MODE: self.mode}
        for name in ("precision_mode", "precision_mode_v2"):
            options.pop(name, None)
        if mixlist_file(self.options) is not None:
            variables[MIXLIST] = str(options.pop("modify_mixlist"))
        if "report_dir" in options:
            variables[REPORT_DIR] = str(options.pop("report_dir"))
        if options:
            variables[OPTIONS] = json.dumps(options)
        for name, path in ((HEALED, self.healed), (RECORD, self.record)):
            if path is not None:
                variables[name] = path
        if self.times:
            variables[TIME] = "1"
        return variables


def absolute(options: PrecisionOptions) -> PrecisionOptions:
    """The options with absolute paths."""
    paths = {name: getattr(options, name) for name in PATH_FIELDS}
    if mixlist_file(options) is None:  # It is JSON, or there is none.
        del paths["modify_mixlist"]
    changes = {name: os.path.abspath(path) for name, path in paths.items() if path is not None}
    return dataclasses.replace(options, **changes)


def from_environment(environment: Mapping[str, str]) -> Settings | None:
    """Reads the variables; None if none of them has a value.

    Raises:
        ValueError: a variable has a wrong value or a wrong name, or there is no mode.
    """
    given = {
        name: value
        for name, value in environment.items()
        if npu_precision_startup.is_of_a_run(name) and value
    }
    for name in given:
        if name not in npu_precision_startup.VARIABLES:
            expected = ", ".join(npu_precision_startup.VARIABLES)
            near = _errors.did_you_mean(name, npu_precision_startup.VARIABLES)
            raise ValueError(f"the environment has {name}{near}, expected one of {expected}")
    if not given:
        return None
    if MODE not in given:
        modes = ", ".join(_library.describe()["modes"])
        raise ValueError(
            f"the environment has {', '.join(sorted(given))} without {MODE}, expected a mode: "
            f"one of {modes}"
        )
    read = Settings(_options(given), given.get(HEALED), given.get(RECORD), _times(given))
    return read.absolute()


def _options(given: Mapping[str, str]) -> PrecisionOptions:
    try:
        fields = json.loads(given.get(OPTIONS, "{}"))
        if not isinstance(fields, dict):
            raise ValueError(f"got {fields!r}, expected an object of JSON")
    except ValueError as error:
        raise ValueError(f"{OPTIONS}: {error}") from error
    named = {field: given[name] for field, name in _BY_FIELD.items() if name in given}
    for field in (*named, "precision_mode", "precision_mode_v2"):
        if field in fields:
            name = _BY_FIELD.get(field, MODE)
            raise ValueError(f"{OPTIONS} has {field}, expected it in {name} alone")
    mode = with_mode(PrecisionOptions(), given[MODE], MODE).to_dict()
    try:
        return PrecisionOptions.from_json(json.dumps({**fields, **named, **mode}))
    except ValueError as error:
        raise ValueError(f"{OPTIONS}: {error}" if fields else str(error)) from error


def _times(given: Mapping[str, str]) -> bool:
    value = given.get(TIME, "0")
    if value not in ("0", "1"):
        raise ValueError(f"{TIME}: got {value!r}, expected 0 or 1")
    return value == "1"
