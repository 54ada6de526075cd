"""Up before, used, down after, unless it was up before."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.samples.services import MemoryServices, stored_trial

from stepbench.contracts.plan import Plan, TrialPlan
from stepbench.contracts.runs import SweepTargetsOutput
from stepbench.errors import LocalEnvironmentError, PlanError
from stepbench_tools.cli.parser import main
from stepbench_tools.local import session
from stepbench_tools.local import stack as stacks
from stepbench_tools.local.environment import EnvironmentOptions
from stepbench_tools.local.fetching import NotFetchedError
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.running import RunAbandonedError
from stepbench_tools.local.session import (
    LocalSession,
    bring_up,
    local_session,
    open_session,
    parameters,
    running_stack,
    start_environment,
    stop_environment,
    sweep,
)
from stepbench_tools.local.state import EnvironmentState, Server, occupied
from stepbench_tools.local.store_list import NO_CLUSTER, skip_reason, store_list, stores_on_demand

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepbench_tools.local.stack import Stack

STATE = EnvironmentState(
    servers=(
        Server(name="emulator", version="", endpoint="http://127.0.0.1:1", processes=()),
        Server(name="etcd", version="", endpoint="127.0.0.1:2", processes=()),
    ),
    skipped={"postgresql": "no compiler"},
    stack="stepbench",
    complete=True,
)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what is done to the environment; nothing real is."""
    done: list[str] = []

    def up(
        _paths: object, _notify: object, deploy: Callable[[EnvironmentState], str], options: EnvironmentOptions
    ) -> EnvironmentState:
        done.append(f"up {deploy(STATE)}" + (f" with {options.etcd_members} members" if options.etcd_members else ""))
        return STATE

    monkeypatch.setattr(session, "python_runtime", lambda _find_paths: "python3.11")
    monkeypatch.setattr(session, "build", lambda *_, **__: "hash")
    monkeypatch.setattr(session, "deploy", lambda deployment, built: done.append(f"{deployment.endpoint} {built}"))
    monkeypatch.setattr(session, "up", up)
    monkeypatch.setattr(session, "down", lambda _find_paths: done.append("down"))
    monkeypatch.setattr(session, "is_up", lambda _find_paths: False)
    monkeypatch.setattr(session, "local_stack", lambda name, endpoint: (name, endpoint))
    return done


MEMBERS = tuple(Server(name=f"etcd-{n}", version="", endpoint=f"127.0.0.1:{n}", processes=()) for n in (1, 2, 3))


def test_clients_are_told_of_all_members() -> None:
    """Of a cluster whose first member is down, the others are still to be found."""
    state = EnvironmentState(servers=MEMBERS)
    assert parameters(state, "python3.12")["EtcdEndpoint"] == "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"


