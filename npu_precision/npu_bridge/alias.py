"""install_as_npu_bridge: makes the import lines of npu_bridge scripts work unchanged."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import types
from typing import Any

_NAME = "npu_bridge"
_NPU_DEVICE = "npu_device"
# The modules that scripts import from, and our modules with the same names in them.
_ALIASES = {
    "npu_bridge.npu_init": "npu_bridge.npu_init",
    "npu_bridge.estimator.npu_ops": "npu_bridge.npu_ops",
    "npu_bridge.estimator.npu_unary_ops": "npu_bridge.npu_unary_ops",
    "npu_bridge.estimator.npu.npu_common": "npu_bridge.npu_common",
    "npu_bridge.estimator.npu.npu_config": "npu_bridge.run_config",
    "npu_bridge.estimator.npu.npu_dynamic_rnn": "npu_bridge.npu_dynamic_rnn",
    "npu_bridge.estimator.npu.npu_estimator": "npu_bridge.estimator",
    "npu_bridge.estimator.npu.npu_hook": "npu_bridge.npu_hook",
    "npu_bridge.estimator.npu.npu_loss_scale_manager": "loss_scaling.managers",
    "npu_bridge.estimator.npu.npu_loss_scale_optimizer": "loss_scaling.npu_loss_scale_optimizer",
    "npu_bridge.estimator.npu.npu_optimizer": "loss_scaling.npu_optimizer",
    "npu_bridge.estimator.npu.npu_convert_dropout": "npu_bridge.npu_convert_dropout",
    "npu_bridge.estimator.npu.npu_plugin": "npu_bridge.npu_plugin",
    "npu_bridge.estimator.npu.npu_rnn": "npu_bridge.npu_rnn",
    "npu_bridge.estimator.npu.npu_scope": "npu_bridge.npu_scope",
    "npu_bridge.estimator.npu.npu_strategy": "hccl.strategy",
    "npu_bridge.estimator.npu.util": "npu_bridge.util",
    "npu_bridge.hccl.hccl_ops": "hccl.hccl_ops",
    "npu_bridge.helper.helper": "npu_bridge.helper",
    "npu_bridge.npu_cpu.npu_cpu_ops": "npu_bridge.npu_cpu_ops",
    "hccl.manage.api": "hccl.manage.api",
    "hccl.split.api": "hccl.split.api",
}
# Modules that need Keras, which takes long to import; they are imported at their first use.
_LATER = {
    "npu_bridge.estimator.npu.keras_to_npu": "npu_bridge.keras_to_npu",
    "npu_bridge.estimator.npu.npu_callbacks": "hccl.callbacks",
}
_PACKAGES = (
    _NAME,
    f"{_NAME}.estimator",
    f"{_NAME}.estimator.npu",
    f"{_NAME}.hccl",
    f"{_NAME}.helper",
    f"{_NAME}.npu_cpu",
    "hccl",
    "hccl.manage",
    "hccl.split",
)
_OURS = "_installed_by_npu_precision"


def install_as_npu_bridge() -> None:
    """Makes `from npu_bridge.npu_init import *`, `import hccl`, `import npu_device` import ours.

    For scripts whose import lines cannot change. Other scripts should use
    `from npu_precision.npu_init import *`. A second call does nothing.

    Raises:
        RuntimeError: the real npu_bridge, hccl or npu_device is installed or imported, and must not
            be hidden.
    """
    if hasattr(sys.modules.get(_NAME), _OURS):
        return
    for name in (_NAME, "hccl", _NPU_DEVICE):
        if name in sys.modules or importlib.util.find_spec(name) is not None:
            raise RuntimeError(
                f"the real {name} is installed here, and install_as_npu_bridge() would hide it: "
                "uninstall it, or import from npu_precision.npu_init, .hccl and .npu_device instead"
            )
    for name in _PACKAGES:
        package = types.ModuleType(name, f"Stands in for {name}; see npu_precision.")
        package.__path__ = []
        setattr(package, _OURS, True)
        _add(name, package)
    for alias, ours in _ALIASES.items():
        _add(alias, importlib.import_module(f"npu_precision.{ours}"))
    sys.meta_path.append(_ModulesNotHere)
    # Before the finders that would look for modules of npu_device in our folder.
    sys.meta_path.insert(0, _NpuDevice)


def module_names() -> list[str]:
    """The modules that a script can import after install_as_npu_bridge()."""
    return [*_PACKAGES, *_ALIASES, *_LATER]


class _ModulesNotHere:
    """Imports the modules in _LATER, and explains why an import has no counterpart here."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> Any:
        """Raises ModuleNotFoundError for submodules that the stand-ins do not have."""
        top = name.partition(".")[0]
        if name == top or not hasattr(sys.modules.get(top), _OURS):
            return None
        if name in _LATER:
            return importlib.util.spec_from_loader(name, _Ours(f"npu_precision.{_LATER[name]}"))
        raise ModuleNotFoundError(
            f"npu_precision has no counterpart of {name}: NPU-only ops are not here. What is: "
            f"{', '.join([*_ALIASES, *_LATER])}",
            name=name,
        )


class _NpuDevice:
    """Imports npu_device, which needs TensorFlow 2, when a script does.

    npu_device.compat.v1 has the modules of npu_bridge under their names there.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> Any:
        """Finds our module of that name, whose import fails if there is none."""
        if name.partition(".")[0] != _NPU_DEVICE:
            return None
        ours = f"npu_precision.{name}"
        if name.startswith(f"{_NPU_DEVICE}.compat.v1."):
            ours = name.replace(f"{_NPU_DEVICE}.compat.v1", _NAME, 1)
        return importlib.util.spec_from_loader(name, _Ours(ours))


class _Ours(importlib.abc.Loader):
    """Loads our module in place of another one."""

    def __init__(self, ours: str) -> None:
        self._ours = ours

    def create_module(self, spec: Any) -> types.ModuleType:
        """Imports our module."""
        module = importlib.import_module(self._ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Restores the module's own spec; the import has executed it already."""
        module.__spec__ = self._spec


def _add(name: str, module: types.ModuleType) -> None:
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
