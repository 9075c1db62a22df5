"""Mutations of graph_passes/lists."""

from __future__ import annotations

from mutate.mutation import mutations_of

_LINT = "cli/test_lint.py"
_GPU_LISTS = "lists/test_gpu_lists.py"
_MIXLIST = "lists/test_mixlist.py"
_OP_LISTS = "lists/test_op_lists.py"
_OPS_INFO_DIR = "lists/test_ops_info_dir.py"
_ERRORS = "session/test_errors.py"
_RAISED = f"{_ERRORS}::test_the_python_helpers_raise_the_same_text_before_anything_runs"

_op_lists = mutations_of("graph_passes/lists/op_lists.cc")
_mixlist = mutations_of("graph_passes/lists/mixlist.cc")
_ops_info = mutations_of("graph_passes/lists/ops_info.cc")
_ops_info_keys = mutations_of("graph_passes/lists/ops_info_keys.cc")
_lint_mixlist = mutations_of("graph_passes/lists/lint_mixlist.cc")
_file_format = mutations_of("graph_passes/lists/file_format.cc")
_custom_dtypes = mutations_of("graph_passes/lists/custom_dtypes.cc")
_mixlist_warnings = mutations_of("graph_passes/lists/mixlist_warnings.cc")
_known_ops = mutations_of("graph_passes/lists/known_ops.cc")
_did_you_mean = mutations_of("graph_passes/lists/did_you_mean.cc")
_json_text = mutations_of("graph_passes/lists/json_text.cc")

