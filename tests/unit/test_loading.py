from __future__ import annotations

import importlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.samples.finished_trials import FinishedTrial
from tests.samples.results import sample_manifest, sample_results, sample_summary
from tests.samples.services import MemoryServices, small_plan, stored_trial

import stepbench
from stepbench import loading
from stepbench.contracts.tasks import ExportRecordsInput
from stepbench.errors import CorruptRecordsError, MissingLibraryError, PlanError
from stepbench.loading import Run, find_runs, load_run
from stepbench.stages.export_records import export_records
from stepbench.stats.quantiles import quantile

START_NS = 1_700_000_000_000_000_001
PLAN = {
    "name": "one",
    "trials": [{"target": {"store": "s3"}, "phases": [{"name": "p", "load": [{"rate_per_s": 2, "count": 9}]}]}],
}
SUMMARY = sample_summary(sample_results())
LOST = 7
NOTEBOOK = Path(__file__).parents[2] / "docs/notebook.ipynb"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a run of four trials: three left records, the last failed before it had any."""
    folder = tmp_path / "out" / "run-1"
    for index, store in enumerate(("s3", "dynamodb", "postgresql")):
        memory = MemoryServices()
        plan = small_plan(store, phases=[{"name": "load", "load": [{"rate_per_s": 10, "count": 30}]}])
        trial = FinishedTrial(memory.services, stored_trial(memory.services, plan), plan, START_NS)
        trial.phase(0, lost=(LOST,))
        key = export_records(ExportRecordsInput(ref=trial.ref), memory.services).key
        path = folder / f"trials/{index:04d}/records.parquet"
        path.parent.mkdir(parents=True)
        path.write_bytes(memory.bucket.objects[key])
    (folder / "summary.json").write_text(SUMMARY.model_dump_json(by_alias=True))
    (folder / "manifest.json").write_text(sample_manifest().model_dump_json())
    (folder / "plan.json").write_text(json.dumps(PLAN))
    return folder


def test_a_run_is_found_by_folder_by_id_and_as_the_latest(folder: Path) -> None:
    """The three ways in which the command line names one."""
    older = folder.with_name("run-0")
    older.mkdir()
    (older / "summary.json").write_text("{}")
    os.utime(older / "summary.json", (1, 1))
    assert stepbench.load_run(folder).folder == folder
    assert load_run("run-1", folder.parent).folder == folder
    assert load_run("latest", folder.parent).folder == folder
    for name in ("run-2", "latest"):
        with pytest.raises(PlanError, match=r"run below .*empty"):
            load_run(name, folder.parent / "empty")


def stored(folder: Path, run_id: str, started_at: str, file_time_s: int) -> Path:
    """Store a summary's head, as old or new as a copy may be."""
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({"run_id": run_id, "started_at": started_at}))
    os.utime(folder / "summary.json", (file_time_s, file_time_s))
    return folder


def test_the_order_is_that_of_the_runs_and_not_of_the_files(tmp_path: Path) -> None:
    """`git clone` writes files in any order, `cp` writes the oldest run last."""
    stored(tmp_path / "b", "b", "2026-01-03T00:00:00+02:00", 10)
    stored(tmp_path / "a", "a", "2026-01-02T23:00:00", 20)
    stored(tmp_path / "c", "c", "2026-01-01T00:00:00Z", 30)
    assert [run.run_id for run in find_runs(tmp_path)] == ["a", "b", "c"]
    assert load_run("latest", tmp_path).folder == tmp_path / "a"


def test_a_run_without_a_time_is_placed_by_its_file_and_says_so(tmp_path: Path) -> None:
    """Nothing else is known of it."""
    stored(tmp_path / "a", "a", "2026-01-01T00:00:00+00:00", 10)
    unknown = stored(tmp_path / "b", "b", "yesterday", 2_000_000_000)
    assert [run.run_id for run in find_runs(tmp_path)] == ["b", "a"]
    with pytest.warns(UserWarning, match=r"does not say when the run was started: it is listed by the file's time"):
        assert load_run("latest", tmp_path).folder == unknown


@pytest.mark.parametrize("damaged", ["", "{", "null", "[]", "[" * 100_000])
def test_a_summary_that_cannot_be_read_is_not_the_latest(tmp_path: Path, damaged: str) -> None:
    """A disk that was full leaves an empty one; the run before it can be shown all the same."""
    whole = stored(tmp_path / "a", "a", "2026-01-01T00:00:00+00:00", 10)
    broken = stored(tmp_path / "b", "b", "2026-01-02T00:00:00+00:00", 2_000_000_000)
    (broken / "summary.json").write_text(damaged)
    with pytest.warns(UserWarning, match=re.escape(f"left out, since their summary.json cannot be read: {broken}")):
        assert load_run("latest", tmp_path).folder == whole


def test_where_no_summary_can_be_read_the_latest_is_named(tmp_path: Path) -> None:
    """Whoever asks for it learns which file is damaged."""
    broken = stored(tmp_path / "b", "b", "2026-01-02T00:00:00+00:00", 10)
    (broken / "summary.json").write_text("")
    with pytest.raises(CorruptRecordsError, match=r"b/summary\.json"):
        _ = load_run("latest", tmp_path).summary


@pytest.mark.parametrize("kept", ["b", "z"])
def test_a_run_is_one_under_any_number_of_names(tmp_path: Path, kept: str) -> None:
    """The folder that is called as the run is taken, else the first; what is left out is said."""
    folder = stored(tmp_path / kept, "z", "2026-01-01T00:00:00+00:00", 10)
    shutil.copytree(folder, tmp_path / "c")
    (tmp_path / "d").symlink_to(folder)
    (run,) = find_runs(tmp_path)
    assert (run.folder, run.copies) == (folder, (tmp_path / "c", tmp_path / "d"))
    with pytest.warns(UserWarning, match=f"taken from {folder}; left out, as copies of it: "):
        assert load_run("z" if kept == "b" else "latest", tmp_path).folder == folder


