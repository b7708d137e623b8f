"""What is left out on request: fast comparisons, time limits, runs that are stopped, and what is told on the way."""

from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import isorep
from isorep.comparison.ladder import climb
from isorep.comparison.null import default_draws
from isorep.comparison.stages import NULL_SHARE
from isorep.comparison.verdict import WITHOUT_NULL
from isorep.rows import Deadline, OutOfTimeError

from ..data import rotation, sources


@pytest.fixture(scope="module")
def pair():
    x = sources(400, 5)
    return x, x @ rotation(5, 0) + 0.1 * np.random.default_rng(0).normal(size=x.shape)


@pytest.fixture(scope="module")
def whole(pair):
    return isorep.compare(*pair)


def errors(result):
    return {name: rung.held_out.mean for name, rung in result.rungs.items() if name != "ica"}


def test_a_fast_comparison_has_the_same_rungs_without_components_and_the_worst_case(pair, whole):
    fast = isorep.compare(*pair, fast=True)
    assert list(fast.rungs) == ["identity", "signed_permutation", "rigid", "linear"]
    assert errors(fast) == errors(whole)
    assert fast.worst_case is None
    assert whole.worst_case is not None
    assert fast.settings["fast"]
    assert fast.settings["n_null"] == 20
    assert fast.verdict.rung == whole.verdict.rung == "rigid"
    assert fast.rungs["rigid"].null.p_value < 0.01  # from a fitted tail: counting 20 draws gives no less than 1/21
    assert not any("left out" in caveat for caveat in fast.caveats)


def test_a_fast_comparison_of_independent_runs_finds_nothing():
    rng = np.random.default_rng(1)
    result = isorep.compare(rng.normal(size=(300, 4)), rng.normal(size=(300, 4)), fast=True)
    assert result.verdict.rung is None
    assert all(rung.null.p_value > 0.01 for rung in result.rungs.values())


def test_rungs_are_told_as_soon_as_they_are_known(pair, whole):
    told, stages = [], []
    isorep.compare(
        *pair, preview=lambda rungs: told.append((dict(rungs), list(stages))), progress=lambda *at: stages.append(at)
    )
    ((rungs, before),) = told
    assert rungs == pytest.approx(errors(whole))
    assert {stage for stage, _, _ in before} == {"moments", "fits"}
    began = {}
    for stage, done, _ in stages:
        began.setdefault(stage, done)
    assert began["independent components"] == began["null"] == began["worst case"] == 0


def test_a_time_limit_leaves_out_what_there_is_no_time_for(pair, whole):
    short = isorep.compare(*pair, time_limit=1e-6)
    assert errors(short) == errors(whole)
    assert {name: rung.interval for name, rung in short.rungs.items()} == {
        name: rung.interval for name, rung in whole.rungs.items() if name != "ica"
    }
    assert short.left_out[0] == "independent components"
    assert "100 of 100 shuffled pairings (fewer than 10 could be drawn)" in short.left_out
    assert "the worst case" in short.left_out
    assert short.verdict.rung is None
    assert short.caveats[0].startswith("left out by the time limit: independent components")
    assert short.to_dict()["settings"]["time_limit"] == 1e-6
    assert not any("3 groups" in caveat for caveat in short.caveats)
    plenty = isorep.compare(*pair, time_limit=1e6)
    assert plenty.left_out == whole.left_out == ()
    assert plenty.verdict == whole.verdict
    for name, rung in plenty.rungs.items():
        np.testing.assert_array_equal(rung.null.draws, whole.rungs[name].null.draws)


def test_a_run_that_is_stopped_gives_what_it_has(pair, whole):
    deadline = Deadline()

    def stop(stage, done, total):
        deadline.stopped = deadline.stopped or (stage == "null" and done == 30)

    result = isorep.compare(*pair, time_limit=deadline, progress=stop)
    assert errors(result) == errors(whole)
    assert result.rungs["ica"].held_out.mean == whole.rungs["ica"].held_out.mean
    draws = result.rungs["rigid"].null.draws
    assert 30 <= len(draws) == result.settings["n_null"] < 40
    np.testing.assert_array_equal(draws, whole.rungs["rigid"].null.draws[: len(draws)])
    assert result.caveats[0].startswith("the run was stopped; left out:")
    assert result.verdict.rung == "rigid"


@pytest.mark.parametrize("done", [0, 1, 9])
def test_fewer_draws_than_say_something_are_left_out_and_the_note_says_why(pair, done):
    deadline = Deadline()

    def stop(stage, drawn, total):
        deadline.stopped = deadline.stopped or (stage == "null" and drawn == done)

    result = isorep.compare(*pair, rungs=["rigid", "linear"], worst_case=False, time_limit=deadline, progress=stop)
    assert result.left_out == ("100 of 100 shuffled pairings (fewer than 10 could be drawn)",)
    assert result.verdict.sentence == WITHOUT_NULL
    assert "drawn" not in WITHOUT_NULL


