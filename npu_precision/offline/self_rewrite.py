"""Rewrites a small graph in a process of its own, to prove a library: see _library_file."""

from __future__ import annotations

import tensorflow as tf

from npu_precision.offline import rewrite_graph_def


def main() -> None:
    """Raises an exception if the optimizer does not lower a matrix product."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [4, 4])
        tf.identity(tf.matmul(x, x, name="product"), name="out")
    rewritten, _ = rewrite_graph_def(
        graph.as_graph_def(), ["out"], precision_mode="allow_mix_precision"
    )
    (product,) = (node for node in rewritten.node if node.name == "product")
    if product.attr["T"].type != tf.float16.as_datatype_enum:
        raise RuntimeError(f"a matrix product was not lowered: {product}")


if __name__ == "__main__":
    main()
