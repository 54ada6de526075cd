"""The short answer: rows, lines and sentences, those on the search for a rate among them."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from tests.samples.comparisons import etcd, run
from tests.samples.estimates import present
from tests.samples.results import (
    changed,
    headline_rows,
    refused_result,
    sample_page,
    sample_results,
    sample_summary,
    sample_window,
)
from tests.unit.experiments.report.test_page import EVIL, without_script_bodies

from stepbench.analysis.verdicts import plan_verdicts
from stepbench.contracts.documents import Failure
from stepbench.contracts.findings import FoundRate, StoppedPhase, Utilisation
from stepbench.contracts.measures import Estimate
from stepbench.contracts.result import Caveat, TrialSummary
from stepbench.contracts.runs import RenderReportOutput
from stepbench.contracts.threshold_grammar import parse_judge
from stepbench.experiments.report.headline import (
    MAX_OUTPUT_BYTES,
    cut_lines,
    describe_status,
    describe_window,
    headline_lines,
    run_output,
    short_answer,
)
from stepbench.report.deliveries import describe_search
from stepbench.report.run import describe_state, fit, state_of, window_rows
from stepbench.report.summary import RunFacts, TrialStore, missing_result, summarise
from stepbench.report.thresholds import describe_missed

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult, TrialSummary

MISSING = missing_result(
    "redis", 4, TrialStore("redis", "not reached", emulated=False), Failure(error="TargetBusyError", cause="held"), 0.0
)


def test_a_row_says_what_a_terminal_has_room_for(summary: RunSummary) -> None:
    """The numbers are those of the page, ready to print."""
    row = headline_rows(summary)[1]
    numbers = ("200", "11.35 ms [10.93, 12.41]", "> drain limit (120 s)", "3")
    assert row["trial"] == "dynamodb"
    assert row["provider"] == "MiniStack 1.5.33 (emulated)"
    assert (row["n"], row["p50"], row["p99"], row["lost"]) == numbers
    assert row["caveats"] == "emulated, lost events, short sample"
    assert list(row) == [
        *("trial", "provider", "n", "p50", "p90", "p95", "p99", "lost", "bare trigger p50"),
        "caveats",
    ]


def test_a_trial_without_windows_has_a_row_with_its_error() -> None:
    """A failed trial that is missing from the table would look as if it had never been planned."""
    (row,) = headline_rows(sample_summary([MISSING]))
    assert (row["trial"], row["n"], row["p50"], row["lost"]) == ("redis (failed)", "0", "TargetBusyError", "–")  # noqa: RUF001


def test_one_line_a_trial(summary: RunSummary) -> None:
    """The execution's output in the console is these lines."""
    lines = headline_lines(summary)
    assert lines[0] == "s3: n 200, p50 9.36 ms [8.82, 9.64], lost 0, emulated"
    assert lines[2] == "postgresql: n 200, p50 6.36 ms [6.13, 6.60], lost 0"
    assert lines[3] == "etcd (incomplete): WriterMissing: n 130, p50 0.956 ms [0.917, 0.999], lost 0"
    assert len(lines) == 4


def test_a_missed_threshold_stands_first(results: tuple[TrialResult, ...]) -> None:
    """15 of 215 events; nobody reads a table to find out whether there is something in it."""
    summary = sample_summary([results[0], refused_result(results[2], {"57P01": 12, "timeout": 3}, unknown=3)])
    missed = "threshold missed: errors < 1 %: 7.0 % in postgresql"
    assert describe_status(summary) == f"succeeded; {missed}"
    assert headline_lines(summary)[0] == missed
    assert len(headline_lines(summary)) == 3


def test_without_a_missed_threshold_there_is_nothing_to_say(summary: RunSummary) -> None:
    """`failed` and `threshold missed` are two things."""
    assert (describe_missed(summary), describe_status(summary)) == ("", "failed")


