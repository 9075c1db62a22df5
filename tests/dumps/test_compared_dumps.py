"""Dumps of two runs: what is matched, where the runs diverge, and what a mixlist would keep."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from npu_precision.dump_layout import clean
from npu_precision.dumps import comparison, differences, folders, matching, page
from npu_precision.dumps.folders import Statistics

RNG = np.random.default_rng(0)
X = RNG.normal(size=[4, 8]).astype(np.float32)


def bfloat16(values):
    return values.astype(tf.bfloat16.as_numpy_dtype).astype(np.float32)


def write(folder, *tensors, start=0, graph=None, end="npy"):
    """Writes tensors as DumpConfig does, in their order.

    Args:
        folder: the folder of the step; it is created.
        *tensors: (op type, name, values), maybe with the number of the output, and "input".
        start: the time of the first.
        graph: by the name of an op, what it reads.
        end: "npy" or "bin".
    """
    folder.mkdir(parents=True, exist_ok=True)
    for task, (op, name, values, *more) in enumerate(tensors):
        index, way = (*more, *(0, "output")[len(more) :])
        shape = "x".join(map(str, values.shape)) or "1"
        time = 1_700_000_000_000_000 + start + task
        file = folder / f"{op}.{clean(name)}.{task}.0.{time}.{way}.{index}.{shape}.{end}"
        if end == "npy":
            np.save(file, values)
        else:
            file.write_bytes(values.tobytes())
    if graph is not None:
        ops = {name: op for op, name, *_ in tensors}
        definition = tf.compat.v1.GraphDef()
        for name, inputs in graph.items():
            definition.node.add(name=name, op=ops.get(name, "Cast"), input=inputs)
        model, number, _ = folder.parts[-3:]
        file = folder.parents[2] / ".graphs" / model / f"{number}.pb"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(definition.SerializeToString())
    return str(folder)


def compared(first, second, **options):
    return comparison.compare(*folders.read_pair(first, second), **options)


def errors(found):
    return {row.tensor: row.difference.error for row in found.rows}


def test_the_same_tensors_do_not_diverge(tmp_path):
    tensors = [("MatMul", "a/product", X), ("Relu", "a/relu", np.maximum(X, 0))]
    found = compared(write(tmp_path / "1", *tensors), write(tmp_path / "2", *tensors))
    assert errors(found) == {"a_product": 0, "a_relu": 0}
    assert found.first_divergence() is None
    assert found.ranked() == []
    assert found.mixlist() == ""


def test_errors_are_those_that_numpy_computes(tmp_path):
    other = X + RNG.normal(size=X.shape).astype(np.float32)
    first = write(tmp_path / "1", ("MatMul", "product", other))
    (row,) = compared(first, write(tmp_path / "2", ("MatMul", "product", X))).rows
    a, b = other.astype(np.float64), X.astype(np.float64)
    root = math.sqrt(np.square(a - b).mean() / np.square(b).mean())
    assert row.difference.error == pytest.approx(root)
    assert row.difference.largest == pytest.approx(np.abs(a - b).max())
    expected = (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)
    assert row.difference.cosine == pytest.approx(expected)
    assert row.difference.not_finite == 0


def test_what_is_not_finite_in_the_first_alone_is_an_infinite_error(tmp_path):
    bad = X.copy()
    bad[0, :4] = [np.inf, np.nan, -np.inf, np.nan]
    both = X.copy()
    both[0, 0] = np.inf
    first = write(tmp_path / "1", ("Exp", "bad", bad))
    (row,) = compared(first, write(tmp_path / "2", ("Exp", "bad", both))).rows
    assert row.difference.error == math.inf
    assert row.difference.not_finite == 3 / X.size
    (row,) = compared(write(tmp_path / "3", ("Exp", "bad", both)), first).rows
    assert row.difference.not_finite == 0
    assert row.difference.error == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("dense/BiasAdd", "dense/BiasAdd"),
        ("dense/BiasAdd/npu_changed", "dense/BiasAdd"),
        ("conv1conv1_BiasAddrelu", "relu"),
        ("conv1relu", "conv1"),
    ],
    ids=["the same", "renamed", "the end of a fused one", "the begin of a fused one"],
)
def test_ops_are_matched_through_fusions_and_renames(first, second, tmp_path):
    of_first = write(tmp_path / "1", ("A", first, X), ("B", "else", X))
    of_second = write(tmp_path / "2", ("A", second, X), ("B", "else", X), ("C", "third", X))
    found = compared(of_first, of_second)
    assert len(found.rows) == 2
    assert found.matches.only_first == []
    assert found.matches.only_second == ["third"]


def test_a_name_that_two_fit_is_not_matched(tmp_path):
    first = write(tmp_path / "1", ("A", "product", X), ("B", "else", X))
    ones = [("A", "oneproduct", X), ("A", "twoproduct", X), ("B", "else", X)]
    found = compared(first, write(tmp_path / "2", *ones))
    assert found.matches.only_first == ["product"]


@pytest.mark.parametrize("name", ["layer_3_product", "product_1"])
def test_a_name_in_another_scope_or_with_a_number_is_another_op(name, tmp_path):
    first = write(tmp_path / "1", ("A", "product", X), ("B", "else", X))
    found = compared(first, write(tmp_path / "2", ("A", name, X), ("B", "else", X)))
    assert found.matches.only_first == ["product"]
    assert found.matches.only_second == [name]


def test_an_op_is_the_counterpart_of_one_op(tmp_path):
    first = write(tmp_path / "1", ("A", "onerelu", X), ("A", "tworelu", X))
    found = compared(first, write(tmp_path / "2", ("A", "relu", X)))
    assert [row.tensor for row in found.rows] == ["onerelu"]
    assert found.matches.only_first == ["tworelu"]


def test_a_cast_that_took_over_a_name_is_not_taken_for_the_op(tmp_path):
    """In a loop, it would be taken for the next run of the op."""
    low = [bfloat16(X), bfloat16(2 * X)]
    tensors = [("Cast", "x/npu_cast_0", X)]
    for values in low:
        tensors += [("MatMul", "out/npu_changed", values), ("Cast", "out", values)]
    first = write(tmp_path / "1", *tensors)
    found = compared(first, write(tmp_path / "2", *(("MatMul", "out", x) for x in low)))
    assert [row.op for row in found.rows] == ["MatMul", "MatMul"]
    assert errors(found) == {"out": 0, "out in run 1": 0}


def test_runs_of_an_op_in_a_loop_are_matched_in_their_order(tmp_path):
    steps = [("MatMul", "product", X * k) for k in (1, 2, 3)]
    first, second = write(tmp_path / "1", *steps[:2]), write(tmp_path / "2", *steps, start=7)
    found = errors(compared(first, second))
    assert found == {"product": 0, "product in run 1": 0}


def test_outputs_have_their_numbers(tmp_path):
    first = write(tmp_path / "1", ("Split", "s", X, 0), ("Split", "s", 2 * X, 1))
    second = write(tmp_path / "2", ("Split", "s", 2 * X, 1), ("Split", "s", X, 0))
    assert errors(compared(first, second)) == {"s": 0, "s:1": 0}


def test_images_with_channels_first_are_compared_with_those_with_channels_last(tmp_path):
    image = RNG.normal(size=[2, 5, 6, 3]).astype(np.float32)
    first = write(tmp_path / "1", ("Conv2D", "conv", image.transpose(0, 3, 1, 2)))
    assert errors(compared(first, write(tmp_path / "2", ("Conv2D", "conv", image)))) == {"conv": 0}


def test_what_cannot_be_compared_is_named_with_the_reason(tmp_path):
    whole = np.arange(4)
    first = write(tmp_path / "1", ("A", "a", X), ("A", "ints", whole), ("A", "shape", X))
    second = write(tmp_path / "2", ("A", "a", X), ("A", "ints", whole), ("A", "shape", X[:2]))
    found = compared(first, second)
    assert errors(found) == {"a": 0}
    shapes = "its shape is [4, 8] in the first dump and [2, 8] in the second"
    assert found.skipped == {"ints": "it has no floats", "shape": shapes}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_files_of_values_alone_have_the_type_of_their_size(dtype, tmp_path):
    values = X.astype(dtype)
    first = write(tmp_path / "1", ("A", "a", values), end="bin")
    (row,) = compared(first, write(tmp_path / "2", ("A", "a", values))).rows
    assert row.difference.error == 0
    assert row.difference.dtype == values.dtype.name


def test_statistics_are_compared_with_tensors(tmp_path):
    columns = "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,"
    columns += "Count,Nan Count,Negative Inf Count,Positive Inf Count"
    line = f"Output,0,64,DT_FLOAT16,ND,4x8,{X.max() * 1.5},{X.min()},{X.mean()},32,0,0,2"
    (tmp_path / "1").mkdir()
    file = tmp_path / "1" / "MatMul.product.3.0.1700000000000000.csv"
    file.write_text(f"{columns}\n{line}\n")
    second = write(tmp_path / "2", ("MatMul", "product", X))
    (row,) = compared(str(tmp_path / "1"), second).rows
    assert row.difference.by_statistics
    assert row.difference.dtype == "float16"
    assert row.difference.error == math.inf
    assert row.difference.not_finite == 2 / 32
    both = X.copy()
    both[0, :2] = np.inf
    third = write(tmp_path / "3", ("MatMul", "product", both))
    (row,) = compared(str(tmp_path / "1"), third).rows
    assert row.difference.not_finite == 0
    file.write_text(f"{columns}\n{line[:-1]}0\n")
    (row,) = compared(str(tmp_path / "1"), second).rows
    largest = max(abs(X.min()), X.max())
    assert row.difference.error == pytest.approx(0.5 * X.max() / largest, rel=1e-5)


def test_a_bfloat16_in_a_float32_is_seen():
    types = {
        "bfloat16": bfloat16(X),
        "float32": X,
        "float16": X.astype(np.float16),
    }
    for name, values in types.items():
        assert differences.of_values(values, X).dtype == name
    # Masks and NaNs are no sign of it.
    for values in (np.float32(X > 0), np.full([4], np.nan, np.float32)):
        assert differences.of_values(values, np.zeros_like(values)).dtype == "float32"


CHAIN = [("MatMul", "a/product"), ("Relu", "b/relu"), ("MatMul", "c/product"), ("Sum", "d/sum")]


@pytest.mark.parametrize("known", ["graph", "inputs", "order"])
def test_the_op_at_which_error_enters_is_first_and_what_reads_it_is_not(known, tmp_path):
    right = [(op, name, X + k) for k, (op, name) in enumerate(CHAIN)]
    wrong = [(op, name, bfloat16(x * (1 + 0.1 * (k > 1)))) for k, (op, name, x) in enumerate(right)]
    names = [name for _, name in CHAIN]
    graph = {name: names[k - 1 : k] if k else [] for k, name in enumerate(names)}
    if known == "inputs":
        for tensors in (right, wrong):
            read = zip(CHAIN[1:], list(tensors))
            tensors += [(*op, values, 0, "input") for op, (_, _, values) in read]
    options = {"graph": graph} if known == "graph" else {}
    first = write(tmp_path / "first" / "train" / "1" / "0", *wrong, **options)
    found = compared(first, write(tmp_path / "second" / "train" / "1" / "0", *right))
    assert found.known == known
    (most, *_) = found.ranked()
    name = "c/product" if known == "graph" else "c_product"
    assert most.name == found.first_divergence().name == name
    pattern = "c/product" if known == "graph" else "c[_/. ]product"
    assert json.loads(found.mixlist()) == {"black-list": {"to-add": [f"node:{pattern}"]}}


def test_without_a_graph_all_that_ran_before_counts_as_read(tmp_path):
    factors = {"a": 1.0, "wrong": 1.1, "beside": 1.0, "after": 1.1}
    wrong = [("Mul", name, np.float16(X * factor)) for name, factor in factors.items()]
    right = [("Mul", name, X) for name in factors]
    found = compared(write(tmp_path / "1", *wrong), write(tmp_path / "2", *right))
    assert [row.name for row in found.ranked()] == ["wrong", "after"]
    assert found.ranked()[1].given == pytest.approx(0.1, rel=0.01)


def test_an_infinity_is_blamed_on_the_op_that_read_finite_values(tmp_path):
    right = [(op, name, X) for op, name in CHAIN]
    wrong = [
        (*op[:2], X.astype(np.float16) * (1 if k < 1 else np.float16(np.inf)))
        for k, op in enumerate(CHAIN)
    ]
    names = [name for _, name in CHAIN]
    graph = {name: names[k - 1 : k] if k else [] for k, name in enumerate(names)}
    first = write(tmp_path / "first" / "train" / "1" / "0", *wrong, graph=graph)
    found = compared(first, write(tmp_path / "second" / "train" / "1" / "0", *right))
    assert [row.name for row in found.ranked()][0] == "b/relu"
    assert json.loads(found.mixlist()) == {"black-list": {"to-add": ["node:b/relu"]}}


def test_without_a_low_type_there_is_no_mixlist(tmp_path):
    first = write(tmp_path / "1", ("MatMul", "a", X * 1.1))
    found = compared(first, write(tmp_path / "2", ("MatMul", "a", X)))
    assert found.first_divergence() is not None
    assert found.mixlist() == ""


def test_the_threshold_follows_the_lowest_type(tmp_path):
    second = write(tmp_path / "2", ("MatMul", "a", X))
    thresholds = {}
    for number, values in enumerate((X, bfloat16(X), X.astype(np.float16))):
        found = compared(write(tmp_path / f"1{number}", ("MatMul", "a", values)), second)
        thresholds[found.low_type] = found.threshold
    assert thresholds == {"float32": 1e-4, "bfloat16": 2.0**-4, "float16": 2.0**-7}
    assert compared(second, second, threshold=0.5).threshold == 0.5


def test_of_several_models_and_steps_those_that_both_have_are_taken(tmp_path):
    for run, time in (("first", "20260101000000"), ("second", "20260202000000")):
        for model, step, count in (("init", 0, 1), ("train", 3, 2), ("train", 4, 2)):
            tensors = [("MatMul", f"a{k}", X * (step + 1)) for k in range(count)]
            write(tmp_path / run / time / "0" / model / "1" / str(step), *tensors)
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    one, other = folders.read_pair(first, second)
    assert one.folder.parts[-3:] == other.folder.parts[-3:] == ("train", "1", "3")
    one, _ = folders.read_pair(first, second, step=4)
    assert one.folder.name == "4"


def test_a_long_name_is_read_from_the_table(tmp_path):
    first = write(tmp_path / "1", ("MatMul", "a", X))
    (file,) = (tmp_path / "1").iterdir()
    (tmp_path / "1" / "mapping.csv").write_text(f"123.npy,{file.name}\n")
    file.rename(tmp_path / "1" / "123.npy")
    assert errors(compared(first, write(tmp_path / "2", ("MatMul", "a", X)))) == {"a": 0}


def test_another_step_is_not_taken_for_the_one_that_a_folder_has(tmp_path):
    for step in (0, 3):
        write(tmp_path / "many" / "train" / "1" / str(step), ("MatMul", "a", X + step))
    one = tmp_path / "one" / "train" / "1" / "3"
    write(one, ("MatMul", "a", X + 3))
    for folder in (tmp_path / "one", one):
        many = tmp_path / "many" if folder != one else tmp_path / "many" / "train" / "1" / "3"
        assert errors(compared(str(folder), str(many))) == {"a": 0}
    write(tmp_path / "other" / "train" / "1" / "5", ("MatMul", "a", X))
    with pytest.raises(ValueError, match="no step in common: the first has train/1/5, the second"):
        folders.read_pair(str(tmp_path / "other"), str(tmp_path / "many"))


def test_of_several_runs_in_a_folder_the_last_is_taken(tmp_path):
    for time, factor in (("20260101000000", 2), ("20260102000000", 1)):
        write(tmp_path / "first" / time / "0" / "m" / "1" / "0", ("MatMul", "a", X * factor))
    second = write(tmp_path / "2", ("MatMul", "a", X))
    assert errors(compared(str(tmp_path / "first"), second)) == {"a": 0}


def test_what_no_reader_shows_comes_last(tmp_path):
    """A pass has moved a factor from one op into the next."""
    right = [("Mul", "a", X), ("Mul", "b", X), ("Mul", "c", X), ("Add", "d", X)]
    wrong = [("Mul", "a", 3 * X), ("Mul", "b", X), ("Mul", "c", 1.5 * X), ("Add", "d", 1.5 * X)]
    wrong = [(op, name, bfloat16(x)) for op, name, x in wrong]
    graph = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}
    first = write(tmp_path / "first" / "train" / "1" / "0", *wrong, graph=graph)
    found = compared(first, write(tmp_path / "second" / "train" / "1" / "0", *right))
    assert found.first_divergence().name == "c"
    assert [row.name for row in found.ranked()] == ["c", "d", "a"]
    assert json.loads(found.mixlist()) == {"black-list": {"to-add": ["node:c"]}}


def test_an_op_that_computes_in_float32_is_in_no_mixlist(tmp_path):
    tensors = [("MatMul", "a", bfloat16(X)), ("Relu", "b", X * 1.2)]
    graph = {"a": [], "b": ["a"]}
    first = write(tmp_path / "first" / "train" / "1" / "0", *tensors, graph=graph)
    right = [("MatMul", "a", X), ("Relu", "b", X)]
    found = compared(first, write(tmp_path / "second" / "train" / "1" / "0", *right))
    assert found.first_divergence().name == "b"
    assert found.mixlist() == ""
    assert page.next_step(found).startswith("the ops at which error enters compute in float32")


def test_a_threshold_below_a_rounding_keeps_what_only_rounds(tmp_path):
    tensors = [("MatMul", "a", bfloat16(X)), ("Relu", "b", bfloat16(X))]
    graph = {"a": [], "b": ["a"]}
    first = write(tmp_path / "first" / "train" / "1" / "0", *tensors, graph=graph)
    right = [("MatMul", "a", X), ("Relu", "b", X)]
    found = compared(
        first, write(tmp_path / "second" / "train" / "1" / "0", *right), threshold=1e-6
    )
    assert json.loads(found.mixlist()) == {"black-list": {"to-add": ["node:a"]}}


def test_errors_that_enter_nowhere_are_told(tmp_path):
    tensors = [("MatMul", "a", bfloat16(X * 1.01)), ("Relu", "b", bfloat16(X * 1.02))]
    graph = {"a": [], "b": ["a"]}
    first = write(tmp_path / "first" / "train" / "1" / "0", *tensors, graph=graph)
    right = [("MatMul", "a", X), ("Relu", "b", X)]
    second = write(tmp_path / "second" / "train" / "1" / "0", *right)
    found = compared(first, second, threshold=0.015)
    assert found.first_divergence().name == "b"
    assert page.next_step(found).startswith("error enters at no op")


def test_a_graph_of_another_model_is_refused(tmp_path):
    first = write(tmp_path / "1", ("MatMul", "a", X))
    graph = tf.compat.v1.GraphDef()
    graph.node.add(name="other", op="MatMul")
    with pytest.raises(ValueError, match="the model has 0 of the 1 ops in the dumps"):
        compared(first, first, graph=graph)


def test_a_damaged_graph_is_named(tmp_path):
    folder = tmp_path / "first" / "train" / "1" / "0"
    first = write(folder, ("MatMul", "a", X), graph={"a": []})
    (tmp_path / "first" / ".graphs" / "train" / "1.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(ValueError, match="train/1.pb': is damaged, or no GraphDef"):
        compared(first, first)


def test_inputs_are_not_compared_with_outputs(tmp_path):
    first = write(tmp_path / "1", ("MatMul", "a", X))
    second = write(tmp_path / "2", ("MatMul", "a", X, 0, "input"))
    with pytest.raises(
        ValueError, match="has outputs alone, .*inputs: expected the same dump_mode"
    ):
        compared(first, second)


def test_ops_that_only_move_values_are_left_out(tmp_path):
    tensors = [("MatMul", "a", X), ("StackPushV2", "b", X), ("Exit", "c", X)]
    first = write(tmp_path / "1", *tensors)
    assert errors(compared(first, first)) == {"a": 0}


def test_values_that_are_no_numbers_do_not_make_statistics():
    empty = Statistics({}, 0)
    assert differences.of_values(empty, empty) == "the dumps have no statistic of it in common"


def bad_bin(folder):
    write(folder, ("MatMul", "a", X))
    (file,) = folder.iterdir()
    file.unlink()
    file.with_suffix(".bin").write_bytes(b"seven b")


def bad_csv(folder):
    folder.mkdir()
    (folder / "MatMul.a.3.0.1700000000000000.csv").write_text("Index\n0\n")


def bad_npy(folder):
    write(folder, ("MatMul", "a", X))
    (file,) = folder.iterdir()
    file.write_bytes(b"nothing")


def no_dump(folder):
    folder.mkdir()
    (folder / "MatMul.a.3.0.1700000000000000").write_bytes(b"as an NPU writes it")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (bad_bin, "expected 2, 4 or 8 bytes for each value"),
        (bad_csv, "no statistics of a dump: 'Input/Output'"),
        (bad_npy, "is damaged, or no file of NumPy"),
        (no_dump, "converted by 'msaccucmp.py convert'"),
    ],
)
def test_bad_files_are_named(make, message, tmp_path):
    make(tmp_path / "1")
    second = write(tmp_path / "2", ("MatMul", "a", X))
    with pytest.raises(ValueError) as raised:
        compared(str(tmp_path / "1"), second)
    assert message in str(raised.value)
    assert str(tmp_path / "1") in str(raised.value)


def test_dumps_of_different_models_are_refused(tmp_path):
    first = write(tmp_path / "1", ("MatMul", "logits", X))
    with pytest.raises(ValueError) as raised:
        compared(first, write(tmp_path / "2", ("MatMul", "other", X)))
    expected = "are of different models: the first has logits, the second other"
    assert expected in str(raised.value)


def test_a_step_that_is_not_there_is_refused(tmp_path):
    first = write(tmp_path / "first" / "train" / "1" / "3", ("MatMul", "a", X))
    with pytest.raises(ValueError, match="has no dump of step 7: expected files as"):
        folders.read_pair(str(tmp_path / "first"), first, step=7)
    with pytest.raises(
        FileNotFoundError, match="nowhere': no such folder, expected that of a dump"
    ):
        folders.read_pair(str(tmp_path / "nowhere"), first)


def test_names_are_matched_once():
    tensor = folders.DumpedTensor("A", "a_name", 0, 0, "output", 0, None, lambda: X)
    dump = folders.Dump(None, (tensor, tensor))
    assert len(matching.match(dump, dump, "output").pairs) == 2
