"""A text graph with an Einsum, whose equation has a comma, which the text form cannot write."""

from support.text_graph import read_graph


def einsum_graph(equation, x, w, more="end = Softmax(product)"):
    """A graph with an Einsum "product" of a placeholder "x" and a constant "w".

    Args:
        equation: the equation of the Einsum.
        x: the shape of the placeholder, in the text form: "2x3".
        w: the shape of the constant, in the same form.
        more: the lines after the Einsum.
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
