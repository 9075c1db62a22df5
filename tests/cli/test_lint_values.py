"""npu-precision lint --model: values that the low type would lose."""

from __future__ import annotations

import json

import tensorflow as tf

# Values that float16 loses: a guard, a mask, and a masked value.
LOSES = """
    x = Placeholder(shape=4x4)
    product = MatMul(x, x)
    guard = Const(value=1e-12, shape=)
    guarded = AddV2(product, guard)
    share = Sigmoid(product)
    mask = Const(value=-1e9, shape=)
    hidden = Mul(share, mask)
    masked = AddV2(product, hidden)
    out = MatMul(guarded, masked)
"""
GUARD = (
    "it reads the constant 'guard' (1e-12), of which the low type would make 0, 1, infinity or a "
    "subnormal number [guard-constant]"
)
MASK = (
    "it reads the constant 'mask' (-1e9), of which the low type would make 0, 1, infinity or a "
    "subnormal number [guard-constant]"
)
MASKED = (
    "it reads 'hidden', whose values are between -1e9 and 0, too large for the low type "
    "[leaves-range]"
)


def test_with_a_model_what_would_overflow_or_vanish_is_noted(lint, graph_file):
    assert lint("{}", "--model", graph_file(LOSES)) == [
        f"graph.pb: note: 'guarded' (AddV2) stays in float32: {GUARD}",
        f"graph.pb: note: 'hidden' (Mul) stays in float32: {MASK}",
        f"graph.pb: note: 'masked' (AddV2) stays in float32: {MASKED}",
    ]


def test_a_model_alone_is_linted_without_a_mixlist(command, graph_file):
    model = graph_file(LOSES)
    assert command("lint", "--model", model).splitlines() == [
        f"{model}: note: 'guarded' (AddV2) stays in float32: {GUARD}",
        f"{model}: note: 'hidden' (Mul) stays in float32: {MASK}",
        f"{model}: note: 'masked' (AddV2) stays in float32: {MASKED}",
    ]
    bf16 = command("lint", "--model", model, "--mode", "allow_mix_precision_bf16")
    assert bf16 == f"{model}: nothing to be said\n"


def test_without_a_mixlist_and_a_model_lint_says_what_it_needs(command, graph_file):
    assert "Got neither a MIXLIST nor --model" in command("lint", status=2)
    model = graph_file(LOSES)
    assert "--fix needs a MIXLIST" in command("lint", "--model", model, "--fix", status=2)


def test_what_only_float16_loses_is_not_noted_for_bfloat16(lint, graph_file):
    lines = lint("{}", "--model", graph_file(LOSES), "--mode", "allow_mix_precision_bf16")
    assert lines == ["m.json: nothing to be said"]


def test_an_entry_that_lowers_what_would_overflow_or_vanish_is_warned_of(lint, graph_file):
    text = '{"white-list": {"to-add": ["node:masked"]}, "gray-list": {"to-add": ["node:guarded"]}}'
    assert lint(text, "--model", graph_file(LOSES)) == [
        "m.json:1:70: warning: 'guarded' (AddV2) is lowered by the mixlist, although " + GUARD,
        "m.json:1:28: warning: 'masked' (AddV2) is lowered by the mixlist, although " + MASKED,
        f"graph.pb: note: 'hidden' (Mul) stays in float32: {MASK}",
    ]


def test_a_gray_entry_that_lowers_nothing_is_not_warned_of(lint, graph_file):
    text = '{"gray-list": {"to-add": ["node:masked"]}}'
    lines = lint(text, "--model", graph_file(LOSES))
    assert [line.split()[2] for line in lines] == ["'guarded'", "'hidden'"]


def test_an_entry_that_keeps_it_too_is_not_warned_of(lint, graph_file):
    text = '{"black-list": {"to-add": ["node:guarded", "Mul"]}}'
    (line,) = lint(text, "--model", graph_file(LOSES))
    assert line.startswith("graph.pb: note: 'masked' ")


def test_a_value_that_is_too_large_itself_is_told_with_its_range(lint, graph_file):
    graph = """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        share = Sigmoid(product)
        large = Const(value=60000, shape=)
        scaled = Mul(share, large)
        twice = AddV2(scaled, scaled)
    """
    assert lint("{}", "--model", graph_file(graph)) == [
        "graph.pb: note: 'twice' (AddV2) stays in float32: its values are between 0 and 120000, "
        "too large for the low type [leaves-range]"
    ]


def test_what_is_the_same_in_several_functions_is_told_once(lint, tmp_path):
    class Model(tf.Module):
        def root(self, x):
            with tf.name_scope("root"):
                guarded = tf.raw_ops.AddV2(x=tf.matmul(x, x), y=1e-12, name="guarded")
                return tf.sqrt(guarded)

        @tf.function(input_signature=[tf.TensorSpec([4, 4], tf.float32)])
        def one(self, x):
            return self.root(x)

        @tf.function(input_signature=[tf.TensorSpec([4, 4], tf.float32)])
        def other(self, x):
            return self.root(x)

    model = Model()
    folder = str(tmp_path / "model")
    tf.saved_model.save(model, folder, signatures={"one": model.one, "other": model.other})
    (line,) = lint("{}", "--model", folder)
    assert "'root/guarded' in __inference_" in line
    assert " and 1 more function (AddV2) stays in float32: " in line
    (line,) = lint('{"white-list": {"to-add": ["node:.*guarded"]}}', "--model", folder)
    assert line.startswith("m.json:1:28: warning: 'root/guarded' in __inference_")
    assert " and 1 more function (AddV2) is lowered by the mixlist, although " in line


def test_json_has_what_would_overflow_or_vanish(command, graph_file, tmp_path):
    model = graph_file(LOSES)
    (tmp_path / "m.json").write_text('{"white-list": {"to-add": ["node:guarded"]}}')
    findings = json.loads(command("lint", tmp_path / "m.json", "--model", model, "--json"))
    assert [tuple(each.values())[:3] for each in findings["findings"]] == [
        ("warning", "guard-constant", f"{tmp_path / 'm.json'}:1:28"),
        ("note", "guard-constant", model),
        ("note", "leaves-range", model),
    ]
