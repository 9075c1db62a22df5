"""Public path of explain and Explanation; the code is in explain/explanation.py."""

from npu_precision.explain.explanation import Explanation, explain

__all__ = ["Explanation", "explain"]
