"""Mutations of graph_passes/rewrite, of the pipeline and of the ledger."""

from __future__ import annotations

from mutate.mutation import mutations_of

_SATURATE = "passes/test_saturate_overflows.py"
_EMULATE = "passes/test_emulate.py"
_COMPUTE_IN_FLOAT32 = "passes/test_compute_in_float32.py"
_RESTORE_FLOAT16 = "passes/test_restore_float16.py"
_FOLD_CONSTANTS = "passes/test_fold_constants.py"
_SAME_PADDING = "passes/test_same_padding.py"
_ACTIVATIONS = "passes/test_activations.py"
_SINK_RESHAPES = "passes/test_sink_reshapes.py"
_PADS = "passes/test_pad_into_convolutions.py"
_GROUPED = "passes/test_grouped_convolutions.py"
_MEANS = "passes/test_means_as_pools.py"
_LAYER_NORM = "passes/test_layer_norm.py"
_LAYER_NORM_KERNEL = "sessions/test_layer_norm_kernel.py"
_NOT_A_LAYER_NORM = (
    f"{_LAYER_NORM}::test_it_stays_where_it_is_something_else_or_another_node_needs_a_part_of_it"
)
_VERIFY_GRAPH = "passes/test_verify_graph.py"
_COLLECTIVES = "passes/test_lower_collectives.py"
_PIPELINE = "project/test_pipeline.py"

_constants = mutations_of("graph_passes/rewrite/constants.cc")
_fold_constants = mutations_of("graph_passes/rewrite/fold_constants.cc")
_same_padding = mutations_of("graph_passes/rewrite/same_padding.cc")
_activations = mutations_of("graph_passes/rewrite/activations.cc")
_activation_forms = mutations_of("graph_passes/rewrite/activation_forms.cc")
_sink_reshapes = mutations_of("graph_passes/rewrite/sink_reshapes.cc")
_padding = mutations_of("graph_passes/rewrite/convolution_padding.cc")
_pads = mutations_of("graph_passes/rewrite/pad_into_convolutions.cc")
_grouped = mutations_of("graph_passes/rewrite/grouped_convolutions.cc")
_means = mutations_of("graph_passes/rewrite/means_as_pools.cc")
_layer_norm = mutations_of("graph_passes/rewrite/layer_norm.cc")
_layer_norm_form = mutations_of("graph_passes/rewrite/layer_norm_form.cc")
_lower_io_types = mutations_of("graph_passes/rewrite/lower_io_types.cc")
_saturate = mutations_of("graph_passes/rewrite/saturate_overflows.cc")
_raise_groups = mutations_of("graph_passes/rewrite/raise_groups.cc")
_compute_in_float32 = mutations_of("graph_passes/rewrite/compute_in_float32.cc")
_restore_float16 = mutations_of("graph_passes/rewrite/restore_float16.cc")
_verify_graph = mutations_of("graph_passes/rewrite/verify_graph.cc")
_pipeline = mutations_of("graph_passes/pipeline.cc")
_pass_table = mutations_of("graph_passes/pass_table.cc")
_pass_state = mutations_of("graph_passes/rewrite/pass_state.cc")
_ledger = mutations_of("graph_passes/ledger.cc")
_lower_collectives = mutations_of("graph_passes/rewrite/lower_collectives.cc")
_plan_collectives = mutations_of("graph_passes/decide/plan_collectives.cc")

