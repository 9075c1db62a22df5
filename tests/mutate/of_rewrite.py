"""Mutations of graph_passes/rewrite."""

from __future__ import annotations

from mutate.mutation import mutations_of

_NORMS = "passes/test_fold_batch_norms.py"
_NOT_FOLDED = f"{_NORMS}::test_a_batch_norm_stays_where_folding_would_not_do"

_norm = mutations_of("graph_passes/rewrite/fold_batch_norms.cc")
_FOLD_BATCH_NORMS = (
    _norm(
        "training",
        "training == norm.attr().end() || training->second.b()",
        "training == norm.attr().end()",
        "A batch norm that trains is folded.",
        f"{_NOT_FOLDED}[training]",
    ),
    _norm(
        "other_outputs",
        "if (view_.fanout(id).size() != view_.fanout({id, 0}).size()) return Status();",
        "",
        "A batch norm is folded whose other outputs something reads.",
        f"{_NOT_FOLDED}[a reader of the statistics that it passes on]",
    ),
    _norm(
        "readers_of_bias_added",
        "!IsReadOnlyOnce(before) || HasControlInputs(view_, before) ||",
        "HasControlInputs(view_, before) ||",
        "A BiasAdd that others read too is folded.",
        f"{_NOT_FOLDED}[another reader of the bias added]",
    ),
    _norm(
        "control_inputs_of_bias_added",
        "!IsReadOnlyOnce(before) || HasControlInputs(view_, before) ||",
        "!IsReadOnlyOnce(before) ||",
        "A BiasAdd is folded and its control inputs are lost.",
        f"{_NOT_FOLDED}[a bias added after something else]",
    ),
    _norm(
        "awaited_bias_added",
        "constants_.IsPinned(before)",
        "false",
        "A BiasAdd is folded that others have as a control input.",
        f"{_NOT_FOLDED}[a bias added before something else]",
    ),
    _norm(
        "no_convolution",
        "!IsConvolution(view_.node(before).op()) || ",
        "",
        "Whatever stands before a batch norm counts as a convolution.",
        f"{_NOT_FOLDED}[no convolution]",
    ),
    _norm(
        "readers_of_convolution",
        "!IsConvolution(view_.node(before).op()) || !IsReadOnlyOnce(before)",
        "!IsConvolution(view_.node(before).op())",
        "A convolution that others read too is folded into.",
        f"{_NOT_FOLDED}[another reader of the convolution]",
    ),
    _norm(
        "channels_elsewhere",
        "!may_change || ChannelsLast(view_.node(node)) != ChannelsLast(norm)",
        "!may_change",
        "A batch norm of channels last is folded into a convolution of channels first.",
        f"{_NOT_FOLDED}[channels elsewhere in the convolution]",
    ),
    _norm(
        "name_of_weights",
        "view_.IndexOf(absl::StrCat(norm.name(), kWeightsSuffix)) < 0 &&",
        "",
        "Two nodes get the name of the folded weights.",
        f"{_NOT_FOLDED}[a name for the weights that is taken]",
    ),
    _norm(
        "name_of_bias",
        "view_.IndexOf(absl::StrCat(norm.name(), kBiasSuffix)) < 0",
        "true",
        "Two nodes get the name of the folded bias.",
        f"{_NOT_FOLDED}[a name for the bias that is taken]",
    ),
    _norm(
        "fetched",
        "!constants_.IsFixed(id) && ",
        "",
        "What the caller fetches gets other values.",
        f"{_NOT_FOLDED}[a convolution that is fetched]",
        f"{_NOT_FOLDED}[a bias added that is fetched]",
        f"{_NORMS}::test_a_batch_norm_that_is_fetched_stays",
    ),
    _norm(
        "keep_dtype",
        " && !HasKeepDtypeMark(node);",
        ";",
        "What is marked to keep its dtype is folded.",
        f"{_NOT_FOLDED}[a convolution that keeps its dtype]",
        f"{_NOT_FOLDED}[a batch norm that keeps its dtype]",
    ),
    _norm(
        "black",
        "listing.color != ListColor::kBlack && ",
        "",
        "What is on the black list is folded.",
        f"{_NORMS}::test_a_batch_norm_on_the_black_list_stays",
    ),
    _norm(
        "unlisted",
        " && listing.color != ListColor::kUnlisted;",
        ";",
        "What the target does not list is folded.",
        f"{_NORMS}::test_what_the_target_does_not_list_stays",
    ),
    _norm(
        "readers_of_weights",
        " || !HasOneReader(weights)",
        "",
        "Weights are scaled that another convolution reads.",
        f"{_NOT_FOLDED}[another reader of the weights]",
    ),
    _norm(
        "dimensions",
        "if (shape.dims() < 4) return false;",
        "",
        "Weights of too few dimensions are folded.",
        f"{_NOT_FOLDED}[weights of too few dimensions]",
    ),
    _norm(
        "channels_of_statistics",
        "if (parameters[i].values.size() != channels) return false;",
        "",
        "Statistics are read that are not one per channel.",
        f"{_NOT_FOLDED}[statistics of other channels]",
    ),
    _norm(
        "channels_of_bias",
        " || bias.values.size() != channels",
        "",
        "A bias is read that is not one per channel.",
        f"{_NOT_FOLDED}[a bias of other channels]",
    ),
    _norm(
        "depthwise",
        "(depthwise ? shape.dim_size(shape.dims() - 2) : 1)",
        "1",
        "A depthwise convolution has as many channels as its multiplier.",
        f"{_NORMS}::test_a_depthwise_convolution_scales_channel_by_multiplier",
    ),
    _norm(
        "fit_offset",
        "fit &= Put(offset, c, largest, offsets);",
        "Put(offset, c, largest, offsets);",
        "An offset becomes infinite in the low type.",
        f"{_NOT_FOLDED}[an offset beyond the low type]",
    ),
    _norm(
        "fit_weights",
        "fit &= Put(weights.values[i + c] * scales[c], i + c, largest, scaled);",
        "Put(weights.values[i + c] * scales[c], i + c, largest, scaled);",
        "Weights become infinite in the low type.",
        f"{_NOT_FOLDED}[weights beyond the low type]",
    ),
    _norm(
        "fit_nan",
        "return std::abs(rounded) <= largest;",
        "return !(std::abs(rounded) > largest);",
        "Weights become no numbers.",
        f"{_NOT_FOLDED}[a variance that is no variance]",
    ),
    _norm(
        "epsilon",
        "std::sqrt(parameter(kVariance) + epsilon)",
        "std::sqrt(parameter(kVariance))",
        "Weights are scaled without epsilon.",
        f"{_NORMS}::test_a_batch_norm_becomes_the_bias_of_its_convolution",
    ),
    _norm(
        "bias_before",
        "(before - parameter(kMean)) * scales[c]",
        "(before - parameter(kMean) * scales[c])",
        "A bias before the batch norm is not scaled.",
        f"{_NORMS}::test_a_bias_before_the_batch_norm_is_folded_too",
    ),
)

