from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from stepbench.contracts.phase_documents import PhaseSchedule
from stepbench.contracts.tasks import ExportRecordsInput
from stepbench.records import layout
from stepbench.records.columns import encode
from stepbench.stages import export_records as stage
from stepbench.stages.export_records import export_records
from stepbench.testing.finished_trials import FinishedTrial
from stepbench.testing.memory_services import MemoryServices
from stepbench.testing.records import column_header, writer_rows
from stepbench.testing.trials import small_plan, stored_trial

if TYPE_CHECKING:
    import pytest

START_NS = 1_700_000_000_000_000_000
PHASES = [{"name": "load", "load": [{"rate_per_s": 10, "count": 30}]}]


def exported(
    *,
    deliver: bool = True,
    **fields: Any,  # noqa: ANN401 -- a plan's JSON
) -> tuple[pq.ParquetFile, int, FinishedTrial]:
    """30 events; with two writers, the second never came."""
    memory = MemoryServices()
    plan = small_plan("dynamodb", phases=PHASES, **fields)
    trial = FinishedTrial(memory.services, stored_trial(memory.services, plan), plan, START_NS)
    if deliver:
        trial.phase(0, lost=(7,))
    output = export_records(ExportRecordsInput(ref=trial.ref), memory.services)
    assert output.key == layout.trial_key(trial.ref, "records.parquet")
    return pq.ParquetFile(io.BytesIO(memory.bucket.objects[output.key])), output.rows, trial


def test_what_was_not_offered_has_no_row() -> None:
    """`until` ended the phase after 20 of 90 events."""
    until = {"metric": "p50", "relative_width": 0.5, "max_events": 90}
    phases = [{"name": "load", "load": [{"rate_per_s": 10, "duration_s": 1}], "until": until}]
    memory = MemoryServices()
    plan = small_plan(phases=phases)
    trial = FinishedTrial(memory.services, stored_trial(memory.services, plan), plan, START_NS)
    trial.phase(0, to_s=2)
    memory.services.table.set_stop(trial.ref.tag, 0, START_NS + 2 * 10**9)
    output = export_records(ExportRecordsInput(ref=trial.ref), memory.services)
    table = pq.read_table(io.BytesIO(memory.bucket.objects[output.key]))
    assert (output.rows, table.num_rows) == (20, 20)
    assert set(table["outcome"].to_pylist()) == {"ok"}


def test_every_scheduled_event_is_a_row_in_order_of_its_time() -> None:
    """Two writers take turns, so their rows do; the one that never came has rows too."""
    file, rows, _ = exported(writers=2)
    table = file.read()
    assert (rows, table.num_rows) == (30, 30)
    assert np.all(np.diff(table["t0_ns"].to_numpy()) > 0)
    assert table["writer"].to_pylist()[:4] == [0, 1, 0, 1]
    assert table["sequence"].to_pylist()[:4] == [0, 0, 1, 1]
    assert table["outcome"].to_pylist()[:4] == ["ok", "unsent", "ok", "unsent"]
    assert table["attempt"].to_pylist()[:2] == [0, None]


def test_the_times_are_those_of_the_records() -> None:
    """A reader computes the same latencies; what did not arrive is null and not 1970."""
    file, _, trial = exported()
    table = file.read().to_pydict()
    latency = [None if t4 is None else t4 - t1 for t1, t4 in zip(table["t1_ns"], table["t4_ns"], strict=True)]
    expected = trial.latency_ns[0].tolist()
    assert latency == [None if number == 7 else expected[number] for number in range(30)]
    assert set(table["phase"]) == {"load"}
    assert table["arrivals"][6:9] == [1, 0, 1]


def test_each_row_says_whether_the_filter_was_to_let_it_pass() -> None:
    """Else a reader takes what was held back for lost."""
    file, _, _ = exported(record={"matching_share": 0.5})
    assert file.read()["matching"].to_pylist() == [False, True] * 15
    file, _, _ = exported()
    assert all(file.read()["matching"].to_pylist())


def test_the_file_says_what_it_holds() -> None:
    """Units with every column, the trial's name with the file, zstd inside."""
    file, _, _ = exported()
    schema = file.schema_arrow
    assert all(schema.field(name).metadata[b"unit"] for name in schema.names)
    assert schema.metadata[b"store"] == b"dynamodb"
    assert schema.metadata[b"run_id"] == b"run-1"
    assert file.metadata.row_group(0).column(5).compression == "ZSTD"


def test_large_trials_are_written_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten million rows as one table would not fit the function's memory."""
    monkeypatch.setattr(stage, "ROWS_PER_GROUP", 12)
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
    output = export_records(ExportRecordsInput(ref=ref), memory.services)
    file = pq.ParquetFile(io.BytesIO(memory.bucket.objects[output.key]))
    table = file.read()
    assert table["kind"].to_pylist() == ["read", "read", "insert", "insert", "scan", "scan"]
    assert table["attempt"].to_pylist() == [0, 1, 0, 1, 0, 1]
    assert table["sequence"].to_pylist() == [0, 0, 1, 1, 2, 2]
    assert table["retries"].to_pylist() == [0, 0, 0, 0, 2, 2]
    assert not {"t4_ns", "arrivals", "cold", "matching", "connect_ns"} & set(table.column_names)
    assert all(field.metadata[b"unit"] for field in file.schema_arrow)