def test_a_worst_case_that_is_cut_short_is_named(pair):
    deadline = Deadline()

    def stop(stage, done, total):
        deadline.stopped = deadline.stopped or stage == "worst case"

    result = isorep.compare(*pair, rungs=["rigid", "linear"], n_null=0, time_limit=deadline, progress=stop)
    assert result.left_out == ("the last steps of the worst case",)
    assert not result.to_dict()["worst_case"]["rigid"]["complete"]
    whole = isorep.compare(*pair, rungs=["rigid", "linear"], n_null=0).worst_case["rigid"]
    assert whole.complete
    assert result.worst_case["rigid"].lower <= whole.upper
    assert whole.lower <= result.worst_case["rigid"].upper


def test_no_pairing_is_prepared_after_the_deadline(pair, monkeypatch):
    prepared = []
    monkeypatch.setattr("isorep.comparison.null.Splits", lambda *given: prepared.append(given))
    isorep.compare(*pair, time_limit=1e-6)
    isorep.compare_many(pair, time_limit=1e-6)
    assert not prepared


def test_a_look_at_few_rows_is_left_when_the_run_is_stopped(monkeypatch):
    x = sources(400, 5)
    x[0] *= 1000
    y = x @ rotation(5, 0)
    deadline = Deadline()

    def stopped(*given):
        deadline.stopped = True
        return climb(*given)

    whole = isorep.compare(x, y, rungs=["rigid", "linear"])
    assert whole.views
    monkeypatch.setattr("isorep.comparison.views.climb", stopped)
    part = isorep.compare(x, y, rungs=["rigid", "linear"], time_limit=deadline)
    assert part.views == ()
    assert part.left_out == ("the look at what few rows or dimensions decide",)


def test_progress_has_finer_steps_than_fits_and_brackets(pair):
    told = {}
    isorep.compare(*pair, n_null=5, progress=lambda stage, done, of: told.setdefault(stage, []).append((done, of)))
    for stage, coarse in (("independent components", 8), ("worst case", 2)):
        assert told[stage][0][0] == 0
        assert told[stage][-1][0] == told[stage][-1][1]
        assert len({done for done, _ in told[stage]}) > coarse + 1


def test_the_only_rung_is_never_left_out(pair):
    assert "ica" in isorep.compare(*pair, rungs=["ica"], time_limit=1e-6).rungs


@pytest.mark.parametrize("seconds", [0, -1.0])
def test_a_time_limit_is_positive(pair, seconds):
    for work in (lambda **given: isorep.compare(*pair, **given), partial(isorep.compare_many, pair)):
        with pytest.raises(isorep.InputError, match="time_limit"):
            work(time_limit=seconds)


def test_every_stage_is_timed(whole):
    timed = whole.to_dict()["seconds"]
    assert {"ladder", "independent components", "null", "worst case"} <= set(timed)
    assert all(value >= 0 for value in timed.values())


def test_a_share_of_a_deadline_ends_with_it():
    deadline = Deadline()
    part = deadline.share(0.5)
    assert not part.passed
    part.leave()
    deadline.stopped = True
    assert part.passed
    with pytest.raises(OutOfTimeError):
        part.leave()
    assert Deadline(1e-9).share(0.5).passed
    assert not Deadline(1e9).share(0.5).passed


def test_default_draws_are_a_hundred_but_for_very_many_columns():
    assert default_draws(2000, 64, 64) == default_draws(50_000, 768, 384) == 100
    assert default_draws(20_000, 4096, 4096) == default_draws(20_000, 3, 4096) == 20
    assert default_draws(100, 1500, 1500) == 20, "with few rows every fold is held out in every pairing"


def test_few_default_draws_have_a_fitted_tail_and_few_that_were_asked_for_are_counted(pair, monkeypatch):
    monkeypatch.setattr("isorep.comparison.null._MOST_WORK", 1.0)
    by_default = isorep.compare(*pair, rungs=["rigid"], worst_case=False)
    assert by_default.settings["n_null"] == 20
    assert by_default.rungs["rigid"].null.p_value < 0.01
    counted = isorep.compare(*pair, rungs=["rigid"], worst_case=False, n_null=20)
    assert counted.rungs["rigid"].null.p_value == pytest.approx(1 / 21)


