"""TensorArrays: tensors written, read, stacked and split through one handle have one dtype.

The flow that orders these ops is a float32 in name only: no kernel reads it, and it never changes.
The recurrent LSTM with a TensorArray, which TensorFlow's tests have too, is in
test_recurrent_loops.py.
"""

from __future__ import annotations

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite
from support.loop_text import loop

each_mode = pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)


@each_mode
def test_an_array_whose_items_are_lowered_is_lowered(mode, low):
    """Write and read."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        two = Const[int32](value=2)
        zero = Const[int32](value=0)
        one = Const[int32](value=1)
        white = MatMul(x, x)
        array = TensorArrayV3(two)
        write = TensorArrayWriteV3(array, zero, white, array:1)
        write_again = TensorArrayWriteV3(array, one, white, write)
        read = TensorArrayReadV3(array, one, write_again)
        gray = Relu(read)
        end = Exp(gray)
        """,
        f"""
        white = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
        array = TensorArrayV3[{low}](two)
        write = TensorArrayWriteV3[{low}](array, zero, white, array:1)
        write_again = TensorArrayWriteV3[{low}](array, one, white, write)
        read = TensorArrayReadV3[{low}](array, one, write_again)
        gray = Relu[{low}](read)
        end = Exp[float32](gray/npu_cast_0_float32)
        """,
        mode=mode,
    )
    assert result.reasons["write"] == ("lowered", "gray_follows_lowered", "white")
    assert result.reasons["read"][:2] == ("lowered", "shares_dtype")


def test_an_array_that_one_black_op_writes_to_keeps_float32():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        two = Const[int32](value=2)
        zero = Const[int32](value=0)
        one = Const[int32](value=1)
        white = MatMul(x, x)
        black = Exp(x)
        array = TensorArrayV3(two)
        write = TensorArrayWriteV3(array, zero, white, array:1)
        write_again = TensorArrayWriteV3(array, one, black, write)
        read = TensorArrayReadV3(array, zero, write_again)
        gray = Relu(read)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        array = TensorArrayV3[float32](two)
        write = TensorArrayWriteV3[float32](array, zero, white/npu_cast_0_float32, array:1)
        write_again = TensorArrayWriteV3[float32](array, one, black, write)
        read = TensorArrayReadV3[float32](array, zero, write_again)
        gray = Relu[float32](read)
        """,
    )


def test_unstack_and_stack():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        four = Const[int32](value=4)
        indices = Const[int32](value=[0, 1, 2, 3])
        white = MatMul(x, x)
        array = TensorArrayV3(four)
        scatter = TensorArrayScatterV3(array, indices, white, array:1)
        size = TensorArraySizeV3(array, scatter)
        gather = TensorArrayGatherV3(array, indices, scatter)
        end = Softmax(gather)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        array = TensorArrayV3[float16](four)
        scatter = TensorArrayScatterV3[float16](array, indices, white, array:1)
        gather = TensorArrayGatherV3[float16](array, indices, scatter)
        end = Softmax[float32](gather/npu_cast_0_float32)
        """,
        ["size", "end"],
    )


def test_split_and_concat():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        two = Const[int32](value=2)
        lengths = Const[int64](value=[1, 3])
        white = MatMul(x, x)
        array = TensorArrayV3(two)
        split = TensorArraySplitV3(array, white, lengths, array:1)
        concat = TensorArrayConcatV3(array, split)
        end = Softmax(concat)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        array = TensorArrayV3[float16](two)
        split = TensorArraySplitV3[float16](array, white, lengths, array:1)
        concat = TensorArrayConcatV3[float16](array, split)
        end = Softmax[float32](concat/npu_cast_0_float32)
        """,
    )


def test_an_array_of_sources_alone_keeps_float32():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        four = Const[int32](value=4)
        indices = Const[int32](value=[0, 1, 2, 3])
        array = TensorArrayV3(four)
        scatter = TensorArrayScatterV3(array, indices, x, array:1)
        gather = TensorArrayGatherV3(array, indices, scatter)
        gray = Relu(gather)
        """,
        UNCHANGED,
    )


def test_two_arrays_decide_apart():
    """One is filled from a source and read in the low type, the other holds the products."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        one = Const[int32](value=1)
        zero = Const[int32](value=0)
        inputs = TensorArrayV3(one)
        fill = TensorArrayWriteV3(inputs, zero, x, inputs:1)
        item = TensorArrayReadV3(inputs, zero, fill)
        white = MatMul(item, item)
        outputs = TensorArrayV3(one)
        write = TensorArrayWriteV3(outputs, zero, white, outputs:1)
        read = TensorArrayReadV3(outputs, zero, write)
        end = Softmax(read)
        """,
        """
        inputs = TensorArrayV3[float32](one)
        fill = TensorArrayWriteV3[float32](inputs, zero, x, inputs:1)
        item = TensorArrayReadV3[float32](inputs, zero, fill)
        white = MatMul[float16](item/npu_cast_0_float16, item/npu_cast_0_float16)
        outputs = TensorArrayV3[float16](one)
        write = TensorArrayWriteV3[float16](outputs, zero, white, outputs:1)
        read = TensorArrayReadV3[float16](outputs, zero, write)
        end = Softmax[float32](read/npu_cast_0_float32)
        """,
    )


