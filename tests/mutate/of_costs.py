"""Mutations of what decides by the cost of kernels and Casts."""

from __future__ import annotations

from mutate.mutation import mutations_of

_ISLANDS = "passes/test_costly_islands.py"
_CHEAPEST = "passes/test_cheapest_dtypes.py"

_rule_table = mutations_of("graph_passes/decide/rule_table.cc")
_islands = mutations_of("graph_passes/decide/costly_islands.cc")
_cheapest = mutations_of("graph_passes/decide/cheapest_dtypes.cc")
_min_cut = mutations_of("graph_passes/graph/min_cut.cc")
_fused_later = mutations_of("graph_passes/analysis/fused_later.cc")
_flops = mutations_of("graph_passes/analysis/product_flops.cc")

MUTATIONS = (
    _islands(
        "joined",
        "if (IsLowered(view_.GroupOf(from))) islands.Join(group, view_.GroupOf(from));",
        "(void)from;",
        "Each op is an island.",
        f"{_ISLANDS}::test_products_are_judged_with_those_that_they_share_casts_with",
    ),
    _islands(
        "edited",
        "node.listing.edited == Edited::kNo && node.custom == nullptr",
        "true",
        "What the user whitens is kept.",
        f"{_ISLANDS}::test_what_the_user_whitens_is_lowered",
    ),
    _islands(
        "constants",
        "!IsLowered(view_.GroupOf(from)) && !IsConstant(from.node)",
        "!IsLowered(view_.GroupOf(from))",
        "Casts of constants count.",
        f"{_ISLANDS}::test_constants_cost_no_cast",
    ),
    _islands(
        "fetched",
        "if (context_.preserved.count(view_.node(tensor.node).name()) != 0) return true;",
        "",
        "The Cast of what is fetched does not count.",
        f"{_ISLANDS}::test_what_is_fetched_is_cast_as_well",
    ),
    _islands(
        "launch",
        "if (!HasUnknownBatch(tensor)) add(1, costs.per_launch, &cast);",
        "",
        "The launch of a Cast does not count.",
        f"{_ISLANDS}::test_on_a_gpu_the_launch_of_a_cast_counts",
    ),
    _islands(
        "sample",
        "if (!HasUnknownBatch(tensor)) add",
        "add",
        "A launch counts beside the costs of one sample.",
        f"{_ISLANDS}::test_on_a_gpu_a_batch_of_unknown_size_hides_the_launches",
    ),
    _islands(
        "devices",
        " || DeviceOf(group) != device",
        "",
        "An island on several devices has the costs of one of them.",
        f"{_ISLANDS}::test_an_island_on_several_devices_is_not_judged",
    ),
    _flops(
        "batch",
        "if (size < 0 && dim > 0) return kUnknownCost;",
        "if (size < 0) return kUnknownCost;",
        "A batch of unknown size leaves the cost unknown.",
        f"{_ISLANDS}::test_the_size_of_the_batch_does_not_matter",
    ),
    _flops(
        "unknown",
        "if (size < 0 && dim > 0) return kUnknownCost;",
        "",
        "Other unknown sizes count as one.",
        f"{_ISLANDS}::test_where_shapes_are_not_known_the_lists_decide",
    ),
    _flops(
        "transposed",
        "IsTransposed(node, index) == (index == 0) ? dims - 2 : dims - 1",
        "dims - 1",
        "The depth of a transposed operand is its last dimension.",
        f"{_ISLANDS}::test_a_transposed_operand_is_summed_over_its_other_dimension",
    ),
    _flops(
        "gradients",
        "is_gradient ? view.fanin(id)[2] : OutputPort{id, 0}",
        "OutputPort{id, 0}",
        "A gradient computes as much as its own result has elements.",
        f"{_ISLANDS}::test_the_gradients_of_a_convolution_compute_as_much",
    ),
    _cheapest(
        "casts",
        "(kMemory * elements + kElementsToStart)",
        "kElementsToStart",
        "A Cast of a large tensor takes no longer than one of a small tensor.",
        f"{_CHEAPEST}::test_a_kernel_that_costs_less_than_two_casts_is_lowered",
    ),
    _cheapest(
        "start",
        "constexpr double kElementsToStart = 65536;",
        "constexpr double kElementsToStart = 0;",
        "A Cast of a small tensor takes no time.",
        f"{_CHEAPEST}::test_small_tensors_are_lowered",
    ),
    _cheapest(
        "edited",
        "node.listing.edited == Edited::kNo &&",
        "",
        "A mixlist does not overrule what is faster.",
        f"{_CHEAPEST}::test_a_mixlist_entry_beats_it",
    ),
    _rule_table(
        "weighs",
        "return Mixes(state) && state.context.weighs_kernels;",
        "return Mixes(state);",
        "Where another device is emulated, this machine's kernels count.",
        f"{_CHEAPEST}::test_other_devices_and_dtypes_have_other_kernels",
    ),
    _min_cut(
        "side",
        "side[node] = level_[node] != kUnreached;",
        "side[node] = true;",
        "All nodes are on the side of the source.",
        f"{_CHEAPEST}::test_a_kernel_that_costs_less_than_two_casts_is_lowered",
    ),
    _fused_later(
        "bias",
        'Is(next.node, "BiasAdd") ||',
        "",
        "An activation behind a bias seems not to be fused.",
        f"{_CHEAPEST}::test_what_tensorflow_fuses_into_a_product_is_lowered",
    ),
)
