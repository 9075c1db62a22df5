"""install_as_npu_bridge: makes the import lines of npu_bridge scripts work unchanged."""

import importlib.util
import sys
import types

_NAME = "npu_bridge"
# The modules that scripts import from, and our modules with the same names in them.
_ALIASES = {
    "npu_init": "npu_bridge.npu_init",
    "estimator.npu_ops": "npu_bridge.npu_ops",
    "estimator.npu.npu_config": "npu_bridge.run_config",
    "estimator.npu.npu_estimator": "npu_bridge.estimator",
    "estimator.npu.npu_loss_scale_manager": "loss_scaling.managers",
    "estimator.npu.npu_loss_scale_optimizer": "loss_scaling.npu_loss_scale_optimizer",
    "estimator.npu.npu_optimizer": "loss_scaling.npu_optimizer",
    "estimator.npu.npu_scope": "scope",
    "estimator.npu.util": "npu_bridge.util",
}
_PACKAGES = (_NAME, f"{_NAME}.estimator", f"{_NAME}.estimator.npu")
_OURS = "_installed_by_npu_precision"


def install_as_npu_bridge() -> None:
    """Makes `import npu_bridge`, `from npu_bridge.npu_init import *` and the like import ours.

    For scripts whose import lines cannot change; others should use
    `from npu_precision.npu_init import *`. A second call does nothing.

    Raises:
        RuntimeError: the real npu_bridge is installed or imported; it is not hidden.
    """
    present = sys.modules.get(_NAME)
    if present is not None and hasattr(present, _OURS):
        return
    if present is not None or importlib.util.find_spec(_NAME) is not None:
        raise RuntimeError(
            "the real npu_bridge is installed here, and install_as_npu_bridge() would hide it: "
            "uninstall it, or import from npu_precision.npu_init instead"
        )
    for name in _PACKAGES:
        package = types.ModuleType(name, "Stands in for npu_bridge; see npu_precision.")
        package.__path__ = []
        setattr(package, _OURS, True)
        _add(name, package)
    for alias, ours in _ALIASES.items():
        _add(f"{_NAME}.{alias}", importlib.import_module(f"npu_precision.{ours}"))
    sys.meta_path.append(_ModulesNotHere)


class _ModulesNotHere:
    """Explains why an import of npu_bridge has no counterpart here."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raises ModuleNotFoundError for submodules of the stand-in; ignores all others."""
        stand_in = hasattr(sys.modules.get(_NAME), _OURS)
        if stand_in and name.startswith(f"{_NAME}."):
            raise ModuleNotFoundError(
                f"npu_precision has no counterpart of {name}: npu_bridge's distributed "
                "training and NPU-only ops are not here. What is: "
                f"{', '.join(f'{_NAME}.{alias}' for alias in _ALIASES)}",
                name=name,
            )


def _add(name: str, module: types.ModuleType) -> None:
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
