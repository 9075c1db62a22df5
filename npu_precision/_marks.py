"""The node attributes by which Python and the optimizer pass facts to each other.

Their names come from the optimizer: graph_passes/graph/marks.cc.
"""

from __future__ import annotations

from npu_precision import _library

_NAMES = _library.describe()["marks"]

# Set by keep_dtype_scope(): the node keeps its dtype.
KEEP_DTYPE: str = _NAMES["keep_dtype"]
# Set by autocast() while a graph is built: the dtype to lower to; float32 where it is switched off.
AUTOCAST: str = _NAMES["autocast"]
# Set by amp's decorators: "white", "black" or "gray".
LIST: str = _NAMES["list"]
# Set by loss scaling on the product of a loss and its scale, and on the producer of the scale if
# nothing else reads it.
LOSS_SCALE: str = _NAMES["loss_scale"]
# Set by loss scaling on the op that yields whether all gradients are finite.
OVERFLOW_CHECK: str = _NAMES["overflow_check"]
# Set by offline rewrites on nodes of functions that must keep name and dtype.
PRESERVED: str = _NAMES["preserved"]
# Set by offline rewrites on nodes with state. They need no new name when they change, because the
# original graph is not run.
NAMED: str = _NAMES["named"]
# Set by offline rewrites on placeholders and fetches that may change their dtype.
LOWER_IO: str = _NAMES["lower_io"]
# Set by offline rewrites on one node of a function: what calls the function.
BODY_ROLE: str = _NAMES["body_role"]
# Set by offline rewrites on an If or Case: the pairs of an input and an output such that an error
# of the input reaches the output.
ERROR_PATHS: str = _NAMES["error_paths"]
# Set by offline rewrites on one node of the body of a While: what the condition reads of its
# results.
READ_BY_CONDITION: str = _NAMES["read_by_condition"]
# Set by the optimizer, and then by offline rewrites, on a node that a rule keeps once all bodies
# stand in one graph.
KEPT_IN_PLACE: str = _NAMES["kept_in_place"]
# Set by offline rewrites before bodies are put in place: the function and the name of each node.
# The optimizer only marks what is kept then.
ORIGIN: str = _NAMES["origin"]
# Set by offline rewrites while a graph is optimized: a copy of _class, which Grappler would drop.
COLOCATION: str = _NAMES["colocation"]
# Set by offline rewrites on one node of a function that XLA compiles.
COMPILED: str = _NAMES["compiled"]
# Set on the node of a function that only calls one that XLA compiles: it needs no ledger.
CALLER: str = _NAMES["caller"]
# Set by the optimizer on the nodes that it inserted.
INSERTED: str = _NAMES["inserted"]
