"""Mutations of cc and of the options."""

from __future__ import annotations

from mutate.mutation import mutations_of

_ERRORS = "sessions/test_errors.py"
_parameters = mutations_of("cc/parameters.cc")
_PARAMETERS = (
    _parameters(
        "both_modes",
        "if (!v1.empty() && !v2.empty()) {",
        "if (false) {",
        "precision_mode and precision_mode_v2 may both be given.",
        _ERRORS,
    ),
    _parameters(
        "types",
        "TF_RETURN_IF_ERROR(CheckType(*parameter, *entry.second));",
        "",
        "A parameter of the wrong type is read as an empty one.",
        _ERRORS,
    ),
    _parameters(
        "lists_unused",
        "if (parameters.mode.rule == ModeRule::kMix) return Status();",
        "return Status();",
        "A mixlist is accepted in a mode without lists.",
        _ERRORS,
    ),
    _parameters(
        "emulated_modes",
        "(rule == ModeRule::kForceFloat32 || rule == ModeRule::kKeepOrigin)) {",
        "rule == ModeRule::kForceFloat32) {",
        "A mode that keeps every dtype may be emulated.",
        "passes/test_emulate.py",
    ),
    _parameters(
        "speed_modes",
        "if (LowersForSpeed(rule)) continue;",
        "continue;",
        "A pass may be asked for in a mode in which it never runs.",
        "passes/test_same_padding.py", _ERRORS,
    ),
    _parameters(
        "host_only",
        "if (pass.option == Switch::kForSpeed && on_host) names.insert(pass.name);",
        "if (pass.option == Switch::kForSpeed) names.insert(pass.name);",
        "What makes the host faster runs for another target.",
        "passes/test_sink_reshapes.py", "passes/test_same_padding.py",
    ),
    _parameters(
        "early_strict",
        "parameters->strict = strict != config->parameter_map().end() && strict->second.b();",
        "",
        "strict has no effect.",
        "sessions/test_internal_failures.py",
    ),
    _parameters(
        "quiet_ledger",
        'if (entry.first == "quiet") continue;',
        "",
        "The ledger tells what the log was asked.",
        "sessions/test_offline.py", "passes/test_ledger.py", "project/test_pipeline.py",
    ),
    _parameters(
        "empty_values",
        "} else if (entry.second->s().empty()) {",
        "} else if (false) {",
        "An empty value is taken for none.",
        _ERRORS,
    ),
)

_kernels = mutations_of("cc/kernel_support.cc")
_KERNELS = (
    _kernels(
        "channels_first",
        'if (absl::StartsWith(attr("data_format").s(), "NC")) return true;',
        "",
        "A convolution of channels first gets a float16 kernel that fails.",
        "passes/test_earlier_runs.py",
    ),
    _kernels(
        "dilated",
        "[](int64_t dilation) { return dilation > 1; }",
        "[](int64_t dilation) { return dilation > 2; }",
        "The gradient of a dilated convolution gets a float16 kernel that fails.",
        "passes/test_earlier_runs.py",
    ),
    _kernels(
        "not_dilated",
        "[](int64_t dilation) { return dilation > 1; }",
        "[](int64_t dilation) { return dilation > 0; }",
        "No gradient of a convolution is lowered.",
        "passes/test_convolution_chains.py", "passes/test_layers.py", "training/test_batch_norm_training.py",
    ),
    _kernels(
        "fused",
        'if (absl::StartsWith(node.op(), "_Fused")) return true;',
        "",
        "A fused op gets a float16 kernel that needs another processor.",
        "passes/test_fused_ops.py",
    ),
    _kernels(
        "only_cpu",
        "return Registered(type, changed) && !(type == tensorflow::DEVICE_CPU && FailsOnCpu(changed));",
        "return Registered(type, changed) && !FailsOnCpu(changed);",
        "What fails on a CPU is not lowered on a GPU.",
        "lists/test_gpu_lists.py",
    ),
    _kernels(
        "emulates",
        "if (emulates_) return true;",
        "",
        "What has no kernel here is not emulated.",
        "passes/test_emulate.py",
    ),
    _kernels(
        "gpu",
        "if (has_gpu_ && Registered(tensorflow::DEVICE_GPU, node)) return tensorflow::DEVICE_GPU;",
        "",
        "A node without a device is taken to be on the CPU.",
        "lists/test_gpu_lists.py",
    ),
)

