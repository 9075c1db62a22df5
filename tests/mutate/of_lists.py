"""Mutations of graph_passes/lists."""

from __future__ import annotations

from mutate.mutation import mutations_of

_lists = mutations_of("graph_passes/lists/op_lists.cc")
_OP_LISTS = (
    _lists(
        "device_before_all",
        "for (DeviceKind where : {kind, DeviceKind::kOther}) {",
        "for (DeviceKind where : {DeviceKind::kOther, kind}) {",
        "The list of all devices counts for more than that of the node's device.",
        "lists/test_gpu_lists.py", "lists/test_configs.py",
    ),
    _lists(
        "whole_name",
        "if (!RE2::FullMatch(name, *entry.node_pattern)) continue;",
        "if (!RE2::PartialMatch(name, *entry.node_pattern)) continue;",
        "A node: entry matches a part of a name.",
        "lists/test_op_lists.py",
    ),
    _lists(
        "node_over_op",
        "*listing = {entry.list, &entry.place, false};",
        "if (listing->listed_by == nullptr) *listing = {entry.list, &entry.place, false};",
        "An entry for an op type counts for more than a node: entry.",
        "lists/test_op_lists.py",
    ),
    _lists(
        "removed_by_name",
        "if (decided == nullptr && by_op == entry.list) {",
        "if (decided == nullptr) {",
        "Removing a node from a list takes it off another list.",
        "lists/test_op_lists.py",
    ),
    _lists(
        "contradiction",
        "if (decided != nullptr && decided->list != entry.list) {",
        "if (false) {",
        "Two patterns that contradict each other about a node are no error.",
        "lists/test_op_lists.py",
    ),
    _lists(
        "black_part",
        "if (part.color != ListColor::kBlack) continue;",
        "if (part.color == ListColor::kBlack) continue;",
        "A fused op with a black part is not black.",
        "passes/test_fused_ops.py",
    ),
    _lists(
        "removed_by_op",
        "if (!entry.add && entry.list != listing.color) return listing;",
        "",
        "Removing an op from a list takes it off the list of another device.",
        "lists/test_gpu_lists.py",
    ),
    _lists(
        "added_elsewhere",
        "if (added.count(op) != 0) continue;",
        "",
        "Removing an op from a list undoes that it is added to another.",
        "lists/test_op_lists.py", "lists/test_mixlist.py",
    ),
    _lists(
        "not_on_list",
        "if (was_on_list) {",
        "if (true) {",
        "Removing an op from a list that it is not on makes it gray, and is not told.",
        "lists/test_mixlist.py",
    ),
    _lists(
        "all_white_unlisted",
        "if (!all_white_ || !changes) return listing;",
        "if (!all_white_) return listing;",
        "all_white lowers ops that no list has.",
        "passes/test_all_white.py",
    ),
)

_mixlist = mutations_of("graph_passes/lists/mixlist.cc")
_MIXLIST = (
    _mixlist(
        "two_lists",
        "if (first->list == entry.list) continue;",
        "continue;",
        "An op that is added to two lists is no error.",
        "lists/test_mixlist.py", "sessions/test_errors.py",
    ),
    _mixlist(
        "added_and_removed",
        "if (first == added.end() || first->second->list != entry.list) continue;",
        "continue;",
        "An op that is added to a list and removed from it is no error.",
        "sessions/test_errors.py",
    ),
    _mixlist(
        "moved",
        "if (first == added.end() || first->second->list != entry.list) continue;",
        "if (first == added.end()) continue;",
        "An op that is moved from one list to another is an error.",
        "lists/test_mixlist.py", "lists/test_op_lists.py",
    ),
    _mixlist(
        "empty_entry",
        "if (!value.isString() || value.asString().empty()) {",
        "if (!value.isString()) {",
        "An entry of no letters is accepted.",
        "sessions/test_errors.py",
    ),
    _mixlist(
        "unknown_key",
        "CheckKeys(document, list, EditKeys(), problems);",
        "",
        "A misspelt to-add is passed over.",
        "sessions/test_errors.py",
    ),
)

_ops_info = mutations_of("graph_passes/lists/ops_info.cc")
_OPS_INFO = (
    _ops_info(
        "black",
        "*color = ListColor::kBlack;",
        "*color = ListColor::kGray;",
        'The flag "false" does not make an op black.',
        "lists/test_ops_info_dir.py",
    ),
    _ops_info(
        "misspelt_key",
        "if (key == kPrecisionReduce || Folded(key) != Folded(kPrecisionReduce)) continue;",
        "continue;",
        "A misspelt precision_reduce is passed over.",
        "sessions/test_errors.py", "lists/test_ops_info_dir.py",
    ),
    _ops_info(
        "float",
        'dtypes->float32 |= name == "float" || name == "float32";',
        'dtypes->float32 |= name == "float32";',
        'The dtype "float" is not float32.',
        "lists/test_ops_info_dir.py", "lists/test_configs.py",
    ),
    _ops_info(
        "ascend_names",
        "if (op != name && document.root.isMember(op)) continue;",
        "",
        "The entry of Ascend's name replaces that of the op itself.",
        "lists/test_ops_info_dir.py",
    ),
    _ops_info(
        "outputs",
        'if (ArgumentIndex(key, "output", &index)) arguments = &info->outputs;',
        "",
        "The dtypes of outputs restrict nothing.",
        "lists/test_ops_info_dir.py",
    ),
)

