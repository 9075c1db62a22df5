"""An unknown key of parameter_map causes a warning: npu_bridge ignores it, too."""

from __future__ import annotations

import pytest
import tensorflow as tf

import npu_precision

tf1 = tf.compat.v1

# Keys of published scripts that no version of npu_bridge knows.
SCRIPT = """
import tensorflow as tf

tf1 = tf.compat.v1
import npu_precision

config = tf1.ConfigProto()
entry = config.graph_options.rewrite_options.custom_optimizers.add(name="NpuOptimizer")
entry.parameter_map["precision_mode"].s = b"force_fp16"
entry.parameter_map["min_group_size"].b = True
entry.parameter_map["dynamic_inputs_shape_range"].s = b"getnext:[128]"
entry.parameter_map["autotune_tune_mode"].s = b"RL,GA"
entry.parameter_map["fp_point"].s = b"conv1"
with tf.Graph().as_default():
    x = tf1.placeholder(tf.float32, [8, 8])
    y = tf.identity(tf.matmul(tf.nn.relu(x), x + 1.0))
    for _ in range(2):
        with tf1.Session(config=config) as session:
            print("sum", session.run(y, {x: [[1.0] * 8] * 8}).sum())
"""


def test_the_script_runs_and_each_key_is_named_once(run_python):
    done = run_python(SCRIPT)
    assert done.stdout.count("sum 1024.0") == 2
    for key in ("min_group_size", "dynamic_inputs_shape_range", "autotune_tune_mode", "fp_point"):
        warnings = [line for line in done.stderr.splitlines() if f"'{key}'" in line]
        assert len(warnings) == 1, done.stderr
        assert f"got unknown parameter '{key}', which has no effect" in warnings[0]
    assert (
        "'autotune_tune_mode', which has no effect; did you mean 'auto_tune_mode'?" in done.stderr
    )
    assert "lowered" in done.stderr


def product(**parameters):
    """Runs a product of matrices in force_fp16 with these keys in the parameter_map."""
    config = npu_precision.npu_config_proto(precision_mode="force_fp16")
    entry = config.graph_options.rewrite_options.custom_optimizers[0]
    assert entry.name == "NpuOptimizer"
    for key, value in parameters.items():
        entry.parameter_map[key].s = tf.compat.as_bytes(value)
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        x = tf1.placeholder(tf.float32, [8, 8])
        return session.run(tf.identity(tf.matmul(x, x)), {x: [[1.0] * 8] * 8})


def test_the_ledger_has_the_warning(tmp_path):
    product(bp_point="gradients", report_dir=str(tmp_path / "ledgers"))
    reports = list((tmp_path / "ledgers").glob("*.json"))
    assert reports
    for report in reports:
        ledger = npu_precision.Ledger.from_json(report.read_text())
        assert ledger.warnings == ("got unknown parameter 'bp_point', which has no effect",)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        # These keys look as if they affected the results.
        ("use_mix_list", ""),
        ("enable_auto_mix_precision", ""),
        ("MixlistPath", ""),
        # Close to one that has an effect.
        ("repot_dir", "did you mean 'report_dir'"),
        ("ops_info_dirs", "did you mean 'ops_info_dir'"),
    ],
)
def test_one_that_may_change_results_is_an_error(key, hint):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"unknown parameter '{key}'.*{hint}"):
        product(**{key: "x"})
