"""Mutations of what splits the ops that TensorFlow fused, and fuses ops itself."""

from __future__ import annotations

from mutate.mutation import mutations_of

_SPLIT = "passes/test_split_fused_ops.py"
_FUSE = "passes/test_fuse_ops.py"

_split = mutations_of("graph_passes/fuse/split_fused_ops.cc")
_optimizer = mutations_of("cc/npu_optimizer.cc")
_shapes = mutations_of("cc/shapes.cc")
_padding = mutations_of("graph_passes/fuse/same_padding.cc")
_fold = mutations_of("graph_passes/fuse/fold_scales.cc")
_dumps = mutations_of("npu_precision/npu_bridge/dumps.py")
_config = mutations_of("npu_precision/session/rewriter_config.py")

MUTATIONS = (
    _split(
        "here",
        "context.support->HasOwnOps(node) &&",
        "",
        "A graph that runs elsewhere, where nothing may fuse ops again, has single ops.",
        f"{_SPLIT}::test_a_graph_that_runs_elsewhere_stays_fused",
    ),
    _split(
        "warning",
        "state->decided.found_fused_ops = *changed;",
        "",
        "Nobody learns that marks and names were lost.",
        f"{_SPLIT}::test_what_is_split_is_in_the_ledger",
    ),
    _optimizer(
        "fuse_ops",
        'parameters_.passes.count("fuse_ops") != 0 &&',
        "",
        "The rewrite cannot be switched off.",
        f"{_FUSE}::test_off_stays_off",
        f"{_FUSE}::test_a_diagnosis_sees_single_ops",
    ),
    _optimizer(
        "fused_mode",
        "RunsHere(cluster) && LowersForSpeed(parameters_.mode.rule) &&",
        "RunsHere(cluster) &&",
        "A mode that lowers nothing fuses what the config forbids to.",
        f"{_FUSE}::test_off_stays_off",
    ),
    _shapes(
        "parts",
        "NameInMixlist(node), port",
        "node, port",
        "Of what was split, no shape is known.",
        f"{_SPLIT}::test_batch_norms_without_an_activation_are_folded_too",
    ),
    _padding(
        "scaled",
        "is_scaled ? view.fanin(kernel.node)[0] : kernel",
        "is_scaled ? kernel : kernel",
        "No residual sum is fused behind a filter that was scaled.",
        f"{_SPLIT}::test_batch_norms_without_an_activation_are_folded_too",
    ),
    _fold(
        "constants",
        "|| IsOfConstants(chain)",
        "",
        "A batch norm that the remapper wrote as single ops is not folded.",
        f"{_SPLIT}::test_batch_norms_without_an_activation_are_folded_too",
    ),
    _dumps(
        "single",
        "        rewriter_config.leave_ops_single(\n",
        "        str(\n",
        "A dump lacks the ops that were fused into another.",
        "npu_bridge/test_dumps.py::test_a_script_with_the_remapper_off_finds_each_op",
    ),
    _config(
        "diagnosis",
        "            leave_ops_single(entry)",
        "            pass",
        "A diagnosis names the last of several ops.",
        f"{_FUSE}::test_a_diagnosis_sees_single_ops",
    ),
)
