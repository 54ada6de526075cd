"""
A run's results on their way to this machine: each trial's when it ends, all at the end, and a report in any case.

Runs that only the environment has, started by its API or dashboard, or killed, are gone with it unless fetched.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.documents import EndedServers, Failure
from stepbench.contracts.runs import RenderReportInput
from stepbench.digits import counted
from stepbench.errors import (
    LocalEnvironmentError,
    RunFailedError,
    StepbenchError,
    without_queries,
)
from stepbench.records.storage import layout
from stepbench.records.storage.transfers import dataset_keys, published_keys
from stepbench_tools.local.emulator.server import answers, emulator_name
from stepbench_tools.local.invoking import SAMPLE_RUN
from stepbench_tools.local.memory_services import FolderBucket, MemoryServices, write_file
from stepbench_tools.local.stack import local_stack
from stepbench_tools.local.state import read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from stepbench.clock import Clock
    from stepbench.contracts.documents import EndedServer
    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.storage.run_store import RunStore
    from stepbench_tools.local.executions import RunSpec
    from stepbench_tools.local.paths import Paths

SUMMARY, REPORT = "summary.json", "report.html"
PARQUET = "records.parquet"
EARLY_EVENTS = 100_000
"""The Parquet file of more events would still be on its way when the next trial's load begins."""
_ACCOUNTS = ("result.json", "failure.json")
_EARLY = (*_ACCOUNTS, "provider.json")


class NotFetchedError(RunFailedError):
    """Results could not be fetched: whoever has the only copy has to keep it."""


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
    """Yield the keys of what a run has added to the datasets that its trials name, and of what was published there."""
    plans = (json.loads(path.read_bytes())["plan"] for path in sorted(folder.glob("trials/*/trial.json")))
    for dataset in dict.fromkeys(plan["dataset"] for plan in plans if plan.get("dataset")):
        yield from (key for key in dataset_keys(dataset, runs) if layout.dataset_run(key) == run_id)
        yield from published_keys(dataset, runs)


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

        bucket = FolderBucket(self.path, layout.run_key(self.run.run_id, ""))
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


_FETCHED, _EMULATOR = "fetched", "emulator"
_MOST_NAMES = 5


def note_fetched(data: Path, run_id: str) -> None:
    """Note in the environment's folder of data that a run's results are elsewhere, too."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / _FETCHED).open("a", encoding="utf-8") as noted:
        noted.write(f"{run_id}\n")


def save_or_name(paths: Paths, notify: Callable[[str], None], *, out: Path | None = None, keep: bool = False) -> None:
    """
    Fetch the runs that nobody has fetched before an environment ends, or name those that are lost with it.

    Args:
        paths: of the environment; one that does not answer has nothing any more.
        notify: for people.
        out: runs are fetched there; None fetches none.
        keep: whether one that has such runs must not end.

    Raises:
        LocalEnvironmentError: it is to be kept, or what was asked for could not be done.
    """
    try:
        runs = _results(paths)
        left = [] if runs is None else unfetched(runs, paths.data)
        if runs is not None and out is not None:
            for run_id in left:
                folder = fetch(runs, run_id, out)
                whole = (folder / SUMMARY).exists()
                notify(f"fetched {folder}" if whole else f"fetched what there is of {folder}: the run was not over")
                note_fetched(paths.data, run_id)
            return
    except (BotoCoreError, ClientError, StepbenchError) as error:
        message = f"the environment's runs cannot be read: {error}"
        if keep or out is not None:
            raise LocalEnvironmentError(message) from error
        notify(message)
        return
    if left and keep:
        message = f"{_named_runs(left)}: `stepbench report RUN` fetches one, `stepbench down --fetch` all"
        raise LocalEnvironmentError(message)
    if left:
        notify(f"{_named_runs(left)}, and gone with the environment (`stepbench down --fetch` fetches first)")


def unfetched(runs: RunStore, data: Path) -> list[str]:
    """Return the runs in a results bucket that were not noted as fetched; samples of `stepbench invoke` are none."""
    noted = (data / _FETCHED).read_text("utf-8").split() if (data / _FETCHED).exists() else []
    found = set(runs.folders(layout.RUNS)) - set(noted)
    return sorted(run_id for run_id in found if not run_id.startswith(SAMPLE_RUN))


def _results(paths: Paths) -> RunStore | None:
    """Return the results bucket of an environment, if there is one that answers."""
    state = read_state(paths.home)
    emulator = state.server(_EMULATOR)
    if not state.stack or emulator is None or not answers(emulator.endpoint):
        return None
    return local_stack(state.stack, emulator.endpoint).runs


def _named_runs(left: list[str]) -> str:
    more = f" and {len(left) - _MOST_NAMES} more" if len(left) > _MOST_NAMES else ""
    return f"{counted(len(left), 'run', 'is', 'are')} nowhere else ({', '.join(left[:_MOST_NAMES])}{more})"
