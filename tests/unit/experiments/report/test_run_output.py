"""What the console shows of a run: short whatever the run was, and with the way out where it failed."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tests.samples.results import sample_results

from stepbench.contracts.documents import Failure
from stepbench.contracts.result import TrialSummary
from stepbench.contracts.runs import RenderReportOutput
from stepbench.experiments.report.run_output import MAX_OUTPUT_BYTES, cut_lines, run_output
from stepbench.report.summary import RunFacts, summarise

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
