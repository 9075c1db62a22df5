"""Rewrites models without a session: from a GraphDef, a MetaGraphDef or a file.

`npu_precision.offline` is also the public path of rewrite_graph_def.
"""

from npu_precision.offline.graph_def import rewrite_graph_def

__all__ = ["rewrite_graph_def"]