def test_a_trial_needs_all_members() -> None:
    """The report names the one that ended."""
    phases = [{"name": "load", "load": [{"rate_per_s": 1, "count": 1}]}]
    trial = TrialPlan.model_validate({"target": {"store": "etcd"}, "phases": phases})
    found = LocalSession(cast("Stack", None), EnvironmentState(servers=MEMBERS)).needed(trial)
    assert found == {"emulator", "etcd-1", "etcd-2", "etcd-3"}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Return paths anywhere."""
    return Paths(tmp_path, tmp_path)


def silent(_text: str) -> None:
    """Tell nobody."""


def test_what_is_brought_up_is_deployed_to_its_emulator(environment: list[str], paths: Paths) -> None:
    """It is built first, so that a build that fails starts nothing."""
    assert bring_up(paths, silent) is STATE
    assert environment == ["http://127.0.0.1:1 hash", "up stepbench"]


def test_without_an_emulator_there_is_no_session() -> None:
    """Somebody may have edited the state file: that is no traceback."""
    with pytest.raises(LocalEnvironmentError, match="emulator is not running"):
        open_session(EnvironmentState())


def test_a_cold_environment_is_taken_down_afterwards(environment: list[str], paths: Paths) -> None:
    """One command leaves nothing."""
    with local_session(paths, silent) as found:
        assert found.etcd == "127.0.0.1:2"
        assert found.state.skipped == {"postgresql": "no compiler"}
        assert environment[-1] == "up stepbench"
    assert environment[-1] == "down"


@pytest.mark.parametrize(
    ("warm", "error", "last"),
    [
        pytest.param(False, KeyboardInterrupt(), "down", id="Ctrl-C during the floors"),
        pytest.param(False, LocalEnvironmentError("x"), "down", id="an emulator that dies"),
        pytest.param(True, LocalEnvironmentError("x"), "up stepbench", id="`up` keeps it warm between runs"),
        pytest.param(True, RunAbandonedError("interrupted twice"), "down", id="a run half stopped: no writer is left"),
        pytest.param(False, NotFetchedError("disk full"), "up stepbench", id="it has the only copy of the results"),
    ],
)
def test_after_an_error_an_environment_stays_only_if_it_was_up_and_is_at_rest(  # noqa: PLR0913 -- three are the case
    environment: list[str],
    paths: Paths,
    monkeypatch: pytest.MonkeyPatch,
    *,
    warm: bool,
    error: BaseException,
    last: str,
) -> None:
    """Nothing may be left that nobody asked for, and nothing taken down that somebody did ask for."""
    monkeypatch.setattr(session, "is_up", lambda _find_paths: warm)
    with pytest.raises(type(error)), local_session(paths, silent):
        raise error
    assert environment[-1] == last


def killed(paths: Paths, *, warm: bool) -> None:
    """Let a run of this home vanish."""
    with occupied(paths.home) as occupancy:
        occupancy.begin(warm=warm)


@pytest.mark.parametrize(("warm", "last"), [(False, "down"), (True, "up stepbench")])
def test_what_a_killed_run_left_is_ended_before_the_next_begins(
    environment: list[str], paths: Paths, monkeypatch: pytest.MonkeyPatch, *, warm: bool, last: str
) -> None:
    """Its execution goes on in the emulator, and would be measured; and nobody may have asked for it to stay up."""
    monkeypatch.setattr(session, "is_up", lambda _find_paths: True)
    killed(paths, warm=warm)
    with local_session(paths, silent):
        assert environment[0] == "down"
        assert environment[-1] == "up stepbench"
    assert environment[-1] == last
    with occupied(paths.home) as occupancy:
        assert not occupancy.killed


def test_up_after_a_killed_run_starts_anew_and_down_forgets_it(
    environment: list[str], paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must be so whichever command comes next."""
    killed(paths, warm=False)
    monkeypatch.setattr(session, "start_dashboard", lambda _paths: "http://127.0.0.1:1/?token=a")
    _, dashboard = start_environment(paths, silent, EnvironmentOptions(etcd_members=3))
    assert dashboard == "http://127.0.0.1:1/?token=a"
    assert environment[0] == "down"
    assert environment[-1] == "up stepbench with 3 members"
    killed(paths, warm=False)
    stop_environment(paths, silent)
    with occupied(paths.home) as occupancy:
        assert not occupancy.killed


def test_down_does_not_take_the_servers_from_under_a_run(environment: list[str], paths: Paths) -> None:
    """It may be asked in another terminal; the message says how to stop the run."""
    with local_session(paths, silent):
        environment.clear()
        with pytest.raises(LocalEnvironmentError, match="stop it with Ctrl-C"):
            stop_environment(paths, silent)
        assert environment == []


@pytest.mark.parametrize(
    ("target", "skipped", "reason"),
    [
        pytest.param({"store": "postgresql"}, {"postgresql": "no compiler"}, None, id="the server with TLS will do"),
        pytest.param({"store": "postgresql"}, {"postgresql_tls": "no wheel"}, None, id="the plain server will do"),
        pytest.param(
            {"store": "postgresql"},
            {"postgresql": "no compiler", "postgresql_tls": "no wheel"},
            "no compiler",
            id="none",
        ),
        ({"store": "postgresql", "tls": True}, {"postgresql_tls": "no wheel"}, "no wheel"),
        ({"store": "postgresql", "tls": True}, {"postgresql": "no compiler"}, None),
        ({"store": "redis"}, {"redis_tls": "no redis-server"}, None),
        ({"store": "redis", "tls": True}, {"redis_tls": "no redis-server"}, "no redis-server"),
        ({"store": "redis", "tls": True, "endpoint": "10.0.0.1:6379"}, {"redis_tls": "no redis-server"}, None),
        pytest.param({"store": "redis", "cluster": True}, {}, NO_CLUSTER, id="a cluster runs nowhere here"),
    ],
)
def test_operations_need_a_server_that_runs_here_or_one_of_the_users(
    target: dict[str, object], skipped: dict[str, str], reason: str | None
) -> None:
    """With TLS only one of two servers can serve them; a server of one's own is not ours to start."""
    plan = {
        "experiment": "operations",
        "target": target,
        "workload": {},
        "phases": [{"name": "load", "closed": {"clients": 1, "duration_s": 1}}],
    }
    assert skip_reason(TrialPlan.model_validate(plan), skipped) == reason


