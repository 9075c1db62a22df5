"""Mutations of the pass that fuses batch norms in training."""

from __future__ import annotations

from mutate.mutation import mutations_of

_TESTS = "passes/test_trained_norms.py"
_EXACT = f"{_TESTS}::test_values_and_gradients_are_those_of_float64"
_OTHERS = f"{_TESTS}::test_other_forms_stay_as_they_are_and_the_ledger_says_why"
_NO_NORMS = f"{_TESTS}::test_what_is_no_batch_norm_is_not_told_of"
_NAMED = f"{_TESTS}::test_nodes_that_a_file_names_or_the_caller_fetches_stay"

_form = mutations_of("graph_passes/fuse/trained_norm_form.cc")
_gradient = mutations_of("graph_passes/fuse/trained_norm_gradient.cc")
_terms = mutations_of("graph_passes/fuse/norm_terms.cc")
_products = mutations_of("graph_passes/fuse/norm_terms.h")
_norms = mutations_of("graph_passes/fuse/trained_norms.cc")

MUTATIONS = (
    _norms(
        "biased",
        "(norm.places - 1.0) / norm.places",
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
    _norms(
        "centred",
        'Replace(norm, norm.centred, "RealDiv"',
        'Replace(norm, norm.centred, "Mul"',
        "The gradient of gamma is scaled twice.",
        _EXACT,
    ),
    _norms(
        "other_gradient",
        'if (!has_gradient && HasGradient(norm)) return "its gradient has another form";',
        "",
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
        f"{_TESTS}::test_a_second_application_changes_nothing",
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
        "found.others = rest;",
        "",
        "The gradient from what else reads x is lost.",
        f"{_TESTS}::test_a_norm_whose_terms_were_added_to_others_is_fused",
    ),
    _form(
        "epsilon",
        "!(found.epsilon > 0)",
        "false",
        "A norm without an epsilon is fused.",
        _OTHERS,
    ),
    _form(
        "weights",
        "return !IsWeight(norm->x);",
        "return true;",
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
    _terms(
        "axes",
        "return axes == std::vector<int64_t>{0, 1, 2};",
        "return true;",
        "A norm over other axes is fused.",
        _OTHERS,
    ),
    _products(
        "sign",
        "if (both != 1 || !is_first(first.node)",
        "if (!is_first(first.node)",
        "A sum with the mean counts as a difference.",
        f"{_TESTS}::test_a_sum_in_place_of_a_difference_is_no_norm",
    ),
    _gradient(
        "control_input",
        "        norm->inner.insert(inputs[0].node);\n",
        "",
        "The gradient that was replaced stays, because a number waits for it.",
        f"{_TESTS}::test_the_factor_of_the_gradient_that_waits_for_another_part_goes_too",
    ),
    _gradient(
        "share",
        "std::fabs(spread.factor * norm.places - times) <= kRounding * times",
        "spread.factor > 0",
        "A gradient with another factor counts.",
        f"{_TESTS}::test_a_gradient_of_another_factor_is_another_form",
    ),
)
