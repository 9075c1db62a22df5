"""Mutations of cc/ and of the options."""

from __future__ import annotations

from mutate.mutation import mutations_of

_AUTOCAST_GRADIENTS = "session/test_autocast_gradients.py"
_PRUNED = f"{_AUTOCAST_GRADIENTS}::test_a_function_that_returns_nothing_else_prunes_the_forward_op"
_EARLIER_RUNS = "passes/test_earlier_runs.py"
_EMULATE = "passes/test_emulate.py"
_ERRORS = "session/test_errors.py"
_INTERNAL_FAILURES = "session/test_internal_failures.py"
_OPTIONS = "session/test_options.py"
_RAISED = f"{_ERRORS}::test_the_python_helpers_raise_the_same_text_before_anything_runs"

_parameters = mutations_of("cc/parameters.cc")
_WRONG = "passes/test_wrong_kernels.py"
_kernel_faults = mutations_of("cc/kernel_faults.cc")
_kernel_support = mutations_of("cc/kernel_support.cc")
_npu_optimizer = mutations_of("cc/npu_optimizer.cc")
_targets = mutations_of("cc/targets.cc")
_shapes = mutations_of("cc/shapes.cc")
_options = mutations_of("npu_precision/options.py")
_tf_compat = mutations_of("npu_precision/_tf_compat/tapes.py")
_idle_mode = mutations_of("graph_passes/idle_mode.cc")
_NOTHING_LOWERED = "session/test_nothing_lowered.py"