_optimizer = mutations_of("cc/npu_optimizer.cc")
_targets = mutations_of("cc/targets.cc")
_bytes = mutations_of("cc/cast_bytes.cc")
_SHELL = (
    _optimizer(
        "preserved_marks",
        "if (HasPreservedMark(node)) context.preserved.insert(node.name());",
        "",
        "What a function returns is lowered.",
        "control_flow/test_function_bodies.py", "control_flow/test_v2_control_flow.py", "sessions/test_offline.py",
    ),
    _optimizer(
        "strict",
        "if (users || parameters_.strict) {",
        "if (users) {",
        "strict lets an internal failure pass.",
        "sessions/test_internal_failures.py",
    ),
    _optimizer(
        "twice",
        "if (decided_) {",
        "if (false) {",
        "The second run of Grappler's list decides again, about fused ops.",
        "passes/test_fused_ops.py", "passes/test_keep_dtype_scope.py", "sessions/test_session_script.py",
    ),
    _optimizer(
        "fed",
        "context.fed.insert(tensorflow::grappler::NodeName(feed.first));",
        "",
        "What the caller feeds is lowered.",
        "passes/test_fold_constants.py", "passes/test_verify_graph.py",
    ),
    _optimizer(
        "followers",
        "context.follow_consumers = parameters.target == kHostTarget && parameters.ops_info_dir.empty();",
        "context.follow_consumers = true;",
        "On an emulated target gray follows what reads it.",
        "passes/test_follow_consumers.py",
    ),
    _targets(
        "of_programs",
        "(*entries)[i].for_any_graph = true;",
        "(*entries)[i].for_any_graph = false;",
        "What a program added for any graph is told to match no node of this one.",
        "passes/test_all_white.py",
    ),
    _targets(
        "built_in",
        "lists->AddOpsInfo(DeviceKind::kOther, std::move(ops), false);",
        "lists->AddOpsInfo(DeviceKind::kOther, std::move(ops), true);",
        "Lists of a folder are told to be built in.",
        "lists/test_ops_info_dir.py",
    ),
    _bytes(
        "unknown_shapes",
        "if (!shape.IsFullyDefined()) continue;",
        "if (shape.unknown_rank()) continue;",
        "The bytes of a Cast of an unknown size are a negative number.",
        "passes/test_ledger.py",
    ),
)

_OPTIONS = "sessions/test_options.py"
_options = mutations_of("npu_precision/options.py")
_PYTHON = (
    _options(
        "false",
        "return {name: value for name, value in fields.items() if value is not None}",
        "return {name: value for name, value in fields.items() if value}",
        "An option that is False is left to its default.",
        _OPTIONS,
    ),
    _options(
        "bool_before_int",
        "if isinstance(value, bool):\n        return attr_value_pb2.AttrValue(b=value)\n",
        "",
        "A bool becomes a number.",
        _OPTIONS,
    ),
    _options(
        "python_value",
        'return value.b if value.WhichOneof("value") == "b" else value.s.decode("utf-8")',
        'return value.b or value.s.decode("utf-8")',
        "A parameter that is false comes back as a text.",
        _OPTIONS,
    ),
    _options(
        "paths",
        "value = os.fspath(value)",
        "value = repr(value)",
        "A path object becomes another text.",
        _OPTIONS,
    ),
    _options(
        "types",
        "if not isinstance(value, expected):",
        "if False:",
        "A value of the wrong type is not refused where it is given.",
        _OPTIONS,
    ),
    _options(
        "checked",
        "_library.check_options(self.custom_optimizer())",
        "self.custom_optimizer()",
        "A wrong mode is not refused where it is given.",
        _OPTIONS, _ERRORS,
    ),
    _options(
        "given_twice",
        "if names.count(name) > 1:",
        "if names.count(name) > 2:",
        "A name that JSON gives twice is accepted.",
        _OPTIONS,
    ),
    _options(
        "replaced",
        "return dataclasses.replace(options or PrecisionOptions(), **fields)",
        "return options or PrecisionOptions(**fields)",
        "Keywords do not replace fields of the options.",
        _OPTIONS,
    ),
    _options(
        "none_resets",
        "result.pop(name, None)",
        "pass",
        "A keyword that is None leaves the field of the options.",
        _OPTIONS, "sessions/test_npu_init.py", "training/test_amp_sessions.py",
    ),
)

MUTATIONS = (*_PARAMETERS, *_KERNELS, *_SHELL, *_PYTHON)
