"""configs/ is data that no compiler checks; these tests check it, against TensorFlow's registry."""

import functools
import json
import re

import pytest
import tensorflow as tf
from support import ROOT
from support.tf_versions import needs_every_listed_op
from tensorflow.python.framework import kernels

from npu_precision._tf_compat import op_definition

CONFIGS = ROOT / "configs"
LISTS = {"true": "white", "false": "black", None: "gray"}
LOW_TYPES = {tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum}
FLOAT = tf.float32.as_datatype_enum


def load(path):
    def without_duplicates(pairs):
        keys = [key for key, _ in pairs]
        repeated = {key for key in keys if keys.count(key) > 1}
        assert not repeated, f"{path}: listed more than once: {sorted(repeated)}"
        return dict(pairs)

    text = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
    return json.loads(text, object_pairs_hook=without_duplicates)


IR_NAMES = load(CONFIGS / "ascend_ir_names.json")
MAGNIFIERS = load(CONFIGS / "magnifiers.json")
CPU_BFLOAT16 = ["cpu_onednn_bfloat16", "cpu_bfloat16_mean"]
ASCEND = ["ascend910", "ascend910b", "ascend310p"]
FOLDERS = ["host", "host/cpu", *(f"host/{name}" for name in CPU_BFLOAT16), "host/gpu", *ASCEND]
FILES = {folder: sorted((CONFIGS / folder).glob("*.json")) for folder in FOLDERS}
FILE_IDS = [str(path.relative_to(CONFIGS)) for folder in FOLDERS for path in FILES[folder]]


def load_ops(path):
    return {name: entry for name, entry in load(path).items() if name != "why"}


def file_entries():
    return [(file, op, e) for file in FILE_IDS for op, e in load_ops(CONFIGS / file).items()]


ENTRIES = file_entries()
each_file = pytest.mark.parametrize("file", FILE_IDS)


def list_of(entry):
    return LISTS.get(entry.get("precision_reduce", {}).get("flag"))


def restrictions(entry):
    """(side, index, dtype names) of each inputN and outputN."""
    for key, value in entry.items():
        port = re.fullmatch(r"(input|output)(\d+)", key)
        if port:
            yield port[1], int(port[2]), value["dtype"].split(",")


def tensorflow_ops(name):
    """The TensorFlow op types that an entry named `name` applies to."""
    return {op for op in [name, *IR_NAMES.get(name, [])] if op_definition(op)}


@functools.lru_cache(maxsize=None)
def resolve(folder):
    """TensorFlow op type -> entry; an op's own name wins over an Ascend name that stands for it."""
    own, mapped = {}, {}
    for path in FILES[folder]:
        for name, entry in load_ops(path).items():
            for op in tensorflow_ops(name):
                (own if op == name else mapped).setdefault(op, []).append(entry)
    return {op: (own.get(op) or mapped[op]) for op in {**mapped, **own}}


def resolved_entry(folder, op):
    return resolve(folder)[op][0]


@each_file
def test_file_opens_with_the_reason_for_its_list(file):
    text = (CONFIGS / file).read_text()
    assert re.match(r"// (White|Black|Gray)\b", text), (
        "the first comment names the list and says why"
    )
    lists = {list_of(entry) for entry in load_ops(CONFIGS / file).values()}
    assert lists == {re.match(r"// (\w+)", text)[1].lower()}, "one reason cannot cover two lists"


@each_file
def test_a_black_list_says_why_in_words_for_the_story_of_a_node(file):
    """The words follow "on the black list (built-in): "."""
    is_black = {list_of(entry) for entry in load_ops(CONFIGS / file).values()} == {"black"}
    why = load(CONFIGS / file).get("why")
    assert (why is not None) == is_black
    assert why is None or re.fullmatch(r"\S[^\n.]{20,130}", why)


@each_file
def test_entries_are_well_formed(file):
    for op, entry in load_ops(CONFIGS / file).items():
        for key, value in entry.items():
            if key == "precision_reduce":
                assert list(value) == ["flag"], op
                assert value["flag"] in ("true", "false"), op
            else:
                assert re.fullmatch(r"(input|output)\d+", key), f"{op}: unknown key {key}"
                assert list(value) == ["dtype"], op
        for _, _, dtypes in restrictions(entry):
            for name in dtypes:
                assert tf.as_dtype(name), f"{op}: unknown dtype {name}"


@needs_every_listed_op
@each_file
def test_every_op_is_known_to_tensorflow_or_to_ascend(file):
    names = load_ops(CONFIGS / file)
    unknown = [op for op in names if not op_definition(op) and op not in IR_NAMES]
    assert not unknown
    if file.startswith("host"):
        assert not [op for op in names if not op_definition(op)], "stock TensorFlow has no IR names"


