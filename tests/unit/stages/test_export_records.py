from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.samples.finished_trials import GAP, FinishedTrial, watched_with_a_gap
from tests.samples.measured_functions import MS, MeasuredTrial
from tests.samples.records import column_header, writer_rows
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.samples.transfers import row

from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.runs import RunRequest
from stepbench.contracts.tasks import ExportRecordsInput, StateError
from stepbench.contracts.transfer.plan import TransferTrial
from stepbench.contracts.transfer.rows import TransferRows
from stepbench.errors import RecordsUnavailableError
from stepbench.records import export as module
from stepbench.records.formats.columns import encode
from stepbench.records.storage import layout
from stepbench.records.storage.transfers import dataset_keys, read_published
from stepbench.stages.export_records import export_records

START_NS = 1_700_000_000_000_000_000
PHASES = [{"name": "load", "load": [{"rate_per_s": 10, "count": 30}]}]


def export(memory: MemoryServices, ref: TrialRef) -> tuple[pq.ParquetFile, int]:
    """Call the stage, and read what it has stored."""
    output = export_records(ExportRecordsInput(ref=ref), memory.services)
    assert output.key == layout.trial_key(ref, "records.parquet")
    return pq.ParquetFile(io.BytesIO(memory.bucket.objects[output.key])), output.rows


def exported(
    *,
    deliver: bool = True,
    stop_s: int | None = None,
    **fields: Any,  # noqa: ANN401 -- a plan's JSON
) -> tuple[pq.ParquetFile, int, FinishedTrial]:
    """Export 30 events; with two writers, the second never came."""
    memory = MemoryServices()
    plan = small_plan("dynamodb", **{"phases": PHASES, **fields})
    trial = FinishedTrial(memory.services, stored_trial(memory.services, plan), plan, START_NS)
    if stop_s is not None:
        trial.phase(0, to_s=stop_s)
        memory.services.table.set_stop(trial.ref.tag, 0, START_NS + stop_s * 10**9)
    elif deliver:
        trial.phase(0, lost=(7,))
    return *export(memory, trial.ref), trial


def test_what_was_not_offered_has_no_row() -> None:
    """`until` ended the phase after 20 of 90 events."""
    until = {"metric": "p50", "relative_width": 0.5, "max_events": 90}
    phases = [{"name": "load", "load": [{"rate_per_s": 10, "duration_s": 1}], "until": until}]
    file, rows, _ = exported(stop_s=2, phases=phases)
    outcomes = file.read()["outcome"].to_pylist()
    assert (rows, outcomes) == (20, ["ok"] * 20)


def test_every_scheduled_event_is_a_row_in_order_of_its_time() -> None:
    """Two writers take turns, so their rows do; the one that never came has rows too."""
    file, rows, _ = exported(writers=2)
    table = file.read()
    assert (rows, table.num_rows) == (30, 30)
    assert np.all(np.diff(table["t0_ns"].to_numpy()) > 0)
    assert (table["writer"].to_pylist()[:4], table["sequence"].to_pylist()[:4]) == ([0, 1, 0, 1], [0, 0, 1, 1])
    assert table["outcome"].to_pylist()[:4] == ["ok", "unsent", "ok", "unsent"]
    assert table["attempt"].to_pylist()[:2] == [0, None]


def test_the_times_are_those_of_the_records() -> None:
    """A reader computes the same latencies; what did not arrive is null and not 1970."""
    file, _, trial = exported()
    table = file.read().to_pydict()
    latency = [None if t4 is None else t4 - t1 for t1, t4 in zip(table["t1_ns"], table["t4_ns"], strict=True)]
    expected = trial.latency_ns[0].tolist()
    assert latency == [None if number == 7 else expected[number] for number in range(30)]
    assert (set(table["phase"]), table["arrivals"][6:9]) == ({"load"}, [1, 0, 1])


