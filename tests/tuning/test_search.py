"""The search of npu-precision tune, without models: sets of names, and a rule about them."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from npu_precision.tuning.search import Search, split

NAMES = st.lists(
    st.text("abc/", min_size=1, max_size=6).map(lambda name: name.strip("/") or "a"),
    unique=True,
    min_size=1,
    max_size=40,
)


@given(NAMES, st.data())
def test_exactly_what_is_needed_is_found(names, data):
    needed = set(data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=5)))
    search = Search(names, lambda kept: needed <= kept)
    assert search.run() == [name for name in names if name in needed]
    assert search.is_complete


@given(NAMES, st.data())
def test_of_what_can_be_kept_in_several_ways_none_can_be_left_out(names, data):
    ways = data.draw(st.lists(st.sets(st.sampled_from(names), min_size=1), min_size=1, max_size=4))

    def is_good(kept):
        return any(way <= kept for way in ways)

    found = frozenset(Search(names, is_good).run())
    assert is_good(found)
    assert not any(is_good(found - {name}) for name in found)


@given(NAMES, st.randoms(use_true_random=False), st.integers(1, 30))
def test_whatever_the_rule_and_the_limit_what_is_found_is_good(names, random, most):
    answers = {frozenset(names): True}

    def is_good(kept):
        return answers.setdefault(kept, random.random() < 0.5)

    search = Search(names, is_good, most)
    assert answers[frozenset(search.run())]
    assert len(answers) - 1 <= most
    assert search.left == 0


def test_one_of_many_is_found_by_few_questions():
    names = [f"block{number // 10}/layer{number % 10}" for number in range(1000)]
    asked = []

    def is_good(kept):
        asked.append(kept)
        return names[700] in kept

    assert Search(names, is_good).run() == [names[700]]
    # Doubling, bisection, and removal of the names that are not needed.
    assert len(asked) <= 4 * math.log2(1000)


def test_the_limit_is_kept_and_told():
    names = [str(number) for number in range(64)]
    search = Search(names, lambda kept: "40" in kept, most=7)
    assert "40" in search.run()
    assert not search.is_complete


def test_parts_are_scopes_and_then_halves():
    assert split(["a/b/x", "a/c/x", "a/b/y"]) == [["a/b/x", "a/b/y"], ["a/c/x"]]
    assert split(["a/x", "a/y", "a/z"]) == [["a/x"], ["a/y", "a/z"]]
    assert split(["a", "a/x", "a/y"]) == [["a"], ["a/x", "a/y"]]
    assert split(["a/x", "b/x", "c/x", "a/y"]) == [["a/x", "a/y"], ["b/x", "c/x"]]
    assert split(["only"]) == [["only"]]


@given(NAMES)
def test_parts_are_all_of_it_and_fewer(names):
    parts = split(names)
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert len(names) == 1 or all(len(part) < len(names) for part in parts)
