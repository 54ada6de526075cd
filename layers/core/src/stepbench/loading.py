"""A finished run's results for one's own analysis: summary and manifest typed, numbers and records as tables."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from stepbench.contracts.documents import Manifest
from stepbench.contracts.result import Accounting, RunSummary, TrialSummary
from stepbench.errors import CorruptRecordsError, MissingLibraryError, PlanError, Problem
from stepbench.experiments.report.tables import WINDOW_COLUMNS, accounting_table, window_table
from stepbench.planning import parse_plan
from stepbench.report.run import state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepbench.contracts.plan import Plan
    from stepbench.experiments.report.tables import Row

SUMMARY, MANIFEST, PLAN, RECORDS = "summary.json", "manifest.json", "plan.json", "records.parquet"
LATEST = "latest"
Format = Literal["arrow", "pandas", "polars"]
Table = Any
"""Arrow's, or a data frame of pandas or polars: they are optional, and so are their types."""
M = TypeVar("M", bound=BaseModel)
_ACCOUNTING_COLUMNS: dict[str, type] = {
    "trial": int,
    "name": str,
    "measured": bool,
    **{name: bool if field.annotation is bool else int for name, field in Accounting.model_fields.items()},
}


@dataclass(frozen=True)
class Run:
    """
    A run's folder. Files are read when they are asked for; a missing one raises an error then, and hides no other.

    Tables are Arrow's, or data frames with `format="pandas"` or `format="polars"`. Every property and method raises
    CorruptRecordsError for a file that is missing or cannot be read, and the methods MissingLibraryError for a library
    that is not installed.
    """

    folder: Path

    @cached_property
    def summary(self) -> RunSummary:
        """Return all numbers with their intervals: `summary.json`."""
        return read_model(self.folder / SUMMARY, RunSummary)

    @cached_property
    def manifest(self) -> Manifest:
        """Return versions, region and configuration of what ran: `manifest.json`."""
        return read_model(self.folder / MANIFEST, Manifest)

    @cached_property
    def plan(self) -> Plan:
        """Return the plan. Raises PlanError: this version of Stepbench does not run it any more."""
        return parse_plan(_read_bytes(self.folder / PLAN))

    @property
    def trials(self) -> tuple[TrialSummary, ...]:
        """Return the trials, those that failed or were skipped included."""
        return self.summary.trials

    def windows(self, format: Format = "arrow") -> Table:  # noqa: A002 -- the word that pandas' users expect
        """Return one row a window: counts, rates, and each measure's quantiles with `_low`, `_high` and `_reason`."""
        return _convert(_arrow(window_table(self.summary), WINDOW_COLUMNS), format)

    def accounting(self, format: Format = "arrow") -> Table:  # noqa: A002
        """Return one row for each trial's measured phases, and one for its warm-up: where every event went."""
        return _convert(_arrow(accounting_table(self.summary), _ACCOUNTING_COLUMNS), format)

    def records(self, trial: int | None = None, format: Format = "arrow") -> Table:  # noqa: A002
        """
        Return one row an event (`docs/records.md`): of a trial by its number, or of all, with the number in `trial`.

        Of all: what only some of them have is null for the others, and trials without a file are named in a warning.
        """
        return _convert(self._all_records() if trial is None else _read_records(self._records_path(trial)), format)

    def dag_rows(
        self,
        trial: int,
        of: Literal["executions", "tasks", "objects"] = "tasks",
        format: Format = "arrow",  # noqa: A002
    ) -> Table:
        """Return a row for each execution's end, attempt at a task or transfer of an object of a trial of DAGs."""
        return _convert(_read_records(self.folder / "trials" / f"{trial:04d}" / f"{of}.parquet"), format)

    def _records_path(self, trial: int) -> Path:
        return self.folder / "trials" / f"{trial:04d}" / RECORDS

    def _all_records(self) -> Table:
        pa = _library("pyarrow")
        found = sorted((self.folder / "trials").glob(f"*/{RECORDS}"))
        if absent := [name for index, name in self._with_records() if self._records_path(index) not in found]:
            message = f"no {RECORDS} of {', '.join(absent)} in {self.folder}; they are left out"
            warnings.warn(message, stacklevel=3)
        tables = []
        for path in found:
            table = _read_records(path).replace_schema_metadata(None)
            number = pa.array([int(path.parent.name)] * table.num_rows, pa.int32())
            tables.append(table.add_column(0, "trial", number))
        if not tables:
            message = f"{self.folder / 'trials'} holds no {RECORDS}"
            raise CorruptRecordsError(message)
        return pa.concat_tables(tables, promote_options="default").unify_dictionaries()

    def _with_records(self) -> list[tuple[int, str]]:
        """Return numbers and names of the trials that should have left records; none where there is no summary."""
        if not (self.folder / SUMMARY).exists():
            return []
        return [(trial.index, trial.name) for trial in self.trials if state_of(trial) != "skipped"]


