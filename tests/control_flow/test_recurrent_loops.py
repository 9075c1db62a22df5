"""A recurrent LSTM whose inputs come from a TensorArray and whose states go into another.

TensorFlow's tests have the same LSTM. How often its nodes run in a session, also with gradients, is
in test_control_flow_forms.py.
"""

from __future__ import annotations

import pytest
from support.check_rewrite import check_rewrite
from support.loop_text import counter
from support.tf_versions import need_kernels

LSTM = f"""
    x = Placeholder(shape=3x2x4)
    kernel = Placeholder(shape=8x16)
    bias = Placeholder(shape=16)
    start = Const(shape=2x4)
    three = Const[int32](value=3)
    steps = Const[int32](value=[0, 1, 2])
    axis = Const[int32](value=1)
    inputs = TensorArrayV3(three)
    fill = TensorArrayScatterV3(inputs, steps, x, inputs:1)
    states = TensorArrayV3(three)
    {counter(3)}
    inputs_enter = Enter(inputs, frame_name=loop, is_constant=True)
    fill_enter = Enter(fill, frame_name=loop, is_constant=True)
    states_enter = Enter(states, frame_name=loop, is_constant=True)
    kernel_enter = Enter(kernel, frame_name=loop, is_constant=True)
    bias_enter = Enter(bias, frame_name=loop, is_constant=True)
    axis_enter = Enter(axis, frame_name=loop, is_constant=True)
    cell_enter = Enter(start, frame_name=loop)
    state_enter = Enter(start, frame_name=loop)
    flow_enter = Enter(states:1, frame_name=loop)
    cell = Merge(cell_enter, cell_next)
    state = Merge(state_enter, state_next)
    flow = Merge(flow_enter, flow_next)
    cell_switch = Switch(cell, cond)
    state_switch = Switch(state, cond)
    flow_switch = Switch(flow, cond)
    row = TensorArrayReadV3(inputs_enter, i_switch:1, fill_enter)
    joined = ConcatV2(row, state_switch:1, axis_enter)
    product = MatMul(joined, kernel_enter)
    sums = BiasAdd(product, bias_enter)
    gates = Split(axis_enter, sums, num_split=4)
    keep = Sigmoid(gates)
    take = Sigmoid(gates:1)
    new = Tanh(gates:2)
    show = Sigmoid(gates:3)
    kept = Mul(keep, cell_switch:1)
    taken = Mul(take, new)
    cell_now = AddV2(kept, taken)
    squashed = Tanh(cell_now)
    state_now = Mul(show, squashed)
    write = TensorArrayWriteV3(states_enter, i_switch:1, state_now, flow_switch:1)
    cell_next = NextIteration(cell_now)
    state_next = NextIteration(state_now)
    flow_next = NextIteration(write)
    flow_exit = Exit(flow_switch)
    stack = TensorArrayGatherV3(states, steps, flow_exit)
    end = LogSoftmax(stack)
    """


@pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)
def test_an_lstm_runs_in_the_low_type_from_the_rows_it_reads_to_the_states_it_writes(mode, low):
    """No Cast runs in an iteration: rows, kernel and bias are cast before, states afterwards."""
    need_kernels(low, "Sigmoid", "Tanh")
    check_rewrite(
        LSTM,
        f"""
        inputs = TensorArrayV3[{low}](three)
        fill = TensorArrayScatterV3[{low}](inputs, steps, x/npu_cast_0_{low}, inputs:1)
        states = TensorArrayV3[{low}](three)
        fill_enter = Enter[float32](fill)
        kernel_enter = Enter[{low}](kernel/npu_cast_0_{low})
        bias_enter = Enter[{low}](bias/npu_cast_0_{low})
        cell_enter = Enter[{low}](start/npu_cast_0_{low})
        state_enter = Enter[{low}](start/npu_cast_0_{low})
        flow_enter = Enter[float32](states:1)
        cell = Merge[{low}](cell_enter, cell_next)
        state = Merge[{low}](state_enter, state_next)
        flow = Merge[float32](flow_enter, flow_next)
        cell_switch = Switch[{low}](cell, cond)
        state_switch = Switch[{low}](state, cond)
        flow_switch = Switch[float32](flow, cond)
        row = TensorArrayReadV3[{low}](inputs_enter, i_switch:1, fill_enter)
        joined = ConcatV2[{low}](row, state_switch:1, axis_enter)
        product = MatMul[{low}](joined, kernel_enter)
        sums = BiasAdd[{low}](product, bias_enter)
        gates = Split[{low}](axis_enter, sums)
        keep = Sigmoid[{low}](gates)
        take = Sigmoid[{low}](gates:1)
        new = Tanh[{low}](gates:2)
        show = Sigmoid[{low}](gates:3)
        kept = Mul[{low}](keep, cell_switch:1)
        taken = Mul[{low}](take, new)
        cell_now = AddV2[{low}](kept, taken)
        squashed = Tanh[{low}](cell_now)
        state_now = Mul[{low}](show, squashed)
        write = TensorArrayWriteV3[{low}](states_enter, i_switch:1, state_now, flow_switch:1)
        cell_next = NextIteration[{low}](cell_now)
        state_next = NextIteration[{low}](state_now)
        flow_next = NextIteration[float32](write)
        flow_exit = Exit[float32](flow_switch)
        stack = TensorArrayGatherV3[{low}](states, steps, flow_exit)
        end = LogSoftmax[float32](stack/npu_cast_0_float32)
        """,
        mode=mode,
    )