MUTATIONS = (
    _idle_mode(
        "users",
        "if (IsUsersWish(entry.first)) continue;",
        "",
        "A session that keeps what the user has marked complains of it.",
        f"{_NOTHING_LOWERED}::test_a_session_with_nothing_to_lower_says_nothing",
    ),
    _idle_mode(
        "later",
        "return white_ > 0 && lowered_ == 0;",
        "return white_ > 0;",
        "A session that lowers a later graph has complained.",
        f"{_NOTHING_LOWERED}::test_a_session_whose_later_graph_is_lowered_has_not_complained",
    ),
    _idle_mode(
        "certain",
        "return KindOf(entry.first) == ReasonKind::kSupport;",
        "return true;",
        "A session complains before a later graph is lowered.",
        f"{_NOTHING_LOWERED}::test_a_session_whose_later_graph_is_lowered_has_not_complained",
    ),
    _parameters(
        "both_modes",
        "if (!v1.empty() && !v2.empty()) {",
        "if (false) {",
        "precision_mode and precision_mode_v2 may both be given.",
        f"{_RAISED}[both modes]",
    ),
    _parameters(
        "types",
        "TF_RETURN_IF_ERROR(CheckType(*parameter, *entry.second));",
        "",
        "A parameter of the wrong type is read as an empty one.",
        f"{_RAISED}[a bool where a string is meant]",
    ),
    _parameters(
        "lists_unused",
        "if (parameters.mode.rule == ModeRule::kMix) return Status();",
        "return Status();",
        "A mixlist is accepted in a mode without lists.",
        f"{_RAISED}[mixlist outside a mixed mode]",
    ),
    _parameters(
        "emulated_modes",
        "(rule == ModeRule::kForceFloat32 || rule == ModeRule::kKeepOrigin)) {",
        "rule == ModeRule::kForceFloat32) {",
        "A mode that keeps every dtype may be emulated.",
        f"{_EMULATE}::test_a_mode_that_lowers_nothing_is_no_mode_to_emulate",
    ),
    _parameters(
        "host_only",
        "if (pass.purpose == Switch::kForSpeed && on_host) names.insert(pass.name);",
        "if (pass.purpose == Switch::kForSpeed) names.insert(pass.name);",
        "What makes the host faster runs for another target.",
        "passes/test_sink_reshapes.py::test_it_stays_where_it_was_not_asked_for",
    ),
    _parameters(
        "early_strict",
        "parameters->strict = strict != config->parameter_map().end() && strict->second.b();",
        "",
        "strict has no effect.",
        f"{_INTERNAL_FAILURES}::test_strict_fails_a_run_that_would_not_be_in_the_precision_asked_for",
    ),
    _kernel_support(
        "truncated",
        "return runs_here_ && TruncatesBfloat16Products()",
        "return false && TruncatesBfloat16Products()",
        "Products of bfloat16 are truncated where TensorFlow's own kernels compute them.",
        "session/test_float16_compute.py::test_they_are_rounded_without_the_kernels_of_onednn_too",
    ),
    _kernel_support(
        "converted",
        "return !runs_here_ || ",
        "return ",
        "A conversion computes for the CPU that it runs on.",
        "passes/test_compute_in_float32.py::test_a_graph_that_is_converted_computes_in_float16",
    ),
    _kernel_faults(
        "channels_first",
        "if (HasChannelsFirst(node)) return true;",
        "",
        "A convolution of channels first gets a float16 kernel that fails.",
        f"{_EARLIER_RUNS}::test_convolutions_whose_float16_kernel_would_fail_on_a_cpu_stay_float32",
    ),
    _kernel_faults(
        "wide_filters",
        "filter.dim_size(1) <= kWidestFilter",
        "filter.dim_size(0) <= kWidestFilter",
        "A depthwise convolution with a wide filter never returns.",
        "passes/test_wrong_kernels.py::test_a_depthwise_convolution_with_a_wide_filter_stays",
    ),
    _kernel_faults(
        "channels",
        "image.dim_size(HasChannelsFirst(node) ? 1 : image.dims() - 1)",
        "image.dim_size(image.dims() - 1)",
        "The width of an image of channels first counts as its channels.",
        f"{_WRONG}::test_channels_first_are_counted_where_they_are",
    ),
    _kernel_faults(
        "groups",
        "ChannelsOf(node, image) == filter.dim_size(3);",
        "true;",
        "A convolution of one channel keeps float32.",
        f"{_WRONG}::test_a_convolution_with_a_group_for_each_channel_and_a_wide_filter_stays",
    ),
    _kernel_faults(
        "odd_channels",
        "channels % 16 != 0",
        "channels % 8 != 0",
        "A filter's gradient is garbage.",
        f"{_WRONG}::test_the_filters_gradient_of_a_dilated_convolution_of_odd_channels_stays",
    ),
    _kernel_faults(
        "long_filters",
        "filter.dim_size(k) > size",
        "filter.dim_size(k) > 2 * size",
        "The gradient of a filter that is longer than the image is garbage.",
        f"{_WRONG}::test_the_gradient_of_a_filter_longer_than_the_image_stays",
    ),
    _kernel_faults(
        "places",
        "return places > 255;",
        "return places > 256;",
        "A max pool whose gradient oneDNN sends to wrong places is lowered to bfloat16.",
        "passes/test_wrong_kernels.py::test_a_max_pool_with_256_places_or_more_stays_float32_in_bfloat16",
    ),
    _kernel_faults(
        "dilated",
        "[](int64_t dilation) { return dilation > 1; }",
        "[](int64_t dilation) { return dilation > 2; }",
        "The gradient of a dilated convolution gets a float16 kernel that fails.",
        f"{_EARLIER_RUNS}::test_convolutions_whose_float16_kernel_would_fail_on_a_cpu_stay_float32",
    ),
    _kernel_support(
        "emulates",
        "if (emulates_) return true;",
        "",
        "What has no kernel here is not emulated.",
        f"{_EMULATE}::test_an_op_without_a_kernel_is_emulated_as_on_a_device_that_has_one",
    ),
    _npu_optimizer(
        "strict",
        "if (users || parameters_.strict) {",
        "if (users) {",
        "strict lets an internal failure pass.",
        f"{_INTERNAL_FAILURES}::test_strict_fails_a_run_that_would_not_be_in_the_precision_asked_for",
    ),
    _npu_optimizer(
        "preserved_marks",
        "if (HasPreservedMark(node)) context.preserved.insert(node.name());",
        "",
        "What a custom gradient has captured in a function has another dtype.",
        "offline/test_saved_model.py::"
        "test_what_a_custom_gradient_has_captured_keeps_name_and_dtype",
    ),
    _targets(
        "followers",
        "lists.set_follows_consumers(facts.follows_consumers);",
        "lists.set_follows_consumers(true);",
        "On an emulated target gray follows what reads it.",
        "passes/test_follow_consumers.py::test_a_target_that_is_emulated_does_not_do_so",
    ),
    _shapes(
        "unknown_shapes",
        "if (elements == kUnknownElements) continue;",
        "if (elements == 0) continue;",
        "The bytes of a Cast of an unknown size are a negative number.",
        "passes/test_ledger.py::test_bytes_are_unknown_where_a_shape_is",
    ),
    _shapes(
        "contradiction",
        "AddContradiction(&graph);",
        "",
        "A node that is not fetched says what size a tensor has.",
        "passes/test_shapes_hold.py::test_a_reader_that_is_not_fetched_says_nothing_of_a_size",
    ),
    _tf_compat(
        "tape",
        "with recall(attrs[-1]):",
        "with contextlib.nullcontext():",
        "The gradient of an op that is pruned leaves the scope of the op.",
        _PRUNED,
    ),
    _tf_compat(
        "custom_gradient",
        "with recall(noted):",
        "with contextlib.nullcontext():",
        "The gradients of tf.recompute_grad leave the scope around it.",
        f"{_AUTOCAST_GRADIENTS}::test_a_scope_around_what_is_recomputed",
    ),
    _options(
        "false",
        "return {name: value for name, value in fields if value is not None}",
        "return {name: value for name, value in fields if value}",
        "An option that is False is left to its default.",
        f"{_OPTIONS}::test_what_is_not_set_is_not_passed_on",
        f"{_OPTIONS}::test_json_holds_only_what_is_set",
    ),
    _options(
        "bool_before_int",
        "    if isinstance(value, bool):",
        "    if value is True:",
        "False becomes a number.",
        f"{_OPTIONS}::test_what_is_not_set_is_not_passed_on",
    ),
    _options(
        "paths",
        "value = os.fspath(value)",
        "value = repr(value)",
        "A path object becomes another text.",
        f"{_OPTIONS}::test_paths_may_be_path_objects_and_are_kept_as_text",
    ),
    _options(
        "given_twice",
        "if names.count(name) > 1:",
        "if names.count(name) > 2:",
        "A name that JSON gives twice is accepted.",
        f"{_OPTIONS}::test_json_that_is_no_options_is_refused",
    ),
    _options(
        "replaced",
        "if options is None else dataclasses.replace(options, **fields)",
        "if options is None else options",
        "Keywords do not replace fields of the options.",
        f"{_OPTIONS}::test_fields_by_keyword_replace_those_of_the_options",
    ),
)
