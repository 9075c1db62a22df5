"""What a loop or a branch magnifies is kept where it is rounded, in saved models too.

When TensorFlow runs a graph, the bodies are in place before the optimizer sees it. Offline, each is
a function.
"""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision import _library
from npu_precision.offline import bodies_in_place

pytestmark = needs_functions_by_default
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=[16, 8]).astype(np.float32)
W = RANDOM.normal(size=[8, 8]).astype(np.float32)
MODE = "allow_mix_precision_bf16"


def probability(x):
    return tf.sigmoid(tf.matmul(x, tf.constant(W)), name="p")


def before_a_branch(x):
    p = probability(x)
    return tf.cond(tf.reduce_sum(x) > -1e9, lambda: tf.math.log(1.0 - p), lambda: p)


def behind_a_branch(x):
    p = tf.cond(tf.reduce_sum(x) > -1e9, lambda: probability(x), lambda: tf.zeros([16, 8]))
    return tf.math.log(1.0 - p)


def before_a_loop_with_a_branch(x):
    p = probability(x)

    def step(i, total):
        is_even = tf.equal(i % 2, 0)
        return i + 1, total + tf.cond(is_even, lambda: tf.math.log(1.0 - p), lambda: p)

    return tf.while_loop(lambda i, _: i < 4, step, (0, tf.zeros([16, 8])))[1]


def behind_a_call(x):
    """In a function that is called from a branch, and compiled by XLA where it is not converted."""
    called = tf.function(probability, jit_compile=True)
    p = tf.cond(tf.reduce_sum(x) > -1e9, lambda: called(x), lambda: tf.zeros([16, 8]))
    return tf.math.log(1.0 - p)


PROGRAMS = [before_a_branch, behind_a_branch, before_a_loop_with_a_branch, behind_a_call]


@pytest.fixture
def saved(tmp_path):
    """saved(program) -> the folder of a SavedModel."""

    def save(program):
        module = tf.Module()
        spec = tf.TensorSpec(X.shape, tf.float32)
        module.step = tf.function(program, input_signature=[spec])
        signature = tf.function(lambda x: {"y": module.step(x)}, input_signature=[spec])
        folder = str(tmp_path / "model")
        tf.saved_model.save(module, folder, signatures={"serving_default": signature})
        return folder

    return save


def decisions(ledger):
    """The decision and the reason of each node, by its name without the bodies that it is in."""
    return {
        node.name.rpartition("/")[2]: (node.decision, node.reason)
        for part in ledger
        for node in part.nodes
    }


def converted(folder, **options):
    """What the converted model yields for X, and the ledger."""
    (ledger,) = npu_precision.convert_saved_model(
        folder, f"{folder}_low", precision_mode=MODE, **options
    )
    model = tf.saved_model.load(f"{folder}_low")
    return model.signatures["serving_default"](tf.constant(X))["y"].numpy(), ledger


@pytest.mark.parametrize("program", PROGRAMS, ids=[each.__name__ for each in PROGRAMS])
def test_what_another_body_magnifies_is_kept(program, saved):
    exact = program(tf.constant(X)).numpy()
    result, ledger = converted(saved(program))
    assert decisions(ledger)["p"][0] == "kept"
    assert "kept_in_place" in {reason for _, reason in decisions(ledger).values()}
    np.testing.assert_allclose(result, exact, rtol=0.1, atol=0.1)


def test_a_mixlist_overrules_it(saved, tmp_path):
    mixlist = tmp_path / "mixlist.json"
    mixlist.write_text(json.dumps({"white-list": {"to-add": ["Sigmoid"]}}))
    _, ledger = converted(saved(before_a_branch), modify_mixlist=str(mixlist))
    assert decisions(ledger)["p"] == ("lowered", "white_list")


def test_the_result_has_no_marks_of_it(saved):
    folder = saved(before_a_branch)
    converted(folder)
    for path in (f"{folder}/saved_model.pb", f"{folder}_low/saved_model.pb"):
        with open(path, "rb") as file:
            content = file.read()
        assert b"_npu_precision_kept_in_place" not in content
        assert b"_npu_precision_origin" not in content


def test_where_bodies_cannot_be_put_in_place_each_is_decided_about_alone(monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("no way")

    monkeypatch.setattr(bodies_in_place._tf_compat, "optimize_graph", fail)
    graph, marked = tf.compat.v1.GraphDef(), tf.compat.v1.GraphDef()
    graph.node.add(name="call", op="branching")
    function = graph.library.function.add()
    function.signature.name = "branching"
    function.node_def.add(op="StatelessIf")
    with caplog.at_level(logging.INFO):
        facts = _library.body_facts(graph, ())
        bodies_in_place.mark_kept(
            facts, graph, [], [], (), npu_precision.PrecisionOptions(), marked
        )
    assert "decided about each body alone, because of no way" in caplog.text