_constants = mutations_of("graph_passes/rewrite/constants.cc")
_fold = mutations_of("graph_passes/rewrite/fold_constants.cc")
_FOLD_CONSTANTS = (
    _constants(
        "fetched",
        'if (IsFixed(id) || view_.node(id).op() != "Const") return {};',
        'if (view_.node(id).op() != "Const") return {};',
        "A constant is replaced that the caller fetches or feeds.",
        f"{_NOT_FOLDED}[weights that are fetched]",
        "passes/test_fold_constants.py",
    ),
    _constants(
        "control_inputs",
        '!HasControlInputs(view_, id) && view_.node(id).op() == "Identity") {',
        'view_.node(id).op() == "Identity") {',
        "A constant is read before what its Identity has as a control input.",
        "passes/test_fold_constants.py",
    ),
    _constants(
        "colocated",
        "if (--readers_[id] > 0 || IsPlaceOfOthers(id)) break;",
        "if (--readers_[id] > 0) break;",
        "A constant goes that another node is colocated with.",
        "passes/test_fold_constants.py",
    ),
    _constants(
        "readers",
        "if (--readers_[id] > 0 || IsPlaceOfOthers(id)) break;",
        "if (--readers_[id] < 0 || IsPlaceOfOthers(id)) break;",
        "A constant goes that others read.",
        "passes/test_fold_constants.py",
    ),
    _constants(
        "awaited",
        "if (waits && awaited_[id]) break;",
        "",
        "A constant with control inputs goes that is a control input itself.",
        "passes/test_fold_constants.py",
    ),
    _constants(
        "vain",
        'if (awaited_[id]) vain_.insert("^" + view_.node(id).name());',
        "",
        "A control input names a constant that is gone.",
        "passes/test_fold_constants.py",
    ),
    _fold(
        "control_inputs",
        "if (constants->IsFixed(cast) || HasControlInputs(view, cast)) return false;",
        "if (constants->IsFixed(cast)) return false;",
        "A Cast becomes a constant and loses its control inputs.",
        "passes/test_fold_constants.py",
    ),
    _fold(
        "fetched",
        "if (constants->IsFixed(cast) || HasControlInputs(view, cast)) return false;",
        "if (HasControlInputs(view, cast)) return false;",
        "A Cast that the caller fetches or feeds becomes a constant.",
        "passes/test_fold_constants.py",
        "passes/test_earlier_runs.py",
    ),
    _fold(
        "constants_inputs",
        "for (const std::string& input : constant.input()) folded.add_input(input);",
        "",
        "A rounded constant loses the control inputs of the original.",
        "passes/test_fold_constants.py",
    ),
    _fold(
        "rounds",
        "if (!constants.EndsWaits()) return Status();",
        "return Status();",
        "An Identity whose last control input is gone is not looked through.",
        "passes/test_fold_constants.py",
    ),
)