def test_each_row_says_whether_the_filter_was_to_let_it_pass() -> None:
    """Else a reader takes what was held back for lost."""
    file, _, _ = exported(record={"matching_share": 0.5})
    assert file.read()["matching"].to_pylist() == [False, True] * 15
    file, _, _ = exported()
    assert all(file.read()["matching"].to_pylist())


def described_as_it_is(schema: pa.Schema, experiment: str) -> bool:
    """Return whether each column has its own type and description, and none but the optional ones is missing."""
    columns = module.events_file(arrive=experiment != "operations").columns
    own = {each.name: each.field(nullable=True) for each in columns}
    for field in schema:
        assert field.equals(own[field.name], check_metadata=True), field.name
    return {each.name for each in columns if not each.optional} <= set(schema.names) <= own.keys()


def test_the_file_says_what_it_holds() -> None:
    """Who finds the file without the program still knows each column's unit and meaning; zstd inside."""
    file, _, _ = exported()
    schema = file.schema_arrow
    assert described_as_it_is(schema, "trigger")
    assert list(module.events_file(arrive=True).metadata) == [key.decode() for key in schema.metadata]
    assert (schema.metadata[b"store"], schema.metadata[b"run_id"]) == (b"dynamodb", b"run-1")
    assert file.metadata.row_group(0).column(5).compression == "ZSTD"


def test_a_measured_function_s_file_says_when_each_event_was_done() -> None:
    """Batch 7 of ten had its last four records processed at the second try; the one of batch 9 never ended."""
    trial = MeasuredTrial()
    file, _ = export(trial.memory, trial.ref)
    assert file.schema_arrow.names[-5:] == ["t5_ns", "handler_ns", "processed", "tries", "processings"]
    rows = [row for row in file.read().to_pylist() if row["phase"] == "steady"]
    assert [(row["tries"], row["processings"]) for row in rows[74:78]] == [(1, 1), (1, 1), (2, 1), (2, 1)]
    assert [rows[77][name] for name in ("handler_ns", "processed")] == [3 * MS, True]
    assert rows[77]["t5_ns"] - rows[77]["t4_ns"] == 61_003 * MS
    assert [rows[90][name] for name in ("t5_ns", "handler_ns", "processed", "tries")] == [None, None, False, 1]
    assert (rows[120]["tries"], rows[120]["processings"]) == (1, 2)


def test_the_file_says_which_rows_are_in_which_window() -> None:
    """Its phases' time zero and windows are all that it takes, beside the rows, to recompute the report."""
    windows = [{"name": "late", "from_s": 1, "to_s": 2}]
    cold = {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 10, "count": 30}]}
    file, _, _ = exported(phases=[cold, {**PHASES[0], "windows": windows}])
    (phase,) = json.loads(file.schema_arrow.metadata[b"phases"])  # the load's was never planned
    expected = {"name": "warm-up", "measured": False, "start_ns": START_NS, "offered_s": 3.0, "windows": []}
    assert phase == {**expected, "clients": None, "think_ms": None, "offers_number": True}
    file, _, _ = exported(phases=[{**PHASES[0], "windows": windows}])
    (phase,) = json.loads(file.schema_arrow.metadata[b"phases"])
    assert phase["windows"] == [{"name": "late", "from_s": 1.0, "to_s": 2.0}]
    at_s = (file.read()["t0_ns"].to_numpy() - phase["start_ns"]) / 1e9
    assert np.nonzero((at_s >= 1) & (at_s < 2))[0].tolist() == list(range(10, 20))


def test_a_broken_off_trial_s_file_names_its_error() -> None:
    """What a stopped run cut off is not lost: the reader of the file has to know that it was stopped."""
    memory = MemoryServices()
    ref = stored_trial(memory.services, small_plan("dynamodb", phases=PHASES))
    failure = StateError(Error="TrialCancelledError", Cause="stopped")
    output = export_records(ExportRecordsInput(ref=ref, failure=failure), memory.services)
    schema = pq.read_schema(io.BytesIO(memory.bucket.objects[output.key]))
    assert schema.metadata[b"failure"] == b"TrialCancelledError"


