"""npu-precision explain --node: one node's story, from its own reason to the one behind all."""

from __future__ import annotations

import json

import pytest
from support.model_files import ModelFiles

MIXED = ("--mode", "allow_mix_precision")
BLACK = (
    "on the black list (built-in): exponentials overflow float16 at 11 and magnify rounding, "
    "logarithms lose what is near 0 or 1"
)


@pytest.fixture
def tell(command, model_files: ModelFiles):
    """tell(pattern, model="frozen") -> the lines."""

    def run(pattern, model="frozen", options=MIXED):
        text = command("explain", getattr(model_files, model), *options, "--node", pattern)
        return text.splitlines()

    return run


@pytest.fixture
def tell_of(command, graph_file):
    """tell_of(text of a graph, pattern) -> the lines."""

    def run(text, pattern, *options):
        arguments = (*MIXED, *options, "--node", pattern)
        return command("explain", graph_file(text), *arguments).splitlines()

    return run


def test_a_gray_node_s_story_goes_back_to_the_black_one_that_decided(tell):
    assert tell("^after$") == [
        "after (Tanh): kept",
        "  its values are between -1 and 1",
        "  gray; both feeds it and was kept",
        "  because both (AddV2), kept: gray; scale feeds it and was kept",
        f"  because scale (Exp), kept: {BLACK}",
        "  fed by both:0 (AddV2), kept",
        "  output shape [4, 8]",
        "  Cast of after:0 from float32 to float16, 64 bytes",
        '  the mixlist {"gray-list": {"to-add": ["node:scale"]}} lets scale follow what feeds it',
        '  the mixlist {"white-list": {"to-add": ["node:after"]}} lowers it',
    ]


def test_the_user_s_own_list_says_why_too(tell_of, tmp_path):
    own = tmp_path / "lists" / "own.json"
    own.parent.mkdir()
    own.write_text('{"why": "it has to", "Relu": {"precision_reduce": {"flag": "false"}}}')
    graph = "x = Placeholder(shape=4x4) \n product = MatMul(x, x) \n end = Relu(product)"
    overlay = ("--ops-info-overlay", str(own.parent))
    assert tell_of(graph, "^end$", *overlay)[2] == f"  on the black list ({own}:1:30): it has to"
    assert not any("it has to" in line for line in tell_of(graph, "^product$", *overlay))


def test_a_list_s_reason_is_not_told_of_a_node_that_a_mixlist_has_put_there(tell_of, mixlist):
    graph = "x = Placeholder(shape=4x4) \n scale = Exp(x) \n end = MatMul(scale, x)"
    black = mixlist(black=["Exp"])
    lines = tell_of(graph, "^scale$", "--mixlist", black)
    assert f"  on the black list ({black}:1:28)" in lines


def test_a_fetched_node_s_story_names_the_cast_that_has_taken_its_name(tell):
    assert tell("^out$") == [
        "out (MatMul): lowered, T float32 -> float16",
        "  on the white list (built-in)",
        "  fed by lowered:0 (Relu), lowered",
        "  fed by after:0 (Tanh), kept",
        "  output shape [4, 4]",
        "  Cast of out:0 from float16 to float32, 64 bytes",
        "  Cast of after:0 from float32 to float16, 64 bytes",
        '  the mixlist {"black-list": {"to-add": ["node:out"]}} keeps it in float32',
    ]


def test_who_is_in_the_way_says_of_how_many(tell):
    assert "  gray nodes that are kept because it is: 2" in tell("^scale$")


def test_the_advice_does_what_it_says(tell, command, model_files):
    for name in ("after", "lowered", "out"):
        for line in tell(f"^{name}$"):
            if not line.startswith("  the mixlist"):
                continue
            mixlist, _, effect = line[len("  the mixlist ") :].rpartition("}} ")
            told = tell(f"^{name}$", options=(*MIXED, "--mixlist-edits", mixlist + "}}"))
            expected = "kept" if effect == "keeps it in float32" else "lowered"
            assert told[0].split()[2].strip(",") == expected, line


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("share", "it feeds loss, which magnifies its rounding error"),
        ("divided", "it magnifies the rounding errors of its inputs"),
        ("guarded", "it reads the constant tiny, of which the low type would make"),
    ],
)
def test_a_rule_about_values_is_overruled_by_an_entry_that_is_advised(node, reason, tell_of):
    model = """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        share = Sigmoid(product)
        loss = Log(share)
        tiny = Const(value=1e-12, shape=)
        guarded = AddV2(product, tiny)
        other = Relu(product)
        divided = RealDiv(other, other)
        """
    lines = tell_of(model, f"^{node}$")
    assert any(reason in line for line in lines)
    (advised,) = [line for line in lines if line.startswith("  the mixlist")]
    mixlist, effect = advised[len("  the mixlist ") :].split("}} ")
    assert effect == "lowers it in spite of that"
    told = tell_of(model, f"^{node}$", "--mixlist-edits", mixlist + "}}")
    assert ": lowered" in told[0]


