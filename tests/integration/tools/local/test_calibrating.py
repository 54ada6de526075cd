"""Short calibrations against the real server process: what it did is what we counted, event by event."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.listening import listening_addresses

from stepbench_tools.calibration.reference_store.trial import draw_fate
from stepbench_tools.calibration.truth import read_truth
from stepbench_tools.local import calibrating
from stepbench_tools.local.calibrating import ShortLoad, calibrate_runs, short_run, short_spec
from stepbench_tools.local.processes import family, spawn, terminate, wait_until
from stepbench_tools.local.stores.references import TRUTH, start_reference

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
LOAD = ShortLoad(rate_per_s=500, count=200)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the server's folder."""
    return tmp_path_factory.mktemp("reference")


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[LocalStore]:
    """Start a reference store for this module."""
    store = start_reference(directory, parent=os.getpid())
    yield store
    terminate(store.pids)


@pytest.mark.parametrize("seed", range(10))
def test_losses_duplicates_and_disorder_are_exact(server: LocalStore, directory: Path, seed: int) -> None:
    """Each kind of delay comes with every fault; a count that is off by one is a lie about a store."""
    found = short_run(server.endpoint, directory, seed, LOAD)
    assert found.exact
    assert found.counts[0].truth == LOAD.count
    spec = short_spec(seed, LOAD)
    fates = [draw_fate(spec.plan.target, seed, _head(spec.tag, n)) for n in range(LOAD.count)]  # type: ignore[arg-type]
    drawn = {each.metric: each.measured for each in found.counts}
    assert drawn["lost"] == sum(fate.dropped for fate in fates)
    assert drawn["duplicates"] == sum(fate.duplicated for fate in fates)


def _head(tag: str, sequence: int) -> bytes:
    return f"{tag}/00-0000-0000-00-{sequence:08x}".encode()


def test_an_instrument_that_miscounts_is_caught(
    server: LocalStore, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The truth is told of one delivery fewer than there were, so that it is we who count too many."""

    def forgetful(lines: list[str]) -> object:
        return read_truth(line for line in lines if not line.startswith('{"delivery": 5,'))

    monkeypatch.setattr(calibrating, "read_truth", forgetful)
    assert not short_run(server.endpoint, directory, 4, LOAD).exact


def test_runs_have_a_server_of_their_own_that_ends_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be left running, and the outcome is the sum of all runs."""
    started: list[LocalStore] = []

    def noted(folder: Path, parent: int | None = None) -> LocalStore:
        started.append(start_reference(folder, parent))
        return started[-1]

    monkeypatch.setattr(calibrating, "start_reference", noted)
    said: list[str] = []
    report = calibrate_runs(2, 1_000, said.append)
    assert report.passed
    assert [trial.name for trial in report.trials] == ["constant-0", "bimodal-1"]
    assert said == ["run 1 of 2: constant-0: exact", "run 2 of 2: bimodal-1: exact"]
    assert family(started[0].pids) == []


def test_the_server_listens_on_loopback_only_and_its_log_ends_whole(tmp_path: Path) -> None:
    """Ended in the middle of a trial, it leaves a truth that can be read."""
    store = start_reference(tmp_path)
    addresses = listening_addresses(store.pids)
    terminate(store.pids)
    assert addresses == {store.endpoint}
    assert store.endpoint.startswith("127.0.0.1:")
    assert (tmp_path / TRUTH).is_dir()


def test_the_server_ends_with_its_parent(tmp_path: Path) -> None:
    """A killed `stepbench calibrate` cannot end anything."""
    script = (
        "import os, pathlib, time; from stepbench_tools.local.stores.references import start_reference; "
        f"print(start_reference(pathlib.Path({str(tmp_path / 'store')!r}), os.getpid()).pids[0], flush=True)"
    )
    log = tmp_path / "parent.log"
    spawn([sys.executable, "-c", script], log=log)
    wait_until("the parent has said the pid", lambda: log.read_text().endswith("\n"), timeout_s=30)
    pid = int(log.read_text())
    try:
        wait_until("the server has ended", lambda: family([pid]) == [], timeout_s=20)
    finally:
        terminate([pid])
