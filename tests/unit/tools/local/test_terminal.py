"""The headline on terminals of any width: whole, or saying what is not there."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.samples.operations import operation_results
from tests.samples.results import (
    changed,
    headline_rows,
    numbered,
    refused_result,
    sample_facts,
    sample_results,
    sample_summary,
)
from tests.unit.test_progress import S, at, phase, two_trials

from stepbench import digits
from stepbench.contracts.documents import Failure
from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.planning.wall_time import LOCAL
from stepbench.report.summary import TrialStore, missing_result, summarise
from stepbench_tools.local.terminal import EVERY_NS, headline, progress_display

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.result import RunSummary

WIDTHS = (60, 80, 100, 160, 220)
LONG = "dynamodb-streams-batch-size-100-matching-share-0.5-payload-bytes-4096-poisson-arrivals-writers-8-repeat-12"


def printed(summary: RunSummary, width: int) -> str:
    """Return the headline as a terminal of that width shows it, without colours."""
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(headline(summary, width))
    return console.export_text()


def joined(text: str) -> str:
    """Return the text without the line breaks and indents that a narrow terminal makes."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def both() -> RunSummary:
    """Return a run of both experiments; one trial's name is longer than most terminals are wide."""
    first, *others = sample_results()
    operated = operation_results()[:3]
    return sample_summary(numbered((changed(first, name=LONG), *others, *operated)))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_needed_numbers_are_there_at_any_width(both: RunSummary, width: int) -> None:
    """A p99 that is not shown looks like one that nobody measured; half a number is a wrong one."""
    text = printed(both, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    for row in headline_rows(both):
        needed = [row["n"], row["p50"], row["p99"], row["lost"] if "lost" in row else row["throughput"]]
        assert [cell for cell in needed if cell not in text] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_no_name_store_or_caveat_is_cut(both: RunSummary, width: int) -> None:
    """What is emulated says nothing about AWS, however little room there is."""
    text = printed(both, width)
    for row in headline_rows(both):
        assert row["trial"] in text.replace("\n", "")
        assert row["provider"] in joined(text)
        assert row["caveats"] in joined(text)
    assert text.count("(emulated)") == sum(trial.emulated for trial in both.trials)


@pytest.mark.parametrize(
    ("width", "left_out"),
    [(60, ""), (80, "p90, p95, bare trigger p50"), (100, "p95, bare trigger p50"), (160, ""), (220, "")],
)
def test_a_column_that_is_left_out_is_named(width: int, left_out: str) -> None:
    """Nobody misses what he has never seen; on the narrowest each number is named, and all are there."""
    summary = sample_summary(sample_results())
    text = printed(summary, width)
    note = f"left out at {width} columns: {left_out}; the report has them, and so has a wider terminal"
    assert (note in joined(text)) == bool(left_out)
    assert ("left out" in text) == bool(left_out)
    shown = {name for name in ("p90", "p95", "bare trigger p50") if name in text.split("left out")[0]}
    assert shown == {"p90", "p95", "bare trigger p50"} - set(left_out.split(", "))


def test_each_experiment_has_its_table(both: RunSummary) -> None:
    """Operations have a throughput; nothing of theirs was to arrive, so that none was lost says nothing."""
    events, operations = printed(both, 100).split("throughput")
    assert "lost" in events.splitlines()[2]
    assert "ops/s" not in events
    assert "lost" not in operations.replace("lost events", "")
    assert re.search(r"^  4,000   1,450 ops/s ", operations, re.MULTILINE)


def test_numbers_stand_below_each_other_and_names_above_them() -> None:
    """Rows are read by comparing them."""
    lines = printed(sample_summary(sample_results()), 80).splitlines()
    heading = next(line for line in lines if line.endswith("lost"))
    rows = [lines[place + 1] for place, line in enumerate(lines) if " \N{MIDDLE DOT} " in line]
    assert len(rows) == len(sample_results())
    assert {len(line) for line in rows} == {len(heading)}
    assert [row[-1] for row in rows] == ["0", "3", "0", "0"]


def test_a_wide_terminal_has_one_line_a_window_for_numbers() -> None:
    """Its name stands before them, then."""
    text = printed(sample_summary(sample_results()), 220)
    assert re.search(
        r"^  postgresql  +PostgreSQL 18\.6 \(wheel\)  +200  +6\.36 ms \[6\.13, 6\.60\]", text, re.MULTILINE
    )


def test_a_number_without_an_interval_is_marked_and_a_reason_is_none() -> None:
    """The mark is explained below, where there is one; why is among the caveats."""
    first, *_ = sample_results()
    (window,) = first.summary.windows
    text = printed(sample_summary([first]), 80)
    assert "n=" not in text
    assert re.search(r"~[\d.]+ ms", text)
    assert "~ has no interval: the caveats say why" in text
    none = window.latency_ms.model_copy(
        update={"p99": window.latency_ms.p99.model_copy(update={"value": None, "reason": "nothing came"})}
    )
    text = printed(sample_summary([changed(first, windows=(window.model_copy(update={"latency_ms": none}),))]), 80)
    assert "nothing came" not in text
    assert "~ has" not in text
    assert re.search(rf"\] +{digits.NONE} +0$", text, re.MULTILINE)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_failed_trial_says_why_in_its_row(width: int) -> None:
    """A trial without a row would look as if it had never been planned."""
    failure = Failure(error="Lambda.ClientExecutionTimeoutException", cause="no answer")
    lost = missing_result("etcd", 0, TrialStore("etcd", "etcd 3.5.1", emulated=False), failure, 0.0)
    assert "Lambda.ClientExecutionTimeoutException" in printed(sample_summary([lost]), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_lines_name_a_missed_threshold(width: int) -> None:
    """It is what a user sees first after a run."""
    shown = printed(sample_summary([refused_result(sample_results()[2], {"57P01": 15})]), width)
    assert "succeeded threshold missed: errors < 1 %: 7.0 % in postgresql" in joined(shown)


@pytest.mark.parametrize("width", [40, 80])
def test_each_missed_threshold_has_lines_of_its_own(width: int) -> None:
    """In the title they would push the numbers away; wrapped and indented, each is found."""
    thresholds = [parse_threshold(text) for text in ("p50 < 2 ms", "lost == 0")]
    summary = summarise(sample_facts(), sample_results(), thresholds)
    title, *lines = printed(summary, width).split("\n\n")[0].splitlines()
    assert title.strip() == f"{summary.run_id}: failed"
    assert all(line.startswith("  ") and cell_len(line.rstrip()) <= width for line in lines)
    assert joined(" ".join(lines)) == (
        "threshold missed: p50 < 2 ms: 11.35 ms [10.93, 12.41] in dynamodb, 9.36 ms [8.82, 9.64] in s3, "
        "6.36 ms [6.13, 6.60] in postgresql threshold missed: lost == 0: 3 in dynamodb"
    )


@pytest.fixture
def specs() -> tuple[TrialSpec, ...]:
    """Return the trials of the tests' runs."""
    return two_trials()


def test_a_log_gets_a_line_for_each_change_and_one_every_15_s(specs: tuple[TrialSpec, ...]) -> None:
    """CI's log must show that the run lives, without four lines a second."""
    console = Console(file=(screen := io.StringIO()), width=200, force_terminal=False)
    with progress_display(console, LOCAL) as show:
        for now_s, trial in [(0, None), (1, None), (2, 0), (3, 0), (2 + EVERY_NS / S, 0)]:
            show(at(specs, now_s, trial=trial))
    lines = screen.getvalue().splitlines()
    assert [line.split(" · ")[0] for line in lines] == ["validating the plan", "trial 1/2 s3", "trial 1/2 s3"]


@pytest.mark.parametrize("width", [80, 100])
def test_a_terminal_of_80_columns_shows_every_count_whole(specs: tuple[TrialSpec, ...], width: int) -> None:
    """Rich would cut what does not fit, at the end: the time that is left first."""
    console = Console(file=(screen := io.StringIO()), width=width, force_terminal=True, color_system=None)
    named = specs[0].model_copy(update={"name": "dynamodb-streams-batch-size-100-repeat-12"})
    with progress_display(console, LOCAL) as show:
        show(at((named, specs[1]), 40, trial=0, phase=phase(1, 35), sent=1_034, received=1_000, rate_per_s=40.0))
    text = screen.getvalue()
    for shown in ("phase steady", "1 min 18 s left", "sent 1,034 of 1,100, received 1,000", "0 errors", "40/s"):
        assert shown in text
    assert "0:00:00" in text


def test_a_terminal_gets_one_line_that_moves_and_is_gone_at_the_end(specs: tuple[TrialSpec, ...]) -> None:
    """The headline table then stands where the bar was."""
    console = Console(file=(screen := io.StringIO()), width=200, force_terminal=True)
    with progress_display(console, LOCAL) as show:
        show(at(specs, 0, trial=0))
        show(at(specs, 1, trial=0))
    text = screen.getvalue()
    assert "preparing the target" in text
    assert text.rstrip("\n").endswith("\x1b[2K")
