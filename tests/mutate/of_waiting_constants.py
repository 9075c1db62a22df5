"""Mutations of the search for constants through which alone a node waits for an effect."""

from __future__ import annotations

from mutate.mutation import mutations_of

_TESTS = "passes/test_waiting_constants.py"
_STAYS = f"{_TESTS}::test_a_constant_that_alone_waits_stays"
_TAKEN = f"{_TESTS}::test_a_constant_that_adds_no_wait_is_taken"
_FETCHES = f"{_TESTS}::test_each_fetch_waits_for_all_that_it_waited_for"

_waiting = mutations_of("graph_passes/analysis/waiting_constants.cc")
_site = mutations_of("graph_passes/fuse/fusion_site.cc")
_norms = mutations_of("graph_passes/fuse/fold_batch_norms.cc")
_compute = mutations_of("graph_passes/rewrite/compute_in_float32.cc")

MUTATIONS = (
    _site(
        "taken",
        "if (IsWaitedThrough(tensor.node)) return nullptr;",
        "",
        "An update that only a constant waits for does not happen.",
        _STAYS,
        _FETCHES,
    ),
    _waiting(
        "free",
        "is_needed_[id] = effects != 0 && HasReaderWithout(id, effects);",
        "is_needed_[id] = effects != 0;",
        "A constant stays though all of its readers wait for the effect.",
        _TAKEN,
    ),
    _waiting(
        "pivots",
        "if (!pivots_.IsPivot(from)) effects |= may_follow_[from];",
        "effects |= may_follow_[from];",
        "In loops, constants stay that only make sure that an iteration runs.",
        _TAKEN,
    ),
    _waiting(
        "branches",
        "must_follow_[id] |= merges_.Has(id) ? OfAnyInput(id) : OfAllInputs(id);",
        "must_follow_[id] |= OfAllInputs(id);",
        "The effect of a branch that is not taken counts as waited for.",
        _STAYS,
    ),
    _waiting(
        "may",
        "may_follow_[id] |= may_follow_[from];",
        "",
        "An effect behind a control dependency is not seen.",
        _STAYS,
        _FETCHES,
    ),
    _waiting(
        "others",
        "if (!copies_constant_[from.node]) effects |= must_follow_[from.node];",
        "effects |= must_follow_[from.node];",
        "Two constants of one reader each count on the other.",
        _FETCHES,
    ),
    _waiting(
        "copies",
        "copies.push_back({use.node, missing});",
        "",
        "The readers of a copy are not asked.",
        _STAYS,
    ),
    _waiting(
        "first",
        "first += kEffectsAtOnce",
        "first = effects_.size()",
        "Only the first effects count.",
        _FETCHES,
    ),
    _norms(
        "waits",
        "for (const std::vector<int>& path : fold->others) folded.push_back(path.back());",
        "",
        "An update that only a parameter of a batch norm waits for does not happen.",
        _FETCHES,
    ),
    _compute(
        "waits",
        "for (const std::string& control : controls) node->add_input(control);",
        "",
        "TensorFlow's remapper drops what a constant behind a Cast waits for.",
        f"{_TESTS}::test_a_session_runs_the_update_that_only_a_constant_waits_for",
    ),
)