MUTATIONS = (
    _constants(
        "fetched",
        'if (IsFixed(id) || view_.node(id).op() != "Const") return {};',
        'if (view_.node(id).op() != "Const") return {};',
        "A constant is replaced that the caller fetches or feeds.",
        "passes/test_fold_batch_norms.py::"
        "test_a_batch_norm_stays_where_folding_would_not_do[weights that are fetched]",
    ),
    _constants(
        "control_inputs",
        '!HasControlInputs(view_, id) && view_.node(id).op() == "Identity") {',
        'view_.node(id).op() == "Identity") {',
        "A constant is read before what its Identity has as a control input.",
        f"{_FOLD_CONSTANTS}::test_an_identity_with_a_control_input_is_not_looked_through",
    ),
    _constants(
        "colocated",
        "if (--readers_[id] > 0 || HasColocated(id)) break;",
        "if (--readers_[id] > 0) break;",
        "A constant goes that another node is colocated with.",
        f"{_FOLD_CONSTANTS}::test_a_constant_that_another_node_is_placed_with_stays",
    ),
    _constants(
        "readers",
        "if (--readers_[id] > 0 || HasColocated(id)) break;",
        "if (--readers_[id] < 0 || HasColocated(id)) break;",
        "A constant goes that others read.",
        f"{_FOLD_CONSTANTS}::test_a_weight_that_is_read_in_float32_as_well_keeps_both",
    ),
    _constants(
        "control_input_of_others",
        "if (has_control_inputs && is_control_producer_[id]) break;",
        "",
        "A constant with control inputs goes that is a control input itself.",
        f"{_FOLD_CONSTANTS}::test_a_constant_that_has_and_is_a_control_input_stays",
    ),
    _fold_constants(
        "rounds",
        "if (!constants.DropsControlInputs()) return Status();",
        "return Status();",
        "An Identity whose last control input is gone is not looked through.",
        f"{_FOLD_CONSTANTS}::test_an_identity_whose_control_input_is_gone_is_looked_through",
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
        "HasFloats(node) && ChannelsLast(node) &&",
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
        'Has(view_.node(mat_mul), "transpose_b") ? 0 : 1;',
        "1;",
        "Transposed weights are taken to be as wide as they are high.",
        f"{_SINK_RESHAPES}::test_transposed_weights_are_as_wide_as_their_first_dimension",
    ),
    _sink_reshapes(
        "channels_first",
        "!ChannelsFirst(view_.node(bias_add));",
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
    _layer_norm(
        "readers",
        "return use.node == form.last || form.inner.count(use.node) != 0;",
        "return true;",
        "Values go that other nodes read.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm(
        "vanish",
        "return fusion_.MayVanish(id) && fusion_.AreAlike(id, form.last);",
        "return fusion_.AreAlike(id, form.last);",
        "Values go that the caller fetches.",
        f"{_LAYER_NORM}::test_it_stays_where_the_caller_fetches_or_feeds_a_part_of_it",
    ),
    _layer_norm(
        "alike",
        "return fusion_.MayVanish(id) && fusion_.AreAlike(id, form.last);",
        "return fusion_.MayVanish(id);",
        "A mark on a part of a LayerNorm is lost.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm(
        "last_may_change",
        "return fusion_.MayChange(form.last) && !HasControlInputs(view_, form.last) &&",
        "return !HasControlInputs(view_, form.last) &&",
        "A node that the mixlist names, or that the caller feeds, becomes another.",
        f"{_LAYER_NORM}::test_what_the_caller_feeds_in_its_place_is_not_replaced",
    ),
    _layer_norm(
        "control_inputs_of_last",
        "return fusion_.MayChange(form.last) && !HasControlInputs(view_, form.last) &&",
        "return fusion_.MayChange(form.last) &&",
        "Control inputs of the last node are lost.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm(
        "last_axis",
        "return axis == -1 || axis == dims - 1;",
        "return true;",
        "A mean over another axis counts as one over the last.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm(
        "width",
        "shape.dim_size(dims - 1) == width &&",
        "true &&",
        "A parameter of one number, or for each row, is taken for one of each column.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm(
        "elements",
        "shape.num_elements() == width;",
        "true;",
        "A residual sum is taken for beta.",
        f"{_LAYER_NORM}::test_a_residual_sum_behind_it_is_no_parameter",
    ),
    _layer_norm(
        "float32",
        "if (!IsFloat32({root, 0})) return;",
        "",
        "A LayerNorm of a low type becomes one of float32.",
        f"{_LAYER_NORM}::test_a_graph_without_float32_stays",
    ),
    _layer_norm(
        "kernel",
        "if (!state_.context.support->CanRun(view_.node(last), *node)) return false;",
        "",
        "A LayerNorm is written in float16, for which there is no kernel.",
        f"{_LAYER_NORM}::test_in_float16_only_the_axis_changes_which_tensorflow_would_fuse_wrongly",
    ),
    _layer_norm(
        "axes_from_behind",
        "axes[0] >= 0) {",
        "false) {",
        "TensorFlow fuses a LayerNorm that stays with another epsilon.",
        f"{_LAYER_NORM}::test_in_float16_only_the_axis_changes_which_tensorflow_would_fuse_wrongly",
    ),
    _layer_norm(
        "reads_reshape",
        "shape_.dims() <= kMostDimsThatFuse && !ReadsReshape();",
        "shape_.dims() <= kMostDimsThatFuse;",
        "A Reshape behind a Reshape keeps TensorFlow from fusing.",
        f"{_LAYER_NORM_KERNEL}::test_behind_a_dense_layer_of_keras_which_ends_with_a_reshape",
    ),
    _layer_norm(
        "dimensions",
        "shape_.dims() <= kMostDimsThatFuse && !ReadsReshape();",
        "!ReadsReshape();",
        "A LayerNorm of four dimensions is not fused.",
        f"{_LAYER_NORM}::test_tensors_of_four_dimensions_become_rows_and_get_their_shape_back",
    ),
    _layer_norm(
        "unread",
        "is_constant && input.node != form.gamma.node",
        "false && input.node != form.gamma.node",
        "Constants stay that nothing reads.",
        f"{_LAYER_NORM}::test_tensors_of_three_dimensions_of_an_unknown_batch",
    ),
    _layer_norm_form(
        "keeps_dimensions",
        "keeps == view_.node(id).attr().end() || !keeps->second.b() ||",
        "keeps == view_.node(id).attr().end() ||",
        "A mean without its axis counts as one with it.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm_form(
        "one_axis",
        "|| axes.size() != 1) {",
        ") {",
        "A mean over several axes counts as one over the last.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm_form(
        "epsilon",
        "if (variance.epsilons != 1 || !(of_root_.epsilon > 0)) return false;",
        "if (variance.epsilons != 1) return false;",
        "An epsilon that is not positive is taken.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm_form(
        "number_dimensions",
        "constant->tensor_shape().dim_size() <= 2 &&",
        "",
        "A number of three dimensions is taken, and the result has one fewer.",
        f"{_LAYER_NORM}::test_it_stays_where_a_number_brings_a_dimension_of_its_own",
    ),
    _layer_norm_form(
        "one_epsilon",
        "return ++variance->epsilons == 1;",
        "return ++variance->epsilons >= 1;",
        "A sum of sums of numbers is searched for hours.",
        f"{_LAYER_NORM}::test_sums_of_one_number_end_the_search",
    ),
    _layer_norm_form(
        "loops",
        "if (HasControlInputs(view_, tensor.node)) return false;",
        "",
        "A LayerNorm of a loop gets constants that are outside of it.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm_form(
        "root",
        'return op(root_) == "Rsqrt";',
        "return true;",
        "A product with the root counts as a division.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm_form(
        "same_gamma",
        "mean->sign != -1 || !Same(x->parameter, mean->parameter)) {",
        "mean->sign != -1) {",
        "gamma for x alone counts as one for both.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm_form(
        "mean_has_root",
        "|| !x->has_root || !mean->has_root ||",
        "|| !x->has_root ||",
        "A mean that is not divided counts as one that is.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm_form(
        "sign_of_mean",
        "mean->sign != -1 || !Same",
        "!Same",
        "A mean that is added counts as one that is subtracted.",
        _NOT_A_LAYER_NORM,
    ),
    _layer_norm_form(
        "sign_of_sub",
        'if (op(id) == "Sub") sign = -1;',
        "",
        "A difference counts as a sum.",
        f"{_LAYER_NORM}::test_each_form",
    ),
    _activations(
        "readers",
        "if (id != site.root && (!site_.MayVanish(id) || !IsReadInside(id, reader))) return false;",
        "if (id != site.root && !site_.MayVanish(id)) return false;",
        "A node goes that another reads.",
        f"{_ACTIVATIONS}::test_it_stays_where_tensorflow_would_not_fuse_it",
    ),
    _activations(
        "bias_readers",
        "if (!IsPlain(layer.biased) || !IsReadInside(layer.biased, reader)) return false;",
        "if (!IsPlain(layer.biased)) return false;",
        "An activation is written where another node reads the sum with the bias.",
        f"{_ACTIVATIONS}::test_it_stays_where_tensorflow_would_not_fuse_it",
    ),
    _activations(
        "bias_private",
        "if (!IsPlain(layer.biased) || !IsReadInside",
        "if (!IsReadInside",
        "An activation is written where the sum with the bias is fetched.",
        f"{_ACTIVATIONS}::test_it_stays_where_the_caller_fetches_a_part",
    ),
    _activations(
        "product_readers",
        "if (!IsPlain(id) || !site_.HasOneReader(id) || !IsLike(id, site.root)) return false;",
        "if (!IsPlain(id) || !IsLike(id, site.root)) return false;",
        "An activation is written where another node reads the product.",
        f"{_ACTIVATIONS}::test_it_stays_where_tensorflow_would_not_fuse_it",
    ),
    _activations(
        "alike",
        "if (is_claimed_[id] || !IsLike(id, site.root)) return false;",
        "if (is_claimed_[id]) return false;",
        "Nodes of several devices become nodes of one.",
        f"{_ACTIVATIONS}::test_it_stays_where_tensorflow_would_not_fuse_it",
    ),
    _activations(
        "control_of_root",
        "if (!site_.MayChange(site.root) || HasControlInputs(view_, site.root)) return false;",
        "if (!site_.MayChange(site.root)) return false;",
        "An activation is written that TensorFlow does not fuse for its control dependency.",
        f"{_ACTIVATIONS}::test_it_stays_where_tensorflow_would_not_fuse_it",
    ),
    _activations(
        "transposed",
        'if ((product.op() == "MatMul") != is_gelu || Flag(product, "transpose_a")) return false;',
        'if ((product.op() == "MatMul") != is_gelu) return false;',
        "An activation is written behind a product that TensorFlow does not fuse it into.",
        f"{_ACTIVATIONS}::test_it_stays_where_tensorflow_would_not_fuse_it",
    ),
    _activations(
        "kind",
        'if ((product.op() == "MatMul") != is_gelu || Flag',
        "if (Flag",
        "A Swish is written behind a MatMul.",
        f"{_ACTIVATIONS}::test_other_functions_stay",
    ),
    _activations(
        "width",
        "if (weights->dim(width).size() != vector->dim(0).size()) return false;",
        "",
        "An Erfc becomes an Erf behind a Reshape that does not move.",
        f"{_ACTIVATIONS}::test_a_reshape_that_will_not_move_keeps_it_as_it_is",
    ),
    _activations(
        "bias_rank",
        "return vector.dims() == 1 && vector.dim_size(0) > 0 &&",
        "return vector.dims() >= 1 &&",
        "A matrix is added as a bias.",
        f"{_ACTIVATIONS}::test_what_is_added_but_not_as_a_bias_stays",
    ),
    _activations(
        "names",
        "if (!site_.MayAdd(node)) return false;",
        "",
        "An op is written that a line of the mixlist is about.",
        f"{_ACTIVATIONS}::test_what_a_mixlist_names_stays",
    ),
    _activations(
        "waits",
        "for (const std::string& control : controls) node.add_input(control);",
        "",
        "A constant of a loop is outside of it.",
        f"{_ACTIVATIONS}::test_constants_keep_what_they_wait_for",
    ),
    _activations(
        "regrouped",
        'if (form.op == "Mul") (*node.mutable_attr())[kRegrouped].set_b(true);',
        "",
        "TensorFlow exchanges the factors of an approximate GELU, and does not fuse it.",
        f"{_ACTIVATIONS}::test_tensorflow_fuses_it_and_yields_what_numpy_does",
    ),
    _activations(
        "mark",
        "if (NeedsMark(form.op)) MarkFused(&node);",
        "",
        "A Softplus that TensorFlow would fuse keeps float32.",
        f"{_ACTIVATIONS}::test_each_way_to_write_it_becomes_the_form_that_is_fused",
    ),
    _activations(
        "identity_n",
        "view_.fanout(OutputPort{use.node, use.index}).empty();",
        "true;",
        "What a custom gradient passes on is read, and goes.",
        f"{_ACTIVATIONS}::test_a_custom_gradient_that_nothing_reads_does_not_hold_it_up",
    ),
    _activation_forms(
        "tolerance",
        "std::ldexp(1.0, -7) : std::ldexp(1.0, -12);",
        "std::ldexp(1.0, -5) : std::ldexp(1.0, -5);",
        "Another function becomes an activation.",
        f"{_ACTIVATIONS}::test_it_stays_where_tensorflow_would_not_fuse_it",
    ),
    _activation_forms(
        "bfloat16",
        "std::ldexp(1.0, -7) : std::ldexp(1.0, -12);",
        "std::ldexp(1.0, -12) : std::ldexp(1.0, -12);",
        "A GELU in bfloat16 is not recognized by its rounded constants.",
        f"{_ACTIVATIONS}::test_a_graph_in_bfloat16_is_read_by_its_own_rounding",
    ),
    _activation_forms(
        "rank",
        "if (constant == nullptr || constant->tensor_shape().dim_size() > 2) return false;",
        "if (constant == nullptr) return false;",
        "A result loses a dimension that a constant gave it.",
        f"{_ACTIVATIONS}::test_it_stays_where_tensorflow_would_not_fuse_it",
    ),
    _activation_forms(
        "erfc",
        "return Call(id, Kind::kErf, a, &erf) && Add(one, -1, erf, value);",
        "return Call(id, Kind::kErf, a, &erf) && Add(one, 1, erf, value);",
        "Erfc is taken for 1 + Erf.",
        f"{_ACTIVATIONS}::test_each_way_to_write_it_becomes_the_form_that_is_fused",
    ),
    _activation_forms(
        "clip",
        "if (low != 0 || high <= 0 || !Evaluate(tensor, &inside)) return false;",
        "if (high <= 0 || !Evaluate(tensor, &inside)) return false;",
        "A clip from another number than 0 becomes a Relu6.",
        f"{_ACTIVATIONS}::test_other_functions_stay",
    ),
    _activation_forms(
        "sign",
        "value.q.at[i] = -value.q.at[i];",
        "",
        "A GELU by Erfc is not recognized.",
        f"{_ACTIVATIONS}::test_each_way_to_write_it_becomes_the_form_that_is_fused",
    ),
    _lower_io_types(
        "casts_alone",
        "if (!view.IsTransparentCast(reader.node)) return tensorflow::DT_INVALID;",
        "",
        "An input gets the low type though its Cast has a control input.",
        "passes/test_lower_io_types.py::test_an_input_whose_cast_has_a_control_input_keeps_float32",
    ),
    _lower_io_types(
        "names",
        "names[name] = node.name();",
        "",
        "A low output and its Cast get the same name.",
        "passes/test_lower_io_types.py::"
        "test_an_input_and_an_output_that_are_only_cast_get_the_low_type",
    ),
    _raise_groups(
        "rounds_results",
        "if (wants_float32 && reads_unrounded(from.node)) return;",
        "if (wants_float32) return;",
        "What an emulated op yields is not rounded.",
        f"{_EMULATE}::test_each_lowered_op_reads_and_yields_rounded_values",
    ),
    _raise_groups(
        "shared_casts",
        "if (!name.empty()) return name;",
        "",
        "Each reader of an emulated op has Casts of its own.",
        f"{_EMULATE}::test_each_lowered_op_reads_and_yields_rounded_values",
    ),
    _compute_in_float32(
        "casts_of_exact",
        "!IsInFloat32(view_.GroupOf(from)) || !dtypes_.is_exact[from.node]",
        "!IsInFloat32(view_.GroupOf(from))",
        "What was not rounded is read by what keeps float32.",
        f"{_COMPUTE_IN_FLOAT32}::test_an_activation_of_unrounded_values_is_rounded",
    ),
    _compute_in_float32(
        "other_readers",
        "if (view_.fanout(id).size() != 1) return;",
        "",
        "A constant is rounded that something else reads.",
        f"{_COMPUTE_IN_FLOAT32}::test_a_constant_that_others_read_in_float32_stays",
    ),
    _compute_in_float32(
        "rounds_constants",
        "if (RoundThroughFloat16(values, *value, &rounded)) {",
        "if (false) {",
        "A constant is read as if it were rounded.",
        f"{_COMPUTE_IN_FLOAT32}::test_a_constant_that_nothing_else_reads_holds_rounded_values",
    ),
    _restore_float16(
        "fetched",
        "if (context_.IsFixed(node.name())) is_rounding_[id] = false;",
        "",
        "A Cast goes that is fetched.",
        f"{_RESTORE_FLOAT16}::test_a_rounding_cast_that_is_fetched_stays",
    ),
    _restore_float16(
        "disagreeing",
        "if (!widens && !narrows) continue;",
        "continue;",
        "Edges disagree where another optimizer changed the graph.",
        f"{_RESTORE_FLOAT16}::test_casts_connect_what_another_optimizer_changed",
    ),
    _pipeline(
        "same_nodes",
        "if (driver.restored_float16() && HaveSameNodes(given, *out)) *changed = false;",
        "",
        "A second run in float32 gives the nodes in another order.",
        "passes/test_abilities.py::"
        "test_what_computes_in_float32_is_given_back_as_it_was_whatever_its_order",
    ),
    _verify_graph(
        "edges",
        "produced == tensorflow::DT_INVALID || BaseType(produced) == BaseType(consumed)",
        "true",
        "An edge whose ends have two dtypes goes unnoticed.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _verify_graph(
        "next_iterations",
        "if (next_iterations.Has(view.fanin(id)[k].node) && !merges.Has(id) &&",
        "if (false &&",
        "A node between a NextIteration and its Merge goes unnoticed.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _verify_graph(
        "odd_before",
        "!StoodBetween(before, view.node(id).name(), k)) {",
        "true) {",
        "A graph is refused for what was odd in it before.",
        f"{_VERIFY_GRAPH}::test_a_next_iteration_that_no_merge_reads_is_tensorflows",
    ),
    _verify_graph(
        "gone",
        'if (id < 0) return Internal("preserved node ", Quoted(name), " is gone");',
        "if (id < 0) return Status();",
        "A fetched node that is gone goes unnoticed.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _verify_graph(
        "fetched_dtypes",
        "same = before.outputs(old_id)[p].dtype == after.outputs(id)[p].dtype;",
        "same = true;",
        "A fetched node with another dtype goes unnoticed.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _verify_graph(
        "handles",
        "if (disagreeing.empty()) return Status();",
        "return Status();",
        "Ops on one list that disagree about its elements go unnoticed.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _verify_graph(
        "handles_before",
        "if (std::any_of(handle.groups.begin(), handle.groups.end(), excused)) continue;",
        "",
        "A graph is refused for a list that was wrong before.",
        f"{_VERIFY_GRAPH}::test_ops_on_one_handle_that_disagreed_before_are_tensorflows_to_report",
    ),
    _pipeline(
        "honesty",
        "if ((Fingerprint() != before) != (changed && options_.check_changed)) {",
        "if (false) {",
        "A pass that misreports whether it changed the graph goes unnoticed.",
        f"{_PIPELINE}::test_offline_runs_are_strict_and_notice_a_pass_that_misreports_whether_it_changed_the_graph",
    ),
    _pipeline(
        "verification",
        "VerifyGraph(state_.given(), state_.preserved, state_.graph(), state_.mutable_view()));",
        "GraphView::Build(state_.graph(), state_.mutable_view()));",
        "A rewritten graph is not verified.",
        f"{_VERIFY_GRAPH}::test_what_a_pass_breaks_is_noticed",
    ),
    _pipeline(
        "fused_before",
        "if (state.decided.found_fused_ops) ledger->warnings.push_back(kFusedBefore);",
        "",
        "Nobody is told that the remapper ran before.",
        "passes/test_fused_ops.py::"
        "test_a_pattern_sees_only_the_last_name_of_a_fused_node_which_is_told",
    ),
    _pipeline(
        "dumps",
        "return Show(number_, pass.name);",
        "return Status();",
        "The graph is not dumped after a pass.",
        f"{_PIPELINE}::test_dumps_have_the_graph_after_each_pass_that_changed_it",
    ),
    _pass_table(
        "emulated_speed",
        "return LowersForSpeed(state) && !state.emulates;",
        "return LowersForSpeed(state);",
        "What makes low types faster runs where they are emulated.",
        f"{_SAME_PADDING}::test_padding_stays_where_the_low_type_is_emulated",
    ),
    _pass_state(
        "fed_casts",
        "UnmarkInserted(context.fed, &current_->own);",
        "",
        "A Cast of an earlier run is read past though the caller feeds it.",
        "passes/test_earlier_runs.py::test_a_fed_cast_of_an_earlier_run_is_not_read_past",
    ),
    _ledger(
        "bytes",
        "if (cast.bytes == kUnknownBytes) return kUnknownBytes;",
        "if (cast.bytes == kUnknownBytes) continue;",
        "Bytes that are unknown count for none.",
        "passes/test_ledger.py::test_bytes_are_unknown_where_a_shape_is",
    ),
    _saturate(
        "own_casts",
        "(is_new || view.IsInserted(id)) && RoundsToHalf(node)",
        "RoundsToHalf(node)",
        "A Cast of the user's saturates.",
        f"{_SATURATE}::test_only_casts_of_the_optimizer_saturate",
    ),
    _saturate(
        "constants",
        'is_new || view.node(view.fanin(id)[0].node).op() != "Const"',
        "true",
        "A constant that does not fit has every step skipped.",
        f"{_SATURATE}::test_a_constant_that_does_not_fit_raises_no_flag",
    ),
    _saturate(
        "order",
        'asks->add_input(absl::StrCat("^", gradients));',
        "",
        "Loss scaling asks for an overflow before there are gradients.",
        f"{_SATURATE}::test_a_check_of_gradients_asks_the_flag_too",
    ),
    _plan_collectives(
        "gradient",
        "if (!IsGradient(view_, part.low)) return CollectiveReason::kNotAGradient;",
        "",
        "A metric is added up in the low type.",
        f"{_COLLECTIVES}::test_what_stays_float32_has_a_reason",
    ),
    _plan_collectives(
        "few",
        "part.elements < kFewElements",
        "false",
        "A bias is added up in the low type.",
        f"{_COLLECTIVES}::test_of_a_mixed_pack_two_sums_are_made",
    ),
    _plan_collectives(
        "same_parts",
        "return same ? split : -1;",
        "return split;",
        "A pack that is split elsewhere is divided, and its parts are mixed up.",
        f"{_COLLECTIVES}::test_a_pack_that_is_not_split_into_its_parts_stays",
    ),
    _plan_collectives(
        "fetched",
        "if (IsFetchedOrFed(plan.id)) return CollectiveReason::kFixed;",
        "",
        "What is fetched of a pack lacks the lowered parts.",
        f"{_COLLECTIVES}::test_a_sum_that_is_fetched_stays",
    ),
    _plan_collectives(
        "replicas",
        "if (!ReplicasDiffer(view, plans)) return plans;",
        "return plans;",
        "A replica waits for a bfloat16 sum that another one adds up in float32.",
        "passes/test_lower_collectives_v3.py::test_one_replica_lowers_nothing_that_another_keeps",
    ),
    _lower_collectives(
        "own_key",
        "GiveOwnKey(&low_reduce);",
        "",
        "Two all-reduces have one key.",
        f"{_COLLECTIVES}::test_of_a_mixed_pack_two_sums_are_made",
    ),
    _lower_collectives(
        "divide",
        "reduce->set_input(0, name);",
        "",
        "With average_before, sums are multiplied and not divided.",
        f"{_COLLECTIVES}::test_what_overflows_in_a_sum_of_float16_does_not_with_average_before",
    ),
)