def load_run(run: str | Path, out: str | Path = "out") -> Run:
    """
    Find a run: by its folder, by its id below `out`, or as `latest`, the one there that was started last.

    Raises:
        PlanError: there is none.
    """
    for found in candidates(str(run), Path(out)):
        if (found.folder / SUMMARY).is_file() or (found.folder / "trials").is_dir():
            for note in found.notes:
                warnings.warn(note, stacklevel=2)
            return Run(found.folder)
    message = f"there is no run below {out}" if run == LATEST else f"is neither a run's folder nor a run below {out}"
    remedy = f'Give a folder that holds {SUMMARY} or trials/, or name the folder of runs with out="…".'
    raise PlanError([Problem(path="run", value=f'"{run}"', message=message, remedy=remedy)])


class FoundRun(NamedTuple):
    """
    A finished run's folder; `started_at` is None where it is unknown, and `run_id` empty where nothing can be read.

    copies: other folders of the same run. unreadable: folders that may hold later runs, and cannot be read.
    """

    folder: Path
    run_id: str
    started_at: datetime | None = None
    copies: tuple[Path, ...] = ()
    unreadable: tuple[Path, ...] = ()

    @property
    def notes(self) -> Iterator[str]:
        """Yield what a reader has to know: which copies are left out, and that a file's time decides the order."""
        if self.copies:
            others = ", ".join(map(str, self.copies))
            yield f"run {self.run_id} is taken from {self.folder}; left out, as copies of it: {others}"
        if self.unreadable:
            yield f"left out, since their {SUMMARY} cannot be read: {', '.join(map(str, self.unreadable))}"
        if self.run_id and self.started_at is None:
            yield f"{self.folder / SUMMARY} does not say when the run was started: it is listed by the file's time"


def find_runs(out: Path) -> tuple[FoundRun, ...]:
    """
    Return the finished runs right below a folder, each once, the one that was started last first.

    A run is known by its `run_id`: of several folders (or links) that hold it, the one that is called so is taken,
    else the first by name. Files' times, which a copy or a clone changes, count only where a summary has no time.
    """
    folders: dict[str, list[FoundRun]] = {}
    for path in out.glob(f"*/{SUMMARY}"):
        run = _identify(path.parent)
        folders.setdefault(run.run_id or str(path.parent.resolve()), []).append(run)
    runs = []
    for run_id, same in folders.items():
        taken, *others = sorted(same, key=lambda each: (each.folder.name != run_id, each.folder))
        runs.append(taken._replace(copies=tuple(each.folder for each in others)))

    def started(run: FoundRun) -> datetime:
        return run.started_at or datetime.fromtimestamp((run.folder / SUMMARY).stat().st_mtime, UTC)

    return tuple(sorted(runs, key=lambda each: (started(each), each.run_id), reverse=True))


