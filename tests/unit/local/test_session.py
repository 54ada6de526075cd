"""Up before, used, down after, unless it was up before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench.contracts.plan import TrialPlan
from stepbench.errors import LocalEnvironmentError
from stepbench.local import session
from stepbench.local.occupancy import occupied
from stepbench.local.places import Places
from stepbench.local.running import RunAbandonedError
from stepbench.local.session import bring_down, bring_up, keep_up, local_session, open_session, why_skipped
from stepbench.local.state import EnvironmentState, Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
    """What was done to the environment; nothing real is."""
    done: list[str] = []

    def up(_places: object, _say: object, deploy: Callable[[EnvironmentState], str]) -> EnvironmentState:
        done.append(f"up {deploy(STATE)}")
        return STATE

    monkeypatch.setattr(session, "python_runtime", lambda _places: "python3.11")
    monkeypatch.setattr(session, "build", lambda _places, _runtime: "hash")
    monkeypatch.setattr(session, "deploy", lambda deployment, built: done.append(f"{deployment.endpoint} {built}"))
    monkeypatch.setattr(session, "up", up)
    monkeypatch.setattr(session, "down", lambda _places: done.append("down"))
    monkeypatch.setattr(session, "is_up", lambda _places: False)
    monkeypatch.setattr(session, "local_stack", lambda name, endpoint: (name, endpoint))
    return done


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Anywhere."""
    return Places(tmp_path, tmp_path)


def silent(_text: str) -> None:
    """Tell nobody."""


def test_what_is_brought_up_is_deployed_to_its_emulator(environment: list[str], places: Places) -> None:
    """Built first, so that a build that fails starts nothing."""
    assert bring_up(places, silent) is STATE
    assert environment == ["http://127.0.0.1:1 hash", "up stepbench"]


def test_without_an_emulator_there_is_no_session() -> None:
    """A state file that somebody has edited; not a traceback."""
    with pytest.raises(LocalEnvironmentError, match="emulator is not running"):
        open_session(EnvironmentState())


def test_a_cold_environment_is_taken_down_afterwards(environment: list[str], places: Places) -> None:
    """One command, nothing left."""
    with local_session(places, silent) as found:
        assert found.etcd == "127.0.0.1:2"
        assert found.skipped == {"postgresql": "no compiler"}
        assert environment[-1] == "up stepbench"
    assert environment[-1] == "down"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), LocalEnvironmentError("x")])
def test_it_is_taken_down_after_an_error_too(environment: list[str], places: Places, error: BaseException) -> None:
    """Ctrl-C during the floors, an emulator that dies."""
    with pytest.raises(type(error)), local_session(places, silent):
        raise error
    assert environment[-1] == "down"


def test_a_warm_environment_stays(environment: list[str], places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """`up` keeps it warm between runs, also after a run that failed."""
    monkeypatch.setattr(session, "is_up", lambda _places: True)
    error = LocalEnvironmentError("x")
    with pytest.raises(LocalEnvironmentError), local_session(places, silent):
        raise error
    assert "down" not in environment


def test_an_abandoned_run_takes_even_a_warm_environment_down(
    environment: list[str], places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second Ctrl-C leaves a run half stopped; only so is no writer left."""
    monkeypatch.setattr(session, "is_up", lambda _places: True)
    error = RunAbandonedError("interrupted twice")
    with pytest.raises(RunAbandonedError), local_session(places, silent):
        raise error
    assert environment[-1] == "down"


def killed(places: Places, *, warm: bool) -> None:
    """A run of this home vanishes."""
    with occupied(places.home) as occupancy:
        occupancy.begin(warm=warm)


@pytest.mark.parametrize(("warm", "last"), [(False, "down"), (True, "up stepbench")])
def test_what_a_killed_run_left_is_ended_before_the_next_begins(
    environment: list[str],
    places: Places,
    monkeypatch: pytest.MonkeyPatch,
    *,
    warm: bool,
    last: str,
) -> None:
    """Its execution goes on in the emulator, and would be measured; and nobody may have asked for it to stay up."""
    monkeypatch.setattr(session, "is_up", lambda _places: True)
    killed(places, warm=warm)
    with local_session(places, silent):
        assert environment[0] == "down"
        assert environment[-1] == "up stepbench"
    assert environment[-1] == last
    with occupied(places.home) as occupancy:
        assert not occupancy.killed


def test_up_after_a_killed_run_starts_anew_and_down_forgets_it(environment: list[str], places: Places) -> None:
    """Whichever command comes next."""
    killed(places, warm=False)
    keep_up(places, silent)
    assert environment[0] == "down"
    killed(places, warm=False)
    bring_down(places)
    with occupied(places.home) as occupancy:
        assert not occupancy.killed


def test_down_does_not_take_the_servers_from_under_a_run(environment: list[str], places: Places) -> None:
    """In another terminal; the message says how to stop the run."""
    with local_session(places, silent):
        environment.clear()
        with pytest.raises(LocalEnvironmentError, match="stop it with Ctrl-C"):
            bring_down(places)
        assert environment == []


@pytest.mark.parametrize(
    ("tls", "skipped", "reason"),
    [
        (False, {"postgresql": "no compiler"}, None),
        (False, {"postgresql_tls": "no wheel"}, None),
        (False, {"postgresql": "no compiler", "postgresql_tls": "no wheel"}, "no compiler"),
        (True, {"postgresql_tls": "no wheel"}, "no wheel"),
        (True, {"postgresql": "no compiler"}, None),
    ],
)
def test_operations_on_postgresql_need_a_server_with_tls_or_any(
    skipped: dict[str, str], reason: str | None, *, tls: bool
) -> None:
    """Without TLS either of the two servers will do; with it only one can."""
    plan = {
        "experiment": "operations",
        "target": {"store": "postgresql", "tls": tls},
        "workload": {},
        "phases": [{"name": "load", "closed": {"clients": 1, "duration_s": 1}}],
    }
    assert why_skipped(TrialPlan.model_validate(plan), skipped) == reason
