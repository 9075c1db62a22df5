"""A text graph with an Einsum: the text form has no attribute with a comma."""

from support.text_graph import read_graph


def einsum_graph(equation, x, w, more="end = Softmax(product)"):
    """A graph with an Einsum "product" of a placeholder "x" and a constant "w".

    Args:
        equation: of the Einsum.
        x: the shape of the placeholder, as the text form has it: "2x3".
        w: that of the constant.
        more: the lines behind it.
    """
    graph = read_graph(
        f"""
        x = Placeholder(shape={x})
        w = Const(shape={w})
        product = Einsum(x, w, equation=?)
        {more}
        """
    )
    with_equations(graph, product=equation)
    return graph


def with_equations(graph, **equations):
    """Sets the equations of Einsums, by their names."""
    for node in graph.node:
        if node.op == "Einsum":
            node.attr["equation"].s = equations[node.name].encode()
    return graph
