"""What a Map's invocations came to: rates, cold ones, and an accounting that adds up where some died."""

from __future__ import annotations

import csv
import io

import pytest
from tests.samples.estimates import present
from tests.samples.invoked_trials import MS, InvokedTrial, note, partly_recorded
from tests.samples.results import sample_results, sample_summary

from stepbench.digits import NONE
from stepbench.experiments.operations.invocations import most_at_once, recording_ms, wall_s
from stepbench.experiments.operations.invocations_table import invocations_table
from stepbench.experiments.operations.report import describe_window
from stepbench.experiments.report.tables import render_csv
from stepbench.records.export import describe_phases
from stepbench.records.join.reader import read_records
from stepbench.report.document import plain
from stepbench.report.run import window_rows


def test_rates_are_of_all_over_the_wall_time_and_of_one_function_over_its_own() -> None:
    """Six of 120 ms, two at once: 360 ms for 60 operations; one function does its ten in 100 ms."""
    trial = InvokedTrial()
    for writer in range(6):
        cold = writer < 2
        trial.record(writer, 120 * (writer // 2), sandbox=f"{writer % 2}", cold=cold, connections=int(cold))
    (window,) = trial.result().summary.windows
    operations = present(window.operations)
    found = present(operations.invocations)
    assert (found.planned, found.begun, found.recorded, window.unsent) == (6, 6, 6, 0)
    assert (found.at_once, found.most_at_once, found.sandboxes) == (2, 2, 2)
    assert (found.cold_sandboxes, found.cold_connections) == (2, 2)
    assert operations.wall_s == pytest.approx(0.36)
    assert operations.per_wall_s == pytest.approx(60 / 0.36)
    assert (found.function_per_s, found.slowest_per_s, found.fastest_per_s) == pytest.approx((100, 100, 100))
    assert window.service_ms.p50.value == pytest.approx(10)
    assert window.lateness_ms.p50.value == 0
    assert (operations.clients, operations.generator_share) == (2, None)


def test_an_invocation_that_died_was_tried_again_or_never_came_is_accounted_for() -> None:
    """Ten operations each: three recorded, two that left nothing and may have done all, two that never came."""
    result = partly_recorded().result()
    (window,) = result.summary.windows
    found = present(present(window.operations).invocations)
    assert (found.planned, found.begun, found.recorded, found.tried_again) == (6, 4, 3, 1)
    accounting = present(result.summary.accounting)
    assert (accounting.ok, accounting.unrecorded, accounting.unsent, accounting.offered) == (30, 20, 20, 70)
    (missing,) = (each for each in result.summary.caveats if each.kind == "missing_writer")
    assert missing.text.startswith("3 writers did not run, or did not end in order: writer 2 in slice 0")
    (unsent,) = (each for each in result.summary.caveats if each.kind == "unsent")
    assert unsent.text.startswith("20 of 70 scheduled events of measured phases were not sent")
    assert unsent.remedy.startswith("Invocations never came, or later than invoked.duration_s")


def test_a_first_attempt_that_never_began_is_followed_by_one_that_was_tried_again() -> None:
    """It could not connect, and left no sign of having begun."""
    trial = InvokedTrial()
    trial.record(0, 0, attempt=1)
    (window,) = trial.result().summary.windows
    found = present(present(window.operations).invocations)
    assert (found.begun, found.tried_again) == (1, 1)


def test_a_record_that_is_in_table_and_bucket_counts_once() -> None:
    """The table took it, and its answer was lost, so that it went to the bucket, too."""
    trial = InvokedTrial()
    for writer in range(6):
        trial.record(writer, 120 * (writer // 2))
    trial.record(0, 0, in_table=False)
    (window,) = trial.result().summary.windows
    assert (window.n, present(present(window.operations).invocations).recorded) == (60, 6)


def test_the_report_says_how_many_how_fast_and_what_is_missing() -> None:
    """One row a window, and the answer in a sentence."""
    trial = InvokedTrial()
    trial.record(0, 0, cold=True, connections=1, connecting_ns=5 * MS)
    trial.begin(2)
    (row,) = window_rows((present(trial.result().summary),))
    sentence = "10 answered in 0.120 s of wall time, 83.3 ops/s by 1 invocation, 2 at once (5 left no record), "
    assert sentence + "one function 100 ops/s" in describe_window(row)
    (shown,) = invocations_table([row]).bodies[0].rows
    cells = [plain(cell.text) for cell in shown.cells]
    assert plain(shown.head.text).endswith("distributed Map, 10 operations each; 40 operations not begun")
    assert cells[:5] == ["1 of 6", "2, 1", "0.120 s", NONE, "83.3 ops/s"]
    assert cells[-2:] == ["1", "1 5.00 ms"]


def test_files_have_each_invocations_begin_and_end_and_csv_the_numbers() -> None:
    """Who wants to draw them needs the spans; who compares runs the numbers."""
    trial = InvokedTrial()
    for writer in range(6):
        trial.record(writer, 120 * (writer // 2))
    summary = present(trial.result().summary)
    run = sample_summary(sample_results()).model_copy(update={"trials": (summary,)})
    rows = [row for row in csv.DictReader(io.StringIO(render_csv(run))) if row["kind"] == "distributed"]
    values = {row["measure"]: float(row["value"] or "nan") for row in rows}
    assert [values[name] for name in ("recorded", "wall_s", "at_once")] == pytest.approx([6, 0.36, 2])
    services = trial.memory.services
    records = read_records(services.trial(trial.ref), services.runs, services.table)
    (phase,) = describe_phases(records)
    assert (phase["clients"], phase["think_ms"]) == (2, None)
    spans = [(each["writer"], each["end_ns"] - each["begin_ns"]) for each in phase["invocations"]]
    assert spans == [(writer, 120 * MS) for writer in range(6)]


def test_most_at_once_counts_overlaps_and_not_touches() -> None:
    """One that begins as another ends runs after it."""
    assert most_at_once([(0, 10), (10, 20), (5, 12)]) == 2
    assert most_at_once([]) == 0


def test_recording_is_marking_and_storing_which_the_next_invocation_of_the_sandbox_knows() -> None:
    """Where each sandbox had one invocation, storing is taken to be like marking."""
    assert recording_ms([note(0, 1)]) == 4
    assert recording_ms([note(0, 1), note(1, 2, stored_ns=5 * MS)]) == 7
    assert recording_ms([]) is None
    assert wall_s([]) is None
