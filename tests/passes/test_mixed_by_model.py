"""A model with a mixed precision of its own is warned of if a mode lowers the rest of it."""

from support.check_rewrite import check_rewrite

import npu_precision

BF16 = "allow_mix_precision_bf16"
# As Keras' policy writes a layer, and one that is excluded from it by dtype="float32".
OF_POLICY = """
    x = Placeholder(shape=4x4)
    rounded = Cast[float32,bfloat16](x)
    hidden = MatMul[bfloat16](rounded, rounded)
    """
EXCLUDED = """
    wide = Cast[bfloat16,float32](hidden)
    end = MatMul(wide, wide)
    """
WARNING = (
    "the model computes in bfloat16 itself, as with a mixed precision policy of Keras, and the mode"
    " lowers the layers that it keeps in float32: use one of the two"
)


def test_a_layer_that_the_policy_excludes_is_lowered_with_a_warning():
    result = check_rewrite(OF_POLICY + EXCLUDED, None, mode=BF16)
    assert result.reasons["end"] == ("lowered", "white_list", "")
    assert list(result.ledger.warnings) == [WARNING]


def test_another_low_type_of_the_model_is_named():
    graph = (OF_POLICY + EXCLUDED).replace("bfloat16", "float16")
    result = check_rewrite(graph, None, mode=BF16)
    assert [line for line in result.ledger.warnings if "float16 itself" in line]


def test_where_the_mode_lowers_no_product_there_is_nothing_to_warn_of():
    result = check_rewrite(OF_POLICY + "end = Exp(x)", None, ["hidden", "end"], mode=BF16)
    assert not result.ledger.warnings


def test_what_an_earlier_run_lowered_is_not_the_model_s(mixlist):
    graph = "x = Placeholder(shape=4x4)\nfirst = MatMul(x, x)\nend = MatMul(first, first)"
    kept = mixlist(black=["node:end"])
    earlier = check_rewrite(graph, None, mode=BF16, modify_mixlist=kept).graph
    _, ledger = npu_precision.rewrite_graph_def(earlier, "end", precision_mode=BF16)
    assert {node.op: node.decision for node in ledger.nodes}["MatMul"] == "lowered"
    assert not ledger.warnings
