"""The embedded environment for as long as it is needed: up, used, down again unless it was up before."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.compiled import processor
from stepbench.contracts.runs import SweepTargetsInput, SweepTargetsOutput
from stepbench.contracts.target import PostgresqlTarget, RedisTarget
from stepbench.errors import LocalEnvironmentError
from stepbench.records.storage import layout
from stepbench_tools.local.dashboard import start_dashboard
from stepbench_tools.local.deploy import STACK, Deployment, build, deploy, exclusive_lock, python_runtime
from stepbench_tools.local.emulator.server import emulator_name, runs_tasks
from stepbench_tools.local.environment import (
    CLOCK,
    DEFAULT_OPTIONS,
    EMULATOR,
    EnvironmentOptions,
    down,
    find_authority,
    is_up,
    up,
)
from stepbench_tools.local.fetching import SUMMARY, NotFetchedError, fetch, note_fetched, save_or_name
from stepbench_tools.local.machine_limits import require_room
from stepbench_tools.local.processes import without_users_settings
from stepbench_tools.local.running import RunAbandonedError
from stepbench_tools.local.stack import Stack, local_stack
from stepbench_tools.local.state import EnvironmentState, Occupancy, occupied, read_state
from stepbench_tools.local.stores.servers import (
    CASSANDRA_CONTROL,
    ETCD,
    POSTGRESQL,
    POSTGRESQL_TLS,
    REDIS_TLS,
    SERVERS,
)
from stepbench_tools.local.streams import shielded
from stepbench_tools.local.utilisation import metric_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepbench.contracts.plan import AnyTrial
    from stepbench_tools.local.paths import Paths

    Notify = Callable[[str], None]


LEAD_S = 3
"""A single writer is called so long before its start: a cold start takes one second here. `EMULATED_START_S`: more."""


@dataclass(frozen=True)
class LocalSession:
    """A session is a stack that is up, with what runs in its environment; `data` notes which runs were fetched."""

    stack: Stack
    state: EnvironmentState
    data: Path | None = None

    @property
    def etcd(self) -> str | None:
        """Return the address of the local etcd, if it runs."""
        return next((server.endpoint for server in self.state.members(ETCD)), None)

    def note_fetched(self, run_id: str) -> None:
        """Note that a run's results are not in the environment alone."""
        if self.data is not None:
            note_fetched(self.data, run_id)

    def needed(self, trial: AnyTrial) -> frozenset[str]:
        """Return the servers of this machine without which a trial cannot run."""
        target = trial.target
        name: str = target.store
        if isinstance(target, PostgresqlTarget) and trial.workload is not None:
            name = POSTGRESQL_TLS if target.tls or POSTGRESQL_TLS not in self.state.skipped else POSTGRESQL
        if isinstance(target, RedisTarget) and target.tls:
            name = REDIS_TLS
        if target.endpoint is not None:
            return frozenset({EMULATOR})
        members = {server.name for server in self.state.members(name)}
        return frozenset({EMULATOR, *(members or {name})})


def parameters(
    state: EnvironmentState, runtime: str, authority: Path | None = None, files: Path | None = None
) -> dict[str, str]:
    """
    Return the template's parameters for what is running.

    Args:
        state: the environment's.
        runtime: Lambda's name of the interpreter.
        authority: that signed the certificates of local stores.
        files: the folder that stands for EFS.
    """
    servers = {server.name: server.endpoint for server in state.servers}
    return {
        "PythonRuntime": runtime,
        "Architecture": processor(),
        "LeadSeconds": str(LEAD_S),
        "RunsAtOnce": "one",
        "ClockCheck": "on",
        "LoadHost": "own",
        "Fargate": "on" if runs_tasks() else "off",
        "FilesFolder": str(files or ""),
        "ClockReference": servers.get(CLOCK, ""),
        "Emulator": emulator.version if (emulator := state.server(EMULATOR)) else emulator_name(),
        **{server.parameter: _endpoints(state, name) for name, server in SERVERS.items()},
        "CassandraControl": servers.get(CASSANDRA_CONTROL, ""),
        "TlsAuthority": str(authority or ""),
        "AllowCustomEndpoints": "true",
        **metric_parameters(state),
    }


def _endpoints(state: EnvironmentState, name: str) -> str:
    return ",".join(server.endpoint for server in state.members(name))


def bring_up(paths: Paths, notify: Notify, options: EnvironmentOptions = DEFAULT_OPTIONS) -> EnvironmentState:
    """
    Build, start and deploy; what is done already is left as it is, unless etcd is to have another number of members.

    Raises:
        LocalEnvironmentError: something is missing or does not start; nothing is left running.
    """
    runtime = python_runtime(paths)
    notify("building (the first time takes minutes, later only what has changed)")
    # One build directory serves all environments of a clone, and it must not change until it is deployed.
    with exclusive_lock(paths.build, notify):
        return _build_and_start(paths, runtime, notify, options)


def _build_and_start(paths: Paths, runtime: str, notify: Notify, options: EnvironmentOptions) -> EnvironmentState:
    built = build(paths, runtime, notify=notify)

    def deploy_to(state: EnvironmentState) -> str:
        notify("deploying")
        files = paths.data / "files"
        files.mkdir(parents=True, exist_ok=True)
        found = parameters(state, runtime, find_authority(paths), files)
        deploy(Deployment(paths, _endpoint(state), found, emulator=state.server(EMULATOR)), built)
        return STACK

    return up(paths, notify, deploy_to, options)


