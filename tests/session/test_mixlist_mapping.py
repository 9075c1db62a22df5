"""modify_mixlist as a mapping: the content of the file, checked and applied in the same way."""

from __future__ import annotations

import json
import pickle

import pytest
import tensorflow as tf
from support.model_files import input_name
from support.overflowing import normal
from support.text_graph import read_graph
from support.tf_versions import needs_estimator

import npu_precision
from npu_precision import PrecisionOptions, convert_saved_model, rewrite_graph_def
from npu_precision.options import mixlist_content, mixlist_file

MIXED = "allow_mix_precision"
BLACK = {"black-list": {"to-add": ["MatMul"]}}
GRAPH = """
    x = Placeholder(shape=4x4)
    product = MatMul(x, x)
    out = Relu(product)
    """


def reasons(ledger):
    return {node.name: (node.reason, node.listed_by) for node in ledger.nodes}


def options(mixlist):
    return PrecisionOptions(precision_mode=MIXED, modify_mixlist=mixlist)


def test_a_mapping_decides_as_the_file_does(tmp_path):
    file = tmp_path / "m.json"
    file.write_text(json.dumps(BLACK))
    graph = read_graph(GRAPH)
    by_file, of_file = rewrite_graph_def(graph, "out", options(str(file)))
    by_mapping, of_mapping = rewrite_graph_def(graph, "out", options(BLACK))
    assert by_file == by_mapping
    assert reasons(of_mapping)["product"] == (
        "black_list",
        'modify_mixlist["black-list"]["to-add"][0]',
    )
    assert reasons(of_file)["product"][0] == "black_list"
    assert json.loads(of_mapping.options["modify_mixlist"]) == BLACK


def test_it_is_a_value_that_is_copied_compared_and_printed():
    given = options({"black-list": {"to-add": ("MatMul",)}})
    assert given == options(BLACK)
    assert hash(given) == hash(options(BLACK))
    assert pickle.loads(pickle.dumps(given)) == given
    assert "black-list" in repr(given)
    assert PrecisionOptions.from_json(given.to_json()) == given
    assert (
        PrecisionOptions.from_json(json.dumps({**given.to_dict(), "modify_mixlist": BLACK}))
        == given
    )
    assert PrecisionOptions.from_parameter_map(given.to_parameter_map()) == given
    assert json.loads(given.to_parameter_map()["modify_mixlist"].s) == BLACK
    assert mixlist_file(given) is None
    assert json.loads(mixlist_content(given)) == BLACK


@pytest.mark.parametrize(
    ("mixlist", "message"),
    [
        (
            {"blacklist": {}},
            "modify_mixlist[\"blacklist\"]: got key 'blacklist', expected one of white-list",
        ),
        (
            {"black-list": {"to-add": "Relu"}},
            'modify_mixlist["black-list"]["to-add"]: to-add of black-list: got the string \'Relu\'',
        ),
        (
            {"black-list": {"to-add": ["Relu", 3]}},
            'modify_mixlist["black-list"]["to-add"][1]: got a number, expected an op type or',
        ),
        (
            {"black-list": {"to-add": ["Relu"]}, "white-list": {"to-add": ["Relu"]}},
            "modify_mixlist: 'Relu' is added to black-list at "
            'modify_mixlist["black-list"]["to-add"][0] and added to white-list at '
            'modify_mixlist["white-list"]["to-add"][0]',
        ),
        (
            {"black-list": {"to-add": {"Relu"}}},
            'modify_mixlist["black-list"]["to-add"]: got {\'Relu\'} (set), expected what JSON has',
        ),
        ({1: {}}, "modify_mixlist: got the key 1 (int), expected str"),
        (["Relu"], "expected str, os.PathLike or a mapping with the content of the file"),
    ],
)
def test_an_error_names_the_place_in_the_mapping(mixlist, message):
    with pytest.raises(ValueError) as raised:
        options(mixlist)
    assert message in str(raised.value)


def test_a_warning_names_the_place_in_the_mapping():
    _, ledger = rewrite_graph_def(
        read_graph(GRAPH), "out", options({"black-list": {"to-add": ["Rleu", "Exp"]}})
    )
    assert [*ledger.warnings] == [
        'modify_mixlist["black-list"]["to-add"][0]: \'Rleu\' is not an op type of TensorFlow or '
        "Ascend; did you mean 'Relu'?",
        'modify_mixlist["black-list"]["to-add"][1]: \'Exp\' matches no node of the graph',
    ]


def test_in_a_mode_without_lists_it_is_refused():
    with pytest.raises(ValueError, match="modify_mixlist: got .* with precision_mode 'force_fp16'"):
        PrecisionOptions(precision_mode="force_fp16", modify_mixlist=BLACK)


def test_functions_and_sessions_take_it(tmp_path):
    @tf.function
    def product(x):
        return tf.matmul(x, x)

    x = tf.constant(normal(8, 8))
    exact = product(x).numpy()
    lowered = {}
    for name, mixlist in (("given", BLACK), ("none", {})):
        npu_precision.enable(precision_mode=MIXED, modify_mixlist=mixlist)
        lowered[name] = product(x).numpy()
        npu_precision.disable()
    assert (lowered["given"] == exact).all()
    assert (lowered["none"] != exact).any()
    config = npu_precision.npu_config_proto(precision_mode=MIXED, modify_mixlist=BLACK)
    entries = config.graph_options.rewrite_options.custom_optimizers
    (entry,) = (each for each in entries if "modify_mixlist" in each.parameter_map)
    assert json.loads(entry.parameter_map["modify_mixlist"].s) == BLACK


def test_autocast_takes_it():
    x = tf.constant(normal(8, 8))

    @tf.function
    def product(x):
        return tf.matmul(x, x)

    exact = product(x).numpy()
    with npu_precision.autocast(dtype=tf.float16, modify_mixlist=BLACK):
        assert (product(x).numpy() == exact).all()
    with npu_precision.autocast(dtype=tf.float16, modify_mixlist={}):
        assert (product(x).numpy() != exact).any()


def test_a_saved_model_is_converted_with_it(model_files, tmp_path):
    assert input_name(model_files.cnn)
    black = {"black-list": {"to-add": ["Conv2D", "node:(.*/)?dense.*"]}}
    (ledger,) = convert_saved_model(model_files.cnn, tmp_path / "out", options(black))
    places = {node.op: node.listed_by for part in ledger for node in part.nodes}
    assert places["Conv2D"] == 'modify_mixlist["black-list"]["to-add"][0]'


@needs_estimator
def test_a_run_config_takes_it():
    config = npu_precision.NPURunConfig(precision_mode=MIXED, modify_mixlist=BLACK)
    assert json.loads(config.modify_mixlist) == BLACK
    assert config.precision_options == options(BLACK)


def test_the_command_reads_it_from_a_file_of_options(command, graph_file, arrays, tmp_path):
    file = tmp_path / "options.json"
    file.write_text(json.dumps({"precision_mode": MIXED, "modify_mixlist": BLACK}))
    model = graph_file(GRAPH)
    explained = json.loads(command("explain", model, "--options", file, "--json"))
    assert explained["options"]["modify_mixlist"] == json.dumps(BLACK)
    # It is no file that an output could replace, and tune adds to it.
    inputs = ("--inputs", arrays(x=normal(4, 4)), "--max-error", "1")
    command("tune", model, "--options", file, *inputs, "-o", tmp_path / "tuned.json")
    assert json.loads((tmp_path / "tuned.json").read_text()) == BLACK