def test_what_ascend_alone_has_is_no_op_of_tensorflow():
    assert not [name for name, ops in IR_NAMES.items() if not ops and op_definition(name)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_op_is_listed_twice(folder):
    names = [name for path in FILES[folder] for name in load_ops(path)]
    assert sorted(names) == sorted(set(names))
    disagreeing = [op for op, found in resolve(folder).items() if any(e != found[0] for e in found)]
    assert not disagreeing, "two Ascend names of one TensorFlow op say different things"


def type_attributes(op_def, side, index):
    """The type attributes the argument is bound to, and the dtypes it may have."""
    arg = (op_def.input_arg if side == "input" else op_def.output_arg)[index]
    name = arg.type_attr or arg.type_list_attr
    if not name:
        return set(), {arg.type}
    attr = next(attr for attr in op_def.attr if attr.name == name)
    return {name}, set(attr.allowed_values.list.type)


@pytest.mark.parametrize(
    ("op", "entry"), [pytest.param(op, e, id=op) for _, op, e in ENTRIES if list(restrictions(e))]
)
def test_restrictions_name_arguments_that_can_have_the_dtype(op, entry):
    for tf_op in tensorflow_ops(op):
        if tf_op != op and any(tf_op == name for _, name, _ in ENTRIES):
            continue  # The op has its own entry, which wins.
        op_def = op_definition(tf_op)
        for side, index, dtypes in restrictions(entry):
            arity = len(op_def.input_arg if side == "input" else op_def.output_arg)
            assert index < arity, f"{tf_op} has {arity} {side}s"
            _, allowed = type_attributes(op_def, side, index)
            for name in dtypes:
                assert not allowed or tf.as_dtype(name).as_datatype_enum in allowed, (
                    tf_op,
                    side,
                    index,
                )


def low_kernel_devices(op):
    """Devices with a kernel that takes float16 or bfloat16."""
    devices = set()
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        for constraint in kernel.constraint:
            if LOW_TYPES & set(constraint.allowed_values.list.type):
                devices.add(kernel.device_type)
    return devices


@needs_every_listed_op
@pytest.mark.parametrize(
    "op", sorted(op for op, found in resolve("host").items() if list_of(found[0]) == "white")
)
def test_white_ops_have_a_low_kernel_to_run_on(op):
    assert low_kernel_devices(op) & {"CPU", "GPU"}


@pytest.mark.parametrize(
    "op", ["FusedBatchNormV2", "FusedBatchNormV3", "FusedBatchNormGradV2", "FusedBatchNormGradV3"]
)
@pytest.mark.parametrize("target", ["host", "ascend910"])
def test_batch_norm_keeps_its_statistics_in_float32(target, op):
    op_def = op_definition(op)
    restricted = set()
    for side, index, dtypes in restrictions(resolved_entry(target, op)):
        attributes, _ = type_attributes(op_def, side, index)
        assert attributes == {"U"}, "T may be lowered"
        assert dtypes == ["float32"], "U may not"
        restricted.add((side, index))
    if target == "host":
        sides = {"input": op_def.input_arg, "output": op_def.output_arg}
        bound = {
            (side, i)
            for side, args in sides.items()
            for i, arg in enumerate(args)
            if arg.type_attr == "U"
        }
        assert restricted == bound
    assert restricted


def test_host_leaves_dtypes_to_the_kernel_registry():
    restricted = {op for op, found in resolve("host").items() if list(restrictions(found[0]))}
    assert {op.rstrip("23") for op in restricted} == {"FusedBatchNormV", "FusedBatchNormGradV"}


@pytest.mark.parametrize("device", ["cpu", *CPU_BFLOAT16, "gpu"])
def test_device_folders_hold_real_differences_only(device):
    common = resolve("host")
    for op, found in resolve(f"host/{device}").items():
        assert found[0] != common[op][0], f"{op} says on {device} what it says anywhere"


@pytest.mark.parametrize(
    ("op", "why"),
    [
        ("Bitcast", "it reads bits"),
        ("Const", "a neutral source"),
        ("Placeholder", "a neutral source"),
        ("ReadVariableOp", "variables stay float32"),
        ("AssignVariableOp", "variables stay float32"),
        ("RandomUniform", "another dtype draws other numbers"),
        ("SaveV2", "checkpoints stay as they are"),
        ("StatelessWhile", "function signatures never change"),
        ("PartitionedCall", "function signatures never change"),
        ("CudnnRNNV3", "its reserve space is a memory image"),
        ("CheckNumerics", "it is stateful"),
    ],
)
def test_ops_that_must_keep_their_dtype_are_on_no_list(op, why):
    assert op_definition(op)
    for folder in FOLDERS:
        assert op not in resolve(folder), why


@pytest.mark.parametrize(
    ("folder", "op", "expected"),
    [
        ("host", "MatMul", "white"),
        ("host", "Conv2DBackpropFilter", "white"),
        ("host", "DepthwiseConv2dNative", "white"),
        ("host", "BiasAdd", "gray"),
        ("host", "Relu", "gray"),
        ("host", "MaxPoolGrad", "gray"),
        ("host", "Reshape", "gray"),
        ("host", "Enter", "gray"),
        ("host", "Exp", "black"),
        ("host", "Sum", "black"),
        ("host", "SparseSoftmaxCrossEntropyWithLogits", "black"),
        ("host", "ResourceApplyAdam", "black"),
        ("host", "Softmax", "black"),
        ("host/cpu_onednn_bfloat16", "Softmax", "gray"),
        ("host/gpu", "Softmax", "gray"),
        ("host", "Mean", "black"),
        ("host/cpu_bfloat16_mean", "Mean", "gray"),
        ("host/gpu", "Mean", "gray"),
        ("host", "ResizeBilinearGrad", "black"),
        ("host/cpu", "ResizeBilinearGrad", "gray"),
    ],
)
def test_host_lists(folder, op, expected):
    assert list_of(resolved_entry(folder, op)) == expected


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("MatMul", "white"),
        ("BatchMatMulV2", "white"),
        ("Conv2D", "white"),
        ("Conv3DBackpropFilterV2", "white"),
        ("DepthwiseConv2dNativeBackpropInput", "white"),
        ("Sum", "black"),
        ("Mean", "black"),
        ("LogSoftmax", "black"),
        ("Pow", "black"),
        ("BiasAddGrad", "black"),
        ("ResourceApplyMomentum", "black"),
        ("Enter", "black"),
        ("NextIteration", "black"),
        ("Exp", "gray"),
        ("Softmax", "gray"),
        ("SoftmaxCrossEntropyWithLogits", "gray"),
        ("FusedBatchNormV3", "gray"),
        ("Max", "gray"),
        ("AddV2", "gray"),
        ("ConcatV2", "gray"),
        ("MaxPool", "gray"),
    ],
)
def test_ascend910_lists_as_published(op, expected):
    assert list_of(resolved_entry("ascend910", op)) == expected


