"""A run's results on their way to this machine: each trial's when it ends, all at the end, and a report in any case."""

from __future__ import annotations

import io
import json
import os
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from stepbench.contracts.documents import EndedServers, Failure
from stepbench.contracts.runs import RenderReportInput
from stepbench.digits import count
from stepbench.errors import CorruptRecordsError, PlanError, Problem, RunFailedError, without_queries
from stepbench.records.storage import layout
from stepbench.records.storage.transfers import dataset_keys
from stepbench_tools.local.emulator.server import emulator_name
from stepbench_tools.local.memory_services import MemoryServices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.documents import EndedServer
    from stepbench.contracts.plan import Plan, TrialSpec
    from stepbench.records.storage.run_store import RunStore
    from stepbench_tools.local.executions import RunSpec

SUMMARY, REPORT = "summary.json", "report.html"
LEAST_BYTES = 1 << 20
"""How much is written as a test, and how much a page may take, or a trial's result and its share of the page."""
BYTES_AN_EVENT = 200
"""Bytes of column files and Parquet together; large runs have about 60, small ones more."""
PARQUET = "records.parquet"
EARLY_EVENTS = 100_000
"""The Parquet file of more events would still be on its way when the next trial's load begins."""
_ACCOUNTS = ("result.json", "failure.json")
_EARLY = (*_ACCOUNTS, "provider.json")


class NotFetchedError(RunFailedError):
    """Results could not be fetched: whoever has the only copy has to keep it."""


def expected_bytes(plans: Sequence[Plan]) -> int:
    """Estimate what the results of plans take on disk."""
    trials = [trial for plan in plans for trial in plan.trials]
    data = sum((BYTES_AN_EVENT * trial.events + LEAST_BYTES) * trial.copies for trial in trials)
    return data + LEAST_BYTES * len(plans)


def require_writable(out: Path, needed_bytes: int = LEAST_BYTES) -> None:
    """
    Make the folder for results, and see that they will have room there: before a run, not after it.

    Raises:
        PlanError: nothing can be written, or not so much (bad input).
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as probe:
            probe.write(bytes(LEAST_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
        space = os.statvfs(out)
    except OSError as error:
        message = f"cannot hold results: {error.strerror}"
        remedy = "Name a folder that you may write to, on a disk that is not full."
        raise PlanError([Problem(path="--out", value=f'"{out}"', message=message, remedy=remedy)]) from error
    if (free := space.f_bavail * space.f_frsize) < needed_bytes:
        message = f"has {count(free >> 20)} MiB free, and the results may take {count((needed_bytes >> 20) + 1)} MiB"
        remedy = "Free some, or name a folder on another disk."
        raise PlanError([Problem(path="--out", value=f'"{out}"', message=message, remedy=remedy)])


def fetch(runs: RunStore, run_id: str, out: Path) -> Path:
    """
    Copy everything of a run from the bucket to `out/<run_id>/`, the summary last: with it, the copy is whole.

    What it has added to datasets is copied to `out/datasets/`.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
        CorruptRecordsError: a key points outside of the run's folder.
        OSError: the disk does not take it.
    """
    folder = out / run_id
    folder.mkdir(parents=True, exist_ok=True)
    prefix = layout.run_key(run_id, "")
    names = [key.removeprefix(prefix) for key in runs.keys(prefix)]
    for name in names:
        if name != SUMMARY:
            write_file(folder, name, runs.get_bytes(prefix + name))
    for key in _dataset_files(runs, folder, run_id):
        write_file(out, key, runs.get_bytes(key))
    if SUMMARY in names:
        write_file(folder, SUMMARY, runs.get_bytes(prefix + SUMMARY))
    return folder.resolve()


def _dataset_files(runs: RunStore, folder: Path, run_id: str) -> Iterator[str]:
    """Yield the keys of what a run has added to the datasets that its trials name."""
    plans = (json.loads(path.read_bytes())["plan"] for path in sorted(folder.glob("trials/*/trial.json")))
    for dataset in dict.fromkeys(plan["dataset"] for plan in plans if plan.get("dataset")):
        yield from (key for key in dataset_keys(dataset, runs) if layout.dataset_run(key) == run_id)


def write_file(folder: Path, name: str, body: bytes) -> None:
    """Write a file of a run whole or not at all. Raises CorruptRecordsError for a name that leads out of its folder."""
    folder = folder.resolve()
    target = (folder / name).resolve()
    if not target.is_relative_to(folder):
        message = f"{name} is no name for a file of run {folder.name}"
        raise CorruptRecordsError(message)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.part")
    try:
        draft.write_bytes(body)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


class FolderBucket:
    """A run's folder does as much of a boto3 S3 client as `RunStore` uses to render a report."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self._folder = folder
        self._prefix = layout.run_key(run_id, "")

    def put_object(self, *, Key: str, Body: bytes, **_: object) -> None:  # noqa: N803 -- boto3's
        """Store one object."""
        write_file(self._folder, Key.removeprefix(self._prefix), Body)

    def get_object(self, *, Key: str, **_: object) -> dict[str, Any]:  # noqa: N803 -- boto3's
        """Return one object, or raise the error that S3 answers."""
        path = self._folder / Key.removeprefix(self._prefix)
        if not path.is_file():
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": Key}}, "GetObject")
        return {"Body": io.BytesIO(path.read_bytes())}