def open_session(state: EnvironmentState, data: Path | None = None) -> LocalSession:
    """Return the session of a complete environment, whose folder of data notes which runs were fetched."""
    return LocalSession(local_stack(state.stack, _endpoint(state)), state, data)


@contextlib.contextmanager
def local_session(
    paths: Paths, notify: Notify, options: EnvironmentOptions = DEFAULT_OPTIONS
) -> Iterator[LocalSession]:
    """
    Yield the session of an environment that is up with what is wished; take it down at the end if it was not before.

    A run that was abandoned half stopped, or not torn down, ends the environment in any case: only so is nothing left.
    One whose results could not be fetched keeps it in any case: it has the only copy.

    Raises:
        LocalEnvironmentError: another run is using it, or it does not come up.
        PlanError: this machine, or a limit on it, has too little for a local run; nothing was started.
    """
    with without_users_settings(), occupied(paths.home) as occupancy:
        warm = occupancy.was_warm if occupancy.killed else is_up(paths)
        _end_killed_run(occupancy, paths, notify)
        require_room(paths, starts=not warm)
        occupancy.begin(warm=warm)
        try:
            yield open_session(bring_up(paths, notify, options), paths.data)
        except (RunAbandonedError, NotFetchedError) as error:
            warm = isinstance(error, NotFetchedError)
            raise
        finally:
            with shielded():
                if not warm:
                    notify("stopping emulator and stores")
                    down(paths)
                occupancy.end()


def fetch_kept(paths: Paths, run_id: str, out: Path) -> Path | None:
    """
    Fetch a run from the environment, if that is up and has it; otherwise return None.

    Raises:
        LocalEnvironmentError: a run is using the environment.
    """
    if not is_up(paths):
        return None
    with occupied(paths.home):
        runs = open_session(read_state(paths.home)).stack.runs
        if runs.find_bytes(layout.run_key(run_id, "plan.json")) is None:
            return None
        folder = fetch(runs, run_id, out)
        if (folder / SUMMARY).exists():  # else it goes on
            note_fetched(paths.data, run_id)
        return folder


def start_environment(
    paths: Paths, notify: Notify, options: EnvironmentOptions = DEFAULT_OPTIONS
) -> tuple[EnvironmentState, str]:
    """
    Bring the environment up for `stepbench up`, and leave it so.

    Returns:
        Its state, and the dashboard's address.

    Raises:
        LocalEnvironmentError, PlanError: as `local_session`.
    """
    with without_users_settings(), occupied(paths.home) as occupancy:
        _end_killed_run(occupancy, paths, notify)
        require_room(paths, starts=not is_up(paths))
        return bring_up(paths, notify, options), start_dashboard(paths)


def stop_environment(paths: Paths, notify: Notify, *, out: Path | None = None, keep: bool = False) -> list[str]:
    """
    Take the environment down for `stepbench down`, also after a run that was killed; return what was ended.

    `notify`, `out` and `keep` are about runs that nobody has fetched, as in `save_or_name`.

    Raises:
        LocalEnvironmentError: a run is using the environment, something cannot be ended, or it is to be kept.
    """
    with occupied(paths.home) as occupancy:
        save_or_name(paths, notify, out=out, keep=keep)
        with shielded():
            ended = down(paths)
            occupancy.end()
    return ended


def _end_killed_run(occupancy: Occupancy, paths: Paths, notify: Notify) -> None:
    """End what a killed run left: nobody stopped its execution, so its writers may still be at work in the emulator."""
    if occupancy.killed:
        notify("the last run here was killed; ending what it left")
        save_or_name(paths, notify)
        with shielded():
            down(paths)
            occupancy.end()


def _endpoint(state: EnvironmentState) -> str:
    emulator = state.server(EMULATOR)
    if emulator is None:
        message = "the emulator is not running"
        raise LocalEnvironmentError(message)
    return emulator.endpoint


def running_stack(paths: Paths) -> Stack | None:
    """Return the stack of the environment that runs here, whoever is using it; None where none runs."""
    state = read_state(paths.home)
    emulator = state.server(EMULATOR)
    return local_stack(state.stack, emulator.endpoint) if emulator is not None and is_up(paths) else None


def sweep(stack: Stack) -> tuple[list[str], bool]:
    """
    Have the stack's sweeper tear down what runs that are over hold, while others go on; it takes up to 15 minutes.

    Returns:
        A line for each target, and whether none is held by a run that is over.

    Raises:
        StackError: the sweeper failed.
    """
    held = {lease.target: str(lease) for lease in stack.table.leases()}
    answer = stack.call("SweepTargetsFunction", SweepTargetsInput().model_dump(mode="json"))
    output = SweepTargetsOutput.model_validate(answer)
    lines = [f"{target}: removed what {held.get(target, 'a trial')} had left, and freed" for target in output.swept]
    for target in output.pending:
        cause = output.causes.get(target, "see the log of SweepTargets")
        lines.append(f"{target}: held by {held.get(target, 'a trial')}, which is over; not removed yet: {cause}")
    others = held.keys() - {*output.swept, *output.pending}
    lines += [f"{target}: {held[target]} is at work" for target in sorted(others)]
    return lines, not output.pending