@pytest.mark.parametrize(
    ("target", "skipped", "needed"),
    [
        ({"store": "etcd"}, {}, {"etcd"}),
        ({"store": "dynamodb"}, {}, {"dynamodb"}),
        ({"store": "redis"}, {}, {"redis"}),
        ({"store": "redis", "tls": True}, {}, {"redis_tls"}),
        ({"store": "redis", "endpoint": "10.0.0.1:6379"}, {}, set()),
        ({"store": "postgresql"}, {}, {"postgresql_tls"}),
        ({"store": "postgresql"}, {"postgresql_tls": "no wheel"}, {"postgresql"}),
    ],
)
def test_a_trial_needs_the_emulator_and_the_server_that_it_is_given(
    target: dict[str, object], skipped: dict[str, str], needed: set[str]
) -> None:
    """Another server's end is none of its failures."""
    phases = [{"name": "load", "closed": {"clients": 1, "duration_s": 1}}]
    plan = {"experiment": "operations", "target": target, "workload": {}, "phases": phases}
    found = LocalSession(cast("Stack", None), EnvironmentState(skipped=skipped)).needed(TrialPlan.model_validate(plan))
    assert found == needed | {"emulator"}


@pytest.mark.parametrize(
    ("target", "needed"),
    [
        ({"store": "cassandra"}, {"cassandra"}),
        ({"store": "cassandra", "endpoint": "10.0.0.1:9042"}, set()),
        ({"store": "redis"}, set()),
    ],
)
def test_only_a_plan_that_needs_cassandra_waits_for_it(target: dict[str, object], needed: set[str]) -> None:
    """It takes half a minute and gigabytes, which nobody else is to pay for."""
    trial = {
        "experiment": "operations",
        "target": target,
        "workload": {},
        "phases": [{"name": "load", "closed": {"clients": 1, "duration_s": 1}}],
    }
    assert stores_on_demand([Plan.model_validate({"name": "a-plan", "trials": [trial]})]) == needed


def test_a_machine_with_too_little_starts_nothing_and_ends_nothing(
    paths: Paths, environment: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked once, before the first server; `down` would end what a warm environment has."""

    def refuse(_paths: Paths, *, starts: bool) -> None:
        assert starts
        raise PlanError([])

    monkeypatch.setattr(session, "require_room", refuse)
    with pytest.raises(PlanError):
        start_environment(paths, silent)
    with pytest.raises(PlanError), local_session(paths, silent):
        pass
    assert environment == []


class OneStack:
    """Implements as much of a `Stack` as a sweep needs: leases that are held, and a sweeper's answer."""

    def __init__(self, *held: str, **answer: Any) -> None:  # noqa: ANN401 -- the output's fields
        services = MemoryServices().services
        self.table = services.table
        for number, target in enumerate(held):
            self.table.take_lease(target, stored_trial(services, trial=number), "arn", 1)
        self._answer = SweepTargetsOutput(**{"swept": (), "pending": (), **answer})

    def call(self, function: str, task: dict[str, Any]) -> dict[str, Any]:
        """Answer as the sweeper does that is given no execution."""
        assert (function, task) == ("SweepTargetsFunction", {"execution_arn": None})
        return self._answer.model_dump(mode="json")


HELD = ("redis#a:1", "etcd#b:2", "s3#c")


def test_each_target_has_a_line() -> None:
    """Who held it, and what became of that."""
    stack = OneStack(*HELD, swept=("redis#a:1",), pending=("etcd#b:2",), causes={"etcd#b:2": "no answer within 5 s"})
    assert sweep(cast("Stack", stack)) == (
        [
            "redis#a:1: removed what trial 1 of run run-1 had left, and freed",
            "etcd#b:2: held by trial 2 of run run-1, which is over; not removed yet: no answer within 5 s",
            "s3#c: trial 3 of run run-1 is at work",
        ],
        False,
    )


@pytest.mark.parametrize(
    ("stack", "code", "said"),
    [
        (OneStack(), 0, "nothing is held\n"),
        (OneStack("s3#c"), 0, "s3#c: trial 1 of run run-1 is at work\n"),
        (OneStack("s3#c", pending=("s3#c",)), 4, "not removed yet: see the log of SweepTargets\n"),
    ],
)
def test_the_command_fails_where_something_cannot_be_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stack: OneStack, code: int, said: str
) -> None:
    """It is no failed run: what was to be done could not be done."""
    monkeypatch.setattr(stacks, "remote_stack", lambda _name: stack)
    assert main(["sweep", "--stack", "mine"]) == code
    assert capsys.readouterr().out.endswith(said)


def test_without_an_environment_nothing_is_held(tmp_path: Path) -> None:
    """What there was ended with it."""
    assert running_stack(Paths(tmp_path, tmp_path)) is None


def test_the_list_names_the_redis_that_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who reads of Valkey's wheel would leave out the trials with TLS."""
    monkeypatch.setattr(shutil, "which", {"redis-server": "/opt/redis-server"}.get)
    (here,) = (row.here for row in store_list() if row.store == "redis")
    assert here == "real: /opt/redis-server, with TLS and without"
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    (here,) = (row.here for row in store_list() if row.store == "redis")
    assert here == "real: Valkey from a wheel"
