"""Mutations of the passes that change batch norms."""

from __future__ import annotations

from mutate.mutation import mutations_of

_FOLD_BATCH_NORMS = "passes/test_fold_batch_norms.py"
_NOT_FOLDED = f"{_FOLD_BATCH_NORMS}::test_a_batch_norm_stays_where_folding_would_not_do"

_BATCH_NORM_V3 = "passes/test_batch_norm_v3.py"
_NOT_V3 = f"{_BATCH_NORM_V3}::test_the_first_version_stays_where_the_third_would_not_do"

_fold_batch_norms = mutations_of("graph_passes/fuse/fold_batch_norms.cc")
_batch_norm_v3 = mutations_of("graph_passes/fuse/batch_norm_v3.cc")

MUTATIONS = (
    _fold_batch_norms(
        "training",
        "training == norm.attr().end() || training->second.b()",
        "training == norm.attr().end()",
        "A batch norm that trains is folded.",
        f"{_NOT_FOLDED}[training]",
    ),
    _fold_batch_norms(
        "other_outputs",
        "if (view_.fanout(id).size() != view_.fanout({id, 0}).size()) return Status();",
        "",
        "A batch norm is folded whose other outputs something reads.",
        f"{_NOT_FOLDED}[a reader of the statistics that it passes on]",
    ),
    _fold_batch_norms(
        "readers_of_bias_added",
        "!IsReadOnlyOnce(before) || HasControlInputs(view_, before) ||",
        "HasControlInputs(view_, before) ||",
        "A BiasAdd that others read too is folded.",
        f"{_NOT_FOLDED}[another reader of the bias added]",
    ),
    _fold_batch_norms(
        "control_inputs_of_bias_added",
        "!IsReadOnlyOnce(before) || HasControlInputs(view_, before) ||",
        "!IsReadOnlyOnce(before) ||",
        "A BiasAdd is folded and its control inputs are lost.",
        f"{_NOT_FOLDED}[a bias added after something else]",
    ),
    _fold_batch_norms(
        "bias_added_as_control_input",
        "constants_.IsPinned(before)",
        "false",
        "A BiasAdd is folded that others have as a control input.",
        f"{_NOT_FOLDED}[a bias added before something else]",
    ),
    _fold_batch_norms(
        "no_convolution",
        "!Convolves(view_.node(before).op()) || ",
        "",
        "Whatever stands before a batch norm counts as a convolution.",
        f"{_NOT_FOLDED}[no convolution]",
    ),
    _fold_batch_norms(
        "readers_of_convolution",
        "!Convolves(view_.node(before).op()) || !IsReadOnlyOnce(before)",
        "!Convolves(view_.node(before).op())",
        "A convolution that others read too is folded into.",
        f"{_NOT_FOLDED}[another reader of the convolution]",
    ),
    _fold_batch_norms(
        "channels_elsewhere",
        "!may_change || HasChannelsLast(view_.node(node)) != HasChannelsLast(norm)",
        "!may_change",
        "A batch norm of channels last is folded into a convolution of channels first.",
        f"{_NOT_FOLDED}[channels elsewhere in the convolution]",
    ),
    _fold_batch_norms(
        "name_of_weights",
        "view_.IndexOf(absl::StrCat(norm.name(), kWeightsSuffix)) < 0 &&",
        "",
        "Two nodes get the name of the folded weights.",
        f"{_NOT_FOLDED}[a name for the weights that is taken]",
    ),
    _fold_batch_norms(
        "name_of_bias",
        "view_.IndexOf(absl::StrCat(norm.name(), kBiasSuffix)) < 0",
        "true",
        "Two nodes get the name of the folded bias.",
        f"{_NOT_FOLDED}[a name for the bias that is taken]",
    ),
    _fold_batch_norms(
        "fetched",
        "!constants_.IsFixed(id) && ",
        "",
        "What the caller fetches gets other values.",
        f"{_NOT_FOLDED}[a convolution that is fetched]",
        f"{_NOT_FOLDED}[a bias added that is fetched]",
        f"{_FOLD_BATCH_NORMS}::test_a_batch_norm_that_is_fetched_stays",
    ),
    _fold_batch_norms(
        "keep_dtype",
        " && KeptByMark(node, context_, false) == Reason::kNone;",
        ";",
        "What is marked to keep its dtype is folded.",
        f"{_NOT_FOLDED}[a convolution that keeps its dtype]",
        f"{_NOT_FOLDED}[a batch norm that keeps its dtype]",
    ),
    _fold_batch_norms(
        "black",
        "listing.color != ListColor::kBlack && ",
        "",
        "What is on the black list is folded.",
        f"{_FOLD_BATCH_NORMS}::test_a_batch_norm_on_the_black_list_stays",
    ),
    _fold_batch_norms(
        "unlisted",
        " && listing.color != ListColor::kUnlisted;",
        ";",
        "What the target does not list is folded.",
        f"{_FOLD_BATCH_NORMS}::test_what_the_target_does_not_list_stays",
    ),
    _fold_batch_norms(
        "readers_of_weights",
        " || !HasOneReader(weights)",
        "",
        "Weights are scaled that another convolution reads.",
        f"{_NOT_FOLDED}[another reader of the weights]",
    ),
    _fold_batch_norms(
        "dimensions",
        "if (shape.dims() < 4) return false;",
        "",
        "Weights of too few dimensions are folded.",
        f"{_NOT_FOLDED}[weights of too few dimensions]",
    ),
    _fold_batch_norms(
        "channels_of_statistics",
        "if (parameters[i].values.size() != channels) return false;",
        "",
        "Statistics are read that are not one per channel.",
        f"{_NOT_FOLDED}[statistics of other channels]",
    ),
    _fold_batch_norms(
        "channels_of_bias",
        " || bias.values.size() != channels",
        "",
        "A bias is read that is not one per channel.",
        f"{_NOT_FOLDED}[a bias of other channels]",
    ),
    _fold_batch_norms(
        "depthwise",
        "(depthwise ? shape.dim_size(shape.dims() - 2) : 1)",
        "1",
        "A depthwise convolution has as many channels as its multiplier.",
        f"{_FOLD_BATCH_NORMS}::test_a_depthwise_convolution_scales_channel_by_multiplier",
    ),
    _fold_batch_norms(
        "fit_offset",
        "fit &= Put(offset, c, largest, offsets);",
        "Put(offset, c, largest, offsets);",
        "An offset becomes infinite in the low type.",
        f"{_NOT_FOLDED}[an offset beyond the low type]",
    ),
    _fold_batch_norms(
        "fit_weights",
        "fit &= Put(weights.values[i + c] * scales[c], i + c, largest, scaled);",
        "Put(weights.values[i + c] * scales[c], i + c, largest, scaled);",
        "Weights become infinite in the low type.",
        f"{_NOT_FOLDED}[weights beyond the low type]",
    ),
    _fold_batch_norms(
        "fit_nan",
        "return std::abs(rounded) <= largest;",
        "return !(std::abs(rounded) > largest);",
        "Weights become no numbers.",
        f"{_NOT_FOLDED}[a variance that is no variance]",
    ),
    _fold_batch_norms(
        "epsilon",
        "std::sqrt(parameter(kVariance) + epsilon)",
        "std::sqrt(parameter(kVariance))",
        "Weights are scaled without epsilon.",
        f"{_FOLD_BATCH_NORMS}::test_a_batch_norm_becomes_the_bias_of_its_convolution",
    ),
    _fold_batch_norms(
        "bias_before",
        "(before - parameter(kMean)) * scales[c]",
        "(before - parameter(kMean) * scales[c])",
        "A bias before the batch norm is not scaled.",
        f"{_FOLD_BATCH_NORMS}::test_a_bias_before_the_batch_norm_is_folded_too",
    ),
    _batch_norm_v3(
        "fixed",
        "if (context_.IsFixed(node.name())) return Status();",
        "",
        "A fetched batch norm gets an output more.",
        f"{_BATCH_NORM_V3}::test_what_is_fetched_stays",
    ),
    _batch_norm_v3(
        "kept",
        "if (KeptByMark(node, context_, false) != Reason::kNone) return Status();",
        "",
        "A batch norm is written anew that keeps its dtype.",
        f"{_NOT_V3}[a forward op that keeps its dtype]",
    ),
    _batch_norm_v3(
        "lists",
        "before.color == after.color && ",
        "",
        "What the mixlist says of one version is lost.",
        f"{_BATCH_NORM_V3}::test_what_the_mixlist_says_of_either_version_holds",
    ),
    _batch_norm_v3(
        "kernel",
        "!is_kept && context_.support->CanRun(node, lowered)",
        "!is_kept",
        "A version is written that the device has no kernel for.",
        f"{_BATCH_NORM_V3}::test_channels_first_stay_on_a_cpu_in_float16",
    ),
    _batch_norm_v3(
        "forward",
        "return reads && becomes_v3_[forward] ? forward : kNone;",
        "return becomes_v3_[forward] ? forward : kNone;",
        "Any op that yields the mean counts as the forward op.",
        f"{_NOT_V3}[a gradient of other outputs]",
    ),
    _batch_norm_v3(
        "statistics",
        "inputs[kMean] == of_forward[kMean] &&",
        "true ||",
        "The gradient belongs to a batch norm of other statistics.",
        f"{_NOT_V3}[a gradient of other statistics]",
    ),
    _batch_norm_v3(
        "shapes",
        'node->mutable_attr()->erase("_output_shapes");',
        "",
        "The shapes of five outputs are said of six.",
        f"{_BATCH_NORM_V3}::test_shapes_that_were_known_of_five_outputs_are_forgotten",
    ),
)
