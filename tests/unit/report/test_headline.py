from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from stepbench.contracts.result import Caveat, Failure, StoppedPhase
from stepbench.report.headline import (
    HEADINGS,
    caveat_list,
    headline_lines,
    headline_rows,
    sentence,
    state_of,
    verdict,
)
from stepbench.report.labels import window_rows
from stepbench.report.summary import Store, missing_result, summarise
from stepbench.testing.sample_results import sample_window

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult, TrialSummary
    from stepbench.report.summary import RunFacts

MISSING = missing_result(
    "redis", 4, Store("redis", "not reached", emulated=False), Failure(error="TargetBusyError", cause="held"), 0.0
)


def test_a_row_says_what_a_terminal_has_room_for(summary: RunSummary) -> None:
    """The same numbers as on the page, ready to print."""
    row = headline_rows(summary)[1]
    assert row.trial == "dynamodb"
    assert row.provider == "MiniStack 1.5.33 (emulated)"
    assert (row.n, row.p50, row.p99, row.lost) == ("200", "11.35 ms [10.93, 12.41]", "n=200 < 368", "3")
    assert row.caveats == "emulated, lost events, short sample"
    assert len(row.cells()) == len(HEADINGS)


def test_a_trial_without_windows_has_a_row_with_its_error(facts: RunFacts) -> None:
    """A failed trial that is missing from the table would look as if it had never been planned."""
    (row,) = headline_rows(summarise(facts, [MISSING]))
    assert (row.trial, row.n, row.p50, row.lost) == ("redis (failed)", "0", "TargetBusyError", "–")  # noqa: RUF001


def test_one_line_a_trial(summary: RunSummary) -> None:
    """The execution's output in the console is these lines."""
    lines = headline_lines(summary)
    assert lines[0] == "s3: n 200, p50 9.36 ms [8.82, 9.64], lost 0, emulated"
    assert lines[2] == "postgresql: n 200, p50 6.36 ms [6.13, 6.60], lost 0"
    assert lines[3] == "etcd (incomplete): WriterMissing: n 130, p50 0.956 ms [0.917, 0.999], lost 0"
    assert len(lines) == 4


def test_a_line_stays_short_however_many_windows_there_are(facts: RunFacts, results: tuple[TrialResult, ...]) -> None:
    """A hundred trials of fifty windows have to fit into a state's 256 KiB."""
    windows = tuple(sample_window(f"w{number}", [1.0, 2.0]) for number in range(50))
    trial = results[2].summary.model_copy(update={"windows": windows})
    (line,) = headline_lines(summarise(facts, [results[2].model_copy(update={"summary": trial})]))
    assert (
        line
        == "postgresql: w0: n 2, p50 n=2 < 6, w1: n 2, p50 n=2 < 6, w2: n 2, p50 n=2 < 6, and 47 more windows, lost 0"
    )


def test_the_sentence_answers_the_question(summary: RunSummary) -> None:
    """What a reader tells their team: how long, how surely, and whether it always happened."""
    first, second, *_ = window_rows(summary.trials)
    assert sentence(first) == (
        "Half of the writes had their function running within 9.36 ms (8.82 to 9.64), nine in ten within 14.1 ms; "
        "all 200 acknowledged events arrived."
    )
    assert sentence(second).endswith("3 of 200 acknowledged events had not arrived by the drain limit.")


def sentence_for(results: tuple[TrialResult, ...], times_ms: list[float | None]) -> str:
    """What is said of a window with these latencies."""
    trial = results[0].summary.model_copy(update={"windows": (sample_window("w", times_ms),)})
    return sentence(window_rows([trial])[0])


def test_the_sentence_never_makes_up_a_median(results: tuple[TrialResult, ...]) -> None:
    """Small, empty and lost samples have no median, and say so."""
    assert sentence_for(results, []) == "No median: n=0 < 6; no event was acknowledged."
    assert sentence_for(results, [1.0]) == "No median: n=1 < 6; the one acknowledged event arrived."
    assert sentence_for(results, [None] * 10) == (
        "No median: > drain limit (10 of 10 not arrived); 10 of 10 acknowledged events had not arrived by "
        "the drain limit."
    )
    assert sentence_for(results, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) == (
        "Half of the writes had their function running within 4.0 ms (1.0 to 7.0); all 8 acknowledged events arrived."
    )


def test_with_a_filter_the_line_tells_what_it_held_back(summary: RunSummary) -> None:
    """And the sentence calls the window's events by what they have in common."""
    account = summary.trials[0].accounting
    assert account is not None
    books = account.model_copy(update={"ok_arrived": 100, "received": 100, "held_back": 100})
    trial = summary.trials[0].model_copy(update={"accounting": books})
    filtered = summary.model_copy(update={"trials": (trial,)})
    assert "lost 0, 100 held back by the filter" in headline_lines(filtered)[0]
    assert [row.lost for row in headline_rows(filtered)] == ["0 (100 held back)"]
    assert sentence(window_rows((trial,))[0]).endswith(
        "; all 200 matching events arrived, 100 held back by the filter."
    )


def skipped(trial: TrialSummary) -> TrialSummary:
    """The trial, had its store not been there."""
    caveat = Caveat(kind="skipped", text="etcd cannot start here.", remedy="Install etcd.")
    return trial.model_copy(update={"caveats": (caveat,)})


def test_states_tell_failed_from_incomplete_from_skipped(summary: RunSummary) -> None:
    """Each asks something else of the reader: mend, repeat, or know."""
    complete, incomplete, failed = summary.trials[0], summary.trials[3], MISSING.summary
    states = [state_of(trial) for trial in (complete, incomplete, failed, skipped(failed))]
    assert states == ["complete", "incomplete", "failed", "skipped"]
    assert len({verdict(trial) for trial in (complete, incomplete, failed, skipped(failed))}) == 4


def test_a_trial_that_failed_after_it_had_measured_is_incomplete(summary: RunSummary) -> None:
    """Its logs may be missing, so it is not complete; its latencies are there, so it has not failed."""
    late = summary.trials[0].model_copy(update={"failure": Failure(error="States.Timeout", cause="collecting logs")})
    assert state_of(late) == "incomplete"


def test_caveats_are_named_once_each(summary: RunSummary) -> None:
    """Two caveats of one kind make one word in a table."""
    trial = summary.trials[0]
    assert caveat_list(trial.model_copy(update={"caveats": trial.caveats * 2})) == "emulated, short sample"


def test_importing_the_headline_imports_no_heavy_library() -> None:
    """The command line starts with it: Altair alone takes half a second."""
    code = (
        "import sys, stepbench.report.headline;"
        "sys.exit(bool({'altair', 'jinja2', 'vl_convert', 'boto3', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_phase_that_ended_when_it_was_sure_says_so(facts: RunFacts, results: tuple[TrialResult, ...]) -> None:
    """Else nobody knows why this window is shorter than that one."""
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
    trial = results[2].summary.model_copy(update={"stopped": (ended,)})
    summary = summarise(facts, [results[2].model_copy(update={"summary": trial})])
    (line,) = headline_lines(summary)
    assert line.endswith(f", {ended.phase} ended after 45 s (sure): p99 known to 4.7 %, lost 0")
    assert sentence(window_rows(summary.trials)[0]).endswith("arrived. Phase steady was sure.")
