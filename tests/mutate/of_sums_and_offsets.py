"""Mutations of what finds unrolled loops, steps of a value, counts, offsets and slow kernels."""

from __future__ import annotations

from mutate.mutation import mutations_of

_CANCELLING_SUMS = "passes/test_cancelling_sums.py"
_TERMS = "passes/test_product_terms.py"
_GUARDED = "passes/test_guarded_differences.py"
_OFFSETS = "passes/test_offset_rules.py"
_UNROLLED = "control_flow/test_unrolled_steps.py"
_UPDATES = "passes/test_value_updates.py"
_SLOW = "passes/test_slow_kernels.py"
_WINDOWS = "passes/test_window_sums.py"

_before = mutations_of("graph_passes/decide/before_magnifiers.cc")
_counting_constants = mutations_of("graph_passes/analysis/counting_constants.cc")
_flops = mutations_of("graph_passes/analysis/product_flops.cc")
_gains = mutations_of("graph_passes/analysis/gains.cc")
_offset_rules = mutations_of("graph_passes/decide/offset_rules.cc")
_unrolled_steps = mutations_of("graph_passes/analysis/unrolled_steps.cc")
_value_updates = mutations_of("graph_passes/decide/value_updates.cc")
_slow_kernels = mutations_of("graph_passes/decide/slow_kernels.cc")
_window_sums = mutations_of("graph_passes/decide/window_sums.cc")

