"""Decisions depend on the kernels that a device lacks: runs the passes alone, with fake abilities.

Neither Grappler nor a registered kernel takes part: tests/cc/pipeline_driver.cc links
graph_passes/ with a fake DtypeSupport and the lists below.
"""

import json
import os
import pathlib
import subprocess

import pytest
from support.text_graph import read_graph, write_graph
from support.tf_versions import needs_ops_without_python
from tensorflow.core.framework import graph_pb2

pytestmark = needs_ops_without_python

LISTS = {
    "MatMul": {"precision_reduce": {"flag": "true"}},
    "Exp": {"precision_reduce": {"flag": "false"}},
    "Relu": {},
    "Tanh": {},
    "AddV2": {},
    "TensorArrayV3": {},
    "TensorArrayWriteV3": {},
    "TensorArrayReadV3": {},
    # Ops that this target has in one dtype only.
    "MaxPool": {"input0": {"dtype": "float16"}, "output0": {"dtype": "float16"}},
    "Sigmoid": {"input0": {"dtype": "float32"}, "precision_reduce": {"flag": "true"}},
}

GRAPH = """
    x = Placeholder(shape=4x8)
    w = Const(shape=8x8)
    product = MatMul(x, w)
    relu = Relu(product)
    tanh = Tanh(relu)
    """