def supported(op):
    """Type attribute -> dtype names that ascend910 has kernels for, if its files say so."""
    op_def = op_definition(op)
    found = {}
    for side, index, dtypes in restrictions(resolved_entry("ascend910", op)):
        for attribute in type_attributes(op_def, side, index)[0]:
            found.setdefault(attribute, set()).update(dtypes)
    return found


@pytest.mark.parametrize(
    "op",
    [
        "MatMul",
        "BatchMatMulV2",
        "Conv2D",
        "Conv2DBackpropInput",
        "Conv2DBackpropFilter",
        "Conv3D",
        "Conv3DBackpropInputV2",
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropFilter",
        "MaxPool",
        "MaxPoolGrad",
        "AvgPool",
        "AvgPoolGrad",
        "TopKV2",
        "ExtractImagePatches",
        "Dilation2D",
    ],
)
def test_ascend910_has_float16_kernels_only(op):
    assert supported(op) == {"T": {"float16"}}


@pytest.mark.parametrize(
    "op", ["ApplyAdam", "ResourceApplyAdam", "SparseApplyFtrl", "ResizeBilinearGrad"]
)
def test_ascend910_has_float32_kernels_only(op):
    assert supported(op) == {"T": {"float32"}}


@pytest.mark.parametrize("op", ["Relu", "Mul", "Softmax", "Mean", "Reshape"])
def test_ascend910_runs_the_others_in_both(op):
    assert not supported(op)


def test_every_matrix_op_of_ascend910_restricts_all_its_floats():
    for op, found in resolve("ascend910").items():
        if list_of(found[0]) != "white":
            continue
        op_def = op_definition(op)
        for side, args in (("input", op_def.input_arg), ("output", op_def.output_arg)):
            restricted = {
                i for s, i, dtypes in restrictions(found[0]) if s == side and dtypes == ["float16"]
            }
            floats = {i for i in range(len(args)) if FLOAT in type_attributes(op_def, side, i)[1]}
            assert restricted == floats, f"{op}: {side}s"


@needs_every_listed_op
def test_ir_names_stand_for_ops_that_exist():
    for name, ops in IR_NAMES.items():
        assert all(op_definition(op) for op in ops), name
        assert len(ops) == len(set(ops)), name
        if op_definition(name):
            assert ops[0] == name, "a name that is a TensorFlow op type means that op first"


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("SoftmaxV2", {"Softmax"}),
        ("LogSoftmaxV2", {"LogSoftmax"}),
        ("BatchNorm", {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"}),
        ("ReduceSumD", {"Sum"}),
        ("ReduceMean", {"Mean"}),
        ("Assign", {"Assign", "AssignVariableOp"}),
        ("ApplyAdam", {"ApplyAdam", "ResourceApplyAdam"}),
        ("MatMulV2", {"MatMul"}),
        ("BatchMatMul", {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}),
        ("ConcatD", {"Concat", "ConcatV2"}),
        ("TransposeD", {"Transpose"}),
        ("GEMM", set()),
    ],
)
def test_ir_names_as_published(name, ops):
    assert set(IR_NAMES[name]) == ops


@needs_every_listed_op
@pytest.mark.parametrize("op", MAGNIFIERS)
def test_a_magnified_input_is_a_float_input_of_an_op_of_tensorflow(op):
    op_def = op_definition(op)
    assert MAGNIFIERS[op]
    for name in MAGNIFIERS[op]:
        index = int(re.fullmatch(r"input(\d+)", name)[1])
        allowed = type_attributes(op_def, "input", index)[1]
        assert not allowed or FLOAT in allowed