MUTATIONS = (
    _gains(
        "near_one",
        "range.low >= kForgets || signs_.Has(factor.node)",
        "signs_.Has(factor.node)",
        "A factor that is known to be near one counts as one that forgets.",
        f"{_UNROLLED}::test_many_like_steps_are_taken_in_float32",
    ),
    _gains(
        "signs",
        "range.low >= kForgets || signs_.Has(factor.node)",
        "range.low >= kForgets",
        "A soft threshold counts as a gate that forgets.",
        f"{_UNROLLED}::test_many_like_steps_are_taken_in_float32",
    ),
    _unrolled_steps(
        "many",
        "constexpr int kManySteps = 16;",
        "constexpr int kManySteps = 8;",
        "A few steps count as many.",
        f"{_UNROLLED}::test_a_few_steps_follow_their_predecessors",
    ),
    _unrolled_steps(
        "weights",
        "hash[id] = Joined(hash[id], Source(from));",
        "",
        "The residual sums of a network count as steps of a loop.",
        f"{_UNROLLED}::test_residual_sums_of_layers_with_weights_of_their_own_are_lowered",
    ),
    _unrolled_steps(
        "numbers",
        'if (constants_.Has(id) && IsNumber(view_.node(id), values_)) return HashOf("a number");',
        "",
        "Steps with a scalar constant of their own are not alike.",
        f"{_UNROLLED}::test_many_like_steps_are_taken_in_float32",
    ),
    _unrolled_steps(
        "variables",
        "has_handle ? Moved(view_.fanin(id)[0]) : id",
        "id",
        "Steps that each read a variable anew are not alike.",
        f"{_UNROLLED}::test_steps_may_read_a_variable_anew",
    ),
    _unrolled_steps(
        "between",
        "const bool is_between = until[id] > 0 && (counts[id] || after[id] > 0);",
        "const bool is_between = true;",
        "What is added up by the first step is kept as well.",
        f"{_UNROLLED}::test_what_comes_before_the_first_step_and_after_the_last_follows_its_"
        "predecessors",
    ),
    _counting_constants(
        "last_line",
        "const int64_t begin_of_last = all.size() - 1 - (count - 1) * stride;",
        "const int64_t begin_of_last = 0;",
        "A grid counts as exact if its first row or column is.",
        f"{_OFFSETS}::test_a_grid_counts_along_each_of_its_dimensions",
    ),
    _counting_constants(
        "fine",
        "kFine = 1.0 / 4;",
        "kFine = 1.0;",
        "Steps that are small for the low type count as large.",
        f"{_OFFSETS}::test_a_constant_that_counts_in_steps_that_are_lost_is_added_in_float32",
    ),
    _offset_rules(
        "products",
        "if (!is_coarse && !matrix_.Has(id)) return;",
        "if (!is_coarse) return;",
        "A mean place is computed in the low type.",
        f"{_OFFSETS}::test_a_product_with_what_counts_is_a_mean_place",
    ),
    _offset_rules(
        "sums",
        "if (adds_.Has(id)) sums.emplace_back(id, group);",
        "sums.emplace_back(id, group);",
        "A large factor counts as an offset.",
        f"{_OFFSETS}::test_a_large_factor_is_no_offset",
    ),
    _offset_rules(
        "biases",
        " || (kind == Offset::kTensor && biases_.Has(sum.first))",
        "",
        "A learned bias is an offset.",
        f"{_OFFSETS}::test_a_tensor_may_be_an_offset",
    ),
    _offset_rules(
        "masks",
        "return few.size() == 1 && is_large(few[0]) ? Offset::kScalar : Offset::kNone;",
        "return is_large(few[0]) || is_large(few.back()) ? Offset::kScalar : Offset::kNone;",
        "A mask is an offset.",
        f"{_OFFSETS}::test_a_tensor_may_be_an_offset",
    ),
    _counting_constants(
        "few",
        "(first == Counting::kFinely && count < kLeastSteps)",
        "(count < kLeastSteps)",
        "A few steps that are lost do not count.",
        f"{_OFFSETS}::test_a_few_steps_are_enough_where_they_are_lost",
    ),
    _offset_rules(
        "batch_norms",
        "if (!is_centred && !stays_large_.Has(use.node)) return;",
        "if (!stays_large_.Has(use.node)) return;",
        "A batch norm reads a rounded offset.",
        f"{_OFFSETS}::test_a_batch_norm_that_takes_the_offset_away_reads_it_in_float32",
    ),
    _value_updates(
        "turned",
        'if (view_.node(use.node).op() == "Sub" && use.index != 0) return false;',
        "",
        "A step minus the value counts as an update of it.",
        f"{_UPDATES}::test_other_sums_follow_their_predecessors",
    ),
    _value_updates(
        "numbers",
        "if (!sources_.Has(from.node)) return false;",
        "if (!sources_.Has(from.node)) return true;",
        "A product with a gate counts as a small step.",
        f"{_UPDATES}::test_other_sums_follow_their_predecessors",
    ),
    _value_updates(
        "steps",
        "KeepNode(StepOf(use), source);",
        "",
        "The step is scaled in the low type.",
        f"{_UPDATES}::test_a_step_of_a_factor_is_taken_in_float32",
    ),
    _slow_kernels(
        "vector",
        "kVector = 16",
        "kVector = 8",
        "A batch norm of 24 channels runs in oneDNN's slow code for bfloat16.",
        f"{_SLOW}::test_a_batch_norm_whose_channels_are_no_multiple_of_16_keeps_float32",
    ),
    _slow_kernels(
        "strides",
        "return size > 1;",
        "return size > 0;",
        "A depthwise gradient without strides is kept, too.",
        f"{_SLOW}::test_the_gradient_of_a_depthwise_convolution_with_strides_keeps_float32",
    ),
    _slow_kernels(
        "onednn",
        "if (!context.support->HasOneDnn(view.node(id), tensorflow::DT_BFLOAT16)) continue;",
        "",
        "A conversion for an unknown machine keeps what only oneDNN is slow at.",
        f"{_SLOW}::test_without_onednn_the_kernels_are_others",
    ),
    _window_sums(
        "many",
        "kManyWindows = 32",
        "kManyWindows = 33",
        "More windows than 32 are added in the low type.",
        f"{_WINDOWS}::test_where_more_than_32_windows_overlap_they_are_added_in_float32",
    ),
    _window_sums(
        "places",
        "if (Places(node) > most && !context.support->HasOneDnn(node, low)) keep(id);",
        "",
        "The mean over a large window is added up in float16.",
        f"{_WINDOWS}::test_so_are_the_places_of_a_large_window_if_onednn_may_not_add_them",
    ),
    _window_sums(
        "strides",
        "(sizes[k] + strides[k] - 1) / strides[k]",
        "sizes[k]",
        "Windows beside one another count as overlapping.",
        f"{_WINDOWS}::test_where_more_than_32_windows_overlap_they_are_added_in_float32",
    ),
    _before(
        "unknown_terms",
        "return terms < 0 || terms > few_terms_;",
        "return terms > few_terms_;",
        "A product of unknown size keeps float32 before an angle.",
        f"{_TERMS}::test_a_product_of_unknown_shape_has_many_terms",
    ),
    _before(
        "constant_minus",
        "ranges_[number].IsPoint() && ",
        "",
        "Whatever number a sum is subtracted from, its products are kept.",
        f"{_CANCELLING_SUMS}::test_before_a_difference_of_a_constant_and_a_sum_of_products_these_are_kept",
    ),
    _before(
        "squared_difference",
        "InOrderOfNames(view_, differences_.Ids())) KeepTermsBefore",
        'InOrderOfNames(view_, OpSet(view_, "Sub").Ids())) KeepTermsBefore',
        "The square of 1 - sum(x * y) is computed from rounded products.",
        f"{_CANCELLING_SUMS}::test_before_a_difference_of_a_constant_and_a_sum_of_products_these_are_kept",
    ),
    _before(
        "number_minus",
        " && IsNumber({number, 0})",
        "",
        "The gradient of a Softmax keeps the layers before it.",
        f"{_CANCELLING_SUMS}::test_before_a_difference_of_a_constant_and_a_sum_of_products_these_are_kept",
    ),
    _before(
        "centres",
        "if (differences_.Has(id) && Moved(view_.fanin(id)[1 - use.index]) == of) {",
        "if (differences_.Has(id)) {",
        "The mean of a squeeze-and-excitation block keeps float32.",
        f"{_CANCELLING_SUMS}::test_a_mean_that_is_subtracted_from_its_values_is_computed_in_float32",
    ),
    _flops(
        "flattened",
        "return depth >= 0 ? depth : ",
        "if (depth < 1e9) return depth;\n    return ",
        "A product that a pass flattened has an unknown number of terms.",
        f"{_TERMS}::test_a_product_that_a_pass_flattened_has_the_terms_of_its_weights",
    ),
    _before(
        "guards_difference",
        "for (int magnifier : inputs_.nodes()) KeepBefore(magnifier, &Walk::MagnifiesGuarded);",
        "",
        "Any guard is enough for a difference.",
        f"{_GUARDED}::test_what_a_guarded_difference_is_computed_from_keeps_float32",
    ),
    _before(
        "safe_guard",
        "if (ranges_[guard].low >= kSafeSteps * SpacingAt(context_.NewDtype(), 1)) return false;",
        "",
        "No guard is enough for a difference.",
        f"{_GUARDED}::test_a_guard_that_is_large_beside_the_low_types_error_is_enough",
    ),
    _before(
        "guards_anything",
        "if (differences_.Has(behind[i])) return true;",
        "if (i > 0) return true;",
        "A guard of what has no difference is not enough.",
        f"{_GUARDED}::test_a_guard_of_a_value_with_a_small_relative_error_is_enough",
    ),
    _before(
        "behind_a_sum",
        "if (!Ends(from)) behind.push_back(from.node);",
        "behind.push_back(from.node);",
        "The difference may be anywhere.",
        f"{_GUARDED}::test_a_difference_behind_a_sum_is_not_looked_for",
    ),
)