@pytest.fixture
def run_driver(pipeline_driver, tmp_path):
    """run_driver(graph, mode, preserved, unsupported) -> (graph, ledger as data)."""

    def run(graph, mode="allow_mix_precision", preserved="", unsupported=""):
        (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())
        (tmp_path / "lists.json").write_text(json.dumps(LISTS))
        files = [str(tmp_path / name) for name in ("graph.pb", "lists.json", "out.pb")]
        process = subprocess.run(
            [str(pipeline_driver), files[0], files[1], mode, preserved, unsupported, files[2]],
            capture_output=True,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        if process.returncode != 0:
            raise ValueError(process.stderr.strip().splitlines()[-1])
        after = graph_pb2.GraphDef.FromString(pathlib.Path(files[2]).read_bytes())
        return after, json.loads(process.stdout)

    return run


@pytest.fixture
def decide(run_driver):
    """decide(text, mode, unsupported=..., preserved=...) -> (text, decisions by node)."""

    def run(text, mode="allow_mix_precision", *, unsupported="", preserved=""):
        before = read_graph(text)
        after, ledger = run_driver(before, mode, preserved, unsupported)
        nodes = ledger["nodes"]
        told = {node["name"]: (node["decision"], node["reason"], node["cause"]) for node in nodes}
        return write_graph(after, before), told

    return run


def golden(text):
    return "\n".join(line.strip() for line in text.strip().splitlines())


def test_everything_supported_is_lowered_as_the_lists_say(decide):
    text, told = decide(GRAPH)
    assert text == golden("""
        product = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        relu = Relu[float16](product)
        tanh = Tanh[float16](relu)
    """)
    assert told["tanh"] == ("lowered", "gray_follows_lowered", "relu")


def test_white_without_a_kernel_keeps_float32_and_gray_follows_it(decide):
    text, told = decide(GRAPH, unsupported="MatMul")
    assert text == golden("""
        product = MatMul[float32](x, w)
        relu = Relu[float32](product)
        tanh = Tanh[float32](relu)
    """)
    assert told["product"] == ("kept", "no_kernel", "")
    assert told["relu"] == ("kept", "gray_follows_kept", "product")


def test_gray_without_a_kernel_keeps_float32_and_says_so(decide):
    text, told = decide(GRAPH, unsupported="Relu")
    assert text == golden("""
        product = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        relu = Relu[float32](product/npu_cast_0_float32)
        tanh = Tanh[float32](relu)
    """)
    assert told["relu"] == ("kept", "no_kernel", "")
    assert told["tanh"] == ("kept", "gray_follows_kept", "relu")


def test_the_target_can_forbid_the_low_type(decide):
    text, told = decide("x = Placeholder(shape=4x8)\ny = Sigmoid(x)")
    assert text == "y = Sigmoid[float32](x)"
    assert told["y"] == ("kept", "target_unsupported", "")


POOL = """
    x = Placeholder(shape=1x4x4x1)
    e = Exp(x)
    y = MaxPool(e, ksize=[1,2,2,1], strides=[1,2,2,1], padding=VALID)
    """


@pytest.mark.parametrize("mode", ["allow_fp32_to_fp16", "allow_mix_precision"])
def test_what_the_target_lacks_in_float32_is_lowered(decide, mode):
    text, told = decide(POOL, mode)
    assert text == "e = Exp[float32](x)\ny = MaxPool[float16](e/npu_cast_0_float16)"
    assert told["y"] == ("lowered", "target_lacks_float32", "")
    assert told["e"][0] == "kept"


def test_must_keep_origin_dtype_names_what_the_target_lacks(decide):
    with pytest.raises(ValueError, match=r"1 node: y \(MaxPool, float32\)"):
        decide(POOL, "must_keep_origin_dtype")


def test_a_preserved_node_yields_float32_whatever_the_device_can(decide):
    text, _ = decide(GRAPH, preserved="relu")
    assert text == golden("""
        product = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        relu/npu_changed = Relu[float16](product)
        relu = Cast[float16,float32](relu/npu_changed)
        tanh = Tanh[float16](relu/npu_changed)
    """)


def test_ops_on_one_handle_change_together_or_not_at_all(decide):
    array = """
        x = Placeholder(shape=4x4)
        size = Const[int32](value=1)
        index = Const[int32](value=0)
        array = TensorArrayV3[float32](size)
        product = MatMul(x, x)
        write = TensorArrayWriteV3(array, index, product, array:1)
        read = TensorArrayReadV3[float32](array, index, write)
        """
    _, told = decide(array)
    assert told["write"] == ("lowered", "gray_follows_lowered", "product")
    assert told["array"] == told["read"] == ("lowered", "shares_dtype", "write")
    _, told = decide(array, unsupported="TensorArrayReadV3")
    assert told["read"] == ("kept", "no_kernel", "")
    assert told["array"] == told["write"] == ("kept", "shares_dtype", "read")


def test_only_what_runs_where_float16_is_slow_computes_in_float32(decide):
    text, told = decide(GRAPH.replace("Relu(product)", "Relu(product) @ /device:CPU:1"))
    assert text == golden("""
        product = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        product/npu_rounded_0_float32 = Cast[float16,float32](product)
        relu = Relu[float32](product/npu_rounded_0_float32) @ /device:CPU:1
        relu/npu_rounded_0_float16 = Cast[float32,float16](relu) @ /device:CPU:1
        tanh = Tanh[float16](relu/npu_rounded_0_float16)
    """)
    assert told["relu"] == ("lowered", "gray_follows_lowered", "product")


ARRAY = """
    x = Placeholder(shape=4x4)
    size = Const[int32](value=1)
    index = Const[int32](value=0)
    array = TensorArrayV3[float32](size) @ /device:CPU:1
    product = MatMul(x, x) @ /device:CPU:1
    write = TensorArrayWriteV3(array, index, product, array:1) @ /device:CPU:1
    read = TensorArrayReadV3[float32](array, index, write){place}
    """


@pytest.mark.parametrize(
    ("place", "dtype"), [(" @ /device:CPU:1", "float32"), (" @ /device:CPU:2", "float16")]
)
def test_ops_on_one_handle_compute_in_float32_together_or_not_at_all(decide, place, dtype):
    text, _ = decide(ARRAY.format(place=place))
    assert "product = MatMul[float32]" in text
    for op in ("TensorArrayV3", "TensorArrayWriteV3", "TensorArrayReadV3"):
        assert f"{op}[{dtype}]" in text


def test_what_computes_in_float32_is_given_back_as_it_was_whatever_its_order(run_driver):
    """The optimizer undoes compute_in_float32 before it decides, and applies it again."""
    text = "x = Placeholder(shape=4x4)\np = MatMul(x, x) @ /device:CPU:1\nend = Exp(p)"
    result, _ = run_driver(read_graph(text))
    assert "_npu_precision_in_float32" in str(result)
    nodes = list(reversed(result.node))
    del result.node[:]
    result.node.extend(nodes)
    again, ledger = run_driver(result)
    assert list(again.node) == list(result.node)
    assert {node["computes_in"] for node in ledger["nodes"] if node["name"] == "p"} == {"float32"}