MUTATIONS = (
    _op_lists(
        "device_before_all",
        "for (DeviceKind where : {kind, DeviceKind::kOther}) {",
        "for (DeviceKind where : {DeviceKind::kOther, kind}) {",
        "The list of all devices counts for more than that of the node's device.",
        f"{_GPU_LISTS}::test_softmax_is_gray_on_a_gpu_and_black_on_a_cpu",
    ),
    _op_lists(
        "whole_name",
        "if (!RE2::FullMatch(name, *entry.node_pattern)) continue;",
        "if (!RE2::PartialMatch(name, *entry.node_pattern)) continue;",
        "A node: entry matches a part of a name.",
        f"{_OP_LISTS}::test_a_pattern_must_match_the_whole_name",
    ),
    _op_lists(
        "node_over_op",
        "*listing = {entry.list, &entry.place, false, Edited::kByName};",
        "if (listing->listed_by == nullptr) listing->color = entry.list;",
        "An entry for an op type counts for more than a node: entry.",
        f"{_OP_LISTS}::test_the_table_of_edits",
    ),
    _op_lists(
        "removed_by_name",
        "if (decided == nullptr && by_op == entry.list) {",
        "if (decided == nullptr) {",
        "Removing a node from a list takes it off another list.",
        f"{_OP_LISTS}::test_the_table_of_edits",
    ),
    _op_lists(
        "contradiction",
        "if (decided != nullptr && decided->list != entry.list) {",
        "if (false) {",
        "Two patterns that contradict each other about a node are no error.",
        f"{_OP_LISTS}::test_patterns_that_contradict_each_other_about_a_node_are_an_error",
    ),
    _op_lists(
        "removed_by_op",
        "if (!entry.add && entry.list != listing.color) return listing;",
        "",
        "Removing an op from a list takes it off the list of another device.",
        f"{_GPU_LISTS}::test_removing_from_a_list_is_about_the_devices_whose_list_it_is",
    ),
    _op_lists(
        "stays_gray",
        "if (was_on_list && entry.list == ListColor::kGray) {",
        "if (false) {",
        "An op that is removed from the gray list counts as edited, and nothing is told.",
        f"{_MIXLIST}::test_what_is_removed_from_the_gray_list_stays_gray_and_is_told",
    ),
    _op_lists(
        "stays_gray_by_name",
        "if (edits_[i].node_pattern != nullptr && stays_gray) {",
        "if (false) {",
        "The same of a node.",
        f"{_MIXLIST}::test_what_is_removed_from_the_gray_list_stays_gray_and_is_told",
    ),
    _file_format(
        "fusion_switch",
        "if (IsFusionSwitch(document.root)) return FileFormat::kFusionSwitch;",
        "",
        "A fusion switch file is taken for an ops-info file.",
        f"{_LINT}::test_the_detected_format_is_told",
    ),
    _file_format(
        "switch_lines",
        "return HasSwitchLines(text) ? FileFormat::kFusionSwitch : FileFormat::kCustomDtypes;",
        "return FileFormat::kCustomDtypes;",
        "The older form of a fusion switch file is taken for a customize_dtypes file.",
        f"{_LINT}::test_the_detected_format_is_told",
    ),
    _custom_dtypes(
        "comment",
        "std::min(text_.find(kComment, begin), end)",
        "end",
        "A comment is read as a line.",
        "lists/test_custom_dtypes_file.py::test_what_is_read",
    ),
    _mixlist(
        "itself",
        'return absl::StartsWith(value, "{");',
        "return false;",
        "A mixlist that was given itself is taken for a path.",
        "session/test_mixlist_mapping.py::test_a_mapping_decides_as_the_file_does",
    ),
    _json_text(
        "keys",
        "if (places == JsonPlaces::kLines) return Place(*this, BeginOf(value));",
        "if (true) return Place(*this, BeginOf(value));",
        "Errors of a mapping have lines and columns.",
        "session/test_mixlist_mapping.py::test_an_error_names_the_place_in_the_mapping",
    ),
    _mixlist(
        "two_lists",
        "if (first->list == entry.list) continue;",
        "continue;",
        "An op that is added to two lists is no error.",
        f"{_RAISED}[mixlist adds to two lists]",
    ),
    _mixlist(
        "added_and_removed",
        "if (first == added.end() || first->second->list != entry.list) continue;",
        "continue;",
        "An op that is added to a list and removed from it is no error.",
        f"{_RAISED}[mixlist adds and removes]",
    ),
    _mixlist(
        "moved",
        "if (first == added.end() || first->second->list != entry.list) continue;",
        "if (first == added.end()) continue;",
        "An op that is moved from one list to another is an error.",
        f"{_OP_LISTS}::test_the_table_of_edits",
    ),
    _ops_info(
        "black",
        "*color = ListColor::kBlack;",
        "*color = ListColor::kGray;",
        'The flag "false" does not make an op black.',
        f"{_OPS_INFO_DIR}::test_the_flag_is_the_list",
    ),
    _ops_info_keys(
        "misspelt_key",
        "if (folded == Folded(with_effect) || (nearest != nullptr && *nearest == with_effect)) {",
        "if (false) {",
        "A misspelt precision_reduce is passed over.",
        f"{_RAISED}[ops-info with a misspelt key]",
    ),
    _ops_info(
        "ascend_names",
        "} else if (other->name != op) {",
        "} else {",
        "The entry of Ascend's name replaces that of the op itself.",
        f"{_OPS_INFO_DIR}::test_names_of_ascend_stand_for_ops_of_tensorflow_unless_those_are_named",
    ),
    _ops_info(
        "two_names",
        "if (Darkness(entry.info.color) >= Darkness(other->info.color)) other = &entry;",
        "other = &entry;",
        "Of two of Ascend's names for an op, the last one says its list.",
        f"{_OPS_INFO_DIR}::test_of_two_names_of_ascend_the_one_that_keeps_more_counts",
    ),
    _ops_info(
        "opposites",
        "if (opposite) {",
        "if (false) {",
        "Two names of an op that say the opposite are no error.",
        "lists/test_ops_info_files.py::test_two_names_of_one_op_that_say_the_opposite_are_an_error",
    ),
    _lint_mixlist(
        "everywhere",
        "return everywhere ? on == 3 : on > 0;",
        "return on > 0;",
        "An entry counts as needless though it changes the list of one device.",
        f"{_LINT}::test_what_is_needless_depends_on_the_target",
    ),
    _lint_mixlist(
        "errors_first",
        "{ return a.severity < b.severity; }",
        "{ return a.severity > b.severity; }",
        "Notes stand before errors.",
        f"{_LINT}::test_what_is_odd_or_needless_is_told_and_is_no_error",
    ),
    _mixlist_warnings(
        "unmatched",
        "if (removes_nodes ? RemovesAny(entry, lists, view) : Matches(entry, ops, view)) {",
        "if (removes_nodes ? RemovesAny(entry, lists, view) : true) {",
        "An entry that matches no node is not told.",
        f"{_MIXLIST}::test_mixlists_of_published_scripts",
        f"{_MIXLIST}::test_forty_names_some_of_which_are_unknown",
    ),
    _mixlist_warnings(
        "removes_none",
        "if (removes_nodes ? RemovesAny(entry, lists, view) : Matches(entry, ops, view)) {",
        "if (removes_nodes || Matches(entry, ops, view)) {",
        "A pattern that takes no node off the list is not told.",
        f"{_MIXLIST}::test_a_pattern_that_takes_no_node_off_the_list_is_told",
    ),
    _mixlist_warnings(
        "another_graph",
        "if (lowered > 0) return true;",
        "return true;",
        "A mixlist is blamed on a graph in which there is nothing to lower.",
        f"{_MIXLIST}::test_a_mixlist_for_another_graph_is_not_blamed_on_a_graph_nothing_is_lowered_in",
    ),
    _known_ops(
        "digits",
        "if (Digits(name) == Digits(given)) near",
        "near",
        "A misspelt name is fixed to an op of another version.",
        f"{_LINT}::test_only_what_can_be_nothing_else_is_taken_for_a_misspelt_name",
    ),
    _did_you_mean(
        "threshold",
        "std::min<size_t>(wanted.size() / 3, 6)",
        "std::min<size_t>(wanted.size() / 2, 6)",
        "A guess may differ in half of the letters.",
        f"{_MIXLIST}::test_no_name_is_guessed_of_which_half_the_letters_differ",
    ),
    _json_text(
        "depth",
        "if (++depth > kMaxJsonDepth) return i;",
        "if (++depth >= kMaxJsonDepth) return i;",
        "The deepest nesting that is allowed is refused.",
        f"{_RAISED}[mixlist nested as deep as may be]",
    ),
)
