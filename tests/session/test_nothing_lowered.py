"""enable() warns if nothing is lowered; a single graph without lowered nodes writes no log line."""

import pytest

START = """\
import numpy as np
import tensorflow as tf
if tf.__version__.startswith("1."):
    tf.enable_v2_behavior()
import npu_precision
npu_precision.enable(precision_mode="{mode}")
x = tf.constant(np.ones([8, 8], np.float32))
multiply = {multiply}
exponential = tf.function(lambda x: tf.exp(x))
"""
EAGER = "tf.matmul"
TRACED = "tf.function(lambda x: tf.matmul(x, x))"


@pytest.fixture
def output_of(run_python):
    """The stderr of a script that calls enable()."""

    def run(script, mode="allow_mix_precision_bf16", multiply=TRACED, **environment):
        return run_python(START.format(mode=mode, multiply=multiply) + script, **environment).stderr

    return run


def test_nothing_but_eager_ops_is_a_warning_when_the_process_ends(output_of):
    lines = output_of("multiply(x, x)", multiply=EAGER)
    assert (
        "npu_precision lowered nothing: no tf.function was called. Ops that run eagerly keep their "
        "dtype: decorate the step with @tf.function. A session takes "
        "npu_precision.npu_config_proto()"
    ) in lines


def test_nothing_but_eager_ops_is_a_warning_when_disabled(output_of):
    lines = output_of(
        "multiply(x, x); npu_precision.disable(); print('end', file=__import__('sys').stderr)",
        multiply=EAGER,
    )
    assert lines.index("npu_precision lowered nothing") < lines.index("\nend")
    assert lines.count("npu_precision lowered nothing") == 1


@pytest.mark.parametrize("call", ["failing(x)", "failing.get_concrete_function(x)"])
def test_after_an_error_in_a_function_that_is_traced_it_is_not_said(call, output_of):
    """The error is what the user looks for, and a function was called."""
    script = f"""
@tf.function
def failing(x):
    raise KeyError("of the user")
try:
    {call}
except KeyError as error:
    print(error, file=__import__("sys").stderr)
"""
    lines = output_of(script)
    assert "of the user" in lines
    assert "lowered nothing" not in lines


def test_functions_that_may_not_be_lowered_are_a_warning_with_their_float_nodes(output_of):
    lines = output_of("exponential(x)")
    assert "npu_precision lowered nothing: none of the" in lines
    assert "float nodes in the functions was lowered" in lines
    assert "enable(report_dir=...) writes why" in lines


def test_with_a_report_dir_the_warning_names_the_command_that_says_why(output_of, tmp_path):
    options = f"precision_mode='allow_mix_precision_bf16', report_dir={str(tmp_path)!r}"
    lines = output_of(f"npu_precision.enable({options}); exponential(x)")
    assert f"lowered. `npu-precision explain {tmp_path}` says why" in lines


def test_a_function_that_is_lowered_is_no_warning(output_of):
    lines = output_of("exponential(x); multiply(x)")
    assert "; lowered 1 of" in lines
    assert "lowered nothing" not in lines


def test_a_mode_that_keeps_every_dtype_is_no_warning(output_of):
    assert "lowered nothing" not in output_of("multiply(x)", mode="must_keep_origin_dtype")


def test_a_graph_in_which_nothing_is_lowered_has_its_log_line_at_the_debug_level(output_of):
    script = "exponential(x); multiply(x)"
    assert "lowered 0 of" not in output_of(script)
    verbose = output_of(script, TF_CPP_VMODULE="npu_optimizer=1")
    assert " lowered 0 of" in verbose


SESSION = """\
import numpy as np
import tensorflow as tf
import npu_precision
tf = tf.compat.v1
tf.disable_eager_execution()
x = tf.placeholder(tf.float32, [8, 8])
def run(build, mode="{mode}", **fields):
    config = npu_precision.npu_config_proto(precision_mode=mode, **fields)
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        return session.run(build(), {{x: np.ones([8, 8])}})
def kept():
    return tf.matmul(x, tf.constant(np.full([8, 8], 1e9, "float32")))
def lowered():
    return tf.nn.relu(tf.matmul(x, x))
"""
IN_A_SESSION = "lowered nothing in a session"


@pytest.fixture
def session_of(run_python):
    """The stderr of a script with sessions."""

    def run(script, mode="allow_mix_precision_bf16"):
        return run_python(SESSION.format(mode=mode) + script).stderr

    return run


def test_a_session_in_which_all_white_ops_are_kept_says_so_at_the_end(session_of):
    """Values that are known to be too large for float16 keep float32."""
    lines = session_of("run(kept); run(kept)", "allow_mix_precision").splitlines()
    (line,) = [line for line in lines if IN_A_SESSION in line]
    assert line.endswith(
        "npu_precision: allow_mix_precision lowered nothing in a session: 2 of 2 ops on its "
        "white list keep their dtype for the reason leaves_range; report_dir=... writes why, for "
        "`npu-precision explain`"
    )


def test_a_session_whose_later_graph_is_lowered_has_not_complained(session_of):
    assert IN_A_SESSION not in session_of("run(kept); run(lowered)", "allow_mix_precision")


def test_each_mode_has_its_line(session_of):
    lines = session_of("run(kept, 'allow_mix_precision'); run(lowered); run(lowered)")
    assert "allow_mix_precision lowered nothing in a session" in lines
    assert lines.count(IN_A_SESSION) == 1


@pytest.mark.parametrize(
    "script",
    [
        "tf.get_variable('v', [8, 8]); run(lambda: tf.exp(x))",
        "run(lambda: tf.matmul(x, x), 'must_keep_origin_dtype')",
        "run(lambda: tf.matmul(x, x), 'allow_fp32_to_bf16')",
        "scope = npu_precision.keep_dtype_scope()\nwith scope: run(lambda: tf.matmul(x, x))",
    ],
    ids=["no white op", "origin", "keeps what is supported", "kept by the user"],
)
def test_a_session_with_nothing_to_lower_says_nothing(script, session_of):
    assert IN_A_SESSION not in session_of(script)


def test_where_kernels_are_missing_it_is_said_at_once(session_of):
    """No later graph changes that. Betainc stands for convolutions in bfloat16 on 1.15."""
    script = """
import json
json.dump({"white-list": {"to-add": ["Betainc"]}}, open("mixlist.json", "w"))
run(lambda: tf.math.betainc(x, x, x / 2), modify_mixlist="mixlist.json")
print("after", file=__import__("sys").stderr)
run(lambda: tf.math.betainc(x, x, x / 3), modify_mixlist="mixlist.json")
"""
    lines = session_of(script)
    assert lines.index(IN_A_SESSION) < lines.index("\nafter")
    assert lines.count(IN_A_SESSION) == 1
    assert "; `npu-precision doctor` says what each mode does on this machine" in lines