def test_large_trials_are_written_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten million rows as one table would not fit the function's memory."""
    monkeypatch.setattr(module, "ROWS_PER_GROUP", 12)
    file, _, _ = exported()
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [12, 12, 6]
    assert file.read()["t0_ns"].to_pylist() == sorted(file.read()["t0_ns"].to_pylist())


def test_a_trial_that_never_began_has_an_empty_file() -> None:
    """With its columns, so that readers need no special case."""
    file, rows, _ = exported(deliver=False)
    assert rows == file.read().num_rows == 0
    assert "t4_ns" in file.schema_arrow.names


def test_operations_have_columns_of_their_own_and_none_of_arrivals() -> None:
    """A reader of the file finds the kind by name, and no empty t4."""
    memory = MemoryServices()
    phases = [{"name": "load", "closed": {"clients": 2, "duration_s": 1}}]
    plan = small_plan("redis", experiment="operations", workload={"mix": {"read": 1}}, phases=phases)
    ref = stored_trial(memory.services, plan)
    memory.services.runs.put_model(layout.phase_key(ref, 0, "plan.json"), PhaseSchedule(start_at_ns=START_NS))
    extras = {"client": np.array([0, 1, 0]), "kind": np.array([0, 1, 5]), "retries": np.array([0, 0, 2])}
    for attempt in (0, 1):
        rows = writer_rows([START_NS + attempt, START_NS + 20, START_NS + 50])._replace(extras=extras)
        header = column_header(ref, attempt=attempt, last=True)
        key = layout.column_file_key(ref, layout.attempt_id(0, 0, 0, attempt), 0)
        memory.services.runs.put_bytes(key, encode(header, rows))
    file, _ = export(memory, ref)
    table = file.read()
    assert table["kind"].to_pylist() == ["read", "read", "insert", "insert", "scan", "scan"]
    assert (table["attempt"].to_pylist(), table["sequence"].to_pylist()) == ([0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2])
    assert table["retries"].to_pylist() == [0, 0, 0, 0, 2, 2]
    assert not {"t4_ns", "arrivals", "cold", "matching", "connect_ns"} & set(table.column_names)
    assert described_as_it_is(file.schema_arrow, "operations")


def test_each_row_says_whether_nobody_watched() -> None:
    """Else a reader takes the watch's absence for the store's latency."""
    trial = watched_with_a_gap()
    table = export(trial.memory, trial.ref)[0].read(["phase", "sequence", "watch_gap"]).to_pylist()
    assert [row["sequence"] for row in table if row["phase"] == "steady" and row["watch_gap"]] == list(GAP)
    assert not any(row["watch_gap"] for row in table if row["phase"] == "warm-up")


@pytest.mark.parametrize("team", ["default", "role/ci"])
def test_a_run_s_transfers_join_their_dataset_as_its_team_s(team: str) -> None:
    """Who may read them over the API goes by the file's key; the run's request says who asked for it."""
    number = {"platform": "lambda", "source": "s3", "metric": "modes", "value": 2, "citation": "x"}
    fields = {"experiment": "transfer", "transfers": 1, "dataset": "weekly", "published": [number]}
    memory, plan = MemoryServices(), TransferTrial.model_validate(fields)
    ref = stored_trial(memory.services, plan)
    memory.services.runs.put_model(layout.transfer_key(ref, 0, 0), TransferRows(rows=(row(run_id=ref.run_id),)))
    with pytest.raises(RecordsUnavailableError, match=r"request\.json"):
        export_records(ExportRecordsInput(ref=ref), memory.services)
    request = RunRequest(plan="p", team=team)
    memory.services.runs.put_model(layout.run_key(ref.run_id, "request.json"), request)
    assert export_records(ExportRecordsInput(ref=ref), memory.services).rows == 1
    runs = memory.services.runs
    assert dataset_keys("weekly", runs, [team]) == dataset_keys("weekly", runs) != ()
    assert read_published("weekly", runs, [team]) == read_published("weekly", runs) == plan.published
    assert read_published("weekly", runs, ["another"]) == ()