@dataclass
class RunFolder:
    """
    The folder takes a run's results while it goes on, so that what is finished is here whatever becomes of the stack.

    Attributes:
        runs: the results bucket.
        run: whose results they are.
        out: the folder is below it, under the run's id.
        notify: called once if the disk does not take them.
    """

    runs: RunStore
    run: RunSpec
    out: Path
    notify: Callable[[str], None]
    ended: list[EndedServer] = field(default_factory=list)
    _fetched: int = 0
    _begun: int | None = None
    _stored: int = 0
    _refused: bool = False

    @property
    def path(self) -> Path:
        """Return the folder."""
        return (self.out / self.run.run_id).resolve()

    def pending(self, done: int, begun: int | None) -> Iterator[Callable[[], None]]:
        """
        Yield requests for what is new since the last call: `done` trials have ended, `begun` offers load.

        One that fails is yielded again by the next call.
        """
        if self._stored < len(self.ended):
            yield self.store_ended
        if begun is not None and begun != self._begun:
            yield partial(self._fetch_begun, begun)
        while self._fetched < done:
            number = self._fetched
            yield partial(self._fetch_ended, number)
            if self._fetched == number:
                return

    def note_ended(self, server: EndedServer) -> None:
        """Report that a server has ended, and keep that for the report, if a trial needed it."""
        self.notify(server.text)
        if server.trials:
            self.ended.append(server)

    def store_ended(self) -> None:
        """Store for the stack's own report which servers have ended. Raises RecordsUnavailableError."""
        if self.ended:
            self.runs.put_model(layout.run_key(self.run.run_id, "ended.json"), EndedServers(servers=tuple(self.ended)))
            self._stored = len(self.ended)

    def render(self, document: Any, clock: Clock, *, emulated: bool, failure: Failure | None) -> None:  # noqa: ANN401 -- JSON
        """
        Render the report here, from what is here.

        Args:
            document: the plan.
            clock: for the report's time.
            emulated: whether the stack is an emulator's.
            failure: of trials without a result; None where the run was stopped.
        """
        # Optional libraries, and a second of imports that no other command needs.
        from stepbench.stages.render_report import render_report  # noqa: PLC0415

        bucket = FolderBucket(self.path, self.run.run_id)
        memory = MemoryServices(clock, bucket=bucket, emulator=emulator_name() if emulated else "")
        runs = memory.services.runs
        runs.put_json(layout.run_key(self.run.run_id, "plan.json"), without_queries(document))
        runs.put_model(layout.run_key(self.run.run_id, "ended.json"), EndedServers(servers=tuple(self.ended)))
        explained = {trial for server in self.ended for trial in server.trials}
        for spec in self.run.specs:
            shown = without_queries(spec.model_dump(mode="json", by_alias=True))
            runs.put_json(layout.trial_key(spec.ref, "trial.json"), shown)
            has_account = spec.index in explained or any(
                runs.find_bytes(layout.trial_key(spec.ref, name)) for name in _ACCOUNTS
            )
            if failure is not None and not has_account:
                runs.put_model(layout.trial_key(spec.ref, "failure.json"), failure)
        task = RenderReportInput(
            run_id=self.run.run_id, started_at=self.run.started_at, outcomes=(), stopped=failure is None
        )
        render_report(task, memory.services)

    def _fetch_begun(self, trial: int) -> None:
        self._fetch(self.run.specs[trial], ("provider.json",))
        self._begun = trial

    def _fetch_ended(self, trial: int) -> None:
        spec = self.run.specs[trial]
        self._fetch(spec, _EARLY if spec.plan.events > EARLY_EVENTS else (*_EARLY, PARQUET))
        self._fetched = trial + 1

    def _fetch(self, spec: TrialSpec, names: Sequence[str]) -> None:
        for name in names:
            key = layout.trial_key(spec.ref, name)
            body = self.runs.find_bytes(key)
            if body is not None:
                self._write(key.removeprefix(layout.run_key(self.run.run_id, "")), body)

    def _write(self, name: str, body: bytes) -> None:
        try:
            write_file(self.path, name, body)
        except OSError as error:
            if not self._refused:
                self.notify(f"{self.path} does not take results: {error.strerror}; they are fetched again at the end")
            self._refused = True