def candidates(run: str, out: Path) -> Iterator[FoundRun]:
    """Yield where a run may be: the newest below a folder, or a folder of that name, or that run under another name."""
    if run == LATEST:
        found = find_runs(out)
        later = tuple(each.folder for each in takewhile(lambda each: not each.run_id, found))
        rest = found[len(later) :]
        yield from [each._replace(unreadable=later) for each in rest[:1]] or found[:1]
    else:
        yield from (FoundRun(folder, "") for folder in (Path(run), out / run))
        yield from (each for each in find_runs(out) if each.run_id == run)


def _identify(folder: Path) -> FoundRun:
    """Read a run's id and start; a summary that cannot be read has neither."""
    try:
        summary = json.loads((folder / SUMMARY).read_bytes())
        return FoundRun(folder, str(summary["run_id"]), _parse_time(summary["started_at"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return FoundRun(folder, "")


def read_summaries(runs: Iterable[FoundRun], notify: Callable[[str], None]) -> Iterator[tuple[FoundRun, RunSummary]]:
    """Yield the runs whose summaries can be read: a damaged one concerns no other, and `notify` is called with it."""
    for run in runs:
        try:
            yield run, read_model(run.folder / SUMMARY, RunSummary)
        except (CorruptRecordsError, OSError) as error:
            notify(f"{run.folder} is left out: {error}")


def _parse_time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _arrow(rows: Iterable[Row], columns: dict[str, type]) -> Table:
    pa = _library("pyarrow")
    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return pa.Table.from_pylist(list(rows), schema=pa.schema([(name, types[type_]) for name, type_ in columns.items()]))


def _convert(table: Table, format_: Format) -> Table:
    converters: dict[str, Callable[[Table], Table]] = {
        "arrow": lambda same: same,
        "pandas": _pandas,
        "polars": lambda table: _library("polars").from_arrow(table),
    }
    if format_ not in converters:
        remedy = f"Give one of {', '.join(converters)}."
        raise PlanError([Problem(path="format", value=f'"{format_}"', message="is no kind of table", remedy=remedy)])
    return converters[format_](table)


def _pandas(table: Table) -> Table:
    """Convert; integers stay integers beside nulls, since a float holds no time to the nanosecond."""
    pandas, pa = _library("pandas"), _library("pyarrow")
    nullable = {pa.int64(): pandas.Int64Dtype(), pa.int32(): pandas.Int32Dtype(), pa.uint8(): pandas.UInt8Dtype()}
    frame = table.to_pandas(types_mapper=(nullable | {pa.uint16(): pandas.UInt16Dtype()}).get)
    frame.attrs = json.loads((table.schema.metadata or {}).get(b"PANDAS_ATTRS", b"{}"))
    return frame


def _library(name: str) -> Any:  # noqa: ANN401 -- an optional one, without types
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        other = "" if name == "pyarrow" else ', or leave format at "arrow"'
        message = f"{name} is not installed; install it (pip install {name}){other}"
        raise MissingLibraryError(message) from error


def _read_records(path: Path) -> Table:
    pa, parquet = _library("pyarrow"), _library("pyarrow.parquet")
    try:
        return parquet.read_table(path)
    except FileNotFoundError as error:
        message = f"{path} is missing: its trial left no records, or they were not fetched"
        raise CorruptRecordsError(message) from error
    except pa.ArrowInvalid as error:
        message = f"{path} is no Parquet file: {error}"
        raise CorruptRecordsError(message) from error


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        message = f"{path} is missing"
        raise CorruptRecordsError(message) from error


def read_model(path: Path, model: type[M]) -> M:
    """Read a JSON file of a run. Raises CorruptRecordsError: it is missing, or not of this version."""
    try:
        return model.model_validate_json(_read_bytes(path))
    except ValidationError as error:
        first = error.errors()[0]
        message = f"{path} is not of this version: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise CorruptRecordsError(message) from error