def test_a_line_stays_short_however_many_windows_there_are(results: tuple[TrialResult, ...]) -> None:
    """A hundred trials of fifty windows have to fit into a state's 256 KiB."""
    windows = tuple(sample_window(f"w{number}", [1.0, 2.0]) for number in range(50))
    (line,) = headline_lines(sample_summary([changed(results[2], windows=windows)]))
    shown = ", ".join(f"w{number}: n 2, p50 ~1.00 ms" for number in range(3))
    assert line == f"postgresql: {shown}, and 47 more windows, lost 0"


def test_the_sentence_answers_the_question(summary: RunSummary) -> None:
    """It is what readers tell their team: how long, how surely, and whether it always happened."""
    first, second, *_ = window_rows(summary.trials)
    assert describe_window(first) == (
        "Median 9.36 ms (8.82 to 9.64), p90 14.1 ms (13.1 to 15.7); all 200 acknowledged events arrived."
    )
    assert describe_window(second).endswith("3 of 200 acknowledged events had not arrived by the drain limit.")


def sentence_for(results: tuple[TrialResult, ...], times_ms: list[float | None]) -> str:
    """Describe a window with these latencies."""
    result = changed(results[0], windows=(sample_window("w", times_ms),))
    return describe_window(window_rows([result.summary])[0])


def test_the_sentence_never_makes_up_a_median(results: tuple[TrialResult, ...]) -> None:
    """Small, empty and lost samples have no median, and say so."""
    assert sentence_for(results, []) == "No median: nothing was measured; no event was acknowledged."
    assert sentence_for(results, [1.0]) == (
        "Median 1.00 ms (no interval: needs a run about 6 × longer), "  # noqa: RUF001 -- times
        "p90 1.00 ms (no interval: only 1 event); "
        "the one acknowledged event arrived."
    )
    assert sentence_for(results, [None] * 10) == (
        "No median: > drain limit (120 s); 10 of 10 acknowledged events had not arrived by the drain limit."
    )
    assert sentence_for(results, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) == (
        "Median 4.0 ms (1.0 to 7.0), p90 8.00 ms (no interval: needs a run about 4 × longer); "  # noqa: RUF001 -- times
        "all 8 acknowledged events arrived."
    )


def test_lost_events_are_the_windows_own(elastic: tuple[TrialResult, ...]) -> None:
    """The trial's total beside each window's n would count the same losses twice."""
    windows = zip(elastic[0].summary.windows, (0, 7), strict=True)
    own = tuple(window.model_copy(update={"lost": lost}) for window, lost in windows)
    rows = headline_rows(sample_summary([changed(elastic[0], windows=own)]))
    assert [row["lost"] for row in rows] == ["0", "7"]


def test_with_a_filter_the_line_tells_what_it_held_back(summary: RunSummary) -> None:
    """The sentence calls the window's events by what they have in common."""
    account = present(summary.trials[0].accounting)
    accounting = account.model_copy(update={"ok_arrived": 100, "received": 100, "held_back": 100})
    trial = summary.trials[0].model_copy(update={"accounting": accounting})
    filtered = summary.model_copy(update={"trials": (trial,)})
    assert "lost 0, 100 held back by the filter" in headline_lines(filtered)[0]
    assert [row["lost"] for row in headline_rows(filtered)] == ["0 (100 held back)"]
    assert describe_window(window_rows((trial,))[0]).endswith(
        "; all 200 matching events arrived, 100 held back by the filter."
    )


def skipped(trial: TrialSummary) -> TrialSummary:
    """Return the trial as if its store had not been there."""
    caveat = Caveat(kind="skipped", text="etcd cannot start here.", remedy="Install etcd.")
    return trial.model_copy(update={"caveats": (caveat,)})


def test_states_tell_failed_from_incomplete_from_skipped(summary: RunSummary) -> None:
    """Each asks something else of the reader: mend, repeat, or know."""
    complete, incomplete, failed = summary.trials[0], summary.trials[3], MISSING.summary
    states = [state_of(trial) for trial in (complete, incomplete, failed, skipped(failed))]
    assert states == ["complete", "incomplete", "failed", "skipped"]
    assert len({describe_state(trial) for trial in (complete, incomplete, failed, skipped(failed))}) == 4


