"""Results on their way here: each trial's as soon as it ends, whole, and a report whatever becomes of the stack."""

from __future__ import annotations

import resource
import signal
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from tests.samples.results import sample_results
from tests.samples.services import MemoryServices, small_plan
from tests.support.fake_clock import FakeClock

from stepbench.contracts.documents import EndedServer, EndedServers, Failure
from stepbench.contracts.plan import Plan, TrialSpec
from stepbench.errors import CorruptRecordsError, LocalEnvironmentError, PlanError, RecordsUnavailableError
from stepbench.planning import expand
from stepbench.records.storage import layout
from stepbench_tools.local import fetching
from stepbench_tools.local.executions import RunSpec
from stepbench_tools.local.fetching import EARLY_EVENTS, RunFolder, fetch, note_fetched, save_or_name
from stepbench_tools.local.machine_limits import BYTES_AN_EVENT, LEAST_BYTES, expected_bytes, require_writable
from stepbench_tools.local.memory_services import write_file
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.results import read_summary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepbench.contracts.result import RunSummary
    from stepbench.records.storage.run_store import RunStore

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SMALL = small_plan("s3").model_dump(exclude_none=True)


@contextmanager
def files_up_to(limit_bytes: int) -> Iterator[None]:
    """Let no file grow beyond so much: what is written then fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def fetched(files: dict[str, bytes], out: Path) -> Path:
    """Fetch run `r` from a bucket with these files."""
    memory = MemoryServices()
    memory.bucket.objects.update(files)
    return fetch(memory.services.runs, "r", out)


def test_a_runs_files_keep_their_places(tmp_path: Path) -> None:
    """Another run's files stay where they are."""
    files = {"runs/r/summary.json": b"s", "runs/r/trials/0000/x": b"x", "runs/r2/summary.json": b"other"}
    folder = fetched(files, tmp_path)
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == {"summary.json": b"s", "trials/0000/x": b"x"}


def test_what_a_run_has_added_to_a_dataset_comes_along(tmp_path: Path) -> None:
    """The emulator's bucket goes with the environment; `report --dataset` looks below the folder of runs."""
    trial = b'{"plan": {"experiment": "transfer", "dataset": "mine"}}'
    own = [layout.dataset_key("mine", "default", "2025-06-05", "r", number) for number in (0, 1)]
    own.append(layout.dataset_published_key("mine", "default"))
    others = [
        layout.dataset_key("mine", "default", "2025-06-05", "r-2", 0),
        layout.dataset_key("theirs", "default", "2025-06-05", "r", 0),
    ]
    files = {"runs/r/trials/0000/trial.json": trial, "runs/r/trials/0001/trial.json": b'{"plan": {}}'}
    fetched(files | {key: key.encode() for key in (*own, *others)}, tmp_path)
    below = (path for path in (tmp_path / "datasets").rglob("*") if path.is_file())
    found = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in below}
    assert found == {key: key.encode() for key in own}


def test_a_key_cannot_leave_the_runs_folder(tmp_path: Path) -> None:
    """A bucket is somebody's input; a file in it must not land in ~/.ssh."""
    with pytest.raises(CorruptRecordsError, match="is no name for a file"):
        fetched({"runs/r/../../escaped": b"x"}, tmp_path / "out")
    assert list(tmp_path.rglob("escaped")) == []


def test_a_full_disk_is_found_before_the_run(tmp_path: Path) -> None:
    """An empty file can be made on a disk that is full; nothing may be left of the trial."""
    with files_up_to(LEAST_BYTES // 2), pytest.raises(PlanError, match=r"--out: cannot hold results: File too large"):
        require_writable(tmp_path)
    require_writable(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_with_too_little_room_is_refused_with_both_figures(tmp_path: Path) -> None:
    """A night's run ends with it otherwise."""
    with pytest.raises(PlanError, match=r"MiB free, and the results may take 1,099,511,627,777 MiB.*another disk"):
        require_writable(tmp_path, 1 << 60)


def test_the_size_that_is_expected_grows_with_events_and_trials() -> None:
    """A matrix multiplies it."""
    plan = Plan.model_validate({"name": "p", "trials": [{**SMALL, "repeats": 3}]})
    [trial] = plan.trials
    assert expected_bytes([plan, plan]) == 2 * (LEAST_BYTES + 3 * (LEAST_BYTES + BYTES_AN_EVENT * trial.events))


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    """A disk that fills while a file is fetched again must not take what is there already."""
    write_file(tmp_path, "trials/x", b"before")
    with files_up_to(100), pytest.raises(OSError, match="File too large"):
        write_file(tmp_path, "trials/x", bytes(1000))
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "trials").iterdir()] == [("x", b"before")]


