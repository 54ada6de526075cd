"""Runs set against other runs: what is paired, and what is a regression."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.comparisons import estimate, etcd, run, trial, window
from tests.samples.estimates import present
from tests.samples.finished_dags import slower_each_time
from tests.samples.function_settings import AFTER, PACKAGE, failing, settings_run, version_results

from stepbench.analysis.effects import has_regressed
from stepbench.analysis.run_comparison import Selected, compare_summaries
from stepbench.contracts.across_trials import Effect
from stepbench.contracts.measures import Estimate
from stepbench.contracts.result import Caveat
from stepbench.contracts.threshold_grammar import parse_judge
from stepbench.report.verdicts import describe_outcome

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialSummary

RATE = "phases[steady].load[0].rate_per_s"


def test_a_run_twice_as_slow_is_a_regression() -> None:
    """Of p50 and p90; p99 has no interval, and decides nothing."""
    found = compare_summaries(Selected([run(etcd(1.0))]), Selected([run(etcd(2.0))]), 0.05)
    (verdict,) = found.verdicts
    assert not found.passed
    assert [effect.measure for effect in verdict.effects if effect.regressed] == ["p50", "p90"]
    assert (verdict.subject, verdict.over_runs) == ("etcd", False)


def test_a_run_twice_as_fast_is_none() -> None:
    """The other way round, a pipeline has nothing to stop."""
    assert compare_summaries(Selected([run(etcd(2.0))]), Selected([run(etcd(1.0))]), 0.05).passed


@pytest.mark.parametrize(("tolerance", "passed"), [(0.05, False), (0.2, True)])
def test_what_is_shown_has_to_lie_beyond_the_tolerance(tolerance: float, passed: bool) -> None:  # noqa: FBT001
    """15 % slower over three runs each is shown; whether it counts is the team's to say."""
    a, b = ([run(etcd(ms), run_id=f"{ms}-{place}") for place in range(3)] for ms in (1.0, 1.15))
    found = compare_summaries(Selected(a), Selected(b), tolerance)
    assert present(found.verdicts[0].effect("p50")).finding == "higher"
    assert found.passed is passed
    assert (len(found.a), found.verdicts[0].over_runs) == (3, True)


@pytest.mark.parametrize("measure", ["max", "response max", "cost"])
def test_twice_as_much_of_what_one_run_does_not_show_is_no_question(measure: str) -> None:
    """Neither a regression, nor a sign that there is none."""
    twice = Estimate(value=2, reason="one run")
    effect = Effect(measure=measure, a=estimate(1), b=estimate(2), ratio=twice, finding="unknown")
    assert has_regressed(effect, 0.05) is None
    assert has_regressed(effect.model_copy(update={"finding": "higher"}), 0.05)


@pytest.mark.parametrize("judge", ["max", "response max"])
def test_what_single_runs_cannot_show_is_no_regression_and_no_pass(judge: str) -> None:
    """Three runs of each would; until then there is no such question."""
    a, b = (run(etcd(ms)).model_copy(update={"judge": parse_judge(judge)}) for ms in (1.0, 3.0))
    effect = compare_summaries(Selected([a]), Selected([b]), 0.05).verdicts[0].effects[0]
    assert (effect.measure, effect.finding, effect.regressed) == (judge, "unknown", None)


def test_losses_and_errors_regress_as_soon_as_more_of_them_are_shown() -> None:
    """50 of 1,000 failed where none did: no tolerance for that."""
    clean, failing = etcd(1.0, sent=1_000, failed=0, unknown=0), etcd(1.0, sent=1_000, failed=50, unknown=0)
    found = compare_summaries(Selected([run(clean)]), Selected([run(failing)]), 0.05)
    assert [effect.measure for effect in found.verdicts[0].effects if effect.regressed] == ["errors"]
    assert "B has more errors: 5.0 % against 0.0 %; latency is the same within 10 %." in found.verdicts[0].text


def test_a_version_that_fails_its_events_regresses_however_fast_it_is() -> None:
    """It gives up early: 240 of 400 events are never processed, and the handler takes a tenth of the time."""
    results = [
        failing(each, 240) if each.summary.point[PACKAGE] == AFTER else each for each in version_results(slower=-0.9)
    ]
    whole = settings_run(results)
    (within,) = whole.verdicts
    assert within.text.endswith(" times [9.8, 10.3]; more unprocessed events: 60 % against 0.0 %.")
    assert within.doubts == ("never_processed", "handler_errors")
    before, after = (
        whole.model_copy(update={"run_id": side, "trials": whole.trials[place::2]})
        for place, side in enumerate(("before", "after"))
    )
    found = compare_summaries(Selected([before]), Selected([after]), 0.05, PACKAGE)
    assert not found.passed
    assert [each.measure for each in found.verdicts[0].effects if each.regressed] == ["failed_in_handler"]
    assert {each.kind for each in found.caveats} == {"never_processed", "handler_errors"}
    assert describe_outcome(found).startswith("1 regression beyond 5 %")
    assert compare_summaries(Selected([after]), Selected([after.model_copy(update={"run_id": "b"})]), 0.05).passed