def test_of_what_the_user_s_own_entry_keeps_the_entry_is_what_to_change(tell, tmp_path):
    mixlist = tmp_path / "m.json"
    mixlist.write_text('{"black-list": {"to-add": ["node:product"]}}')
    lines = tell("^product$", options=(*MIXED, "--mixlist", str(mixlist)))
    assert f"  on the black list ({mixlist}:1:28)" in lines
    assert not any(line.startswith("  the mixlist") for line in lines)


def test_a_node_of_a_function_is_told_with_its_function_and_arguments(tell):
    lines = tell("lstm.*/MatMul|^while/MatMul$", model="lstm")
    text = "\n".join(lines)
    assert " in while_body" in text or " in __inference" in text
    assert "on the white list (built-in)" in text


RANGES = """
    x = Placeholder(shape=4x4)
    product = MatMul(x, x)
    share = Sigmoid(product)
    positive = Relu(product)
    negative = Neg(positive)
    guard = Const(value=1e-12, shape=)
    almost = Const(value=1.0000001, shape=)
    mask = Const(value=-1e9, shape=)
    half = Const(value=400.5, shape=)
"""


@pytest.mark.parametrize(
    ("node", "values"),
    [
        ("share", "between 0 and 1"),
        ("positive", "at least 0"),
        ("negative", "at most 0"),
        ("guard", "1e-12"),
        ("almost", "1.0000001"),
        ("mask", "-1e9"),
        ("half", "400.5"),
    ],
)
def test_what_is_known_of_a_node_s_values_is_told(node, values, tell_of):
    assert f"  its values are {values}" in tell_of(RANGES, f"^{node}$")


def test_of_values_of_which_nothing_is_known_nothing_is_told(tell_of):
    assert not [line for line in tell_of(RANGES, "^product$") if "its values" in line]


POOLED = """
    x = Placeholder(shape=1x4x4x1)
    pool = MaxPool(x, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding=SAME)
    end = Log1p(pool)
"""


def test_what_is_kept_without_a_kernel_for_it_is_told(tell_of, mixlist):
    options = ("--target", "ascend910", "--mixlist", mixlist(black=["MaxPool"]))
    line = "  the target has no float32 kernel for it"
    assert line in tell_of(POOLED, "^pool$", *options)
    assert line not in tell_of(POOLED, "^end$", *options)


def test_what_computes_in_float32_is_told(tell_of):
    line = "  it computes in float32, on values rounded to float16"
    graph = "x = Placeholder(shape=4x4) \n product = MatMul(x, x)"
    assert line in tell_of(graph, "^product$", "--float16-compute", "float32")
    assert line not in tell_of(graph, "^product$")


VOTES = """
    x = Placeholder(shape=4x4)
    w = Placeholder(shape=4x4)
    v = Placeholder(shape=4x4)
    product = MatMul(x, w)
    turned = Neg(v)
    both = AddV2(product, turned)
    scale = Exp(x)
    three = AddN(both, turned, scale, w)
"""


def fed_by(lines):
    return [line.strip() for line in lines if line.startswith("  fed by ")]


def test_an_input_without_a_vote_is_told_to_have_none_and_why(tell_of):
    assert fed_by(tell_of(VOTES, "^both$")) == [
        "fed by product:0 (MatMul), lowered",
        "fed by turned:0 (Neg), kept, and does not vote because nothing that feeds it votes",
    ]
    assert fed_by(tell_of(VOTES, "^turned$")) == [
        "fed by v:0 (Placeholder), kept, and does not vote because it is a source"
    ]


def test_an_input_that_votes_is_told_without_a_word_about_votes(tell_of):
    assert fed_by(tell_of(VOTES, "^three$")) == [
        "fed by both:0 (AddV2), lowered",
        "fed by turned:0 (Neg), kept, and does not vote because nothing that feeds it votes",
        "fed by scale:0 (Exp), kept",
        "fed by w:0 (Placeholder), kept, and does not vote because it is a source",
    ]


