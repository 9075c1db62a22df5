"""The pictures of docs/how-it-decides.md show the decisions of the optimizer.

A failure prints the right picture: paste it over the one in the page.
"""

from __future__ import annotations

import re

import pytest
from support import ROOT
from support.draw_graph import draw_graph
from support.loop_text import counter
from support.text_graph import read_graph

import npu_precision

PAGE = ROOT / "docs" / "how-it-decides.md"

# The graph and the fetched nodes, by the name in the comment before the picture.
PICTURES = {
    "lists": (
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        product = MatMul(x, w)
        hidden = Relu(product)
        out = Softmax(hidden)
        """,
        ["out"],
    ),
    "votes": (
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        scale = Exp(x)
        both = Mul(product, scale)
        one = Tanh(product)
        none = Neg(x)
        end = AddN(both, one, none)
        """,
        ["end"],
    ),
    "consumers": (
        """
        x = Placeholder(shape=4x4)
        order = Const[int32](value=[1, 0])
        turned = Transpose(x, order)
        product = MatMul(turned, x)
        hidden = Relu(product)
        """,
        ["hidden"],
    ),
    "magnifier": (
        """
        x = Placeholder(shape=4x4)
        logits = MatMul(x, x)
        p = Sigmoid(logits)
        one = Const(value=1.0)
        rest = Sub(one, p)
        loss = Log(rest)
        hidden = Relu(logits)
        """,
        ["loss", "hidden"],
    ),
    "loop": (
        f"""
        x = Placeholder(shape=4x4)
        w = Placeholder(shape=4x4)
        {counter(3)}
        enter = Enter(x, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        w_enter = Enter(w, frame_name=loop, is_constant=True)
        product = MatMul(switch:1, w_enter)
        turn = Tanh(product)
        next = NextIteration(turn)
        exit = Exit(switch)
        """,
        ["exit"],
    ),
    "sum": (
        f"""
        x = Placeholder(shape=4x4)
        {counter(3)}
        zeros = Const(value=0.0, shape=4x4)
        enter = Enter(zeros, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        x_enter = Enter(x, frame_name=loop, is_constant=True)
        term = MatMul(x_enter, x_enter)
        turn = AddV2(switch:1, term)
        next = NextIteration(turn)
        exit = Exit(switch)
        """,
        ["exit"],
    ),
    "handle": (
        """
        x = Placeholder(shape=4x4)
        size = Const[int32](value=1)
        index = Const[int32](value=0)
        array = TensorArrayV3[float32](size, element_shape=4x4)
        product = MatMul(x, x)
        write = TensorArrayWriteV3(array, index, product, array:1)
        read = TensorArrayReadV3[float32](array, index, write)
        out = MatMul(read, x)
        """,
        ["out"],
    ),
    "body": (
        """
        x = _Arg[float32](index=0)
        w = _Arg[float32](index=1)
        product = MatMul(x, w)
        hidden = Tanh(product)
        result = _Retval(hidden, index=0)
        """,
        ["result"],
    ),
    "update": (
        """
        x = Placeholder(shape=4x4)
        v = VarHandleOp(shape=4x4)
        read = ReadVariableOp[float32](v)
        product = MatMul(x, read)
        hidden = Relu(product)
        gradient = MatMul(hidden, x)
        step = Mul(gradient, rate)
        rate = Const(value=0.001)
        next = Sub(read, step)
        write = AssignVariableOp(v, next)
        """,
        ["write"],
    ),
}


def picture(name):
    graph, fetches = PICTURES[name]
    before = read_graph(graph)
    after, ledger = npu_precision.rewrite_graph_def(
        before, fetches, precision_mode="allow_mix_precision", fold_constants=False
    )
    return "\n".join(draw_graph(before, after, ledger, fetches))


@pytest.mark.parametrize("name", PICTURES)
def test_the_page_shows_what_the_optimizer_does(name):
    found = re.search(
        f"<!-- picture: {name} -->\n+```mermaid\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert found, f"{PAGE.name} has no picture {name!r}"
    drawn = picture(name)
    assert found[1].strip() == drawn, f"the picture {name!r} should be:\n{drawn}"


def test_the_page_has_no_other_pictures():
    assert set(re.findall("<!-- picture: (.*) -->", PAGE.read_text())) == set(PICTURES)
