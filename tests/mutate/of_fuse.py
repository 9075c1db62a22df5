"""Mutations of the other passes of graph_passes/fuse."""

from __future__ import annotations

from mutate.mutation import mutations_of

_SAME_PADDING = "passes/test_same_padding.py"
_SINK_RESHAPES = "passes/test_sink_reshapes.py"
_PADS = "passes/test_pad_into_convolutions.py"
_GROUPED = "passes/test_grouped_convolutions.py"
_MEANS = "passes/test_means_as_pools.py"
_GRADIENTS = "passes/test_gradients_as_mat_muls.py"

_same_padding = mutations_of("graph_passes/fuse/same_padding.cc")
_sink_reshapes = mutations_of("graph_passes/fuse/sink_reshapes.cc")
_padding = mutations_of("graph_passes/fuse/convolution_padding.cc")
_pads = mutations_of("graph_passes/fuse/pad_into_convolutions.cc")
_grouped = mutations_of("graph_passes/fuse/grouped_convolutions.cc")
_means = mutations_of("graph_passes/fuse/means_as_pools.cc")
_gradients = mutations_of("graph_passes/fuse/gradients_as_mat_muls.cc")

MUTATIONS = (
    _gradients(
        "groups",
        "if (image.dims() != kRank || image.dim_size(kLast) != filter.dim_size(kChannels)) return "
        "false;",
        "if (image.dims() != kRank) return false;",
        "Groups are taken for one.",
        f"{_GRADIENTS}::test_other_gradients_stay",
    ),
    _gradients(
        "strides",
        "[](int64_t step) { return step == 1; }",
        "[](int64_t step) { return step > 0; }",
        "Pixels that a stride leaves out are taken for part of the gradient.",
        f"{_GRADIENTS}::test_a_gradient_of_all_pixels_is_an_error_where_strides_leave_some_out",
    ),
    _gradients(
        "fits",
        "height > 0 && width > 0 && IsGradientOf(image, ShapeBeforeCast(GradientOf(id))) &&",
        "height > 0 && width > 0 &&",
        "A gradient of another size is not an error if it has as many rows.",
        f"{_GRADIENTS}::test_a_gradient_of_another_size_is_an_error_still",
    ),
    _gradients(
        "usual",
        "image.dim_size(kBatch) < 0 ? kUsualBatch : image.dim_size(kBatch)",
        "image.dim_size(kBatch)",
        "Images of any size count as small where the batch is unknown.",
        f"{_GRADIENTS}::test_other_gradients_stay",
    ),
    _same_padding(
        "height",
        "kernel->dim(0).size() == 1 &&",
        "true &&",
        "A kernel of one column counts as one of 1x1.",
        f"{_SAME_PADDING}::test_padding_stays_where_it_matters_or_nothing_is_lowered",
    ),
    _same_padding(
        "written_out",
        'padding->second.s() == "VALID";',
        'padding->second.s() != "SAME";',
        "Padding that is written out is lost.",
        f"{_SAME_PADDING}::test_padding_that_is_written_out_stays",
    ),
    _padding(
        "value",
        " || value != 0.0",
        "",
        "Other values than zeros are taken for zeros.",
        f"{_PADS}::test_a_pad_that_says_which_value_it_adds_goes_if_that_is_zero",
    ),
    _padding(
        "batch",
        "|| ((*amounts)[i] > 0 && !is_of_image)",
        "|| ((*amounts)[i] < 0 && !is_of_image)",
        "Zeros around the batch are lost.",
        f"{_PADS}::test_the_pad_stays_where_the_convolutions_cannot_take_its_place",
    ),
    _padding(
        "filter",
        "consumer.index != 0 || ",
        "",
        "A filter that is padded is taken for an image.",
        f"{_PADS}::test_a_filter_that_is_padded_stays",
    ),
    _padding(
        "own",
        'Attr(node, "padding").s() != "VALID" || ',
        "",
        "The padding of the convolution itself is lost.",
        f"{_PADS}::test_the_pad_stays_where_the_convolutions_cannot_take_its_place",
    ),
    _padding(
        "alike",
        " || !site_.AreAlike(pad, id)",
        "",
        "A Pad of another scope or device goes.",
        f"{_PADS}::test_the_pad_stays_where_the_convolutions_cannot_take_its_place",
    ),
    _padding(
        "large",
        "if (std::max(before, after) >= kernel[k]) return OwnPadding::kNone;",
        "",
        "A convolution pads by more than its kernel.",
        f"{_PADS}::test_the_pad_stays_where_the_convolutions_cannot_take_its_place",
    ),
    _padding(
        "same",
        "before == same_before && ",
        "",
        "Zeros before an image are said to be SAME that are not.",
        f"{_PADS}::test_each_size_gets_the_zeros_of_the_pad",
    ),
    _padding(
        "channels_last",
        "HasFloats(node) && HasChannelsLast(node) &&",
        "HasFloats(node) &&",
        "Height and width are read of channels first.",
        f"{_PADS}::test_an_image_of_channels_first_stays",
    ),
    _pads(
        "depthwise",
        "if (instead == OwnPadding::kExplicit && is_depthwise) break;",
        "if (instead == OwnPadding::kNone && is_depthwise) break;",
        "A depthwise convolution pads explicitly, which ends the process.",
        f"{_PADS}::test_the_pad_stays_where_the_convolutions_cannot_take_its_place",
    ),
    _grouped(
        "onednn",
        "!context.support->HasOneDnn(node, context.mode.low_type)",
        "false",
        "A graph of an unknown machine gets grouped convolutions.",
        f"{_GROUPED}::test_a_graph_that_is_converted_stays",
    ),
    _grouped(
        "kept",
        "KeptByMark(node, context, false) != Reason::kNone ||",
        "",
        "A convolution that keeps float32 is grouped for nothing.",
        f"{_GROUPED}::test_a_depthwise_convolution_stays_where_nothing_more_is_fused",
    ),
    _grouped(
        "convolution",
        "if (!site_.HasOneReader(depthwise) || !site_.MayVanish(depthwise)) return false;",
        "",
        "A convolution is grouped that others read, so that nothing is fused.",
        f"{_GROUPED}::test_a_depthwise_convolution_stays_where_nothing_more_is_fused",
    ),
    _grouped(
        "gate",
        "site_.HasOneReader(gate) && ",
        "",
        "A Sigmoid has another reader, so that nothing is fused.",
        f"{_GROUPED}::test_a_depthwise_convolution_stays_where_nothing_more_is_fused",
    ),
    _grouped(
        "own",
        "state_->values.AddOwn(state_->Copied());",
        "",
        "A later copy of the graph lacks a large filter.",
        f"{_GROUPED}::test_large_filters_keep_their_values",
    ),
    _means(
        "onednn",
        "!context.support->HasOneDnn(node, context.mode.low_type) ||",
        "",
        "A pool that adds in bfloat16 takes the place of a Mean.",
        f"{_MEANS}::test_a_graph_that_is_converted_keeps_its_mean",
    ),
    _means(
        "pool",
        "!mean_may && pool_may && input_may",
        "!mean_may && input_may",
        "A pool is written that is on the black list.",
        f"{_MEANS}::test_pools_that_are_on_the_black_list_are_not_written",
    ),
    _means(
        "input",
        "pool_may && input_may;",
        "pool_may;",
        "The mean of an input, which keeps float32, becomes a pool.",
        f"{_MEANS}::test_a_mean_stays_where_a_pool_is_no_better_or_not_the_same",
    ),
    _means(
        "size",
        " || image.dim_size(kHeight) < 1",
        "",
        "A pool is as high as an image of unknown height.",
        f"{_MEANS}::test_an_image_of_unknown_size_keeps_its_mean",
    ),
    _means(
        "negative",
        "axis += axis < 0 ? kRank : 0;",
        "axis += 0;",
        "Axes that are counted from the end are not known.",
        f"{_MEANS}::test_a_mean_over_height_and_width_is_a_pool_of_the_image",
    ),
    _sink_reshapes(
        "other_readers",
        "!MayChangeShape(reshape) || !IsReadOnlyOnce(reshape)) {",
        "!MayChangeShape(reshape)) {",
        "A Reshape moves that others read too.",
        f"{_SINK_RESHAPES}::test_it_stays_where_it_cannot_be_seen_to_fit",
    ),
    _sink_reshapes(
        "control_input_of_others",
        "if (is_control_producer_[reshape]) return;",
        "",
        "A Reshape moves behind what has it as a control input.",
        f"{_SINK_RESHAPES}::test_it_stays_where_it_is_a_control_input",
    ),
    _sink_reshapes(
        "alike",
        "if (!AreAlike(mat_mul, reshape) || !AreAlike(mat_mul, bias_add)) return;",
        "",
        "A Reshape moves between nodes of other dtypes or devices.",
        f"{_SINK_RESHAPES}::test_it_stays_where_it_cannot_be_seen_to_fit",
    ),
    _sink_reshapes(
        "width",
        "weights->dim(width).size() == bias->dim(0).size() &&",
        "",
        "A bias is added to a product of another width.",
        f"{_SINK_RESHAPES}::test_it_stays_where_it_cannot_be_seen_to_fit",
    ),
    _sink_reshapes(
        "transposed",
        "IsTransposed(view_.node(mat_mul), 1) ? 0 : 1;",
        "1;",
        "Transposed weights are taken to be as wide as they are high.",
        f"{_SINK_RESHAPES}::test_transposed_weights_are_as_wide_as_their_first_dimension",
    ),
    _sink_reshapes(
        "channels_first",
        "HasChannelsLast(view_.node(bias_add));",
        "true;",
        "A bias of channels first is added to a matrix.",
        f"{_SINK_RESHAPES}::test_a_bias_of_channels_first_stays_behind_the_reshape",
    ),
    _sink_reshapes(
        "numbers",
        "return shape != nullptr && !shape->unknown_rank() && shape->dim_size() == 0;",
        "return shape != nullptr;",
        "A Reshape moves behind a product with a vector.",
        f"{_SINK_RESHAPES}::test_how_far_it_moves",
    ),
    _sink_reshapes(
        "dead_ends",
        "if (view_.fanout(id).size() == 0) return false;",
        "",
        "What nobody reads decides by the order of nodes.",
        f"{_SINK_RESHAPES}::test_what_nobody_reads_holds_it_up_whatever_the_order",
    ),
    _sink_reshapes(
        "ways_out",
        "if (OnlyLastLeadsOut(above)) settled = above.size();",
        "settled = above.size();",
        "A Reshape moves behind one of two ways out.",
        f"{_SINK_RESHAPES}::test_how_far_it_moves",
    ),
)
