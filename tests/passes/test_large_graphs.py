"""Runs the passes alone on graphs far larger than real ones, with a stack of 256 KiB."""

from __future__ import annotations

import resource
import subprocess

import pytest
from support.text_graph import read_graph
from support.tf_versions import needs_ops_without_python

pytestmark = needs_ops_without_python

LISTS = """
    {"MatMul": {"precision_reduce": {"flag": "true"}},
     "Exp": {"precision_reduce": {"flag": "false"}},
     "Relu": {}, "Enter": {}, "IdentityN": {}, "AddV2": {}}
    """
STACK = 256 * 1024


@pytest.fixture
def summary(pipeline_driver, tmp_path):
    """summary(serialized GraphDef, fetch, unsupported ops) -> lowered nodes and Casts, as text."""

    def limit_stack():
        resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))

    def rewrite(data, fetch, unsupported=""):
        graph, lists, out = (tmp_path / name for name in ("graph.pb", "lists.json", "out.pb"))
        graph.write_bytes(data)
        lists.write_text(LISTS)
        process = subprocess.run(
            [str(pipeline_driver), "-", str(lists), "allow_mix_precision", fetch, unsupported, "-"],
            input=f"{graph} {out}\n",
            capture_output=True,
            text=True,
            preexec_fn=limit_stack,
            timeout=300,
        )
        assert process.returncode == 0, process.stderr[-2000:]
        assert out.stat().st_size > len(data)
        # The sizes of the Casts are unknown, and the reasons of kept nodes are not compared.
        return process.stdout.strip().partition("; kept")[0].replace(" of unknown size", "")

    return rewrite


def field(number, data):
    """A field of a serialized proto that holds bytes."""
    size, length = len(data), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def serialized(nodes):
    """The GraphDef of serialized nodes: Python would take a minute to build a million of them."""
    return b"".join(field(1, node) for node in nodes)


def copies(node, names_and_inputs):
    """Serialized copies of a node under other names, each with its own inputs."""
    rest = type(node)()
    rest.CopyFrom(node)
    rest.ClearField("name")
    rest.ClearField("input")
    data = rest.SerializeToString()
    return [
        field(1, name) + b"".join(field(3, tensor) for tensor in inputs) + data
        for name, *inputs in names_and_inputs
    ]


def says(lowered, float_nodes, casts, products=1):
    """The line for a graph whose products are all lowered."""
    return (
        f"done: {products} of {products} matrix and convolution ops in float16; lowered {lowered} "
        f"of {float_nodes} float nodes, {casts} Cast{'s' if casts > 1 else ''}"
    )


def test_a_chain_of_a_million_nodes_each_listed_before_the_one_it_reads(summary):
    head = read_graph("x = Placeholder(shape=4x4) \n g0 = MatMul(x, x) \n g1 = Relu(g0)")
    nodes = [node.SerializeToString() for node in head.node]
    names = ((b"g%d" % number, b"g%d" % (number - 1)) for number in range(2, 1_000_000))
    nodes += copies(head.node[2], names)
    told = summary(serialized(reversed(nodes)), "g999999")
    assert told == says(1000000, 1000000, casts=2)


def test_a_loop_of_a_hundred_thousand_steps_that_python_unrolled(summary):
    """Each step but the first reads the one before through an Identity, and is like the others."""
    head = read_graph(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        s0 = AddV2(white, white)
        i0 = Identity(s0)
        """
    )
    nodes = [node.SerializeToString() for node in head.node]
    steps, pairs = 100_000, range(1, 100_000)
    nodes += copies(head.node[2], ((b"s%d" % i, b"i%d" % (i - 1), b"white") for i in pairs))
    nodes += copies(head.node[3], ((b"i%d" % i, b"s%d" % i) for i in pairs))
    assert summary(serialized(nodes), "i99999") == says(2, 1 + 2 * steps, casts=3)


def test_a_tensor_that_a_hundred_thousand_nodes_read_is_cast_once(summary):
    head = read_graph(
        """
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        gray = Relu(white)
        black = Exp(white)
        """
    )
    nodes = [node.SerializeToString() for node in head.node]
    for node in head.node[2:]:
        names = ((f"{node.name}{number}".encode(), b"white") for number in range(1, 50_000))
        nodes += copies(node, names)
    told = summary(serialized(nodes), "")
    assert told == says(50001, 100001, casts=2)


def test_a_node_of_ten_thousand_types_listed_before_the_chain_that_it_reads(summary):
    """Each link fixes one of its types, and must not cause a check of all the others."""
    links = 10_000
    head = read_graph(
        "x = Placeholder(shape=4x4) \n g0 = MatMul(x, x) \n g1 = Relu(g0) \n all = IdentityN(g1)"
    )
    wide = head.node[3]
    wide.input[:] = [f"g{number}" for number in range(links)]
    wide.attr["T"].list.type[:] = [1] * links
    nodes = [node.SerializeToString() for node in head.node]
    names = ((b"g%d" % number, b"g%d" % (number - 1)) for number in range(2, links))
    nodes[3:3] = copies(head.node[2], names)
    told = summary(serialized(reversed(nodes)), "")
    assert told == says(links + 1, links + 1, casts=1)


def test_a_weight_that_is_used_in_each_of_a_hundred_thousand_loops_in_loops_is_cast_once(summary):
    head = read_graph(
        """
        w = Placeholder(shape=4x4)
        enter = Enter(w, frame_name=loop, is_constant=True)
        product = MatMul(enter, enter)
        """
    )
    w, enter, product = head.node
    depth = 100_000
    names = [b"w%d" % frame for frame in range(depth)]
    nodes = [w.SerializeToString()]
    nodes += copies(enter, zip(names, [b"w", *names]))
    nodes += copies(product, ((b"product_" + name, name, name) for name in names))
    told = summary(serialized(nodes), "")
    assert told == says(depth, 2 * depth, casts=1, products=depth)


def wide_node(name, inputs, device=""):
    """An IdentityN of as many types as inputs, serialized."""
    node = read_graph("x = Placeholder(shape=4x4) \n all = IdentityN(x)").node[1]
    node.name, node.device = name, device
    node.input[:] = inputs
    node.attr["T"].list.type[:] = [1] * len(inputs)
    return node.SerializeToString()


def test_nodes_of_thirty_thousand_types_that_read_all_outputs_of_one_another(summary):
    """Each output propagates to its own consumers, not to all consumers of the node."""
    head = read_graph("x = Placeholder(shape=4x4) \n g0 = MatMul(x, x)")
    nodes = [node.SerializeToString() for node in head.node]
    inputs = ["g0"] * 30_000
    for number in range(100):
        nodes.append(wide_node(f"all{number}", inputs))
        inputs = [f"all{number}:{port}" for port in range(len(inputs))]
    told = summary(serialized(nodes), "")
    assert told == says(101, 101, casts=1)


def test_nodes_of_thirty_thousand_types_without_a_kernel_for_them(summary):
    """A kernel accepts a list of types or not: subsets are not tried."""
    head = read_graph("x = Placeholder(shape=4x4) \n g0 = MatMul(x, x)")
    nodes = [node.SerializeToString() for node in head.node]
    for number in range(20):
        nodes.append(wide_node(f"all{number}", ["g0"] * 30_000, device=f"/device:CPU:{number}"))
    told = summary(serialized(nodes), "", unsupported="IdentityN")
    assert told == says(1, 21, casts=2)