@pytest.mark.parametrize(
    ("judge", "text"),
    [
        ("errors", "after (b7d04e11) is the same in errors of writes: none on either side; more unprocessed events: "),
        ("failed_in_handler", "after (b7d04e11) has more unprocessed events: 60 % against 0.0 %"),
    ],
)
def test_errors_of_writes_are_not_those_of_the_function(judge: str, text: str) -> None:
    """A write that was acknowledged has not failed, whatever the function does with it."""
    results = [failing(each, 240) if each.summary.point[PACKAGE] == AFTER else each for each in version_results()]
    (found,) = settings_run(results, judge).verdicts
    assert found.text.startswith(text)


@pytest.mark.parametrize("judge", ["p99", "handler p50", "to_processed p99"])
def test_what_a_function_leaves_unprocessed_is_said_whatever_else_there_is(judge: str) -> None:
    """One that fails at its events falls behind by its retries, and its share had no room left or no finding."""
    results = []
    for each in version_results():
        if each.summary.point[PACKAGE] != AFTER:
            results.append(each)
            continue
        summary = failing(each, 240).summary
        windows = tuple(window.model_copy(update={"kept_up_per_s": 1.2}) for window in summary.windows)
        results.append(each.model_copy(update={"summary": summary.model_copy(update={"windows": windows})}))
    (found,) = settings_run(results, judge).verdicts
    assert "more unprocessed events: 60 % against 0.0 %" in found.text
    assert present(found.effect("failed_in_handler")).finding == "higher"


def test_of_what_no_function_processes_nothing_is_said() -> None:
    """A judge of unprocessed events has no answer where a receiver of ours stands."""
    a, b = (run(etcd(1.0), run_id=side).model_copy(update={"judge": parse_judge("failed_in_handler")}) for side in "ab")
    effects = compare_summaries(Selected([a]), Selected([b]), 0.05).verdicts[0].effects
    assert (effects[0].measure, effects[0].finding, effects[0].a.reason) == (
        "failed_in_handler", "unknown", "not measured",
    )  # fmt: skip


def test_trials_are_paired_by_name_and_others_are_told() -> None:
    """A trial that is gone is no pass in silence."""
    a = run(etcd(1.0), etcd(1.0, "redis"))
    b = run(etcd(1.0), etcd(1.0, "dsql"))
    found = compare_summaries(Selected([a]), Selected([b]), 0.05)
    assert [each.b.group for each in found.verdicts] == ["etcd"]
    assert (found.only_a, found.only_b) == (("redis",), ("dsql",))


def test_a_window_without_a_counterpart_is_told() -> None:
    """It may be the one that got worse."""
    a = run(trial("etcd", window(estimate(1)), window(estimate(1), "late")))
    found = compare_summaries(Selected([a]), Selected([run(etcd(1.0))]), 0.05)
    assert found.only_a == ("etcd · late / late",)
    assert found.only_b == ()


@pytest.mark.parametrize(("also_in_a", "passed"), [(False, False), (True, True)])
def test_a_trial_that_breaks_off_is_no_pass(also_in_a: bool, passed: bool) -> None:  # noqa: FBT001
    """One of three repeats failed in B: the others are compared, and the gate stays shut unless A's did as well."""
    whole, broken = etcd(1.0), etcd(1.0).model_copy(update={"incomplete": True})
    a, b = run(whole, broken if also_in_a else whole), run(whole, whole, broken)
    found = compare_summaries(Selected([a]), Selected([b]), 0.05)
    assert (found.unfinished_a, found.unfinished_b) == (("etcd",) if also_in_a else (), ("etcd",))
    assert (len(found.verdicts), found.verdicts[0].b.runs, found.passed) == (1, 2, passed)


def test_a_run_of_which_nothing_went_through_is_no_pass() -> None:
    """Neither where A had a failure of its own, nor where nothing is left to compare."""
    whole, broken = etcd(1.0), etcd(1.0).model_copy(update={"incomplete": True})
    some, none = Selected([run(whole, broken)]), Selected([run(broken, broken)])
    assert compare_summaries(some, none, 0.05).broken == ("etcd",)
    for a, b in ((some, none), (none, none)):
        assert not compare_summaries(a, b, 0.05).passed


def test_triggers_and_operations_are_not_compared() -> None:
    """One's latency is the other's service time and more."""
    operations = etcd(1.0).model_copy(update={"experiment": "operations"})
    found = compare_summaries(Selected([run(etcd(1.0))]), Selected([run(operations)]), 0.05)
    assert (found.verdicts, found.only_a, found.only_b) == ((), ("etcd",), ("etcd",))


