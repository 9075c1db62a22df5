"""The names that TF1 scripts import from npu_bridge: `from npu_precision.npu_init import *`.

Public path; the code is in npu_bridge/npu_init.py.
"""

from npu_precision.npu_bridge.npu_init import *  # noqa: F403
from npu_precision.npu_bridge.npu_init import __all__ as __all__
