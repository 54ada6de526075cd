"""Up, down, and everything that can go wrong between: nothing may be left running, nothing replaced in silence."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.support.listening import listening_addresses

from stepbench.clock import SystemClock, measure_offset
from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local import environment
from stepbench_tools.local.environment import CLOCK, EMULATOR, EnvironmentOptions, down, is_up, strays, up
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import await_end, family, wait_until
from stepbench_tools.local.state import STATE, read_state
from stepbench_tools.local.stores.servers import ETCD, REFERENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepbench_tools.local.state import EnvironmentState
    from stepbench_tools.local.stores import LocalStore

pytestmark = [pytest.mark.emulator, pytest.mark.stores]
FEW = (ETCD, REFERENCE)

HOME = "größe it's"
"""Of a user whose folders have such names; programs, settings and shell lines are given it."""


@pytest.fixture
def whole(tmp_path: Path, paths: Paths) -> Iterator[Paths]:
    """Return paths with a home of the test's own, of which nothing is left afterwards."""
    mine = Paths(paths.root, tmp_path / HOME)
    yield mine
    down(mine)


@pytest.fixture
def here(whole: Paths, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Return the same, for an environment of an emulator and two stores: six take 5 s of a core each time."""
    monkeypatch.setattr(environment, "LOCAL_STORES", FEW)
    return whole


def pids(state: EnvironmentState) -> set[int]:
    """Return the pids of all servers."""
    return {process.pid for server in state.servers for process in server.processes}


def silent(_text: str) -> None:
    """Tell nobody."""


def nothing(_state: EnvironmentState) -> str:
    """Deploy nothing."""
    return "stepbench"


def test_up_starts_everything_on_loopback_and_down_ends_it(whole: Paths) -> None:
    """The embedded run promises real servers, on this machine only, that are gone afterwards."""
    state = up(whole, silent, nothing)
    assert is_up(whole)
    stores = {"etcd", "postgresql", "postgresql_tls", "redis", "reference"}
    assert {server.name for server in state.servers} - {"redis_tls"} == {"emulator", "clock-reference", *stores}
    assert {address.rpartition(":")[0] for address in listening_addresses(pids(state))} == {"127.0.0.1"}
    members = family(pids(state))
    assert os.getsid(0) not in {os.getsid(pid) for pid in pids(state)}  # Ctrl-C goes to the whole foreground group

    down(whole)

    assert await_end(members, 0) == []
    assert not is_up(whole)
    assert sorted(path.name for path in whole.home.iterdir()) == ["logs"]


def test_up_and_down_may_be_asked_for_twice(here: Paths) -> None:
    """`up` keeps the environment warm between runs, so a second one starts nothing; a script may end it to be sure."""
    first = up(here, silent, nothing)
    assert up(here, silent, nothing) == first
    assert down(here)
    assert down(here) == []


def test_half_an_environment_is_started_anew(here: Paths) -> None:
    """A stack that points to a store which has died would fail later, in the middle of a trial."""
    first = up(here, silent, nothing)
    clock = first.server(CLOCK)
    assert clock is not None
    victim = psutil.Process(clock.processes[0].pid)
    victim.kill()
    victim.wait(60)
    assert not is_up(here)
    said: list[str] = []

    second = up(here, said.append, nothing)

    assert "clock-reference (SNTP) has ended since it was started; it last wrote to its log at 20" in said[0]

    assert pids(first).isdisjoint(pids(second))
    assert await_end(family(pids(first)), 0) == []


def test_servers_are_found_after_their_folder_was_removed(here: Paths) -> None:
    """`rm -rf` is how some clean up; 23 processes were left then, and `down` said that nothing was running."""
    state = up(here, silent, nothing)
    members = family(pids(state))
    shutil.rmtree(here.home)
    assert {process.pid for process in strays(here.home)} >= {server.processes[0].pid for server in state.servers}
    assert down(here)
    assert await_end(members, 0) == []


def test_the_clock_reference_answers_sandboxes(here: Paths) -> None:
    """Offsets measured here are nothing but the error of measuring; on loopback it stays below a millisecond."""
    reference = up(here, silent, nothing).server(CLOCK)
    assert reference is not None
    found = measure_offset(reference.endpoint, SystemClock())
    assert found is not None
    assert abs(found.offset_ns) <= max(found.bound_ns, 1_000_000)


def test_a_store_that_cannot_start_is_skipped_with_its_reason(here: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never replaced by something else, and the other stores run."""
    start = environment.start_store

    def without_etcd(name: str, paths: Paths, lambda_endpoint: str, members: int) -> tuple[LocalStore, ...]:
        if name == "etcd":
            message = "etcd is not installed"
            raise LocalEnvironmentError(message)
        return start(name, paths, lambda_endpoint, members)

    monkeypatch.setattr(environment, "start_store", without_etcd)
    state = up(here, silent, nothing)
    assert state.skipped == {"etcd": "etcd is not installed"}
    assert state.server("reference") is not None


@pytest.mark.nightly("environment")
def test_etcd_gets_the_members_that_are_asked_for(here: Paths) -> None:
    """A run that asks for none in particular is not to cost its user the cluster that `up` has started."""
    three = up(here, silent, nothing, EnvironmentOptions(etcd_members=3)).members("etcd")
    assert [each.name for each in three] == ["etcd-1", "etcd-2", "etcd-3"]
    assert up(here, silent, nothing).members("etcd") == three
    (one,) = up(here, silent, nothing, EnvironmentOptions(etcd_members=1)).members("etcd")
    assert one.name == "etcd"
    assert not any(each.runs() for each in three)


def test_a_failed_deployment_leaves_nothing_running(here: Paths) -> None:
    """`make run` on a machine where the build breaks must end as it began."""

    def breaks(_state: EnvironmentState) -> str:
        message = "sam deploy failed"
        raise LocalEnvironmentError(message)

    with pytest.raises(LocalEnvironmentError, match="sam deploy failed"):
        up(here, silent, breaks)
    assert strays(here.home) == []
    assert not (here.home / STATE).exists()


def test_an_interrupt_in_the_middle_leaves_nothing_running(here: Paths) -> None:
    """Ctrl-C at any moment: here between the emulator and the stores."""

    def interrupt(text: str) -> None:
        if "etcd" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        up(here, interrupt, nothing)
    assert strays(here.home) == []


def test_down_finds_servers_without_the_state_file(here: Paths) -> None:
    """A kill -9 of `up` between starting a server and noting it leaves no trace but the log that it writes."""
    state = up(here, silent, nothing)
    members = family(pids(state))
    (here.home / STATE).unlink()

    down(here)

    assert await_end(members, 0) == []


def test_a_process_that_only_reads_a_log_is_left_alone(here: Paths, tmp_path: Path) -> None:
    """Somebody's `tail -f` of a log is no server of ours."""
    log = here.logs / "emulator.log"
    log.parent.mkdir(parents=True)
    log.write_text("line\n")
    reader = psutil.Popen(["tail", "-f", str(log)], cwd=tmp_path, stdout=-3)
    try:
        wait_until("tail has opened the log", lambda: bool(reader.open_files()), timeout_s=60)
        down(here)
        assert reader.is_running()
    finally:
        reader.kill()
        reader.wait()


def test_an_emulator_that_hangs_is_not_up(here: Paths) -> None:
    """A process that is there but does not answer would make a run hang."""
    state = up(here, silent, nothing)
    emulator = state.server(EMULATOR)
    assert emulator is not None
    pid = emulator.processes[0].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert read_state(here.home).runs()
        assert not is_up(here)
    finally:
        os.kill(pid, signal.SIGCONT)