_same = mutations_of("graph_passes/rewrite/same_padding.cc")
_sink = mutations_of("graph_passes/rewrite/sink_reshapes.cc")
_SINK = "passes/test_sink_reshapes.py"
_FOR_FUSIONS = (
    _same(
        "height",
        "kernel->dim(0).size() == 1 &&",
        "true &&",
        "A kernel of one column counts as one of 1x1.",
        "passes/test_same_padding.py",
    ),
    _same(
        "width",
        "kernel->dim(1).size() == 1;",
        "true;",
        "A kernel of one row counts as one of 1x1.",
        "passes/test_same_padding.py",
    ),
    _same(
        "low",
        "IsLowType(view.outputs(id)[0].dtype) &&",
        "",
        "A convolution in float32 gets another padding.",
        "passes/test_same_padding.py",
    ),
    _same(
        "written_out",
        'padding->second.s() == "VALID";',
        'padding->second.s() != "SAME";',
        "Padding that is written out is lost.",
        "passes/test_same_padding.py",
    ),
    _sink(
        "other_readers",
        "!MayChangeShape(reshape) || view_.fanout(reshape).size() != 1) {",
        "!MayChangeShape(reshape)) {",
        "A Reshape moves that others read too.",
        _SINK,
    ),
    _sink(
        "awaited",
        "if (awaited_[reshape]) return;",
        "",
        "A Reshape moves behind what has it as a control input.",
        _SINK,
    ),
    _sink(
        "readers_of_product",
        "if (!mat_muls_.Has(mat_mul) || view_.fanout(mat_mul).size() != 1) return;",
        "if (!mat_muls_.Has(mat_mul)) return;",
        "A Reshape moves though others read the product.",
        _SINK,
    ),
    _sink(
        "alike",
        "if (!AreAlike(mat_mul, reshape) || !AreAlike(mat_mul, bias_add)) return;",
        "",
        "A Reshape moves between nodes of other dtypes or devices.",
        _SINK,
    ),
    _sink(
        "control_inputs",
        "&& !HasControlInputs(view_, id) &&",
        "&&",
        "A node with control inputs changes its shape.",
        _SINK,
    ),
    _sink(
        "fetched",
        "!context_.IsFixed(view_.node(id).name());",
        "true;",
        "What the caller fetches changes its shape.",
        _SINK,
    ),
    _sink(
        "width",
        "weights->dim(width).size() == bias->dim(0).size() &&",
        "",
        "A bias is added to a product of another width.",
        _SINK,
    ),
    _sink(
        "transposed",
        'Has(view_.node(mat_mul), "transpose_b") ? 0 : 1;',
        "1;",
        "Transposed weights are taken to be as wide as they are high.",
        _SINK,
    ),
    _sink(
        "channels_first",
        "!ChannelsFirst(view_.node(bias_add));",
        "true;",
        "A bias of channels first is added to a matrix.",
        _SINK,
    ),
    _sink(
        "numbers",
        "return shape != nullptr && !shape->unknown_rank() && shape->dim_size() == 0;",
        "return shape != nullptr;",
        "A Reshape moves behind a product with a vector.",
        _SINK,
    ),
    _sink(
        "dead_ends",
        "if (view_.fanout(id).size() == 0) return false;",
        "",
        "What nobody reads decides by the order of nodes.",
        _SINK,
    ),
    _sink(
        "ways_out",
        "if (OnlyLastLeadsOut(above)) settled = above.size();",
        "settled = above.size();",
        "A Reshape moves behind one of two ways out.",
        _SINK,
    ),
)

