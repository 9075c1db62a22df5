"""Mutations of the passes that flatten products of many dimensions, and the ops after them."""

from __future__ import annotations

from mutate.mutation import mutations_of

_TESTS = "passes/test_flatten_mat_muls.py"
_SINK = "passes/test_sink_reshapes.py"
_EINSUMS = "passes/test_einsums_as_mat_muls.py"
_MASKS = "passes/test_squeeze_masks.py"

_flatten = mutations_of("graph_passes/fuse/flatten_mat_muls.cc")
_flat_product = mutations_of("graph_passes/fuse/flat_product.cc")
_flat_nodes = mutations_of("graph_passes/fuse/flat_nodes.cc")
_fusion_site = mutations_of("graph_passes/fuse/fusion_site.cc")
_einsums = mutations_of("graph_passes/fuse/einsums_as_mat_muls.cc")
_batched_product = mutations_of("graph_passes/fuse/batched_product.cc")
_masks = mutations_of("graph_passes/fuse/squeeze_masks.cc")
_sink_reshapes = mutations_of("graph_passes/fuse/sink_reshapes.cc")

MUTATIONS = (
    _flat_product(
        "transposed_x",
        "if (IsTransposed(node, 0)) return false;",
        "",
        "A transposed x is multiplied as it stands.",
        f"{_TESTS}::test_the_product_stays",
    ),
    _flat_product(
        "float32",
        "!IsOfFloat32(view, id)) return false;",
        "false) return false;",
        "A product of float64 becomes one of float32.",
        f"{_TESTS}::test_the_product_stays",
    ),
    _flat_product(
        "empty",
        "if (product->x_shape.dim_size(dim) == 0) return false;",
        "",
        "A Reshape cannot know what -1 stands for where there are no elements.",
        f"{_TESTS}::test_the_product_stays",
    ),
    _flat_product(
        "labels_differ",
        "|| !AllDiffer(all)) {",
        ") {",
        "A diagonal is read as a matrix.",
        f"{_TESTS}::test_an_einsum_that_is_no_such_product_stays",
    ),
    _flat_nodes(
        "frame",
        "if (has_loops_) node->add_input",
        "if (false) node->add_input",
        "A constant is outside of the loop that it is read in.",
        f"{_TESTS}::test_in_a_loop_new_constants_are_of_the_loop",
    ),
    _flat_nodes(
        "shared_rows",
        "if (site_.AreAlike(node.first, like_)) return &node.second;",
        "",
        "Each product has a Reshape, and so a Cast, of its own.",
        f"{_TESTS}::test_products_of_one_tensor_read_it_as_one_matrix",
    ),
    _flat_nodes(
        "rows_alike",
        "if (site_.AreAlike(node.first, like_)) return &node.second;",
        "return &node.second;",
        "A product reads the Reshape of one on another device.",
        f"{_TESTS}::test_products_of_one_tensor_read_it_as_one_matrix",
    ),
    _flat_nodes(
        "unknown_sizes",
        "if (unknown == 0 || (unknown == 1 && product.has_own_depth)) {",
        "if (true) {",
        "A Reshape has to find out two sizes.",
        f"{_TESTS}::test_more_sizes_that_are_not_known_are_read_when_the_graph_runs",
    ),
    _flat_nodes(
        "own_depth",
        "(unknown == 1 && product.has_own_depth)",
        "unknown == 1",
        "A batch becomes larger where rows have another length than the weights.",
        f"{_TESTS}::test_rows_of_another_length_fail_as_they_did",
    ),
    _flatten(
        "control_inputs",
        "return !HasControlInputs(view_, id) && site_.MayBecome(id, op) &&",
        "return site_.MayBecome(id, op) &&",
        "A product loses its control inputs.",
        f"{_TESTS}::test_the_product_stays",
    ),
    _flatten(
        "kept_by_mark",
        "KeptByMark(node, context_, false) == Reason::kNone &&",
        "",
        "A product changes that keep_dtype_scope() is about.",
        f"{_TESTS}::test_the_product_stays",
    ),
    _flatten(
        "claimed",
        "&& claimed_.count(id) == 0;",
        ";",
        "The sum of two products is the residual sum of both.",
        f"{_TESTS}::test_the_sum_of_two_products_is_the_residual_sum_of_one",
    ),
    _flatten(
        "identities",
        'if (!MayRewrite(use.node, "Identity") || !FindReader(use.node, &use)) return false;',
        "if (!FindReader(use.node, &use)) return false;",
        "A dropout that the caller marks goes away, or its control inputs.",
        f"{_TESTS}::test_a_sum_behind_an_identity_stays",
    ),
    _flatten(
        "one_reader",
        "!site_.MayVanish(id) || !site_.HasOneReader(id)) return false;",
        "!site_.MayVanish(id) || view_.fanout(id).empty()) return false;",
        "What others read gets other values.",
        f"{_TESTS}::test_the_bias_stays",
    ),
    _flatten(
        "vanish",
        "!site_.MayVanish(id) || !site_.HasOneReader(id)) return false;",
        "!site_.HasOneReader(id)) return false;",
        "What others depend on, or the caller fetches, is gone.",
        f"{_TESTS}::test_what_the_caller_fetches_keeps_its_shape",
    ),
    _flatten(
        "alike",
        "return site_.AreAlike(id, use->node);",
        "return true;",
        "A bias moves to another device.",
        f"{_TESTS}::test_the_bias_stays",
    ),
    _flatten(
        "channels_first",
        "(use.index != 0 || !HasChannelsLast(view_.node(add)))",
        "(use.index != 0)",
        "A bias of channels first is added to the last dimension.",
        f"{_TESTS}::test_a_bias_of_channels_first_stays",
    ),
    _flatten(
        "width",
        "|| bias.num_elements() != width) {",
        ") {",
        "A bias is added to a product of another width.",
        f"{_TESTS}::test_the_bias_stays",
    ),
    _flatten(
        "columns",
        "if (tensor.dim_size(before + dim) != bias.dim_size(dim)) return false;",
        "",
        "A bias that would be broadcast is added to each row.",
        f"{_TESTS}::test_the_bias_stays",
    ),
    _flatten(
        "residual_shape",
        "|| !shape.IsIdenticalTo(site_.Shape(residual))) return false;",
        ") return false;",
        "A residual that would be broadcast is added row by row.",
        f"{_TESTS}::test_the_residual_sum_stays",
    ),
    _flatten(
        "unknown_width",
        "return found->width > 0;",
        "return true;",
        "A bias of one number is added to a product as if it were a row.",
        f"{_TESTS}::test_a_bias_of_unknown_length_stays",
    ),
    _flatten(
        "row_dimensions",
        "(dims == 1 || (dims == 2 && bias.dim_size(0) == 1)) && ",
        "dims >= 1 && ",
        "A matrix that is added to a product is added as if it were a row.",
        f"{_TESTS}::test_a_sum_behind_the_reshape_stays",
    ),
    _flatten(
        "row_width",
        " && bias.dim_size(dims - 1) == width;",
        ";",
        "A bias of one number is added to a product as if it were a row.",
        f"{_TESTS}::test_a_sum_behind_the_reshape_stays",
    ),
    _flatten(
        "sum_of_three",
        "&& view_.num_fanin(use.node) == 2 &&",
        "&&",
        "Of three tensors that are added up, one is lost.",
        f"{_TESTS}::test_a_bias_behind_such_a_sum_stays",
    ),
    _fusion_site(
        "other_op_named",
        "!IsNamedAs(node, {op}, &after) && before == after;",
        "true;",
        "A node becomes an op that the mixlist is about.",
        f"{_TESTS}::test_a_product_that_the_mixlist_is_about_stays",
    ),
    _sink_reshapes(
        "behind_the_bias",
        "if (above.size() > 1) Sink(bias_add, reshape, above);",
        "Sink(bias_add, reshape, above);",
        "A Reshape that has no activation behind it reads itself.",
        f"{_SINK}::test_a_reshape_behind_the_bias_stays",
    ),
    _sink_reshapes(
        "behind_what",
        "if (!bias_adds_.Has(bias_add) || !IsReadOnlyOnce(bias_add) || "
        "!AreAlike(bias_add, reshape)) {",
        "if (!bias_adds_.Has(bias_add) || !AreAlike(bias_add, reshape)) {",
        "A Reshape moves away from a bias that others read too.",
        f"{_SINK}::test_a_reshape_behind_the_bias_stays",
    ),
    _einsums(
        "sizes_agree",
        "if (size >= 0 && other_size >= 0 && size != other_size) return false;",
        "",
        "A dimension of size 1 is repeated, where the Einsum is an error.",
        f"{_EINSUMS}::test_sizes_that_differ_stay_an_error",
    ),
    _einsums(
        "control_inputs",
        "return !HasControlInputs(view_, id) && view_.num_fanin(id) == 2 &&",
        "return view_.num_fanin(id) == 2 &&",
        "A control dependency is lost.",
        f"{_EINSUMS}::test_the_scores_stay",
    ),
    _einsums(
        "kept",
        "KeptByMark(view_.node(id), state_.context, false) == Reason::kNone;",
        "true;",
        "An Einsum that a scope keeps is written anew.",
        f"{_EINSUMS}::test_the_scores_stay",
    ),
    _einsums(
        "mixlist",
        "return site_.MayAdd(node);",
        "return true;",
        "A Transpose is added that a line of the mixlist is about.",
        f"{_EINSUMS}::test_what_a_mixlist_names_stays_as_it_is_written",
    ),
    _einsums(
        "frame",
        "nodes->Begin(found.einsum, view_.fanin(found.einsum)[0].node);",
        "nodes->Begin(found.einsum, 0);",
        "A constant is outside of the loop that it is read in.",
        f"{_EINSUMS}::test_in_a_loop_new_constants_are_of_the_loop",
    ),
    _batched_product(
        "fewest",
        "if (fewest >= 0 && NumTransposes(found) >= fewest) continue;",
        "",
        "The last order is taken, whatever it transposes.",
        f"{_EINSUMS}::test_as_few_operands_as_possible_are_transposed",
    ),
    _batched_product(
        "adjoint",
        "operand.adjoint = labels.back() == rows[0];",
        "",
        "What a product may read as it stands is transposed.",
        f"{_EINSUMS}::test_as_few_operands_as_possible_are_transposed",
    ),
    _batched_product(
        "diagonal",
        "|| !AllDiffer(labels)) return false;",
        ") return false;",
        "A diagonal is read as a matrix.",
        f"{_EINSUMS}::test_an_einsum_that_is_no_such_product_stays",
    ),
    _batched_product(
        "own_sum",
        "return false;  // a sum of its own",
        "{}",
        "A label that one operand alone has is dropped.",
        f"{_EINSUMS}::test_an_einsum_that_is_no_such_product_stays",
    ),
    _masks(
        "rank",
        "of_product.dims() == kRank && ",
        "",
        "A sum has the dimensions of its mask, which are no longer there.",
        f"{_MASKS}::test_other_masks_stay",
    ),
    _masks(
        "batch",
        " && of_product.dim_size(kBatch) != 1",
        "",
        "A fast kernel is not used where the batch is one.",
        f"{_MASKS}::test_other_masks_stay",
    ),
    _masks(
        "heads",
        " || of_mask.dim_size(kHeads) != 1 ||",
        " ||",
        "A mask of each head is squeezed.",
        f"{_MASKS}::test_other_masks_stay",
    ),
    _masks(
        "rows",
        "of_mask.dim_size(kRows) == 1",
        "false",
        "A fast kernel is not used where the mask is one row.",
        f"{_MASKS}::test_other_masks_stay",
    ),
    _masks(
        "scale",
        "if (op == kProduct) return true;",
        "",
        "A product that is scaled before keeps its mask.",
        f"{_MASKS}::test_in_whatever_form_the_scores_are_written",
    ),
    _masks(
        "user",
        "!IsScaledProduct(product.node) || !MaySqueeze(mask)",
        "!IsScaledProduct(product.node)",
        "A Squeeze is written although the mixlist is about Squeezes.",
        f"{_MASKS}::test_what_the_mixlist_names_stays",
    ),
    _masks(
        "fed",
        " || !site_.MayChange(sum)) continue;",
        ") continue;",
        "A sum that is fed, or that the mixlist names, reads something else.",
        f"{_MASKS}::test_scores_that_are_fed_stay",
        f"{_MASKS}::test_what_the_mixlist_names_stays",
    ),
)
