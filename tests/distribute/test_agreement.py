"""The workers agree on lower_collectives, or each reports why they do not."""

from __future__ import annotations

import pytest
from support.replicas import MULTI_WORKER, shown
from support.tf_versions import needs_cluster_store

pytestmark = [needs_cluster_store, pytest.mark.slow]

# Each worker's own options are in OPTIONS; it shows the error that its step raises.
STEP = """
from npu_precision.distribute import agreement

agreement.WAIT_SECONDS = 5


def step():
    with strategy.scope():
        weights = tf.Variable(tf.ones([64, 32]))

    @tf.function
    def train(x):
        def replica(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(x, weights))
            (gradient,) = tape.gradient(loss, [weights])
            gradient = tf.distribute.get_replica_context().all_reduce("sum", gradient)
            weights.assign_sub(0.5 * gradient)

        strategy.run(replica, args=(x,))

    try:
        train(tf.ones([8, 64]))
        show("done", float(weights[0, 0]))
    except Exception as error:
        show(type(error).__name__, str(error))
"""

MIXED = 'precision_mode="allow_mix_precision_bf16", lower_collectives=True'


def script(first, second, before="", setup=""):
    """Worker 0 runs `first`, worker 1 `second`; `before` comes before the strategy."""
    begin = MULTI_WORKER.replace("\nstrategy =", f"\n{before}\nstrategy =")
    return f"""{begin}{STEP}{setup}
if WORKER == 0:
    {first}
else:
    {second}
step()
"""


def test_workers_with_the_same_options_lower(run_workers, tmp_path):
    enable = f"npu_precision.enable({MIXED}, report_dir='reports')"
    for printed in run_workers(script(enable, enable)):
        assert shown(printed) == [["done", -7.0]]
    reports = {path.name: path.read_text() for path in tmp_path.glob("*/reports/*train*.json")}
    for worker in range(2):
        (report,) = (text for name, text in reports.items() if f"-worker{worker}-" in name)
        assert '"reason" : "lowered"' in report


@pytest.mark.full
def test_enable_may_come_before_the_strategy(run_workers, tmp_path):
    enable = f"npu_precision.enable({MIXED}, report_dir='reports')"
    for printed in run_workers(script("pass", "pass", before=enable)):
        assert shown(printed) == [["done", -7.0]]
    reports = list(tmp_path.glob("*/reports/*train*.json"))
    assert any('"reason" : "lowered"' in report.read_text() for report in reports)


@pytest.mark.parametrize(
    ("second", "difference"),
    [
        (
            'npu_precision.enable(precision_mode="allow_mix_precision", lower_collectives=True)',
            "precision_mode: 'allow_mix_precision_bf16' on /job:worker/task:0, "
            "'allow_mix_precision' on /job:worker/task:1",
        ),
        pytest.param(
            f"npu_precision.enable({MIXED}, all_white=True)",
            "all_white: 'not given' on /job:worker/task:0, True on /job:worker/task:1",
            marks=pytest.mark.full,
        ),
        (
            'npu_precision.enable(precision_mode="allow_mix_precision_bf16")',
            "lower_collectives: True on /job:worker/task:0, 'not given' on /job:worker/task:1",
        ),
        (
            f"agreement.__version__ = '9.9'; npu_precision.enable({MIXED})",
            "npu_precision: '0.1.0' on /job:worker/task:0, '9.9' on /job:worker/task:1",
        ),
    ],
)
def test_workers_with_other_options_are_all_told(second, difference, run_workers):
    first = f"npu_precision.enable({MIXED})"
    for printed in run_workers(script(first, second)):
        ((_, message),) = shown(printed)
        assert f"lower_collectives: the workers differ in {difference}" in message


@pytest.mark.full
def test_the_content_of_a_mixlist_counts_and_not_its_place(run_workers):
    write = """
def mixlist(name, op):
    with open(name, "w") as file:
        file.write('{"white-list": {"to-add": ["%s"]}}' % op)
    return name
"""
    enable = f"npu_precision.enable({MIXED}, modify_mixlist=mixlist('%s.json', '%s'))"
    same = script(enable % ("a", "Exp"), enable % ("b", "Exp"), setup=write)
    for printed in run_workers(same):
        assert shown(printed) == [["done", -7.0]]


@pytest.mark.full
def test_other_ops_info_is_told(run_workers):
    """The files are the same except for the kind of device of one of them."""
    write = """
import os
def ops_info(folder, device):
    os.makedirs(os.path.join(folder, device))
    for name in ("a.json", f"{device}/b.json"):
        with open(os.path.join(folder, name), "w") as file:
            file.write('{"Exp": {}}')
    return folder
"""
    enable = f"npu_precision.enable({MIXED}, ops_info_overlay=ops_info('%s', '%s'))"
    for printed in run_workers(script(enable % ("a", "cpu"), enable % ("b", "gpu"), setup=write)):
        ((_, message),) = shown(printed)
        assert "the workers differ in ops_info_overlay: " in message


def test_other_mixlists_are_told(run_workers):
    enable = f"npu_precision.enable({MIXED}, mixlist_edits='%s')"
    white, gray = (f'{{"{color}-list": {{"to-add": ["Exp"]}}}}' for color in ("white", "gray"))
    for printed in run_workers(script(enable % white, enable % gray)):
        ((_, message),) = shown(printed)
        assert "the workers differ in mixlist_edits: " in message


def test_a_worker_that_says_nothing_is_named(run_workers):
    for printed in run_workers(script(f"npu_precision.enable({MIXED})", "pass")):
        ((_, message),) = shown(printed)
        assert "lower_collectives: /job:worker/task:1 did not say within 5 s" in message


def test_a_worker_without_a_kernel_lets_all_keep_float32(run_workers, tmp_path):
    enable = f"npu_precision.enable({MIXED}, report_dir='reports')"
    cannot = f"agreement.can_reduce = lambda options: False; {enable}"
    for printed in run_workers(script(enable, cannot)):
        assert shown(printed) == [["done", -7.0]]
    reports = [path.read_text() for path in tmp_path.glob("*/reports/*train*.json")]
    assert reports
    for report in reports:
        assert '"reason" : "lowered"' not in report
        assert "a worker has no kernel that does so in the low type" in report
