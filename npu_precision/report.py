"""Public path of write_report; the code is in explain/report.py."""

from npu_precision.explain.report import write_report

__all__ = ["write_report"]