def test_of_a_node_that_no_votes_decided_votes_are_not_told(tell_of):
    assert fed_by(tell_of(VOTES, "^product$")) == [
        "fed by x:0 (Placeholder), kept",
        "fed by w:0 (Placeholder), kept",
    ]


def test_an_input_whose_dtype_stays_hears_no_vote(tell_of):
    graph = """
        x = Placeholder(shape=2x4x4x3)
        filter = Placeholder(shape=1x1x3x3)
        values = Placeholder(shape=3)
        images = Conv2D(x, filter, strides=[1,1,1,1], padding='SAME')
        scale = Exp(values)
        norm = FusedBatchNormV3(images, scale, values, values, values, is_training=False)
        out = Relu(norm)
    """
    assert fed_by(tell_of(graph, "^norm$"))[:2] == [
        "fed by images:0 (Conv2D), lowered",
        "fed by scale:0 (Exp), kept, and does not vote because the dtype of this input stays",
    ]


LOOP = """
    x = Placeholder(shape=4x4)
    go = Const[bool](value=True, shape=)
    enter = Enter(x, frame_name='f')
    merge = Merge(enter, next)
    enter_go = Enter(go, frame_name='f', is_constant=True)
    cond = LoopCond(enter_go)
    switch = Switch(merge, cond)
    next = NextIteration(switch:1)
    exit = Exit(switch)
"""


def test_around_a_loop_without_votes_nothing_votes(tell_of):
    graph = f"{LOOP}    turned = Neg(exit)"
    for node in ("merge", "switch", "exit", "turned"):
        for line in fed_by(tell_of(graph, f"^{node}$")):
            if "LoopCond" not in line:
                assert line.endswith("does not vote because nothing that feeds it votes"), line


def test_what_follows_its_consumers_does_not_vote(tell_of):
    graph = f"{LOOP}    product = MatMul(exit, exit)"
    lines = tell_of(graph, "^merge$")
    assert lines[0] == "merge (Merge): lowered, T float32 -> float16"
    for line in fed_by(lines):
        assert line.endswith("lowered, and does not vote because nothing that feeds it votes"), line


def test_json_has_the_same_steps(command, model_files):
    data = json.loads(command("explain", model_files.frozen, *MIXED, "--node", "^after$", "--json"))
    (told,) = data["stories"]
    assert [step["node"] for step in told["steps"]] == ["after", "both", "scale"]
    assert told["steps"][2]["why"] == BLACK
    assert told["node"]["cause"] == "both"
    assert told["values"] == "between -1 and 1"
    assert told["fed_by"] == [
        {"tensor": "both:0", "op": "AddV2", "decision": "kept", "no_vote": ""}
    ]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("softmax", "node: 'softmax' is found in the name of no float node"),
        ("[", "node: '[' is not a regular expression: unterminated character set at position 0"),
    ],
)
def test_a_pattern_that_finds_nothing_is_an_error(pattern, message, command, model_files):
    text = command("explain", model_files.frozen, *MIXED, "--node", pattern, status=2)
    assert text == f"npu-precision: {message}\n"


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("prodcut", "product"),
        ("encodr/layer_0", "encoder/layer_0"),
        ("layer_0/Product", "layer_0/product"),
    ],
)
def test_a_misspelled_node_has_a_hint(pattern, near, command, graph_file):
    model = graph_file("""
        x = Placeholder(shape=4x4)
        encoder/layer_0/product = MatMul(x, x)
        out = Relu(encoder/layer_0/product)
    """)
    text = command("explain", model, *MIXED, "--node", pattern, status=2)
    assert text.endswith(f"found in the name of no float node (did you mean {near!r}?)\n")


def test_in_a_mode_without_lists_no_mixlist_is_advised(tell):
    text = "\n".join(tell("^out$", options=("--mode", "force_fp16")))
    assert "the mode changes whatever can be changed" in text
    assert "mixlist" not in text


def test_a_line_of_customize_dtypes_is_named(tell_of, tmp_path):
    file = tmp_path / "dtypes.cfg"
    file.write_text("product::InputDtype:float16,float16,OutputDtype:float32\n")
    assert tell_of(
        "x = Placeholder(shape=4x4) \n product = MatMul(x, x) \n end = Relu(product)",
        "product",
        "--customize-dtypes",
        str(file),
    ) == [
        "product (MatMul): kept",
        f"  customize_dtypes gives its dtypes ({file}:1:1)",
        "  fed by x:0 (Placeholder), kept",
        "  output shape [4, 4]",
        "  Cast of x/npu_cast_0_float16:0 from float16 to float32, 64 bytes",
        "  gray nodes that are kept because it is: 1",
    ]
