"""Mutations of the pass that fuses batch norms in training."""

from __future__ import annotations

from mutate.mutation import mutations_of

_TESTS = "passes/test_trained_norms.py"
_EXACT = f"{_TESTS}::test_values_and_gradients_are_those_of_float64"
_OTHERS = f"{_TESTS}::test_other_forms_stay_as_they_are_and_the_ledger_says_why"
_ANY_FORM = "passes/test_norms_in_any_form.py"
_NO_NORMS = f"{_TESTS}::test_what_is_no_batch_norm_is_not_told_of"
_NAMED = f"{_TESTS}::test_nodes_that_a_file_names_or_the_caller_fetches_stay"

_form = mutations_of("graph_passes/fuse/trained_norm_form.cc")
_gradient = mutations_of("graph_passes/fuse/trained_norm_gradient.cc")
_algebra = mutations_of("graph_passes/fuse/norm_algebra.cc")
_functions = mutations_of("graph_passes/fuse/channel_function.cc")
_norms = mutations_of("graph_passes/fuse/trained_norms.cc")

MUTATIONS = (
    _norms(
        "biased",
        "(norm.input.places - 1.0) / norm.input.places",
        "1.0",
        "The moving variance is that of n - 1 places.",
        _EXACT,
    ),
    _norms(
        "biased_in_any_batch",
        'return Combined(name, "Sub", one, part, nodes);',
        "return one;",
        "The moving variance is that of n - 1 places if the batch is not known.",
        _EXACT,
    ),
    _gradient(
        "scaled",
        "if (is_first(scaled)) norm_->scaled.push_back(id);",
        "",
        "The gradient of gamma is computed from single ops.",
        _EXACT,
    ),
    _norms(
        "other_gradient",
        "if (norm.has_other_gradient) {",
        "if (false) {",
        "A gradient of another form reads what was fused.",
        _OTHERS,
    ),
    _norms(
        "fetched",
        "state_->preserved.count(view_.node(id).name()) != 0) {",
        "state_->preserved.count(view_.node(id).name()) > 1) {",
        "A node that the caller fetches gets several outputs.",
        _NAMED,
    ),
    _norms(
        "colocated",
        "if (name != node.name()) names.push_back(name);",
        "",
        "A node is deleted that another is colocated with.",
        f"{_TESTS}::test_a_node_that_another_one_is_colocated_with_stays",
    ),
    _norms(
        "sums",
        'is_taken ? "another norm of the same tensor is fused" : WhyNot(norm);',
        "WhyNot(norm);",
        "The gradients of two norms of one tensor are written into one node.",
        f"{_TESTS}::test_of_two_norms_of_one_tensor_one_is_fused",
    ),
    _norms(
        "zeros",
        "if (norm.shift != TrainedNorm::kNone) WriteZeros(norm, nodes, out);",
        "",
        "The shift is added twice.",
        f"{_TESTS}::test_a_norm_whose_terms_were_added_to_others_is_fused",
    ),
    _gradient(
        "others",
        "norm_->others = std::move(others);",
        "",
        "The gradient from what else reads x is lost.",
        f"{_TESTS}::test_a_norm_whose_terms_were_added_to_others_is_fused",
    ),
    _form(
        "epsilon",
        "!(norm->epsilon > 0)",
        "false",
        "A norm without an epsilon is fused.",
        _OTHERS,
    ),
    _form(
        "weights",
        "return !YieldsWeight(view_.node(of.node).op()) &&",
        "return",
        "Standardized weights are told of as a batch norm.",
        _NO_NORMS,
    ),
    _form(
        "all",
        "(rank < 0 || static_cast<int>(axes.size()) < rank)",
        "true",
        "A norm of all elements is told of as a batch norm.",
        _NO_NORMS,
    ),
    _form(
        "batch",
        "std::find(axes.begin(), axes.end(), 0) != axes.end() &&",
        "",
        "An RMS norm is told of as a batch norm.",
        _NO_NORMS,
    ),
    _form(
        "statistics",
        "!of_sum->Equals(expected)",
        "false",
        "What is no variance of x counts as one.",
        _OTHERS,
    ),
    _form(
        "apart",
        "if (view_.num_fanin(sum) != 2) break;",
        "break;",
        "A norm whose terms were added to others is not found.",
        f"{_TESTS}::test_a_norm_whose_terms_were_added_to_others_is_fused",
    ),
    _norms(
        "circle",
        "if (Needs(inputs, {norm.mean, norm.variance})) return true;",
        "",
        "The fused op needs what it yields.",
        f"{_TESTS}::test_a_scale_that_comes_from_the_mean_is_not_taken_in",
    ),
    _gradient(
        "of_another_norm",
        "function == nullptr || !function->is_of_dy",
        "function == nullptr",
        "The gradient of another norm of x is taken for a part of this one's.",
        f"{_TESTS}::test_of_two_norms_of_one_tensor_one_is_fused",
    ),
    _gradient(
        "negative",
        'if (view_.node(other.node).op() == "Neg")',
        "if (false)",
        "The gradient of a difference with the sign turned is not found.",
        _ANY_FORM,
    ),
    _algebra(
        "axes",
        "if (axes != std::vector<int64_t>{0, 1, 2}) return false;",
        "",
        "A norm over other axes is fused.",
        _OTHERS,
    ),
    _algebra(
        "any_batch",
        "&& (IsSpread(tensor) || IsReshapedToOnes(tensor));",
        "&& IsSpread(tensor);",
        "The gradient of a mean without axes of size 1 is not found in any batch.",
        _ANY_FORM,
    ),
    _algebra(
        "not_broadcast",
        'return view_.node(axes).op() == "BroadcastGradientArgs" &&',
        "return false &&",
        "The gradient of a product with itself is not found in any batch.",
        _ANY_FORM,
    ),
    _functions(
        "factor",
        "constexpr double kRounding = 1e-5;",
        "constexpr double kRounding = 10;",
        "A gradient with another factor counts.",
        f"{_TESTS}::test_a_gradient_of_another_factor_is_another_form",
    ),
    _functions(
        "sign",
        "factor * b.terms[term][point];",
        "std::fabs(factor) * b.terms[term][point];",
        "A sum with the mean counts as a difference.",
        f"{_TESTS}::test_a_sum_in_place_of_a_difference_is_no_norm",
    ),
    _functions(
        "power",
        "if (power == 2) return Function::Product(of, of, result);",
        "",
        "A square that is written as a power is none.",
        f"{_TESTS}::test_powers_are_read_where_no_other_optimizer_has_replaced_them",
    ),
)
