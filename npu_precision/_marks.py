"""The attributes that Python and the optimizer put on nodes for each other.

Their names come from the optimizer: graph_passes/graph/marks.cc.
"""

from __future__ import annotations

from npu_precision import _library

_NAMES = _library.describe()["marks"]

# By keep_dtype_scope(): the node keeps its dtype.
KEEP_DTYPE: str = _NAMES["keep_dtype"]
# By loss scaling: the product of a loss and its scale, and the producer of the scale for it alone.
LOSS_SCALE: str = _NAMES["loss_scale"]
# By offline rewrites, on nodes of functions that must keep name and dtype.
PRESERVED: str = _NAMES["preserved"]
# By offline rewrites, on nodes with state, which need no other name once they changed: nobody runs
# the graph as it was.
NAMED: str = _NAMES["named"]
# By offline rewrites, on placeholders and fetches that may change their dtype.
LOWER_IO: str = _NAMES["lower_io"]
# By offline rewrites, while a graph is optimized: _class, which Grappler would drop.
COLOCATION: str = _NAMES["colocation"]
# By the optimizer, on what it inserted.
INSERTED: str = _NAMES["inserted"]
