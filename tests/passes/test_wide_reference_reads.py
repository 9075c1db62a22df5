"""Many reads of a reference with many control inputs: the number of edges stays linear."""

from __future__ import annotations

from support.check_rewrite import check_rewrite
from support.loop_text import loop

READS = 20


def rewrite(text):
    """The rewritten graph, whose values must equal the original's in several runs."""
    for _ in range(5):  # A Cast without the control input is only sometimes too early.
        rewritten = check_rewrite(text, None, init=["assign"]).graph
    return rewritten


def lines(text):
    """The text, repeated for each read; {n} is its number."""
    return "\n".join(text.format(n=n) for n in range(READS))


def names(prefix, separator=", "):
    return separator.join(f"{prefix}{n}" for n in range(READS))


def control_inputs(graph):
    return {
        node.name: [name for name in node.input if name.startswith("^")]
        for node in graph.node
        if any(name.startswith("^") for name in node.input)
    }


def test_casts_for_one_reader_in_a_loop_depend_on_one_node_that_depends_on_all_it_reads():
    rewritten = rewrite(
        loop(
            f"""start = Identity(x)
            value = Const(shape=4x4)
            v = VariableV2(shape=4x4)
            assign = Assign(v, value)
            v_enter = RefEnter(v, frame_name=loop, is_constant=True)
            {lines("read_{n} = Identity(v)")}
            {lines("enter_{n} = Enter(read_{n}, frame_name=loop, is_constant=True)")}""",
            f"""product = MatMul(switch:1, switch:1)
            sum = AddN(product, {names("enter_")})
            turn = Softmax(sum)
            update = AssignSub(v_enter, turn)""",
            after=["update"],
        )
    )
    (added,) = (node for node in rewritten.node if node.name == "sum")
    casts = [name for name in added.input if "/npu_cast_ref_" in name]
    assert len(casts) == READS
    controls = control_inputs(rewritten)
    assert {tuple(controls[cast]) for cast in casts} == {("^sum/npu_wait",)}
    assert sorted(controls["sum/npu_wait"]) == sorted(
        ["^product", *(f"^enter_{n}" for n in range(READS))]
    )


def test_casts_for_one_reader_depend_on_one_node_with_its_control_inputs():
    rewritten = rewrite(
        f"""
        x = Placeholder(shape=4x4)
        value = Const(shape=4x4)
        v = VariableV2(shape=4x4)
        assign = Assign(v, value)
        {lines("update_{n} = AssignAdd(v, x, use_locking=True)")}
        {lines("read_{n} = Identity(v)")}
        product = MatMul(x, x)
        sum = AddN(product, {names("read_")}, {names("^update_")})
        end = Softmax(sum)
        """
    )
    controls = control_inputs(rewritten)
    casts = [name for name in controls if "/npu_cast_ref_" in name]
    assert len(casts) == READS
    assert {tuple(controls[cast]) for cast in casts} == {("^sum/npu_wait",)}


def test_casts_of_one_read_depend_on_it_where_it_has_many_control_inputs():
    rewritten = rewrite(
        f"""
        x = Placeholder(shape=4x4)
        value = Const(shape=4x4)
        v = VariableV2(shape=4x4)
        assign = Assign(v, value)
        {lines("update_{n} = AssignAdd(v, x, use_locking=True)")}
        read = Identity(v, {names("^update_")})
        first = Identity(x)
        {lines("product_{n} = MatMul(x, read, ^first)")}
        end = AddN({names("product_")})
        """
    )
    controls = control_inputs(rewritten)
    casts = [name for name in controls if "/npu_cast_ref_" in name]
    assert len(casts) == READS
    assert {tuple(controls[cast]) for cast in casts} == {("^first", "^read")}
