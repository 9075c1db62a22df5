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


def test_functions_that_may_not_be_lowered_are_a_warning_with_their_float_nodes(output_of):
    lines = output_of("exponential(x)")
    assert "npu_precision lowered nothing: none of the" in lines
    assert "float nodes in the functions was lowered" in lines
    assert "enable(report_dir=...) writes why" in lines


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