def test_the_summary_is_fetched_last(tmp_path: Path) -> None:
    """A folder with a summary counts as whole: `report` fetches any other again."""
    with files_up_to(100), pytest.raises(OSError, match="File too large"):
        fetched({"runs/r/summary.json": b"s", "runs/r/trials/0000/x": bytes(1000)}, tmp_path)
    assert not (tmp_path / "r" / "summary.json").exists()


class Here:
    """Two trials of one store, their bucket, and their folder; `said` are the messages."""

    def __init__(self, out: Path, **trial: object) -> None:
        self.memory = MemoryServices()
        self.said: list[str] = []
        plan = Plan.model_validate({"name": "p", "trials": [{**SMALL, **trial}, {**SMALL, **trial}]})
        self.document = plan.model_dump(mode="json", exclude_none=True)
        self.specs = expand(plan, "r")
        self.folder = RunFolder(self.memory.services.runs, RunSpec("r", self.specs, NOW), out, self.said.append)

    def store(self, spec: TrialSpec, **files: bytes) -> None:
        """Store files of a trial in the bucket, each by its stem."""
        for stem, body in files.items():
            suffix = "parquet" if stem == "records" else "json"
            self.memory.bucket.objects[layout.trial_key(spec.ref, f"{stem}.{suffix}")] = body

    def fetch(self, done: int, begun: int | None = None) -> list[str]:
        """Do what is pending; return all files that are here then."""
        for request in self.folder.pending(done, begun):
            request()
        found = self.folder.path.rglob("*") if self.folder.path.is_dir() else ()
        return sorted(str(path.relative_to(self.folder.path)) for path in found if path.is_file())

    def render(self, failure: Failure | None) -> RunSummary:
        """Render the report here."""
        self.folder.render(self.document, FakeClock(now_ns=10**18), emulated=True, failure=failure)
        summary = read_summary(self.folder.path)
        assert summary is not None
        return summary


def test_each_trial_is_fetched_once_when_it_has_ended(tmp_path: Path) -> None:
    """What the next one measures is not to be disturbed, and its provider is known when its load begins."""
    here = Here(tmp_path)
    for spec in here.specs:
        here.store(spec, result=b"{}", provider=b"{}", records=b"PAR1")
    assert here.fetch(0) == []
    first = ["trials/0000/provider.json", "trials/0000/records.parquet", "trials/0000/result.json"]
    assert here.fetch(1) == first
    assert here.fetch(1, begun=1) == [*first, "trials/0001/provider.json"]
    here.memory.bucket.objects.clear()
    assert list(here.folder.pending(1, 1)) == []


def test_what_the_bucket_did_not_answer_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator may be busy for a moment, and be killed a trial later."""
    here = Here(tmp_path)
    here.store(here.specs[0], result=b"{}")
    here.store(here.specs[1], provider=b"{}")
    here.folder.note_ended(ended("etcd", 1))
    error = RecordsUnavailableError("busy")

    def refuse(**_: object) -> None:
        raise error

    with monkeypatch.context() as busy:
        busy.setattr(here.memory.bucket, "get_object", refuse)
        busy.setattr(here.memory.bucket, "put_object", refuse)
        for request in here.folder.pending(1, 1):
            with pytest.raises(RecordsUnavailableError):
                request()
    assert here.fetch(1, begun=1) == ["trials/0000/result.json", "trials/0001/provider.json"]
    assert "runs/r/ended.json" in here.memory.bucket.objects
    assert list(here.folder.pending(1, 1)) == []


def test_a_large_parquet_file_waits_for_the_end(tmp_path: Path) -> None:
    """It would still be on its way while the next trial's load is offered."""
    phases = [{"name": "p", "load": [{"rate_per_s": 1000, "count": EARLY_EVENTS + 1}]}]
    here = Here(tmp_path, phases=phases)
    here.store(here.specs[0], result=b"{}", records=b"PAR1")
    assert here.fetch(1) == ["trials/0000/result.json"]


def test_a_disk_that_fills_meanwhile_is_told_once_and_the_run_goes_on(tmp_path: Path) -> None:
    """It may have room again by the end."""
    here = Here(tmp_path)
    for spec in here.specs:
        here.store(spec, result=bytes(1000), records=bytes(1000))
    with files_up_to(100):
        assert here.fetch(2) == []
    assert len(here.said) == 1
    assert "File too large; they are fetched again at the end" in here.said[0]


def ended(name: str, *trials: int) -> EndedServer:
    """Return a server that was killed."""
    seen = NOW.isoformat()
    return EndedServer(
        server=name,
        version="1.0",
        pids=(7,),
        how="was ended by SIGKILL",
        seen_at=seen,
        log=("out of it",),
        trials=trials,
    )


