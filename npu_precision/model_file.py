"""Public path of load_model and Model; the code is in offline/model_file.py."""

from npu_precision.offline.model_file import Model, load_model

__all__ = ["Model", "load_model"]