def test_the_number_of_threads_does_not_change_the_result():
    x = sources(1500, 24)
    y = x @ rotation(24, 0) + 0.1 * np.random.default_rng(0).normal(size=x.shape)
    with threadpool_limits(1):
        alone = isorep.compare(x, y, n_null=20)
    with threadpool_limits(2):
        crew = isorep.compare(x, y, n_null=20)
    for name, rung in alone.rungs.items():
        other = crew.rungs[name]
        np.testing.assert_allclose(other.held_out.mean, rung.held_out.mean, rtol=1e-9)
        np.testing.assert_allclose(other.interval.high, rung.interval.high, rtol=1e-9)
        np.testing.assert_allclose(other.null.mean, rung.null.mean, rtol=1e-9)
    assert crew.worst_case["rigid"].lower == pytest.approx(alone.worst_case["rigid"].lower, rel=1e-9)
    assert crew.verdict == alone.verdict


@pytest.fixture(scope="module")
def runs():
    x = sources(300, 4)
    rng = np.random.default_rng(0)
    return [x @ rotation(4, seed) + 0.1 * rng.normal(size=x.shape) for seed in range(4)]


@pytest.fixture(scope="module")
def many(runs):
    return isorep.compare_many(runs)


def assert_same_errors(part, all_of_it):
    for name, rung in part.rungs.items():
        np.testing.assert_array_equal(rung.error, all_of_it.rungs[name].error)


def test_rungs_of_many_runs_are_told_before_the_components(runs, many):
    told, stages = [], []
    isorep.compare_many(
        runs, preview=lambda rungs: told.append((rungs, set(stages))), progress=lambda stage, *_: stages.append(stage)
    )
    ((rungs, before),) = told
    assert rungs == pytest.approx({name: rung.mean for name, rung in many.rungs.items() if name != "ica"})
    assert before == {"moments", "fits"}


def test_a_time_limit_leaves_the_ladder_of_many_runs(runs, many):
    short = isorep.compare_many(runs, residuals=True, time_limit=1e-6)
    assert list(short.rungs) == short.settings["rungs"] == ["identity", "signed_permutation", "rigid", "linear"]
    assert_same_errors(short, many)
    assert short.left_out == (
        "independent components",
        "120 of 120 shuffled pairings (6 of 6 pairs of runs have no chance level)",
        "largest errors and quantiles",
    )
    assert short.verdict.sentence == WITHOUT_NULL
    assert (short.settings["n_null"], short.settings["residuals"], short.settings["time_limit"]) == (0, False, 1e-6)
    assert short.caveats[0] == f"left out by the time limit: {', '.join(short.left_out)}"
    assert short.to_dict()["left_out"] == list(short.left_out)
    plenty = isorep.compare_many(runs, time_limit=1e6)
    assert plenty.left_out == many.left_out == ()
    assert plenty.verdict == many.verdict
    assert {"reading", "ladder", "independent components", "null"} <= set(plenty.to_dict()["seconds"])


def test_many_runs_that_are_stopped_keep_the_null_of_the_pairs_that_were_done(runs, many, tmp_path):
    deadline = Deadline()

    def stop(stage, done, total):
        deadline.stopped = deadline.stopped or (stage == "null" and done == 2 * 20 + 5)

    part = isorep.compare_many(runs, time_limit=deadline, progress=stop)
    assert_same_errors(part, many)
    assert "ica" in part.rungs
    pairs = [(0, 1), (1, 0), (0, 2), (2, 0)]
    for name, rung in part.rungs.items():
        assert {(i, j) for i, j in np.argwhere(np.isfinite(rung.null))} == set(pairs)
        assert [rung.null[pair] for pair in pairs] == [many.rungs[name].null[pair] for pair in pairs]
        assert len(rung.without_chance) == 8
    assert part.left_out == ("80 of 120 shuffled pairings (4 of 6 pairs of runs have no chance level)",)
    assert part.verdict.rung is None
    assert part.verdict.sentence.startswith("No verdict: 8 of 12 ordered pairs have no chance level")
    assert [part.verdicts[i][j] for i, j in pairs] == [many.verdicts[i][j] for i, j in pairs]
    assert part.caveats[0].startswith("the run was stopped; left out: 80 of 120")
    assert not any("broken" in caveat for caveat in part.caveats)
    part.to_html(tmp_path / "part.html")
    str(part)


def test_pairs_of_runs_share_the_time_for_their_nulls(runs, many):
    class Hurried(Deadline):
        def share(self, part):
            mine = super().share(part)
            mine.stopped = part != NULL_SHARE  # of the others each is of a pair
            return mine if mine.stopped else self

    hurried = isorep.compare_many(runs, rungs=["rigid", "linear"], time_limit=Hurried())
    assert hurried.left_out == ("60 of 120 shuffled pairings",)
    assert hurried.settings["n_null"] == 10
    assert hurried.verdict.rung == many.verdict.rung
