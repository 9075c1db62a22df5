"""Loops of TensorFlow 1 in the text form of graphs: the lines that every loop has."""

from __future__ import annotations


def counter(times, name="", frame="loop", inside="", after=()):
    """The lines that count to `times` in a frame; `<name>cond` is true while the loop continues.

    Args:
        times: how often the body runs.
        name: the prefix of the names of the nodes.
        frame: the name of the loop's frame.
        inside: a node of the outer loop's body, if there is one.
        after: nodes of the body; the next iteration has a control dependency on them.
    """
    control = f"^{inside}, " if inside else ""
    added = ", ".join([f"{name}i_add", *(f"^{node}" for node in after)])
    return f"""
        {name}zero = Const[int32]({control}value=0)
        {name}one = Const[int32]({control}value=1)
        {name}times = Const[int32]({control}value={times})
        {name}i_enter = Enter({name}zero, frame_name={frame})
        {name}one_enter = Enter({name}one, frame_name={frame}, is_constant=True)
        {name}times_enter = Enter({name}times, frame_name={frame}, is_constant=True)
        {name}i = Merge({name}i_enter, {name}i_next)
        {name}less = Less({name}i, {name}times_enter)
        {name}cond = LoopCond({name}less)
        {name}i_switch = Switch({name}i, {name}cond)
        {name}i_add = AddV2({name}i_switch:1, {name}one_enter)
        {name}i_next = NextIteration({added})
        """


def loop(start, body, after=()):
    """A loop that applies `body` three times to x; the body reads switch:1 and ends in `turn`."""
    return f"""
        x = Placeholder(shape=4x4)
        {counter(3, after=after)}
        {start}
        enter = Enter(start, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        {body}
        next = NextIteration(turn)
        exit = Exit(switch)
        end = Softmax(exit)
        """


def sum_loop(body):
    """A loop with a white term, a variable that starts as `start`, and turn, its next value."""
    return f"""
        x = Placeholder(shape=4x4)
        {counter(3)}
        start = Const(shape=4x4)
        enter = Enter(start, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        x_enter = Enter(x, frame_name=loop, is_constant=True)
        term = MatMul(x_enter, x_enter)
        {body}
        next = NextIteration(turn)
        exit = Exit(switch)
        """
