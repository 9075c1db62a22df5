"""A loop of TensorFlow 1 and its gradient: stacks between two loops.

One case is also in TensorFlow's tests: the simple loop and its gradient. Stacks by themselves are
in test_stacks.py; gradients of other programs, in both forms of control flow, are in
test_control_flow_forms.py.
"""

from __future__ import annotations

from support.check_rewrite import check_rewrite
from support.loop_text import counter, loop

# Forward: three times y = tanh(y @ w). Back: the gradient of y, and the sum of the gradients of w.
FORWARD = loop(
    """start = Identity(x)
    w = Placeholder(shape=4x4)
    most = Const[int32](value=-1)
    inputs = StackV2(most)
    outputs = StackV2(most)
    w_enter = Enter(w, frame_name=loop, is_constant=True)
    inputs_enter = Enter(inputs, frame_name=loop, is_constant=True)
    outputs_enter = Enter(outputs, frame_name=loop, is_constant=True)""",
    """product = MatMul(switch:1, w_enter)
    turn = Tanh(product)
    push_input = StackPushV2(inputs_enter, switch:1)
    push_output = StackPushV2(outputs_enter, turn)""",
    after=["push_input", "push_output"],
)
BACK = f"""
    {counter(3, "back_", "back", "end", ["pop_input", "pop_output"])}
    loss = Mul(end, end)
    dy_enter = Enter(loss, frame_name=back)
    dy = Merge(dy_enter, dy_next)
    dy_switch = Switch(dy, back_cond)
    w_back = Enter(w, frame_name=back, is_constant=True)
    inputs_back = Enter(inputs, frame_name=back, is_constant=True)
    outputs_back = Enter(outputs, frame_name=back, is_constant=True)
    pivot = Identity(back_i_switch:1)
    pop_input = StackPopV2(inputs_back, ^pivot)
    pop_output = StackPopV2(outputs_back, ^pivot)
    dproduct = TanhGrad(pop_output, dy_switch:1)
    dturn = MatMul(dproduct, w_back, transpose_b=True)
    dw_now = MatMul(pop_input, dproduct, transpose_a=True)
    dy_next = NextIteration(dturn)
    dx = Exit(dy_switch)
    zeros = Const(value=0.0)
    dw_enter = Enter(zeros, frame_name=back)
    dw_sum = Merge(dw_enter, dw_next)
    dw_switch = Switch(dw_sum, back_cond)
    dw_add = AddV2(dw_switch:1, dw_now)
    dw_next = NextIteration(dw_add)
    dw = Exit(dw_switch)
    """


def test_a_loop_and_its_gradient():
    """Forward, the loop and its stacks are float16. Back, the loss keeps the gradient of y in
    float32, the products are float16, and the gradients of w add up in float32.
    """
    check_rewrite(
        FORWARD + BACK,
        """
        inputs = StackV2[float16](most)
        start = Identity[float32](x)
        enter = Enter[float16](start/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        push_input = StackPushV2[float16](inputs_enter, switch:1)
        outputs = StackV2[float16](most)
        w_enter = Enter[float16](w/npu_cast_0_float16)
        product = MatMul[float16](switch:1, w_enter)
        turn = Tanh[float16](product)
        push_output = StackPushV2[float16](outputs_enter, turn)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](exit/npu_cast_0_float32)
        pop_input = StackPopV2[float16](inputs_back, ^pivot)
        pop_output = StackPopV2[float16](outputs_back, ^pivot)
        loss = Mul[float32](end, end)
        dy_enter = Enter[float32](loss)
        dy = Merge[float32](dy_enter, dy_next)
        dy_switch = Switch[float32](dy, back_cond)
        w_back = Enter[float16](w/npu_cast_0_float16)
        dproduct = TanhGrad[float32](pop_output/npu_cast_0_float32, dy_switch:1)
        dturn = MatMul[float16](dproduct/npu_cast_0_float16, w_back)
        dw_now = MatMul[float16](pop_input, dproduct/npu_cast_0_float16)
        dy_next = NextIteration[float32](dturn/npu_cast_0_float32)
        dx = Exit[float32](dy_switch)
        dw_enter = Enter[float32](zeros)
        dw_sum = Merge[float32](dw_enter, dw_next)
        dw_switch = Switch[float32](dw_sum, back_cond)
        dw_add = AddV2[float32](dw_switch:1, dw_now/npu_cast_0_float32)
        dw_next = NextIteration[float32](dw_add)
        dw = Exit[float32](dw_switch)
        """,
        ["dx", "dw"],
    )