def test_the_array_of_gradients_has_the_dtype_of_the_array():
    """The array of gradients takes its dtype from the array when it runs, so both are one class."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        one = Const[int32](value=1)
        zero = Const[int32](value=0)
        white = MatMul(x, x)
        array = TensorArrayV3(one)
        write = TensorArrayWriteV3(array, zero, white, array:1)
        read = TensorArrayReadV3(array, zero, write)
        gradient = MatMul(read, x)
        gradients = TensorArrayGradV3(array, write, source=gradients)
        back = TensorArrayWriteV3(gradients, zero, gradient, gradients:1)
        out = TensorArrayReadV3(gradients, zero, back)
        end = Softmax(out)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        array = TensorArrayV3[float16](one)
        write = TensorArrayWriteV3[float16](array, zero, white, array:1)
        read = TensorArrayReadV3[float16](array, zero, write)
        gradient = MatMul[float16](read, x/npu_cast_0_float16)
        gradients = TensorArrayGradV3(array, write)
        back = TensorArrayWriteV3[float16](gradients, zero, gradient, gradients:1)
        out = TensorArrayReadV3[float16](gradients, zero, back)
        end = Softmax[float32](out/npu_cast_0_float32)
        """,
    )


def test_a_black_gradient_keeps_the_array_itself_in_float32():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        one = Const[int32](value=1)
        zero = Const[int32](value=0)
        white = MatMul(x, x)
        array = TensorArrayV3(one)
        write = TensorArrayWriteV3(array, zero, white, array:1)
        read = TensorArrayReadV3(array, zero, write)
        gradient = Exp(read)
        gradients = TensorArrayGradV3(array, write, source=gradients)
        back = TensorArrayWriteV3(gradients, zero, gradient, gradients:1)
        out = TensorArrayReadV3(gradients, zero, back)
        end = Softmax(out)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        array = TensorArrayV3[float32](one)
        write = TensorArrayWriteV3[float32](array, zero, white/npu_cast_0_float32, array:1)
        read = TensorArrayReadV3[float32](array, zero, write)
        gradient = Exp[float32](read)
        gradients = TensorArrayGradV3(array, write)
        back = TensorArrayWriteV3[float32](gradients, zero, gradient, gradients:1)
        out = TensorArrayReadV3[float32](gradients, zero, back)
        end = Softmax[float32](out)
        """,
    )


def test_an_array_that_a_loop_writes_is_lowered_with_it():
    """The handle enters as a constant; the flow goes around in float32."""
    check_rewrite(
        loop(
            """start = Identity(x)
            size = Const[int32](value=3)
            indices = Const[int32](value=[0, 1, 2])
            array = TensorArrayV3(size)
            array_enter = Enter(array, frame_name=loop, is_constant=True)
            flow_enter = Enter(array:1, frame_name=loop)
            flow = Merge(flow_enter, flow_next)
            flow_switch = Switch(flow, cond)
            flow_exit = Exit(flow_switch)""",
            """turn = MatMul(switch:1, switch:1)
            write = TensorArrayWriteV3(array_enter, i_switch:1, turn, flow_switch:1)
            flow_next = NextIteration(write)
            stack = TensorArrayGatherV3(array, indices, flow_exit)""",
        ).replace("end = Softmax(exit)", "end = Softmax(stack)"),
        """
        start = Identity[float32](x)
        array = TensorArrayV3[float16](size)
        flow_enter = Enter[float32](array:1)
        flow = Merge[float32](flow_enter, flow_next)
        flow_switch = Switch[float32](flow, cond)
        flow_exit = Exit[float32](flow_switch)
        enter = Enter[float16](start/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        turn = MatMul[float16](switch:1, switch:1)
        write = TensorArrayWriteV3[float16](array_enter, i_switch:1, turn, flow_switch:1)
        flow_next = NextIteration[float32](write)
        stack = TensorArrayGatherV3[float16](array, indices, flow_exit)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](stack/npu_cast_0_float32)
        """,
    )


def test_an_array_handed_to_a_function_keeps_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        one = Const[int32](value=1)
        zero = Const[int32](value=0)
        white = MatMul(x, x)
        array = TensorArrayV3(one)
        write = TensorArrayWriteV3(array, zero, white, array:1)
        call = PartitionedCall(array, write, f=read)
        end = Relu(call)
        def read(array[resource], flow) -> (item):
            zero = Const[int32](value=0)
            item = TensorArrayReadV3(array, zero, flow)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        array = TensorArrayV3[float32](one)
        write = TensorArrayWriteV3[float32](array, zero, white/npu_cast_0_float32, array:1)
        call = PartitionedCall[resource,float32,float32](array, write)
        end = Relu[float32](call)
        def read(array[resource], flow) -> (item):
            item = TensorArrayReadV3[float32](array, zero, flow)
        """,
    )
    for name in "array", "write":
        assert result.reasons[name] == ("kept", "handle_leaves_graph", "")
