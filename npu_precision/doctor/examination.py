"""Looks at TensorFlow and at the package, in a process of its own that may crash.

It is a script, not a module, because importing the package may fail. After each step, it appends a
line of JSON to the file that its argument names. oneDNN writes its version to stdout.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

STEPS = ("packages", "tensorflow", "library", "report_page", "costs")


def main() -> None:
    """Runs the steps, up to the first that fails."""
    file, *steps = sys.argv[1:]
    for step in steps:
        try:
            done = {"step": step, "result": globals()[f"_{step}"]()}
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            missing = getattr(error, "name", None) if isinstance(error, ImportError) else None
            done = {"step": step, "error": text, "missing": missing}
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(done) + "\n")
        if "error" in done:
            break


def _packages() -> dict[str, str | None]:
    """The versions of TensorFlow's main dependencies; None for one that cannot be imported."""
    found: dict[str, str | None] = {}
    for name, module in (("numpy", "numpy"), ("protobuf", "google.protobuf")):
        try:
            found[name] = importlib.import_module(module).__version__
        except Exception:  # TensorFlow's error says more.
            found[name] = None
    return found


def _tensorflow() -> dict[str, Any]:
    import tensorflow as tf

    return {
        "version": tf.__version__,
        "folder": os.path.dirname(os.path.abspath(tf.__file__)),
        "git_version": tf.version.GIT_VERSION,
        "compiler": tf.version.COMPILER_VERSION,
        "build": _build(tf),
        "onednn": _onednn(tf),
        "gpus": _gpus(tf),
    }


def _build(tf: Any) -> dict[str, Any]:
    """TensorFlow's build information, in its own words."""
    if hasattr(tf.sysconfig, "get_build_info"):
        info = dict(tf.sysconfig.get_build_info())
    else:  # Before 2.3.
        info = {"is_cuda_build": tf.test.is_built_with_cuda()}
    return {key: value if isinstance(value, bool) else _plain(value) for key, value in info.items()}


def _plain(value: Any) -> Any:
    return [str(each) for each in value] if isinstance(value, (list, tuple)) else str(value)


def _onednn(tf: Any) -> dict[str, Any]:
    """Whether oneDNN's kernels are in TensorFlow, and whether they are used."""
    from tensorflow.python.framework import kernels

    try:
        from tensorflow.python.util import _pywrap_util_port as port
    except ImportError:  # Before 2.1.
        from tensorflow.python import pywrap_tensorflow as port

    # With ONEDNN_VERBOSE, oneDNN prints its version when it first computes something.
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        x = tf.compat.v1.random.uniform([64, 64])
        product = tf.matmul(x, x)
        with tf.compat.v1.Session() as session:
            session.run(product)
    return {
        "included": bool(kernels.get_registered_kernels_for_op("_MklConv2D").kernel),
        "on": bool(port.IsMklEnabled()),
    }


def _gpus(tf: Any) -> list[dict[str, Any]]:
    """The GPUs that TensorFlow sees; before 2.4, only their names in the graph."""
    experimental = tf.config.experimental
    result = []
    for device in experimental.list_physical_devices("GPU"):
        details: dict[str, Any] = {}
        if hasattr(experimental, "get_device_details"):
            details = experimental.get_device_details(device)
        capability = details.get("compute_capability")
        result.append(
            {
                "device": device.name,
                "name": details.get("device_name"),
                "compute_capability": capability and ".".join(map(str, capability)),
            }
        )
    return result


def _library() -> dict[str, Any]:
    """The library that was loaded."""
    library = importlib.import_module("npu_precision._library")
    return {"path": str(library.PATH)}


def _report_page() -> dict[str, Any]:
    from npu_precision.explain import report

    try:
        report.read_page()
    except ValueError as error:
        return {"file": str(report.PAGE), "error": str(error)}
    return {"file": str(report.PAGE), "error": None}


def _costs() -> list[dict[str, Any]]:
    from npu_precision.doctor import mode_costs

    return mode_costs.measure()


if __name__ == "__main__":
    # Python looks for modules in the folder of this file, and none of them has such a name.
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    main()