def test_a_trial_that_failed_after_it_had_measured_is_incomplete(summary: RunSummary) -> None:
    """Its logs may be missing, so it is not complete; its latencies are there, so it has not failed."""
    late = summary.trials[0].model_copy(update={"failure": Failure(error="States.Timeout", cause="collecting logs")})
    assert state_of(late) == "incomplete"


def test_importing_the_headline_imports_no_heavy_library() -> None:
    """The command line starts with it: Altair alone takes half a second."""
    code = (
        "import sys, stepbench.experiments.report.headline;"
        "sys.exit(bool({'altair', 'jinja2', 'vl_convert', 'boto3', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_phase_that_ended_when_it_was_sure_says_so(results: tuple[TrialResult, ...]) -> None:
    """Nobody would know otherwise why this window is shorter than that one."""
    ended = StoppedPhase(
        phase=results[2].summary.windows[0].phase,
        metric="p99",
        wanted=0.05,
        reached=0.049,
        final=0.047,
        events=8_000,
        looks=3,
        stopped_at_s=45.2,
        reason="sure",
        text="Phase steady was sure.",
    )
    summary = sample_summary([changed(results[2], stopped=(ended,))])
    (line,) = headline_lines(summary)
    assert line.endswith(f", {ended.phase} ended after 45 s (sure): p99 known to 4.7 %, lost 0")
    assert describe_window(window_rows(summary.trials)[0]).endswith("arrived. Phase steady was sure.")


def utilisation(phase: str, rate_per_s: float, share: float | None, *, probe: bool = True) -> Utilisation:
    """Build a phase of which everything was acknowledged."""
    return Utilisation(
        phase=phase, probe=probe, offered_per_s=rate_per_s, achieved_per_s=rate_per_s, utilisation=share, text="cpu"
    )


FOUND = FoundRate(
    wanted=0.8,
    rate_per_s=1_850,
    text="1,850/s makes it 79 % busy",
    phases=(
        utilisation("probe-1", 100, 0.042),
        utilisation("probe-2", 1_850, 0.79),
        utilisation("load", 1_850, 0.78, probe=False),
    ),
)


def page_of(found: FoundRate, results: tuple[TrialResult, ...]) -> str:
    """Render a page whose first trial has searched."""
    everything = (changed(results[0], found_rate=found), *results[1:])
    return without_script_bodies(sample_page(everything))


def test_the_section_appears_only_where_there_was_a_search(page: str, results: tuple[TrialResult, ...]) -> None:
    """Its entry in the navigation does so, too."""
    assert 'id="load"' not in page
    assert 'href="#load"' not in page
    searched = page_of(FOUND, results)
    assert '<section id="load"' in searched
    assert 'href="#load"' in searched


def test_every_phase_of_the_search_has_a_row(results: tuple[TrialResult, ...]) -> None:
    """Probes in order, then the load, with raw values for scripts."""
    table = page_of(FOUND, results).split('id="probes">')[1].split("</table>")[0]
    rows = table.split("<tr data-trial")[1:]
    assert [row.split('data-phase="')[1].split('"')[0] for row in rows] == ["probe-1", "probe-2", "load"]
    assert [row.split('data-probe="')[1].split('"')[0] for row in rows] == ["true", "true", "false"]
    assert 'data-metric="utilisation" data-value="0.042">4.2 %' in rows[0]
    assert 'data-metric="offered_per_s" data-value="1850.0">1,850' in rows[1]


def test_the_answer_is_one_sentence() -> None:
    """It says what was wanted, what was found, and how the load then was."""
    assert describe_search(FOUND) == (
        "80 % busy was wanted: 1,850/s makes it 79 % busy. Phase load was then offered 1,850/s, of which 1,850/s were "
        "acknowledged, and was 78 % busy."
    )


def test_a_search_without_a_rate_says_why() -> None:
    """There is no load to tell of."""
    found = FoundRate(wanted=0.8, rate_per_s=None, text="the lowest rate is too much", phases=())
    assert describe_search(found) == "80 % busy was wanted: no rate was found: the lowest rate is too much."


def test_what_a_metric_is_called_cannot_inject_markup(results: tuple[TrialResult, ...]) -> None:
    """It comes from a stack's parameter."""
    evil = FOUND.model_copy(update={"phases": (FOUND.phases[0].model_copy(update={"text": EVIL}),), "text": EVIL})
    assert EVIL not in page_of(evil, results)


def test_a_caveat_stands_beside_the_windows_that_it_is_about(elastic: tuple[TrialResult, ...]) -> None:
    """What happened before the step is no doubt about what came after it; what spans the trial is about both."""
    (trial, *_) = (result.summary for result in elastic)
    caveats = [
        Caveat(kind="host_jitter", text="Late before.", remedy="Wait.", windows=(0,)),
        Caveat(kind="unsent", text="Only of the warm-up.", remedy="Wait.", windows=()),
        Caveat(kind="clock_drift", text="It moved.", remedy="Wait."),
    ]
    rows = headline_rows(sample_summary([changed(elastic[0], caveats=tuple(caveats))]))
    assert len(trial.windows) == 2
    assert [row["caveats"] for row in rows] == ["host jitter, clock drift", "clock drift"]


def test_a_window_that_fell_behind_says_so_before_its_number(summary: RunSummary) -> None:
    """A median of 34.5 s is no latency of a trigger: it is as long as somebody went on writing."""
    trial = summary.trials[1]
    window = trial.windows[0]
    p50 = Estimate(value=34_500, reason="fell behind: kept up with 20.5 of 682/s")
    latency = window.latency_ms.model_copy(update={"p50": p50})
    behind = trial.model_copy(update={"windows": (window.model_copy(update={"latency_ms": latency}),)})
    changed_run = summary.model_copy(update={"trials": (behind,)})
    (row,) = window_rows(changed_run.trials)
    assert describe_window(row).startswith(
        "Fell behind: kept up with 20.5 of 682/s; the median of 34.5 s says how long"
    )
    assert "p50 ~34.5 s (fell behind: kept up with 20.5 of 682/s)" in headline_lines(changed_run)[-1]


def test_the_answer_of_a_run_that_compares_is_its_first_verdict() -> None:
    """The p50 of the first trial answers nothing."""
    trials = (etcd(2.0, "slow"), etcd(1.0, "fast"))
    summary = run(*trials).model_copy(update={"verdicts": plan_verdicts(trials)})
    (line,) = short_answer(summary)
    assert line.startswith("fast against slow: ")


def test_without_a_verdict_it_is_a_line_for_each_trial() -> None:
    """As the report has them."""
    summary = sample_summary(sample_results())
    assert short_answer(summary) == headline_lines(summary)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (85, "a: n 1,800, p50 8.53 ms [8.41, 8.70], lost 0; b: n 20, p50 9 ms (no interval: 1, 2)"),
        (60, "a: n 1,800, p50 8.53 ms [8.41, 8.70], lost 0; b: n 20, …"),
        (36, "a: n 1,800, …"),
        (5, "a: n…"),
    ],
)
def test_no_number_and_no_interval_is_cut(width: int, text: str) -> None:
    """One that is cut off is another number."""
    lines = ("a: n 1,800, p50 8.53 ms [8.41, 8.70], lost 0", "b: n 20, p50 9 ms (no interval: 1, 2).")
    assert fit(lines, width) == text


