"""apex.parallel for Keras: batch norms over all replicas."""

from npu_precision.amp.parallel.convert import convert_syncbn_model
from npu_precision.amp.parallel.sync_batch_norm import SyncBatchNorm

__all__ = ["SyncBatchNorm", "convert_syncbn_model"]
