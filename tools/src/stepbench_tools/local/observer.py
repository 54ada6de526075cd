"""What is seen of a run while it goes on, without disturbing it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.digits import duration
from stepbench.errors import LocalEnvironmentError, RecordsUnavailableError, ServerEndedError
from stepbench.planning.wall_time import ahead_of
from stepbench.progress import PhaseStart, RecentRate, Snapshot, activity, counted, last_beat_ns, phase_times
from stepbench.records.storage import layout
from stepbench_tools.local.environment import EMULATOR
from stepbench_tools.local.executions import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench_tools.local.executions import Executions
    from stepbench_tools.local.fetching import RunFolder
    from stepbench_tools.local.state import ServerWatch

STEP_S = 0.25
"""Four requests a second, every fourth of them for the status: a run's end is seen within about a second."""
_MAX_FAILURES, _MAX_LOCAL_FAILURES = 20, 4
"""A run is lost after so many failures in a row, each of four requests: a network comes back, a dead emulator not."""
LOST_S = 300
"""A run is lost after so long a silence, too: a server that hangs takes a minute a request, too long for twenty."""


@dataclass
class Observer:
    """
    The observer watches a run without disturbing it: it reads one thing at a time.

    Here its requests land on the very emulator whose latency is being measured. So it sends one small request at a
    time, a few a second, and puts the picture together from what it last heard of each part.
    """

    executions: Executions
    clock: Clock
    status: str = RUNNING
    folder: RunFolder | None = None
    servers: ServerWatch | None = None
    done: int = 0
    trial: int | None = None
    trial_seen_ns: int = 0
    holder: str = ""
    ahead: int = 0
    phase: PhaseStart | None = None
    sent: int = 0
    errors: int = 0
    service_times: Counter[int] = field(default_factory=Counter)
    _rate: RecentRate = field(default_factory=RecentRate)
    _shards: dict[int, int] = field(default_factory=dict)
    _load_from_ns: int = 0
    _failures: int = 0
    _skip_probes: bool = True

    def __post_init__(self) -> None:
        self._requests = self._rounds()
        self._answered_ns = self.clock.now_ns()

    def step(self) -> None:
        """
        Send one request. An answer that does not come is no news.

        Raises:
            ServerEndedError: the emulator has ended, or has not answered for a while.
            LocalEnvironmentError: nothing has answered for a while, on a deployed stack.
        """
        try:
            if self.folder is not None and self.look_at_servers():
                self.folder.store_ended()
            next(self._requests)()
        except (BotoCoreError, ClientError, RecordsUnavailableError) as error:
            self._failures += 1
            silent_ns = self.clock.now_ns() - self._answered_ns
            limit = _MAX_FAILURES if self.executions.stack.endpoint is None else _MAX_LOCAL_FAILURES
            if self._failures >= limit or silent_ns > LOST_S * 10**9:
                message = f"lost sight of run {self.executions.run.run_id}: {error}"
                is_local = self.executions.stack.endpoint is not None  # nobody is left who could be asked to stop it
                raise (ServerEndedError if is_local else LocalEnvironmentError)(message) from error

    def look_at_servers(self) -> bool:
        """
        Tell, and note for the report, which servers have ended since the last look; return whether any has.

        Raises:
            ServerEndedError: the emulator has.
        """
        if self.servers is None or self.folder is None:
            return False
        ended = self.servers.poll(self.executions.run.specs[self.done :])
        for server in ended:
            self.folder.note_ended(server)
        for server in ended:
            if server.server == EMULATOR:
                raise ServerEndedError(server.text)
        return bool(ended)

    def snapshot(self) -> Snapshot:
        """Return what is known now."""
        run = self.executions.run
        return Snapshot(
            specs=run.specs,
            started_ns=int(run.started_at.timestamp() * 1e9),
            now_ns=self.clock.now_ns(),
            trial=self.trial,
            trial_seen_ns=self.trial_seen_ns,
            holder=self.holder,
            ahead=self.ahead if self.trial is None and not self.done else 0,
            done=self.done,
            phase=self.phase,
            sent=self.sent,
            received=sum(self._shards.values()),
            errors=self.errors,
            rate_per_s=self._rate.per_s,
            service_times=self.service_times,
        )

    def _rounds(self) -> Iterator[Callable[[], None]]:
        shards = cycle(range(layout.T4_SHARDS))
        for request in cycle((self._read_children, self._read_beats, self._read_phase)):
            yield self._read_status
            if self.folder is not None:
                yield from self.folder.pending(self.done, self.trial if self.phase else None)
            yield self._read_queue if self.trial is None and not self.done else lambda: self._read_shard(next(shards))
            yield request
            yield lambda: self._read_shard(next(shards))

    def _read_status(self) -> None:
        self.status = self.executions.status() or RUNNING
        # Only here: the other requests are not always sent, and one that was not sent has not been answered.
        self._failures = 0
        self._answered_ns = self.clock.now_ns()

    def _read_queue(self) -> None:
        """Read how many runs this one waits for, until its first trial begins."""
        entries = self.executions.stack.register.queue()
        own = next((entry for entry in entries if entry.run_id == self.executions.run.run_id), None)
        self.ahead = len(ahead_of(own, entries)) if own is not None else 0

    def _read_children(self) -> None:
        children = self.executions.children()
        trial = max((child.ref.trial for child in children), default=None)
        if trial == self.trial:
            return
        # Trials run one after the other: all before the one that runs are over, and so is one that ran and is gone.
        self.done = trial if trial is not None else (self.trial or 0) + 1
        self.trial, self.phase, self.sent, self.errors = trial, None, 0, 0
        self.service_times, self._rate = Counter(), RecentRate()
        self.trial_seen_ns, self.holder = self.clock.now_ns(), ""
        self._shards, self._load_from_ns = {}, 0

    def _read_beats(self) -> None:
        """Read how far the writers are; before there are any, who holds the target that the trial waits for."""
        if self.trial is not None and self.phase is None:
            self.holder = self.executions.stack.table.flag(self._tag, layout.WAITING) or ""
        elif self.trial is not None:
            beats = self.executions.stack.table.beats(self._tag)
            self.sent, self.errors = counted(beats, "sent"), counted(beats, "failed", "unknown")
            if (at_ns := last_beat_ns(beats)) is not None:
                self._rate.add(at_ns, self.sent)
            self.service_times = phase_times(beats, self.phase.index) if self.phase else Counter()

    def _read_phase(self) -> None:
        """Read the end of a phase with `until`, once it is fixed; then the next phase, once it is planned."""
        index = 0 if self.phase is None else self.phase.index + 1
        if self.phase is not None and self.trial is not None and self._stop_unknown(self.phase):
            stop_at_ns = self.executions.stack.table.stop_at_ns(self._tag, self.phase.index)
            self.phase = replace(self.phase, stop_at_ns=stop_at_ns)
        if self.trial is None or index >= len(self._spec.plan.phases):
            return
        spec, index = self._spec, self._candidate(index)
        ref = spec.ref
        found = self.executions.stack.runs.find_json(layout.phase_key(ref, index, "plan.json"))
        if found is None:
            return
        start_at_ns = int(found["start_at_ns"])
        # What follows without a gap is planned while the phase before it is still to come.
        if not spec.plan.phases[index].gapless or start_at_ns <= self.clock.now_ns():
            self.phase = PhaseStart(index, start_at_ns)
            self._load_from_ns = self._load_from_ns or start_at_ns

    def _candidate(self, index: int) -> int:
        """Return the phase at `index`, or every other time, if that is a probe, the first after all probes."""
        self._skip_probes = not self._skip_probes
        later = enumerate(self._spec.plan.phases[index:], index)
        past = next((number for number, phase in later if not phase.probe), index)
        return past if self._skip_probes else index

    def _stop_unknown(self, phase: PhaseStart) -> bool:
        return phase.stop_at_ns is None and self._spec.may_end_early(phase.index)

    def _read_shard(self, shard: int) -> None:
        """Count a shard's arrivals; those before any load are canaries, which are not received events."""
        if self._load_from_ns:
            self._shards[shard] = self.executions.stack.table.t4_count(self._tag, (shard,), self._load_from_ns)

    @property
    def _spec(self) -> TrialSpec:
        return self.executions.run.specs[self.trial or 0]

    @property
    def _tag(self) -> str:
        return self._spec.tag


def watch(observer: Observer, show: Callable[[Snapshot], None], clock: Clock, *, limit_s: float | None = None) -> str:
    """
    Observe until the execution is over, and return its status.

    Raises:
        LocalEnvironmentError: its own turn has taken `limit_s`; an emulator ends no execution by its time-out.
        ServerEndedError: as `Observer.step`.
    """
    began_ns = clock.now_ns()
    while observer.status == RUNNING:
        observer.step()
        seen = observer.snapshot()
        show(seen)
        began_ns = seen.now_ns if seen.ahead else began_ns
        if limit_s is not None and seen.now_ns - began_ns > limit_s * 1e9:
            message = f"it is not over after {duration(limit_s)}, many times what it takes; last seen: {activity(seen)}"
            raise LocalEnvironmentError(message)
        clock.sleep(STEP_S)
    return observer.status