_io = mutations_of("graph_passes/rewrite/lower_io_types.cc")
_IO = ("passes/test_lower_io_types.py", "cli/test_convert.py")
_emulate = mutations_of("graph_passes/rewrite/emulate.cc")
_EMULATE_TESTS = "passes/test_emulate.py"
_LAST = (
    _io(
        "other_readers",
        "if (!view.IsTransparentCast(reader.node)) return tensorflow::DT_INVALID;",
        "",
        "An input becomes low that something reads in float32.",
        *_IO,
    ),
    _io(
        "one_dtype",
        "if (read != tensorflow::DT_INVALID && dtype != read) return tensorflow::DT_INVALID;",
        "",
        "An input becomes low that is read in two dtypes.",
        *_IO,
    ),
    _io(
        "marked",
        "if (!HasLowerIoMark(node) || view.outputs(id).size() != 1) continue;",
        "if (view.outputs(id).size() != 1) continue;",
        "Inputs and outputs become low that nobody asked it of.",
        *_IO,
    ),
    _io(
        "names",
        "names[name] = node.name();",
        "",
        "A low output and its Cast get the same name.",
        *_IO,
    ),
    _io(
        "unused",
        "DropUnused(*preserved, graph);",
        "",
        "Casts that nobody reads any more stay.",
        *_IO,
    ),
    _emulate(
        "rounds_results",
        "if (wants_float32 && moves_values_.Has(from.node)) return;",
        "if (wants_float32) return;",
        "What an emulated op yields is not rounded.",
        _EMULATE_TESTS,
    ),
    _emulate(
        "shared_casts",
        "if (!name.empty()) return name;",
        "",
        "Each reader of an emulated op has Casts of its own.",
        _EMULATE_TESTS,
    ),
    _emulate(
        "lowered_by_us",
        "if (!lowered || !IsLowType(group.dtype)) continue;",
        "if (!IsLowType(group.dtype)) continue;",
        "What was low before is raised by the emulation.",
        _EMULATE_TESTS,
    ),
    _emulate(
        "marks",
        "changed_ |= ForgetMarks(&node);",
        "changed_ |= ForgetMarks(&node) && false;",
        "Marks are taken off and the pass says that nothing changed.",
        _EMULATE_TESTS,
    ),
)

_verify = mutations_of("graph_passes/rewrite/verify_graph.cc")
_NOTICES = "passes/test_verify_graph.py"
_VERIFY_GRAPH = (
    _verify(
        "edges",
        "produced == tensorflow::DT_INVALID || BaseType(produced) == BaseType(consumed)",
        "true",
        "An edge whose ends have two dtypes goes unnoticed.",
        _NOTICES,
    ),
    _verify(
        "next_iterations",
        "if (next_iterations.Has(view.fanin(id)[k].node) && !merges.Has(id) &&",
        "if (false &&",
        "A node between a NextIteration and its Merge goes unnoticed.",
        _NOTICES,
    ),
    _verify(
        "odd_before",
        "!StoodBetween(before, view.node(id).name(), k)) {",
        "true) {",
        "A graph is refused for what was odd in it before.",
        _NOTICES,
    ),
    _verify(
        "gone",
        'if (id < 0) return Internal("preserved node ", Quoted(name), " is gone");',
        "if (id < 0) return Status();",
        "A fetched node that is gone goes unnoticed.",
        _NOTICES,
    ),
    _verify(
        "fetched_dtypes",
        "same = old_outputs[p].dtype == outputs[p].dtype;",
        "same = true;",
        "A fetched node with another dtype goes unnoticed.",
        _NOTICES,
    ),
    _verify(
        "handles",
        "if (disagreeing.empty()) return Status();",
        "return Status();",
        "Ops on one list that disagree about its elements go unnoticed.",
        _NOTICES,
    ),
    _verify(
        "handles_before",
        "if (std::any_of(handle.groups.begin(), handle.groups.end(), excused)) continue;",
        "",
        "A graph is refused for a list that was wrong before.",
        _NOTICES,
    ),
)