def test_without_its_emulator_a_run_has_a_report_of_what_is_finished(tmp_path: Path) -> None:
    """The finished trial keeps its numbers; the others say which server ended, when, by what, and its last words."""
    here = Here(tmp_path)
    whole = sample_results()[0]
    whole = whole.model_copy(update={"summary": whole.summary.model_copy(update={"index": 0, "failure": None})})
    here.store(here.specs[0], result=whole.model_dump_json().encode())
    here.fetch(1)
    here.folder.note_ended(ended("emulator", 1))
    summary = here.render(Failure(error="RunAbandonedError", cause="x"))
    first, second = summary.trials
    assert summary.status == "failed"
    assert (first.failure, first.windows) == (None, whole.summary.windows)
    assert second.failure is not None
    assert second.failure.error == "ServerEndedError"
    for words in ("emulator (1.0, pid 7) was ended by SIGKILL, seen at 2026-01-02T00:00:00+00:00", "out of it"):
        assert words in second.failure.cause
        assert words in (here.folder.path / "report.html").read_text()
    assert here.said == [ended("emulator", 1).text]


def test_a_run_out_of_sight_says_so_of_each_trial_without_a_result(tmp_path: Path) -> None:
    """No execution can be asked any more."""
    summary = Here(tmp_path).render(Failure(error="LocalEnvironmentError", cause="lost sight"))
    assert [trial.failure for trial in summary.trials] == [
        Failure(error="LocalEnvironmentError", cause="lost sight")
    ] * 2


def test_what_the_stacks_own_report_says_of_a_server_is_stored_beside_the_run(tmp_path: Path) -> None:
    """Its last trial may fail of it, and its report is rendered at once. A server that no trial needs is only told."""
    here = Here(tmp_path)
    here.folder.note_ended(ended("redis"))
    here.folder.store_ended()
    assert here.memory.bucket.objects == {}
    here.folder.note_ended(ended("etcd", 1))
    here.folder.store_ended()
    stored = EndedServers.model_validate_json(here.memory.bucket.objects["runs/r/ended.json"])
    assert stored.servers == (ended("etcd", 1),)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Return an environment of its own."""
    return Paths(tmp_path, tmp_path / "home")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, paths: Paths) -> RunStore:
    """Return a bucket with three runs, one of them fetched and one not over, and a sample's."""
    runs = MemoryServices(FakeClock(now_ns=0)).services.runs
    for run_id in ("by-api", "by-dashboard", "fetched", "sample-run"):
        runs.put_json(layout.run_key(run_id, "plan.json"), {})
    runs.put_json(layout.run_key("by-api", "summary.json"), {})
    note_fetched(paths.data, "fetched")
    monkeypatch.setattr(fetching, "_results", lambda _paths: runs)
    return runs


@pytest.mark.usefixtures("runs")
def test_it_is_said_how_many_runs_are_gone_with_the_environment(paths: Paths) -> None:
    """Whoever had started them by the API would look for them in vain, and not know why."""
    said: list[str] = []
    save_or_name(paths, said.append)
    (line,) = said
    assert line.startswith("2 runs are nowhere else (by-api, by-dashboard), and gone with the environment")


@pytest.mark.usefixtures("runs")
def test_on_request_they_are_fetched_and_then_there_is_none(paths: Paths, tmp_path: Path) -> None:
    """Each goes to its folder, as `stepbench report` would put it; one that was killed is no finished run."""
    said: list[str] = []
    save_or_name(paths, said.append, out=tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["by-api", "by-dashboard"]
    folder = tmp_path / "out"
    assert said == [
        f"fetched {folder / 'by-api'}",
        f"fetched what there is of {folder / 'by-dashboard'}: the run was not over",
    ]
    save_or_name(paths, said.append, keep=True)
    assert len(said) == 2


@pytest.mark.usefixtures("runs")
def test_on_request_the_environment_is_kept(paths: Paths) -> None:
    """With what fetches them."""
    with pytest.raises(LocalEnvironmentError, match=r"2 runs are nowhere else .*`stepbench down --fetch` all"):
        save_or_name(paths, pytest.fail, keep=True)


def test_a_bucket_that_cannot_be_read_does_not_keep_an_environment_from_ending(
    monkeypatch: pytest.MonkeyPatch, paths: Paths, tmp_path: Path
) -> None:
    """Unless somebody has asked for what is in it."""

    def refused(_paths: Paths) -> RunStore:
        message = "cannot list"
        raise RecordsUnavailableError(message)

    monkeypatch.setattr(fetching, "_results", refused)
    said: list[str] = []
    save_or_name(paths, said.append)
    assert said == ["the environment's runs cannot be read: cannot list"]
    with pytest.raises(LocalEnvironmentError, match="cannot list"):
        save_or_name(paths, said.append, out=tmp_path)


def test_an_environment_that_is_not_there_has_no_runs(paths: Paths) -> None:
    """`down` twice in a row is no error."""
    save_or_name(paths, pytest.fail, keep=True)