PLACE = "s3://" + "b" * 63 + "/runs/" + "r" * 80
ROOM_FOR_LATER_STATES = 500
"""Bytes that a state after RenderReport may add, such as the run's path in the API."""
RESULT = sample_results()[0]
TRIAL = RESULT.summary


def _output(*trials: TrialSummary) -> RenderReportOutput:
    results = [RESULT.model_copy(update={"summary": trial}) for trial in trials]
    now = datetime(2026, 1, 2, tzinfo=UTC)
    facts = RunFacts(run_id="r" * 80, plan="plan", started_at=now, finished_at=now, stopped=False)
    return run_output(summarise(facts, results, []), PLACE)


def _many(count: int, failure: Failure | None = None) -> list[TrialSummary]:
    names = [f"{'ü' * 40}-{number:04d}" for number in range(count)]
    return [
        TRIAL.model_copy(
            update={"name": name, "index": number, "failure": failure, "removed": (f"table {name}", f"mapping {name}")}
        )
        for number, name in enumerate(names)
    ]


def test_a_run_of_many_trials_fits_and_says_how_much_is_left_out() -> None:
    """A thousand trials are a megabyte of headline; the console shows an output whole or not at all."""
    output = _output(*_many(1_000))
    assert len(json.dumps(output.model_dump(mode="json"))) + ROOM_FOR_LATER_STATES <= MAX_OUTPUT_BYTES
    shown = len(output.headline) - 1
    assert shown > 5
    assert output.headline[-1] == f"… and {1_000 - shown} more"
    assert output.removed[-1] == f"… and {2_000 - len(output.removed) + 1} more"