def test_an_emulated_side_against_a_real_one_decides_nothing() -> None:
    """The emulator may be all that differs."""
    emulated = etcd(1.0).model_copy(update={"emulated": True})
    found = compare_summaries(Selected([run(emulated)]), Selected([run(etcd(2.0))]), 0.05)
    assert (found.verdicts[0].unlike, found.passed) == ("emulated: no comparison", False)
    assert found.verdicts[0].text == "Emulated: no comparison; p50 2.00 against 1.00 ms; p99 9.00 against 9.00 ms."
    assert {(effect.finding, effect.regressed) for effect in found.verdicts[0].effects} == {("unknown", None)}


def test_two_emulators_are_two_servers_and_one_with_itself_is_compared() -> None:
    """What they differ in is theirs, and nothing of the store."""
    one, other = (etcd(1.0).model_copy(update={"emulated": True, "provider": name}) for name in ("one", "other"))
    (verdict,) = compare_summaries(Selected([run(one)]), Selected([run(other)]), 0.05).verdicts
    assert verdict.unlike == "not the same: other against one"
    (verdict,) = compare_summaries(Selected([run(one)]), Selected([run(one)]), 0.05).verdicts
    assert verdict.unlike == ""


@pytest.mark.parametrize(("studied", "unlike"), [("", "not the same: rate_per_s 200 against 20"), (RATE, "")])
def test_another_load_under_one_name_is_no_regression_unless_it_is_the_question(studied: str, unlike: str) -> None:
    """Twenty writes a second against two hundred: the load rose, and the store need not have changed."""
    a, b = (
        etcd(ms).model_copy(update={"setup": {"target.store": "etcd", RATE: rate}})
        for ms, rate in ((1.0, 20), (2.0, 200))
    )
    found = compare_summaries(Selected([run(a)]), Selected([run(b)]), 0.05, studied)
    assert found.verdicts[0].unlike == unlike
    assert any(effect.regressed for effect in found.verdicts[0].effects) is bool(studied)
    assert not found.passed


def test_windows_of_one_name_are_told_apart_by_their_phases() -> None:
    """`steady` after each of two steps is not one thing."""
    windows = [window(estimate(1)).model_copy(update={"phase": phase}) for phase in ("one", "two")]
    both = Selected([run(trial("etcd", *windows))])
    found = compare_summaries(both, both, 0.05)
    assert [each.subject for each in found.verdicts] == ["etcd · one / steady", "etcd · two / steady"]


def test_a_tail_beyond_the_drain_limit_is_slower_than_one_that_is_not() -> None:
    """Its interval is open above, and begins above all that the other may be."""
    slow = etcd(1.0)
    latency = slow.windows[0].latency_ms
    p90 = Estimate(value=None, low=8.0, reason="> drain limit (120 s)")
    beyond = slow.windows[0].model_copy(update={"latency_ms": latency.model_copy(update={"p90": p90})})
    found = compare_summaries(
        Selected([run(slow)]), Selected([run(slow.model_copy(update={"windows": (beyond,)}))]), 0.05
    )
    assert [effect.measure for effect in found.verdicts[0].effects if effect.regressed] == ["p90"]
    assert found.verdicts[0].text.startswith("B is slower at p90: over 8.00 ms against ")


@pytest.mark.parametrize("beyond", [3, 1], ids=["in all runs", "in one run"])
def test_over_runs_a_tail_beyond_the_drain_limit_is_slower_too(beyond: int) -> None:
    """What lies beyond has no mean over the runs: the least that any of them may be is known."""
    fast, gone = etcd(1.0), Estimate(value=None, low=120_000, reason="> drain limit (120 s)")
    p90s = [gone] * beyond + [Estimate(value=90, low=80, reason="upper limit > drain limit (120 s)")] * (3 - beyond)
    window_of = fast.windows[0]
    slow = [
        window_of.model_copy(update={"latency_ms": window_of.latency_ms.model_copy(update={"p90": p90})})
        for p90 in p90s
    ]
    a = [run(fast, run_id=f"a{place}") for place in range(3)]
    b = [run(fast.model_copy(update={"windows": (each,)}), run_id=f"b{place}") for place, each in enumerate(slow)]
    found = compare_summaries(Selected(a), Selected(b), 0.05)
    assert [effect.measure for effect in found.verdicts[0].effects if effect.regressed] == ["p90"]
    least = "120 s" if beyond == 3 else "80.0 ms"
    assert found.verdicts[0].text.startswith(f"B is slower at p90: over {least} against ")


