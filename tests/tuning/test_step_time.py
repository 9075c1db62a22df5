"""npu-precision tune --objective time and pareto: the fastest mixlist within the limit."""

from __future__ import annotations

import itertools
import json
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.overflowing import EMULATED, OVERFLOW, normal
from support.report_files import data_in, needs_page
from support.step_times import by_kept, took

from npu_precision import PrecisionOptions
from npu_precision.accuracy import frozen, model_run
from npu_precision.cli.plots import check as check_plots
from npu_precision.offline import model_file
from npu_precision.tuning import step_time
from npu_precision.tuning.front import Point, Times, worth_measuring
from npu_precision.tuning.step_time import in_rounds
from npu_precision.tuning.trials import Trial


def trial_of(lowered, error, is_met=True):
    return Trial(lowered, 10, error, None, None, is_met)


# Steps and rounds, without models.


class Clock:
    """A clock that only steps move."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def step(self, *seconds):
        """A step that takes these times in turn, and then always the last one."""
        left = list(seconds)

        def run(_):
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run


def test_a_step_is_compared_with_float32_of_the_same_round():
    clock = Clock()
    # The machine becomes ten times slower after two warm-ups and two rounds.
    times = [1, 1, 1, 1, 10, 10, 10]
    float32, half = in_rounds(
        [clock.step(*times), clock.step(*(time / 2 for time in times))], 5, clock
    )
    assert (float32.ratio, float32.low, float32.high) == (1, 1, 1)
    assert (half.ratio, half.low, half.high) == (0.5, 0.5, 0.5)
    assert (float32.seconds, half.seconds) == (10, 5)


def test_warm_up_runs_do_not_count():
    clock = Clock()
    _, found = in_rounds([clock.step(100, 100, 2), clock.step(900, 900, 1)], 5, clock)
    assert (found.ratio, found.high) == (0.5, 0.5)


def test_the_quartiles_show_the_spread_of_the_rounds():
    clock = Clock()
    warm_up = [1, 1]
    _, found = in_rounds([clock.step(1), clock.step(*warm_up, 0.6, 1.4, 0.8, 1.2, 1.0)], 5, clock)
    assert (found.low, found.ratio, found.high) == pytest.approx((0.8, 1.0, 1.2))


def test_the_order_changes_from_round_to_round_and_steps_get_the_number_of_the_round():
    asked = []
    steps = [lambda number, name=name: asked.append((name, number)) for name in "abc"]
    ticks = itertools.count(1)
    in_rounds(steps, 6, lambda: float(next(ticks)))
    measured = asked[-18:]
    rounds = ["".join(name for name, number in measured if number == each) for each in range(6)]
    assert rounds == ["abc", "cba", "bca", "acb", "cab", "bac"]
    assert [number for _, number in measured] == sorted(number for _, number in measured)


def test_two_steps_take_turns_to_be_first():
    asked = []
    ticks = itertools.count(1)
    steps = [lambda _, name=name: asked.append(name) for name in "ab"]
    in_rounds(steps, 6, lambda: float(next(ticks)))
    first = asked[-12::2]
    assert sorted(first) == ["a"] * 3 + ["b"] * 3


@pytest.mark.parametrize(
    ("ratio", "spread", "is_faster", "is_slower"),
    [(0.9, 0.05, True, False), (0.9, 0.1, False, False), (1.1, 0.1, False, False)]
    + [(1.1, 0.05, False, True)],
)
def test_only_what_three_quarters_of_the_rounds_show_is_beyond_the_noise(
    ratio, spread, is_faster, is_slower
):
    found = took(ratio, spread)
    assert (found.is_faster, found.is_slower) == (is_faster, is_slower)


# The front and the choice, without models.

POINTS = st.lists(
    st.builds(
        lambda kept, ratio, spread, error, limit: Point(
            frozenset(map(str, range(kept))),
            trial_of(1, error, error <= limit),
            error,
            took(ratio, spread),
        ),
        kept=st.integers(0, 20),
        ratio=st.sampled_from([0.5, 0.7, 0.9, 1.0, 1.1, 2.0]),
        spread=st.sampled_from([0.0, 0.05, 0.3]),
        error=st.sampled_from([-0.1, 0.0, 0.001, 0.01, 0.1]),
        limit=st.just(0.01),
    ),
    max_size=12,
).map(lambda points: Times((Point(None, None, 0.0, took(1, 0)), *points), True))


def costs(point):
    is_noise = point.time.low <= 1 <= point.time.high
    return (1.0 if is_noise else point.time.ratio), max(point.worse, 0)


def beats(one, other):
    """Whether a point is faster or more accurate than another, and neither slower nor worse."""
    (time, error), (other_time, other_error) = costs(one), costs(other)
    return (
        (time, error) != (other_time, other_error) and time <= other_time and error <= other_error
    )


@given(POINTS)
def test_no_point_of_the_front_is_dominated_and_each_other_point_is(times):
    front = times.front
    assert front
    for point in front:
        assert not any(beats(other, point) for other in times.points)
    for point in times.points:
        if point not in front:
            assert any(beats(one, point) or costs(one) == costs(point) for one in front)


@given(POINTS)
def test_the_chosen_point_is_on_the_front_within_the_limit_and_not_slower_than_float32(times):
    chosen = times.chosen
    assert chosen in times.front
    assert chosen.is_good
    assert chosen.kept is None or chosen.time.high < 1
    for point in times.points:
        if point.is_good and point.time.high < 1:
            assert chosen.time.ratio <= point.time.ratio


def names(count):
    return frozenset(map(str, range(count)))


def test_what_is_on_the_front_of_lowered_and_error_is_measured():
    tried = [
        (names(0), trial_of(9, np.inf, False)),
        (names(1), trial_of(8, 0.1, False)),
        (names(2), trial_of(7, 0.01)),
        (frozenset("x"), trial_of(6, 0.3, False)),  # Less is lowered, and the error is larger.
        (names(3), trial_of(6, 0.005)),
        (names(9), trial_of(0, 0.0)),
    ]
    good = worth_measuring(tried, lambda trial: trial.error, only_good=True)
    assert [trial.lowered for _, trial in good] == [7, 6, 0]
    whole = worth_measuring(tried, lambda trial: trial.error, only_good=False)
    assert [(trial.lowered, trial.error) for _, trial in whole] == [
        *((8, 0.1), (7, 0.01), (6, 0.005), (0, 0.0))
    ]


def test_of_many_trials_about_eight_are_measured_and_the_ends_are_among_them():
    tried = [(names(count), trial_of(100 - count, 1.0 - count / 100)) for count in range(101)]
    tried = [(kept, trial_of(each.lowered, each.error, len(kept) >= 43)) for kept, each in tried]
    found = worth_measuring(tried, lambda trial: trial.error, only_good=False)
    kept = [len(each) for each, _ in found]
    assert len(kept) <= 10
    assert {0, 43, 100} <= set(kept)
    assert max(np.diff(kept)) <= 15


def test_what_is_good_is_measured_too_if_it_lowers_less_and_is_no_more_accurate():
    tried = [
        (names(1), trial_of(8, 0.01)),
        (names(2), trial_of(8, 0.01)),  # Most likely, the same nodes are lowered.
        (names(3), trial_of(5, 0.01)),
        (names(9), trial_of(0, 0.0)),
    ]
    found = worth_measuring(tried, lambda trial: trial.error, only_good=True)
    assert [len(kept) for kept, _ in found] == [1, 3, 9]


def test_what_keeps_everything_is_measured_where_less_is_as_accurate():
    tried = [(names(0), trial_of(9, 0.0)), (names(9), trial_of(0, 0.0))]
    found = worth_measuring(tried, lambda trial: trial.error, only_good=True)
    assert [len(kept) for kept, _ in found] == [0, 9]


# The command, with times that are made up.

MODE = ("--mode", "allow_mix_precision")


def test_the_fastest_mixlist_within_the_limit_wins(overflow, tune, timed):
    calls = timed(by_kept({0: took(0.2), 1: took(0.8), 3: took(0.5)}))
    printed, mixlist = tune(*overflow, "--max-error", "0.01", "--objective", "time")
    assert calls[0][0] == 20
    assert 3 in calls[0][1]
    assert 0 not in calls[0][1]  # It overflows, so its time is not measured.
    assert len(printed["kept"]) == 3
    assert len(mixlist["black-list"]["to-add"]) <= 3
    (chosen,) = (point for point in printed["times"] if point["chosen"])
    assert (chosen["ratio"], chosen["quartiles"]) == (0.5, [0.49, 0.51])
    assert sorted(each["node"] for each in printed["kept"]) == chosen["kept"]
    assert printed["found"]["error"] <= 0.01


def test_where_nothing_is_faster_float32_wins_and_everything_is_kept(
    overflow, command, timed, tmp_path
):
    timed(by_kept({7: took(1.0)}, took(1.1)))
    output = tmp_path / "m.json"
    text = command(
        *("tune", *overflow, *EMULATED, "--max-error", "0.01", "--objective", "time"),
        *("-o", output),
    )
    assert "\nfloat32: nothing within the limit is faster beyond the noise, so the mixlist" in text
    assert "must_keep_origin_dtype does so without one" in text
    assert f"{output}: 1 entry added to black-list" in text
    assert json.loads(output.read_text()) == {"black-list": {"to-add": ["node:.*"]}}
    explained = json.loads(command("explain", overflow[0], *MODE, "--mixlist", output, "--json"))
    assert not [node for node in explained["nodes"] if node["decision"] == "lowered"]


def test_what_is_faster_only_within_the_noise_does_not_win(overflow, command, timed, tmp_path):
    timed(by_kept({}, took(0.9, spread=0.15)))
    text = command(
        *("tune", *overflow, *EMULATED, "--max-error", "0.01", "--objective", "time"),
        *("-o", tmp_path / "m.json"),
    )
    assert "float32: nothing within the limit is faster beyond the noise" in text
    assert "0.75 to 1.05" in text
    assert "no faster beyond the noise" in text


def test_the_fastest_has_to_be_faster_a_second_time_alone_beside_float32(overflow, tune, timed):
    seen = set()

    def lucky(kept):
        first = kept not in seen
        seen.add(kept)
        return {1: took(0.5 if first else 1.2), 3: took(0.8 if first else 0.7)}.get(kept, took(1.1))

    calls = timed(lucky)
    printed, _ = tune(*overflow, "--max-error", "0.01", "--objective", "time")
    assert [kept for _, kept in calls[1:]] == [[1], [3]]
    assert len(printed["kept"]) == 3
    ratios = {len(point["kept"] or ()): point["ratio"] for point in printed["times"]}
    assert (ratios[1], ratios[3]) == (1.2, 0.7)


def test_the_second_time_the_entries_that_are_written_are_measured(overflow, tune, monkeypatch):
    asked = []

    def measure(model, batches, rounds, precisions):
        edits = [json.loads(options.mixlist_edits) for options in precisions]
        asked.append([each["black-list"]["to-add"] for each in edits])
        return [took(1, 0), *(took(1.0) for _ in precisions)]

    monkeypatch.setattr(step_time, "measure", measure)
    _, mixlist = tune(*overflow, "--max-error", "0.01", "--objective", "time")
    assert asked[1:] == [[mixlist["black-list"]["to-add"]]] == [[["node:.*"]]]
    assert max(map(len, asked[0])) == 7


def test_what_stands_in_for_float32_is_measured_a_second_time_too(overflow, tune, timed):
    again = iter([took(1.2), took(1.0)])
    calls = timed(lambda kept: next(again) if kept == 7 else took(1.1))
    printed, mixlist = tune(*overflow, "--max-error", "0.01", "--objective", "time")
    assert [kept for _, kept in calls[1:]] == [[7]]
    assert mixlist == {"black-list": {"to-add": ["node:.*"]}}
    assert len(printed["kept"]) == 7


def test_entries_of_a_mixlist_that_is_faster_name_single_nodes(overflow, tune, timed):
    timed(by_kept({7: took(0.5)}))
    printed, mixlist = tune(*overflow, "--max-error", "0.01", "--objective", "time")
    names = [f"node:{each['node']}" for each in printed["kept"]]
    assert mixlist["black-list"]["to-add"] == names
    assert len(names) == 7


# The first product computes 128 operations for each element of its Casts, the second one two.
ISLANDS = """
    x = Placeholder(shape=128x128)
    large = MatMul(x, x)
    middle = Exp(large)
    w = Const(value=[[0.5]])
    column = Sum(middle, axis, keep_dims=True)
    axis = Const[int32](value=1)
    small = MatMul(column, w)
    end = Exp(small)
    """


def test_products_whose_casts_cost_more_are_left_out_of_a_trial_and_measured(
    graph_file, arrays, tune, monkeypatch
):
    asked = []
    small = ["node:small"]

    def measure(model, batches, rounds, precisions):
        edits = [json.loads(options.mixlist_edits) for options in precisions]
        asked.append([each["black-list"]["to-add"] for each in edits])
        return [took(1, 0), *(took(0.5 if each == small else 0.6) for each in asked[-1])]

    monkeypatch.setattr(step_time, "measure", measure)
    inputs = ("--inputs", arrays(x=0.01 * normal(128, 128)), "--max-error", "0.5")
    printed, mixlist = tune(graph_file(ISLANDS), *inputs, "--objective", "time")
    assert [each["node"] for each in printed["kept"]] == ["small"]
    assert mixlist["black-list"]["to-add"] == small
    assert [] in asked[0]


def test_mixlists_that_only_noise_tells_apart_are_named(overflow, command, timed, tmp_path):
    timed(by_kept({1: took(0.50, 0.1), 3: took(0.55, 0.1)}))
    text = command(
        *("tune", *overflow, *EMULATED, "--max-error", "0.01", "--objective", "time"),
        *("-o", tmp_path / "m.json"),
    )
    assert (
        "\nfastest within the limit: 1 kept, with 0.50 of float32's step time (0.40 to 0.60); "
        "as fast within the noise: 3 kept\n"
    ) in text


def test_a_mixlist_that_cannot_be_as_fast_as_float32_is_not_written(
    overflow, command, timed, tmp_path
):
    timed(by_kept({}, took(1.5)))
    text = command(
        *("tune", *overflow, *EMULATED, "--max-error", "0.01", "--objective", "time"),
        *("-o", tmp_path / "m.json"),
        status=2,
    )
    assert "no mixlist is as fast as float32, the untouched model" in text
    assert "with all nodes kept, a step takes 1.50 of float32's time" in text
    assert "use the mode must_keep_origin_dtype" in text
    assert not list(tmp_path.glob("m.json*"))


def test_where_the_users_own_lists_lower_something_float32_is_no_mixlist(
    overflow, command, timed, mixlist, tmp_path
):
    timed(by_kept({}, took(1.0)))
    own = ("--mixlist", mixlist(white=["node:end/product"]))
    text = command(
        *("tune", *overflow, *EMULATED, *own, "--max-error", "0.01", "--objective", "time"),
        *("-o", tmp_path / "found.json"),
        status=2,
    )
    assert "your own lists lower 1 node; use" in text


def test_a_model_that_is_good_enough_as_it_is_may_be_faster_with_more_kept(
    model_files, arrays, tune, timed
):
    calls = timed(by_kept({0: took(0.9), 1: took(0.7)}))
    inputs = ("--inputs", arrays(x=normal(4, 8)), "--max-error", "0.5")
    printed, _ = tune(model_files.frozen, *inputs, "--objective", "time")
    assert {0, 1} <= set(calls[0][1])
    assert len(printed["kept"]) == 1
    assert printed["complete"]


def test_pareto_lists_the_front_and_what_is_not_good_enough(overflow, command, timed, tmp_path):
    # With 1 kept, the result is fast, and not accurate enough; float32 is slower than both.
    timed(by_kept({1: took(0.5), 7: took(0.8)}, took(0.9)))
    arguments = (*overflow, *EMULATED, "--objective", "pareto", "-o", tmp_path / "m.json")
    printed = json.loads(command("tune", *arguments, "--max-error", "1e-5", "--json"))
    points = sorted(printed["times"], key=lambda point: point["ratio"])
    assert [
        (len(point["kept"]), point["good"], point["chosen"]) for point in points if point["front"]
    ] == [(1, False, False), (7, True, True)]
    assert printed["found"]["lowered"] == 0
    text = command("tune", *arguments, "--max-error", "1e-5", "--force")
    assert "\nThe front of step time and error\n" in text
    assert "\na step in float32: 2 ms\n" in text
    assert "not good enough" in text
    assert " that were measured are not on it\n" in text


def test_the_metric_of_the_users_is_the_error_of_the_front(
    graph_file, arrays, tune, timed, tmp_path, monkeypatch
):
    (tmp_path / "my_scores.py").write_text(
        "import numpy as np\n"
        "def small(batches):\n"
        "    return max(np.abs(outputs['out:0']).max() for _, outputs in batches)\n"
    )
    monkeypatch.chdir(tmp_path)
    timed(by_kept({}))
    inputs = ("--inputs", arrays(x=normal(8, 8), factor=normal(8, 8)))
    limit = ("--metric", "my_scores:small", "--budget", "1", "--smaller-is-better")
    printed, _ = tune(graph_file(OVERFLOW), *inputs, *limit, "--objective", "pareto")
    start = printed["start"]["metric"] - printed["reference"]["metric"]
    (point,) = (point for point in printed["times"] if point["kept"] == [])
    assert point["worse"] == pytest.approx(start)


def test_the_error_objective_measures_nothing_and_is_the_default(overflow, tune, timed):
    calls = timed(by_kept({}))
    default, mixlist = tune(*overflow, "--max-error", "0.01")
    named, same = tune(*overflow, "--max-error", "0.01", "--objective", "error", "--force")
    assert (default, mixlist) == (named, same)
    assert "times" not in default
    assert calls == []


def test_a_search_that_was_interrupted_while_it_measured_measures_anew(
    overflow, command, timed, tmp_path, monkeypatch
):
    arguments = ("tune", *overflow, *EMULATED, "--max-error", "0.01", "--objective", "time")
    output = tmp_path / "m.json"

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(step_time, "measure", interrupted)
    command(*arguments, "-o", output, status=130)
    state = pathlib.Path(f"{output}.state").read_text()
    assert "ratio" not in state
    calls = timed(by_kept({1: took(0.5)}))
    printed = json.loads(
        command(*arguments, "-o", output, "--resume", "--time-rounds", "7", "--json")
    )
    assert len(printed["kept"]) == 1
    assert {rounds for rounds, _ in calls} == {7}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--objective", "tme"),
            "--objective: got 'tme', expected one of error, time, pareto (did",
        ),
        (("--objective", "tme"), "(did you mean 'time'?)"),
        (("--time-rounds", "9"), "--time-rounds goes with --objective time or pareto"),
        (("--objective", "time", "--time-rounds", "4"), "Invalid value for '--time-rounds'"),
    ],
)
def test_a_mistake_about_the_objective_is_told_in_one_line(
    arguments, message, overflow, command, tmp_path
):
    output = ("-o", tmp_path / "m.json")
    text = command("tune", *overflow, "--max-error", "1", *arguments, *output, status=2)
    assert message in text
    assert text.count("\n") == 1


@needs_page
def test_the_report_has_what_was_measured_beside_the_curve(overflow, command, timed, tmp_path):
    timed(by_kept({1: took(0.5), 3: took(0.9)}, took(1.2)))
    arguments = ("tune", *overflow, *EMULATED, "--max-error", "0.01", "-o", tmp_path / "m.json")
    report = ("--report", tmp_path / "report.html")
    printed = json.loads(command(*arguments, *report, "--objective", "pareto", "--json"))
    data = data_in((tmp_path / "report.html").read_text())
    assert data["curve"]
    assert data["times"]["measure"] == "error"
    points = {point.pop("label"): point for point in data["times"]["points"]}
    assert {"float32", "1 kept", "3 kept"} <= points.keys()
    assert points["1 kept"]["chosen"]
    assert points["1 kept"]["quartiles"] == [0.49, 0.51]
    for point in printed["times"]:
        name = "float32" if point["kept"] is None else f"{len(point['kept'])} kept"
        assert points[name] == {key: point[key] for key in points[name]}
    command(*arguments, *report, "--force")
    assert data_in((tmp_path / "report.html").read_text())["times"] is None


@pytest.fixture
def front_file(tmp_path):
    try:
        check_plots("front.png")
    except ValueError as error:
        pytest.skip(str(error))
    return tmp_path / "front.png"


def test_the_front_is_a_picture_that_replaces_nothing_unasked(
    overflow, command, timed, front_file, tmp_path
):
    timed(by_kept({1: took(0.5), 3: took(0.9)}, took(1.2)))
    front_file.write_text("mine")
    arguments = ("tune", *overflow, *EMULATED, "--max-error", "0.01", "--objective", "pareto")
    arguments = (*arguments, "--plot", front_file, "-o", tmp_path / "m.json")
    assert "exists; --force replaces it" in command(*arguments, status=2)
    assert front_file.read_text() == "mine"
    command(*arguments, "--force")
    assert front_file.read_bytes().startswith(b"\x89PNG")
    assert not list(tmp_path.glob(".front.png*"))


def test_a_picture_that_cannot_be_drawn_leaves_nothing_behind(
    overflow, command, timed, front_file, tmp_path, monkeypatch
):
    timed(by_kept({1: took(0.5)}))
    seen = []

    def fails(path, *_):
        path.write_text("half")
        seen.append(path)
        raise ValueError("no ink")

    monkeypatch.setattr("npu_precision.cli.plots.front", fails)
    arguments = ("tune", *overflow, *EMULATED, "--max-error", "0.01", "--objective", "pareto")
    command(*arguments, "--plot", front_file, "-o", tmp_path / "m.json", status=2)
    assert seen[0] != front_file  # A temporary name, which is renamed when it is complete.
    assert not seen[0].exists()
    assert not front_file.exists()


# Sessions that really run.


@pytest.fixture
def ran(monkeypatch):
    """The outputs of the steps that run, in their order."""
    outputs = []

    def run_once(*arguments):
        outputs.append(model_run.run_once(*arguments))
        return outputs[-1]

    monkeypatch.setattr(step_time, "run_once", run_once)
    return outputs


def test_a_model_is_measured_in_sessions_with_and_without_the_mode(graph_file, ran):
    model = frozen.freeze(model_file.load_model(graph_file(OVERFLOW)))
    batches = [{"x:0": normal(8, 8) * scale, "factor:0": normal(8, 8)} for scale in (1, 2)]
    options = PrecisionOptions(precision_mode="allow_mix_precision", emulate=True, overflow="inf")
    float32, mixed = step_time.measure(model, batches, 5, [options])
    assert float32.ratio == 1
    assert 0 < mixed.low <= mixed.ratio <= mixed.high
    assert float32.seconds > 0
    assert len(ran) == 2 * (2 + 5)  # Two of each to warm up.
    first, second = (outputs["out:0"] for outputs in ran[:2])
    # Rounded to float16, which has 11 bits, and computed so.
    np.testing.assert_allclose(first, second, rtol=0.02, atol=0.02 * np.abs(first).max())
    assert not np.array_equal(first, second)


def test_the_rounds_take_the_batches_in_turn(graph_file, ran):
    model = frozen.freeze(model_file.load_model(graph_file(OVERFLOW)))
    batches = [{"x:0": normal(8, 8) * scale, "factor:0": normal(8, 8)} for scale in (0, 1)]
    step_time.measure(model, batches, 5, [])
    zeros = [not outputs["out:0"].any() for outputs in ran]
    assert zeros == [True, True, True, False, True, False, True]
