"""Runs that only the environment has: counted, fetched or kept before it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.services import MemoryServices
from tests.support.fake_clock import FakeClock

from stepbench.errors import LocalEnvironmentError, RecordsUnavailableError
from stepbench.records.storage import layout
from stepbench_tools.local import unfetched
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.unfetched import note_fetched, save_or_name

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.records.storage.run_store import RunStore


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Return an environment of its own."""
    return Paths(tmp_path, tmp_path / "home")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, paths: Paths) -> RunStore:
    """Return a bucket with three runs, one of them fetched, and a sample's."""
    runs = MemoryServices(FakeClock(now_ns=0)).services.runs
    for run_id in ("by-api", "by-dashboard", "fetched", "sample-run"):
        runs.put_json(layout.run_key(run_id, "plan.json"), {})
    note_fetched(paths.data, "fetched")
    monkeypatch.setattr(unfetched, "_results", lambda _paths: runs)
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
    """Each goes to its folder, as `stepbench report` would put it."""
    said: list[str] = []
    save_or_name(paths, said.append, out=tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["by-api", "by-dashboard"]
    assert [line.split()[0] for line in said] == ["fetched", "fetched"]
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

    monkeypatch.setattr(unfetched, "_results", refused)
    said: list[str] = []
    save_or_name(paths, said.append)
    assert said == ["the environment's runs cannot be read: cannot list"]
    with pytest.raises(LocalEnvironmentError, match="cannot list"):
        save_or_name(paths, said.append, out=tmp_path)


def test_an_environment_that_is_not_there_has_no_runs(paths: Paths) -> None:
    """`down` twice in a row is no error."""
    save_or_name(paths, pytest.fail, keep=True)