def test_a_trial_that_was_to_be_skipped_has_not_failed() -> None:
    """Its store cannot start there: that is no news of B."""
    skipped = etcd(1.0, "redis").model_copy(
        update={"incomplete": True, "caveats": (Caveat(kind="skipped", text="No server.", remedy="Install one."),)}
    )
    found = compare_summaries(Selected([run(etcd(1.0), etcd(1.0, "redis"))]), Selected([run(etcd(1.0), skipped)]), 0.05)
    assert (found.only_a, found.unfinished_b, found.passed) == (("redis",), (), True)


def test_two_groups_of_other_names_are_compared_if_nothing_else_is_meant() -> None:
    """Any pair can be: `compare RUN#constant RUN#poisson`."""
    both = run(etcd(1.0, "constant"), etcd(2.0, "poisson"))
    found = compare_summaries(Selected([both], "constant"), Selected([both], "poisson"), 0.05)
    assert [each.subject for each in found.verdicts] == ["poisson against constant"]


def test_what_has_nothing_in_common_has_no_verdict() -> None:
    """Its caller refuses it."""
    a, b = run(etcd(1.0), etcd(1.0, "s3")), run(etcd(1.0, "redis"), etcd(1.0, "dsql"))
    assert compare_summaries(Selected([a]), Selected([b]), 0.05).verdicts == ()


def behind(p50_ms: float) -> TrialSummary:
    """Build a trial that fell behind its load."""
    whole = etcd(p50_ms)
    grown = Estimate(value=p50_ms, low=p50_ms / 2, reason="fell behind: kept up with 96 of 200/s")
    times = whole.windows[0].latency_ms.model_copy(update=dict.fromkeys(("p50", "p90", "p99"), grown))
    window = whole.windows[0].model_copy(update={"latency_ms": times, "kept_up_per_s": 96.0, "failed": 50})
    return whole.model_copy(update={"windows": (window,)})


@pytest.mark.parametrize(("a_ms", "named"), [(1.0, ("etcd",)), (None, ())])
def test_what_newly_falls_behind_is_no_regression_of_a_number_and_no_pass(
    a_ms: float | None, named: tuple[str, ...]
) -> None:
    """How slow it is says how long the run was; that it kept up before, and no more, is what matters."""
    a = behind(300) if a_ms is None else etcd(a_ms)
    found = compare_summaries(Selected([run(a)]), Selected([run(behind(500))]), 0.05)
    assert (found.behind, found.passed) == (named, not named)
    (verdict,) = found.verdicts
    assert {effect.finding for effect in verdict.effects} == {"unknown"}
    assert not any(effect.regressed for effect in verdict.effects)
    told = ", but etcd fell behind in B" if named else ""
    assert describe_outcome(found) == f"No regression beyond 5 % shown{told}"


def test_what_falls_behind_under_another_load_is_told_as_unlike_and_no_more() -> None:
    """Nobody asked whether it keeps up with ten times the load."""
    more = behind(500).model_copy(update={"setup": {"target.store": "etcd", RATE: 200}})
    found = compare_summaries(Selected([run(etcd(1.0))]), Selected([run(more)]), 0.05)
    assert (found.behind, bool(found.verdicts[0].unlike), found.passed) == ((), True, False)


def test_performance_per_dollar_is_compared_and_regresses_as_it_falls() -> None:
    """Twice as dear at the same speed is a regression that no latency shows; half as dear is none."""
    dear, cheap = (run(_costing(per_usd)) for per_usd in (10.0, 20.0))
    for a, b, finding, regressed in ((cheap, dear, "lower", True), (dear, cheap, "higher", False)):
        found = compare_summaries(Selected([a]), Selected([b]), 0.05)
        effect = present(found.verdicts[0].effect("per dollar"))
        assert (effect.finding, effect.regressed) == (finding, regressed)
        assert found.passed is not regressed


@pytest.mark.parametrize(("a", "b", "said"), [(20.0, 10.0, "less"), (10.0, 20.0, "more")])
def test_performance_per_dollar_is_no_latency_where_a_run_is_judged(a: float, b: float, said: str) -> None:
    """Less of it would be "faster at per dollar"."""
    before, after = (run(_costing(each)).model_copy(update={"judge": parse_judge("p50")}) for each in (a, b))
    found = compare_summaries(Selected([before]), Selected([after]), 0.05)
    assert found.verdicts[0].text.count(f"{said} performance per dollar") == 1
    assert "at per dollar" not in found.verdicts[0].text


def _costing(per_usd: float) -> TrialSummary:
    """Return a trial of a DAG whose executions perform so much for a dollar, by any table of prices."""
    found = slower_each_time().result().summary
    flow = present(found.dataflow)
    perf = Estimate(value=per_usd, low=per_usd * 0.99, high=per_usd * 1.01)
    costs = tuple(cost.model_copy(update={"perf_per_usd": perf}) for cost in flow.costs)
    return found.model_copy(update={"dataflow": flow.model_copy(update={"costs": costs})})
