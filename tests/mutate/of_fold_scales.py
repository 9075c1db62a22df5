"""Mutations of fold_scales."""

from __future__ import annotations

from mutate.mutation import mutations_of

_FILE = "passes/test_fold_scales.py"

_chains = mutations_of("graph_passes/fuse/channel_chains.cc")
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
        "!chain.has_scale || !site_.AreAlike(",
        "!site_.AreAlike(",
        "Sums without a scale are folded.",
        f"{_FILE}::test_other_forms_stay",
    ),
    _fold(
        "fits",
        " || !FitsLowType(chain) ||",
        " ||",
        "Scaled weights overflow float16.",
        f"{_FILE}::test_a_scale_that_may_be_huge_is_not_folded_in_float16",
    ),
    _fold(
        "private",
        "!chains_.MayVanish(convolution)) {",
        "!site_.HasOneReader(convolution)) {",
        "A fetched result of a convolution is scaled.",
        f"{_FILE}::test_what_is_fetched_keeps_its_value",
    ),
    _fold(
        "one_reader",
        "!chains_.MayVanish(convolution)) {",
        "!site_.MayVanish(convolution)) {",
        "A convolution that is read twice is scaled.",
        f"{_FILE}::test_other_forms_stay",
    ),
    _chains(
        "vector",
        "if (channels < 2 || shape.num_elements() != channels) return false;",
        "if (channels < 2) return false;",
        "A matrix counts as a vector.",
        f"{_FILE}::test_other_forms_stay",
    ),
    _chains(
        "minus",
        '!(op == "Sub" && use.index == 0)',
        'op != "Sub"',
        "A vector minus a result counts as the result minus the vector.",
        f"{_FILE}::test_other_forms_stay",
    ),
    _chains(
        "offset_is_scaled",
        'const char* combines = op == "Mul" ? "Mul" : ',
        'const char* combines = op == "Mul" ? "AddV2" : ',
        "A bias before the scale is not scaled.",
        f"{_FILE}::test_any_chain_of_sums_and_products_with_vectors_is_folded",
    ),
    _chains(
        "negative",
        'offset = op == "Sub" ? Combined(name, "Neg", vector, "", nodes) : vector;',
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
    _chains(
        "sums",
        "        TakeSum(next, &found);\n",
        "",
        "A residual sum keeps the vector of a norm.",
        f"{_FILE}::test_so_is_a_norm_that_tensorflow_spread_over_a_residual_sum",
    ),
    _chains(
        "taken",
        "is_taken_[chain.end()] = true;",
        "",
        "Two norms take the vector that is added to their sum.",
        f"{_FILE}::test_of_two_norms_in_a_sum_the_first_takes_the_vector",
    ),
    _fold(
        "fetched_norm",
        "!chains_.IsFree(chain) || !site_.MayVanish(chain.end())",
        "!chains_.IsFree(chain)",
        "A fetched node becomes one with several outputs.",
        f"{_FILE}::test_a_fetched_end_stays",
    ),
    _fold(
        "image",
        "!IsImage(chain) || ",
        "",
        "Rows of a matrix become a batch norm of images.",
        f"{_FILE}::test_what_is_no_image_with_both_stays",
    ),
    _fold(
        "of_batch",
        " || IsOfBatch(chain)",
        "",
        "A batch norm that is trained is lowered beside its gradient in float32.",
        f"{_FILE}::test_a_batch_norm_of_the_batch_itself_stays",
    ),
    _fold(
        "epsilon",
        "BecomeFusedNorm(kNorm, 0, false, norm);",
        "BecomeFusedNorm(kNorm, 1e-3, false, norm);",
        "The variance of 1 has an epsilon added.",
        f"{_FILE}::test_elsewhere_a_scale_and_offset_are_one_batch_norm",
    ),
    _votes(
        "bias",
        'if (index == 1 && view.node(id).op() == "BiasAdd") return Vote::kUnknown;',
        "",
        "A bias that was computed keeps a whole layer in float32.",
        f"{_FILE}::test_a_batch_norm_of_variables_becomes_a_bias_that_runs_in_the_low_type",
    ),
)