_lint = mutations_of("graph_passes/lists/lint_mixlist.cc")
_LINT = (
    _lint(
        "everywhere",
        "return everywhere ? on == 3 : on > 0;",
        "return on > 0;",
        "An entry counts as needless though it changes the list of one device.",
        "cli/test_lint.py",
    ),
    _lint(
        "after_errors",
        "if (needless.second.empty() || !problems.empty()) continue;",
        "if (needless.second.empty()) continue;",
        "A file with errors is told what in it is needless.",
        "cli/test_lint.py",
    ),
    _lint(
        "errors_first",
        "{ return a.severity < b.severity; }",
        "{ return a.severity > b.severity; }",
        "Notes stand before errors.",
        "cli/test_lint.py",
    ),
    _lint(
        "unknown_once",
        "if (unknown.count(&entry) != 0) continue;",
        "",
        "An unknown op is told to be needless as well.",
        "cli/test_lint.py",
    ),
)

_warnings = mutations_of("graph_passes/lists/mixlist_warnings.cc")
_WARNINGS = (
    _warnings(
        "unmatched",
        "if (!Matches(entry, ops, view))",
        "if (false)",
        "An entry that matches no node is not told.",
        "lists/test_mixlist.py", "lists/test_op_lists.py",
    ),
    _warnings(
        "of_programs",
        "if (!NamesAnOp(entry) || entry.for_any_graph) continue;",
        "if (!NamesAnOp(entry)) continue;",
        "What a program added for any graph is told to match no node of this one.",
        "passes/test_all_white.py",
    ),
    _warnings(
        "another_graph",
        "if (lowered > 0) return true;",
        "return true;",
        "A mixlist is blamed on a graph in which there is nothing to lower.",
        "lists/test_mixlist.py",
    ),
    _warnings(
        "one_guess",
        'return near.size() == 1 ? *near.begin() : "";',
        'return near.size() >= 1 ? *near.begin() : "";',
        "A misspelt name that may be two ops is fixed to one of them.",
        "cli/test_lint.py",
    ),
    _warnings(
        "digits",
        "Digits(name) == Digits(given)) {",
        "true) {",
        "A misspelt name is fixed to an op of another version.",
        "cli/test_lint.py",
    ),
)

_guess = mutations_of("graph_passes/lists/did_you_mean.cc")
_DID_YOU_MEAN = (
    _guess(
        "threshold",
        "std::min<size_t>(wanted.size() / 3, 6)",
        "std::min<size_t>(wanted.size() / 2, 6)",
        "A guess may differ in half of the letters.",
        "lists/test_mixlist.py", "sessions/test_errors.py", "cli/test_lint.py", "sessions/test_options.py",
    ),
    _guess(
        "nearest",
        "if (differ < *distance) {",
        "if (differ <= *distance) {",
        "Of names that are as near, the last is guessed.",
        "lists/test_mixlist.py", "sessions/test_errors.py",
    ),
    _guess(
        "abbreviation",
        "const bool abbreviated = wanted.size() >= 4 && ",
        "const bool abbreviated = ",
        "A letter is taken for the beginning of an op type.",
        "lists/test_mixlist.py", "sessions/test_errors.py", "cli/test_lint.py",
    ),
)

_json = mutations_of("graph_passes/lists/json_text.cc")
_JSON = (
    _json(
        "depth",
        "if (++depth > kMaxJsonDepth) return i;",
        "if (++depth >= kMaxJsonDepth) return i;",
        "The deepest nesting that is allowed is refused.",
        "sessions/test_errors.py", "lists/test_mixlist.py",
    ),
    _json(
        "brackets_in_comments",
        "++i;\n    } else if (c == '[' || c == '{') {",
        "i -= 1;\n    } else if (c == '[' || c == '{') {",
        "The end of a comment is read again as the begin of one.",
        "lists/test_mixlist.py",
    ),
    _json(
        "byte_order_mark",
        "if (after - starts.begin() == 1) offset -= document.mark_size;",
        "",
        "Columns of the first line count the byte order mark.",
        "cli/test_lint.py",
    ),
)

MUTATIONS = (
    *_OP_LISTS,
    *_MIXLIST,
    *_OPS_INFO,
    *_LINT,
    *_WARNINGS,
    *_DID_YOU_MEAN,
    *_JSON,
)
