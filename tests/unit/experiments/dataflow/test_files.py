"""A trial of DAGs as files: what analysts read, and what the report's numbers can be computed from."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.samples.dag_rows import event_text
from tests.samples.finished_dags import FinishedDags, fork_rows

from stepbench.contracts.tasks import ExportRecordsInput
from stepbench.experiments.dataflow import files
from stepbench.experiments.dataflow.files import FILES
from stepbench.loading import Run
from stepbench.records.storage import layout
from stepbench.stages.export_records import export_records


@pytest.fixture(scope="module")
def tables() -> dict[str, Any]:
    """Files of two executions, b-1 of the second of which was made twice, by their names."""
    trial = FinishedDags(2)
    trial.execution(0)
    a, b0, b1, c = fork_rows(event_text(1), 1_000)
    failed = b1.model_copy(update={"outcome": "failed", "error": "killed", "blobs": b1.blobs[:1]})
    trial.execution(1, [a, b0, failed, b1.model_copy(update={"attempt": 1}), c])
    with pytest.MonkeyPatch.context() as patch:
        small = {name: file._replace(rows_per_group=5) for name, file in FILES.items()}
        patch.setattr(files, "FILES", small)
        export_records(ExportRecordsInput(ref=trial.ref), trial.memory.services)
    names = ["records.parquet", *FILES]
    runs = trial.memory.services.runs
    return {name: pq.read_table(io.BytesIO(runs.get_bytes(layout.trial_key(trial.ref, name)))) for name in names}


def test_every_attempt_is_a_row(tables: dict[str, Any]) -> None:
    """And says whether it counts: only those with it make the report's stages."""
    rows = tables["tasks.parquet"].to_pylist()
    made_twice = [
        (row["attempt"], row["counts"], row["error"]) for row in rows if (row["sequence"], row["task"]) == (1, 1)
    ]
    assert made_twice == [(0, False, "killed"), (1, True, "")]
    assert len(rows) == 9
    a = rows[0]
    assert (a["stage"], a["level"], a["get_ns"], a["put_ns"]) == ("a", 0, 0, 8_000_000)
    assert rows[-1]["result"] == '{"labels": [1]}'


def test_every_transfer_is_a_row(tables: dict[str, Any]) -> None:
    """Of both directions: four objects are written and read in each execution, and one is read again."""
    rows = tables["objects.parquet"].to_pylist()
    assert len(rows) == 17
    first = rows[0]
    assert (first["object"], first["producer"], first["consumer"], first["operation"]) == ("a-0/b-0", "a", "b", "put")
    assert (first["whole_ns"], first["wait_ns"], first["blob_bytes"]) == (4_000_000, 2_000_000, 2**20)
    assert sum(not row["counts"] for row in rows) == 1


def test_rows_are_found_by_their_execution(tables: dict[str, Any]) -> None:
    """Four columns join them with the events, whose due times and starts they are set against."""
    keys = ("phase", "writer", "slice", "sequence")
    events = {tuple(row[key] for key in keys): row for row in tables["records.parquet"].to_pylist()}
    ends = tables["executions.parquet"].to_pylist()
    assert [end["ended_ns"] - events[tuple(end[key] for key in keys)]["t4_ns"] for end in ends] == [0, 0]
    assert [(end["completed"], end["deleted"], end["left"]) for end in ends] == [(True, 4, 0)] * 2


def test_files_say_what_they_hold(tables: dict[str, Any]) -> None:
    """A file that is passed on has its texts and its DAG with it."""
    for name, file in FILES.items():
        schema = tables[name].schema
        assert json.loads(schema.metadata[b"dags"])[0]["name"] == "fork"
        assert [field.name for field in schema] == [column.name for column in file.columns]
        assert all(field.metadata[b"unit"] and field.metadata[b"description"] for field in schema)


def test_a_run_hands_them_out_as_tables(tables: dict[str, Any], tmp_path: Path) -> None:
    """Times stay whole numbers in a data frame."""
    folder = tmp_path / "trials/0000"
    folder.mkdir(parents=True)
    pq.write_table(tables["tasks.parquet"], folder / "tasks.parquet")
    frame = Run(tmp_path).dag_rows(trial=0, of="tasks", format="pandas")
    assert frame["ended_ns"].dtype.name == "Int64"
    assert list(frame.loc[frame["counts"], "stage"]) == ["a", "b", "b", "c"] * 2
