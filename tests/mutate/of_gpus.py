"""Mutations of what is decided for GPUs."""

from __future__ import annotations

from mutate.mutation import mutations_of

_SMALL = "passes/test_small_operands.py"
_TAILS = "lists/test_gated_tails.py"

_operands = mutations_of("graph_passes/decide/small_operands.cc")
_scales = mutations_of("graph_passes/analysis/moderate_scales.cc")
_tails = mutations_of("graph_passes/analysis/gated_tails.cc")
_classify = mutations_of("graph_passes/decide/classify_nodes.cc")
_explain = mutations_of("graph_passes/decide/explain_gray.cc")
_site = mutations_of("graph_passes/fuse/fusion_site.cc")

MUTATIONS = (
    _operands(
        "device",
        "context_.support->KindOf(view_.node(id)) == DeviceKind::kGpu;",
        "true;",
        "On a CPU, too, small operands have no vote.",
        f"{_SMALL}::test_on_a_cpu_such_an_operand_keeps_the_product",
    ),
    _operands(
        "size",
        "kTimesSmaller * own <= other",
        "own <= other",
        "Operands of any size have no vote.",
        f"{_SMALL}::test_a_sixteenth_of_the_elements_is_small",
    ),
    _operands(
        "edited",
        "node.listing.edited == Edited::kNo && node.custom",
        "node.custom",
        "What the mixlist names has no vote.",
        f"{_SMALL}::test_what_the_user_names_has_a_vote",
    ),
    _operands(
        "values",
        " && !is_kept_for_values;",
        ";",
        "What a keep rule keeps for its values has no vote.",
        f"{_SMALL}::test_other_small_operands_have_a_vote",
    ),
    _operands(
        "moderate",
        "return IsModerateScale(view_, values_, context_.fed, view_.fanin(id)[index], is_free);",
        "return is_free(view_.fanin(id)[index].node);",
        "Scales that may be huge are cast to float16.",
        f"{_SMALL}::test_a_scale_that_may_be_huge_keeps_the_product",
        f"{_SMALL}::test_other_small_operands_have_a_vote",
    ),
    _scales(
        "epsilon",
        "floats[0] >= kSafeEpsilon;",
        "true;",
        "Rsqrt beside any epsilon is taken for moderate.",
        f"{_SMALL}::test_a_scale_that_may_be_huge_keeps_the_product",
        "passes/test_fold_scales.py::test_a_scale_that_may_be_huge_is_not_folded_in_float16",
    ),
    _scales(
        "roots",
        "(IsModerate(inputs[0], roots) && IsModerate(inputs[1], 0))",
        "(IsModerate(inputs[0], roots) && IsModerate(inputs[1], roots))",
        "The square of a root is taken for moderate.",
        f"{_SMALL}::test_other_small_operands_have_a_vote",
    ),
    _scales(
        "numbers",
        "size >= kTinyNumber && size <= kLargeNumber",
        "true",
        "Large and tiny factors are taken for moderate.",
        "passes/test_fold_scales.py"
        "::test_nor_is_one_of_which_nothing_is_known_or_with_a_large_number",
    ),
    _scales(
        "variance",
        "IsVariance(inputs[0]) && IsSafe(inputs[1])",
        "IsSafe(inputs[1])",
        "The root of any sum with an epsilon is taken for moderate.",
        f"{_SMALL}::test_other_small_operands_have_a_vote",
    ),
    _scales(
        "asks_behind",
        "if (may_use_ != nullptr && !may_use_(id)) return false;",
        "",
        "What the user names has no vote behind a Reshape.",
        f"{_SMALL}::test_what_the_user_names_has_a_vote",
    ),
    _tails(
        "products",
        "        may_grow = true;\n",
        "",
        "An Erfc that a logarithm reads is lowered.",
        f"{_TAILS}::test_elsewhere_it_is_on_the_black_list",
    ),
    _tails(
        "exp",
        "may_grow |= IsExp(other.of) || (is_own && MeetsExp(use.node, kMost));",
        "",
        "An Erfc whose tail an Exp makes large again is lowered.",
        f"{_TAILS}::test_elsewhere_it_is_on_the_black_list",
    ),
    _tails(
        "sign",
        "if (!argument.is_negative) return false;",
        "",
        "The upper tail is lowered.",
        f"{_TAILS}::test_the_upper_tail_is_on_the_black_list",
    ),
    _tails(
        "argument",
        "return weighs_argument && !may_grow;",
        "return !may_grow;",
        "An Erfc that weighs something else is lowered.",
        f"{_TAILS}::test_elsewhere_it_is_on_the_black_list",
    ),
    _classify(
        "gated_on_cpus",
        "context_.support->KindOf(view_.node(id)) != DeviceKind::kGpu) {",
        "false) {",
        "The Erfc of a GELU is lowered on a CPU, where it is slower.",
        f"{_TAILS}::test_on_a_cpu_it_is_on_the_black_list",
    ),
    _explain(
        "small_operand",
        "if (changes) NameSmallOperand(id, decision);",
        "",
        "The ledger does not say that an operand was kept.",
        f"{_SMALL}::test_a_norm_of_a_large_tensor_is_computed_in_the_low_type",
    ),
    _site(
        "named",
        "devices_(state.is_named ? Devices::kCpusAndGpus : devices),",
        "devices_(devices),",
        "On a GPU, what the user names does not run either.",
        "passes/test_flatten_mat_muls.py::test_on_a_gpu_it_runs_where_it_is_named",
    ),
    _site(
        "gpus",
        "(devices_ == Devices::kCpusAndGpus && device == DeviceKind::kGpu)",
        "false",
        "On a GPU, batch norms stay as single ops.",
        "passes/test_fold_scales.py::test_on_a_gpu_it_is_folded_or_fused_too",
        "passes/test_trained_norms.py::test_on_a_gpu_it_is_written_so_too",
    ),
)
