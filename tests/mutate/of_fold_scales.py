"""Mutations of fold_scales."""

from __future__ import annotations

from mutate.mutation import mutations_of

_FILE = "passes/test_fold_scales.py"

_fold = mutations_of("graph_passes/fuse/fold_scales.cc")
_votes = mutations_of("graph_passes/decide/resolve_gray.cc")

MUTATIONS = (
    _fold(
        "cheap",
        "return weights.num_elements() <= kPasses * elements;",
        "return true;",
        "Weights are scaled in each call, however many there are.",
        f"{_FILE}::test_weights_that_are_many_beside_the_result_stay",
    ),
    _fold(
        "scale",
        "if (!HasScale(chain) || !FitsLowType(chain) || !IsCheap(chain)) continue;",
        "if (!FitsLowType(chain) || !IsCheap(chain)) continue;",
        "Sums without a scale are folded.",
        f"{_FILE}::test_other_forms_stay",
    ),
    _fold(
        "fits",
        "if (!HasScale(chain) || !FitsLowType(chain) || !IsCheap(chain)) continue;",
        "if (!HasScale(chain) || !IsCheap(chain)) continue;",
        "Scaled weights overflow float16.",
        f"{_FILE}::test_a_scale_that_may_be_huge_is_not_folded_in_float16",
    ),
    _fold(
        "private",
        "return site_.MayVanish(id) && site_.HasOneReader(id);",
        "return site_.HasOneReader(id);",
        "A fetched result of a convolution is scaled.",
        f"{_FILE}::test_what_is_fetched_keeps_its_value",
    ),
    _fold(
        "one_reader",
        "return site_.MayVanish(id) && site_.HasOneReader(id);",
        "return site_.MayVanish(id);",
        "A convolution that is read twice is scaled.",
        f"{_FILE}::test_other_forms_stay",
    ),
    _fold(
        "vector",
        "if (channels < 2 || shape.num_elements() != channels) return false;",
        "if (channels < 2) return false;",
        "A matrix counts as a vector.",
        f"{_FILE}::test_other_forms_stay",
    ),
    _fold(
        "minus",
        '!(op == "Sub" && use.index == 0)',
        'op != "Sub"',
        "A vector minus a result counts as the result minus the vector.",
        f"{_FILE}::test_other_forms_stay",
    ),
    _fold(
        "offset_is_scaled",
        'offset = Combined(step.node, "offset", "Mul", offset, vector, nodes);',
        "",
        "A bias before the scale is not scaled.",
        f"{_FILE}::test_any_chain_of_sums_and_products_with_vectors_is_folded",
    ),
    _fold(
        "negative",
        'offset = op == "Sub" ? Negative(step.node, vector, nodes) : vector;',
        "offset = vector;",
        "What is subtracted is added.",
        f"{_FILE}::test_any_chain_of_sums_and_products_with_vectors_is_folded",
    ),
    _fold(
        "depthwise",
        "if (convolution->op() == kDepthwise) {",
        "if (false) {",
        "The weights of a depthwise convolution are scaled by their last dimension.",
        f"{_FILE}::test_weights_of_a_depthwise_convolution_are_scaled_by_channel",
    ),
    _fold(
        "sums",
        "if (length > 0 && length == chain.steps.size()) TakeSum(use, &chain);",
        "",
        "A residual sum keeps the vector of a norm.",
        f"{_FILE}::test_so_is_a_norm_that_tensorflow_spread_over_a_residual_sum",
    ),
    _fold(
        "taken",
        "if (chain.inner != kNone) is_taken_[chain.inner] = true;",
        "",
        "Two norms take the vector that is added to their sum.",
        f"{_FILE}::test_of_two_norms_in_a_sum_the_first_takes_the_vector",
    ),
    _fold(
        "in_float32",
        "    MarkKeepDtype(node);\n",
        "",
        "Weights are rounded before they are scaled.",
        f"{_FILE}::test_a_batch_norm_of_variables_becomes_a_bias_that_runs_in_the_low_type",
    ),
    _votes(
        "bias",
        'if (index == 1 && view.node(id).op() == "BiasAdd") return Vote::kUnknown;',
        "",
        "A bias that was computed keeps a whole layer in float32.",
        f"{_FILE}::test_a_batch_norm_of_variables_becomes_a_bias_that_runs_in_the_low_type",
    ),
)