def test_what_is_json_is_typed(folder: Path) -> None:
    """An editor completes its fields, and a file of another version is refused."""
    run = load_run(folder)
    assert run.summary == SUMMARY
    assert run.trials == SUMMARY.trials
    assert run.manifest == sample_manifest()
    assert run.plan.trials[0].target.store == "s3"
    (folder / "manifest.json").write_text('{"run_id": 1}')
    with pytest.raises(CorruptRecordsError, match=r"manifest\.json is not of this version"):
        _ = load_run(folder).manifest


def test_windows_and_accounting_are_tables(folder: Path) -> None:
    """A missing value is null and keeps its column's type, also where a whole column is missing."""
    windows = load_run(folder).windows()
    assert windows["latency_ms_p50"].to_pylist() == [t.windows[0].latency_ms.p50.value for t in SUMMARY.trials]
    assert windows.schema.field("latency_ms_p99_low").type == pa.float64()
    assert windows["latency_ms_p99_low"].null_count == len(SUMMARY.trials) == windows.num_rows
    accounting = load_run(folder).accounting()
    lost = [
        lost
        for lost, measured in zip(*(accounting[c].to_pylist() for c in ("lost", "measured")), strict=True)
        if measured
    ]
    assert lost == [0, 3, 0, 0]
    assert accounting.schema.field("awaited").type == pa.bool_()


def test_records_are_the_file_s_or_all_trials_together(folder: Path) -> None:
    """One trial's as they were written; of all, the number tells whose a row is, and a warning who is missing."""
    run = load_run(folder)
    one = run.records(1)
    assert (one.num_rows, one.schema.metadata[b"store"]) == (30, b"dynamodb")
    with pytest.warns(UserWarning, match=r"no records\.parquet of etcd"):
        every = run.records()
    assert every["trial"].to_pylist() == [0] * 30 + [1] * 30 + [2] * 30


@pytest.mark.parametrize("format_", ["pandas", "polars"])
def test_times_stay_exact_in_a_data_frame(folder: Path, format_: Any) -> None:  # noqa: ANN401 -- a literal
    """A float has no nanosecond of today: beside one null, pandas would round all times to 256 ns."""
    frame = load_run(folder).records(0, format_)
    assert isinstance(frame, {"pandas": pd.DataFrame, "polars": pl.DataFrame}[format_])
    t4_ns = load_run(folder).records(0)["t4_ns"].to_pylist()
    assert t4_ns[LOST] is None
    assert [int(each) for number, each in enumerate(frame["t4_ns"]) if number != LOST] == t4_ns[:LOST] + t4_ns[
        LOST + 1 :
    ]


def test_a_data_frame_of_records_has_the_phases_beside_it(folder: Path) -> None:
    """Without time zero and windows nobody can tell which rows are in a window."""
    (phase,) = load_run(folder).records(0, "pandas").attrs["phases"]
    assert (phase["name"], phase["start_ns"], len(phase["windows"])) == ("load", START_NS, 1)


def test_the_notebook_runs_and_comes_to_the_report_s_number(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it shows is what a reader pastes; without outputs, since they would be of somebody's machine."""
    cells = [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["outputs"] or cell["execution_count"] for cell in cells] == [None] * len(cells)
    monkeypatch.chdir(folder.parents[1])
    names: dict[str, Any] = {}
    for cell in cells:
        exec("".join(cell["source"]), names)  # noqa: S102 -- our own page
    took = load_run(folder).records(0).to_pandas()
    ascending = np.sort(((took["t4_ns"] - took["t1_ns"]) / 1e6).fillna(np.inf).to_numpy())
    assert names["by_hand"] == pytest.approx(quantile(ascending, 0.5), abs=1e-3)  # `to_pandas` has rounded t4
    assert names["reported"] == SUMMARY.trials[0].windows[0].latency_ms.p50.value


def test_what_is_missing_is_told_and_hides_nothing_else(folder: Path) -> None:
    """Records of a run that was killed are there, and its summary is not."""
    (folder / "summary.json").unlink()
    run = load_run(folder)
    with pytest.raises(CorruptRecordsError, match=r"summary\.json is missing"):
        _ = run.summary
    assert run.records().num_rows == 90
    with pytest.raises(CorruptRecordsError, match=r"0003/records\.parquet is missing: its trial left no records"):
        run.records(3)
    (folder / "trials/0000/records.parquet").write_bytes(b"PAR1")
    with pytest.raises(CorruptRecordsError, match=r"0000/records\.parquet is no Parquet file"):
        run.records(0)


def test_a_library_that_is_not_there_is_named_with_its_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither pandas nor polars is required."""

    def absent(name: str) -> Any:  # noqa: ANN401 -- a module
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
        return importlib.import_module(name)

    monkeypatch.setattr(loading, "import_module", absent)
    with pytest.raises(MissingLibraryError, match=r"pip install pandas\), or leave format at"):
        load_run(folder).windows("pandas")
    assert load_run(folder).windows().num_rows == len(SUMMARY.trials)


def test_a_form_that_there_is_not_is_refused(folder: Path) -> None:
    """With those that there are."""
    with pytest.raises(PlanError, match="arrow, pandas, polars"):
        Run(folder).windows("excel")  # type: ignore[arg-type] # what a user may write