def test_a_run_of_which_all_failed_fits_too() -> None:
    """With a word of every kind: names, reasons, what was removed."""
    output = _output(*_many(1_000, Failure(error="E" * 80, cause="ö" * 5_000)))
    assert len(json.dumps(output.model_dump(mode="json"))) + ROOM_FOR_LATER_STATES <= MAX_OUTPUT_BYTES
    assert output.cause.startswith(f"1,000 of 1,000 trials failed; what there is of them is in {PLACE}/report.html\n")
    assert output.cause.endswith("more")


def test_the_cause_of_a_failed_run_holds_what_its_trials_say() -> None:
    """The console shows the cause alone: a class name would send everybody to the child execution."""
    said = "PostgreSQL at 10.0.0.1:5432: connect: refused. See whether it runs"
    output = _output(
        TRIAL, TRIAL.model_copy(update={"name": "b", "index": 1, "failure": Failure(error="E", cause=said)})
    )
    assert output.cause.splitlines()[1] == f"b: E: {said}"


def test_a_line_that_does_not_fit_is_counted() -> None:
    """Half a line could be taken for a whole one."""
    assert cut_lines(["one", "two"], 100) == ("one", "two")
    assert cut_lines(["one", "two", "three"], 14) == ("one", "two", "… and 1 more")
    assert cut_lines(["x" * 100, "two"], 50) == ("… 2 in all",)
    assert cut_lines([], 50) == ()


@pytest.mark.parametrize(
    ("judge", "begins"),
    [
        ("p99", "s3: p99 ~24.7 ms (no interval: a run about 1.8 × longer decides it), n 200, p50 9.36 ms"),  # noqa: RUF001 -- times
        ("p50", "s3: p50 9.36 ms (8.82 to 9.64), n 200, lost 0"),
        ("errors", "s3: errors 0.00 % (0.00 to 1.88), n 200, p50 9.36 ms"),
    ],
)
def test_a_line_begins_with_what_the_run_is_judged_by(summary: RunSummary, judge: str, begins: str) -> None:
    """Whoever looks at the console has asked for it; other numbers follow."""
    judged = summary.model_copy(update={"judge": parse_judge(judge)})
    assert headline_lines(judged)[0].startswith(begins)


@pytest.mark.parametrize(("judge", "columns"), [("p99", ["p99", "p50"]), ("response p95", ["Response p95", "p50"])])
def test_the_table_begins_with_what_the_run_is_judged_by(summary: RunSummary, judge: str, columns: list[str]) -> None:
    """It stands there once."""
    headings = list(headline_rows(summary.model_copy(update={"judge": parse_judge(judge)}))[0])
    place = headings.index("n") + 1
    assert headings[place : place + 2] == [each.lower() for each in columns]
    assert len(headings) == len(set(headings))
    assert headline_rows(summary.model_copy(update={"judge": parse_judge("p99")}))[0]["p99"]


def test_a_quantile_that_is_judged_is_said_once(summary: RunSummary) -> None:
    """It was the tail of the sentence behind as well."""
    row = window_rows(summary.trials, parse_judge("p90"))[0]
    assert describe_window(row).startswith("p90 ")
    assert describe_window(row).count("p90") == 1
    median = window_rows(summary.trials, parse_judge("p50"))[0]
    assert describe_window(median) == describe_window(window_rows(summary.trials)[0])
