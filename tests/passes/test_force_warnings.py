"""Modes that lower all they can warn about nodes that a mixed mode would keep in float32."""

from support.check_rewrite import check_rewrite

GRAPH = """
    x = Placeholder(shape=4x4)
    tiny = Const(value=1e-12)
    product = MatMul(x, x)
    guarded = Maximum(product, tiny)
    p = Sigmoid(product)
    q = Relu(p)
    loss = Log(q)
    """


def test_force_fp16_lowers_and_warns():
    result = check_rewrite(GRAPH, None, ["guarded", "loss"], mode="force_fp16", run=False)
    assert result.reasons["guarded"] == ("lowered", "forced", "")
    assert result.reasons["p"] == ("lowered", "forced", "")
    assert list(result.ledger.warnings) == [
        "force_fp16 lowers 1 node that a mixed mode keeps in float32 (guard_constant), 'guarded'",
        "force_fp16 lowers 2 nodes that a mixed mode keeps in float32 (before_magnifier), such as "
        "'p'",
        "force_fp16 lowers 1 node that a mixed mode keeps in float32 (magnifies), 'loss'",
    ]


def test_a_mode_that_lowers_nothing_here_warns_of_nothing():
    result = check_rewrite(GRAPH, None, ["guarded", "loss"], mode="allow_fp32_to_fp16")
    assert not result.ledger.warnings
