"""The embedded environment for as long as it is needed: up, used, down again unless it was up before."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepbench.contracts.target import CassandraTarget, PostgresqlTarget, RedisTarget
from stepbench.errors import LocalEnvironmentError
from stepbench.local.deploy import STACK, Deployment, build, deploy, python_runtime, sole
from stepbench.local.emulator import NAME as EMULATOR_NAME
from stepbench.local.environment import (
    CLOCK,
    EMULATOR,
    ETCD,
    POSTGRESQL,
    POSTGRESQL_TLS,
    REDIS,
    REDIS_TLS,
    REFERENCE,
    authority_of,
    down,
    is_up,
    up,
)
from stepbench.local.interrupts import shielded
from stepbench.local.occupancy import Occupancy, occupied
from stepbench.local.running import RunAbandonedError
from stepbench.local.stack import Stack, local_stack
from stepbench.local.utilisation import metric_parameters, server_pids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from stepbench.contracts.plan import TrialPlan
    from stepbench.local.places import Places
    from stepbench.local.state import EnvironmentState

    Say = Callable[[str], None]

NO_CASSANDRA = "no Cassandra is started here: see docs/local-run.md, and name yours as target.endpoint"
NO_CLUSTER = "no cluster runs here; give target.endpoint, or set target.cluster to false"
LEAD_S = 3
"""How long before its start a single writer is called: a cold start takes one second here. `EMULATED_START_S`: more."""


@dataclass(frozen=True)
class Session:
    """A stack that is up, and what of the environment the runs need to know; `pids` by server."""

    stack: Stack
    skipped: Mapping[str, str]
    etcd: str | None
    pids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def parameters(state: EnvironmentState, runtime: str, authority: Path | None = None) -> dict[str, str]:
    """The template's parameters for what is running; `authority` has signed the certificates of the local stores."""
    servers = {server.name: server.endpoint for server in state.servers}
    return {
        "PythonRuntime": runtime,
        "LeadSeconds": str(LEAD_S),
        "ClockCheck": "on",
        "ClockReference": servers.get(CLOCK, ""),
        "Emulator": EMULATOR_NAME,
        "PostgresqlEndpoint": servers.get(POSTGRESQL, ""),
        "PostgresqlTlsEndpoint": servers.get(POSTGRESQL_TLS, ""),
        "EtcdEndpoint": servers.get(ETCD, ""),
        "RedisEndpoint": servers.get(REDIS, ""),
        "RedisTlsEndpoint": servers.get(REDIS_TLS, ""),
        "TlsAuthority": str(authority or ""),
        "ReferenceEndpoint": servers.get(REFERENCE, ""),
        "AllowCustomEndpoints": "true",
        **metric_parameters(state),
    }


def bring_up(places: Places, say: Say) -> EnvironmentState:
    """
    Build, start, deploy; whatever of it is done already is left as it is.

    Raises:
        LocalEnvironmentError: something is missing or does not start; nothing is left running.
    """
    runtime = python_runtime(places)
    say("building (the first time takes minutes, later only what has changed)")
    # One build directory serves all environments of a clone, and it must not change until it is deployed.
    with sole(places.build):
        return _build_and_start(places, runtime, say)


def _build_and_start(places: Places, runtime: str, say: Say) -> EnvironmentState:
    built = build(places, runtime)

    def deploy_to(state: EnvironmentState) -> str:
        say("deploying")
        found = parameters(state, runtime, authority_of(places))
        deploy(Deployment(places, _endpoint(state), found), built)
        return STACK

    return up(places, say, deploy_to)


def open_session(state: EnvironmentState) -> Session:
    """Look the stack up in a complete environment."""
    etcd = state.server(ETCD)
    stack = local_stack(state.stack, _endpoint(state))
    return Session(stack, state.skipped, etcd.endpoint if etcd else None, server_pids(state))


@contextlib.contextmanager
def local_session(places: Places, say: Say) -> Iterator[Session]:
    """
    An environment that is up, and is taken down at the end unless it was up before.

    A run that was abandoned half stopped, or not torn down, ends the environment in any case: only so is nothing left.

    Raises:
        LocalEnvironmentError: another run is using it, or it does not come up.
    """
    with occupied(places.home) as occupancy:
        warm = occupancy.was_warm if occupancy.killed else is_up(places)
        _end_killed_run(occupancy, places, say)
        occupancy.begin(warm=warm)
        try:
            yield open_session(bring_up(places, say))
        except RunAbandonedError:
            warm = False
            raise
        finally:
            with shielded():
                if not warm:
                    say("stopping emulator and stores")
                    down(places)
                occupancy.end()


def keep_up(places: Places, say: Say) -> EnvironmentState:
    """What `up` does: bring up, and leave it so."""
    with occupied(places.home) as occupancy:
        _end_killed_run(occupancy, places, say)
        return bring_up(places, say)


def bring_down(places: Places) -> list[str]:
    """
    What `down` does; also after a run that was killed.

    Raises:
        LocalEnvironmentError: a run is using the environment, or something cannot be ended.
    """
    with occupied(places.home) as occupancy:
        ended = down(places)
        occupancy.end()
    return ended


def _end_killed_run(occupancy: Occupancy, places: Places, say: Say) -> None:
    """Nobody stopped its execution, so its writers may still be at work in the emulator."""
    if occupancy.killed:
        say("the last run here was killed; ending what it left")
        with shielded():
            down(places)
            occupancy.end()


def why_skipped(trial: TrialPlan, skipped: Mapping[str, str]) -> str | None:
    """Why the trial cannot run here: its store could not start, with TLS if it asks for that, and it names no other."""
    target = trial.target
    if target.endpoint is not None:
        return None
    if isinstance(target, PostgresqlTarget) and trial.experiment == "operations":
        reason = skipped.get(POSTGRESQL_TLS)
        return reason if target.tls or reason is None else skipped.get(POSTGRESQL)
    if isinstance(target, RedisTarget) and target.tls:
        return skipped.get(REDIS_TLS)
    if isinstance(target, RedisTarget) and target.cluster:
        return NO_CLUSTER
    if isinstance(target, CassandraTarget):
        return NO_CASSANDRA
    return skipped.get(target.store)


def _endpoint(state: EnvironmentState) -> str:
    emulator = state.server(EMULATOR)
    if emulator is None:
        message = "the emulator is not running"
        raise LocalEnvironmentError(message)
    return emulator.endpoint