_driver = mutations_of("graph_passes/pipeline.cc")
_table = mutations_of("graph_passes/pass_table.cc")
_state = mutations_of("graph_passes/rewrite/pass_state.cc")
_ledger = mutations_of("graph_passes/ledger.cc")
_PIPELINE = (
    _driver(
        "honesty",
        "if ((Fingerprint() != before) != (changed && options_.check_changed)) {",
        "if (false) {",
        "A pass that misreports whether it changed the graph goes unnoticed.",
        "project/test_pipeline.py",
    ),
    _driver(
        "verification",
        "VerifyGraph(state_.given(), state_.preserved, state_.graph(), state_.mutable_view()));",
        "GraphView::Build(state_.graph(), state_.mutable_view()));",
        "A rewritten graph is not verified.",
        "sessions/test_internal_failures.py",
    ),
    _driver(
        "fused_before",
        "if (state.decided.found_fused_ops) ledger->warnings.push_back(kFusedBefore);",
        "",
        "Nobody is told that the remapper ran before.",
        "passes/test_fused_ops.py",
    ),
    _driver(
        "dumps",
        "return Show(number_, pass.name);",
        "return Status();",
        "The graph is not dumped after a pass.",
        "project/test_pipeline.py",
    ),
    _table(
        "emulated_speed",
        "return LowersForSpeed(state) && !state.emulates;",
        "return LowersForSpeed(state);",
        "What makes low types faster runs where they are emulated.",
        _EMULATE_TESTS, "passes/test_same_padding.py", _SINK,
    ),
    _table(
        "cube_fused",
        "rule != ModeRule::kKeepOrigin && rule != ModeRule::kCube;",
        "rule != ModeRule::kKeepOrigin;",
        "Cube mode splits fused ops.",
        "passes/test_fused_ops.py",
    ),
    _table(
        "emulated_constants",
        "Switch::kForSize, true, KeepsLowTypes, FoldConstants}",
        "Switch::kForSize, true, Always, FoldConstants}",
        "Constants are folded into a low type that is emulated.",
        _EMULATE_TESTS,
    ),
    _state(
        "fed_casts",
        "UnmarkInserted(context.fed, &current_->own);",
        "",
        "A Cast of an earlier run is read past though the caller feeds it.",
        "passes/test_earlier_runs.py",
    ),
    _ledger(
        "bytes",
        "if (cast.bytes == kUnknownBytes) return kUnknownBytes;",
        "if (cast.bytes == kUnknownBytes) continue;",
        "Bytes that are unknown count for none.",
        "passes/test_ledger.py",
    ),
    _ledger(
        "first_dtypes",
        "before == mark.before.end() ? DtypeName(group.dtype) : before->second,",
        "DtypeName(group.dtype),",
        "A second run tells the dtypes that the first one left.",
        "passes/test_earlier_runs.py", "passes/test_ledger.py",
    ),
    _ledger(
        "inserted",
        "if (!casts.Has(id) || !after.IsInserted(id)) continue;",
        "if (!casts.Has(id)) continue;",
        "The user's own Casts are counted.",
        "passes/test_ledger.py", "passes/test_resolve_gray.py",
    ),
)

MUTATIONS = (
    *_FOLD_BATCH_NORMS,
    *_FOLD_CONSTANTS,
    *_FOR_FUSIONS,
    *_LAST,
    *_VERIFY_GRAPH,
    *_PIPELINE,
)
