"""
Watching a run without disturbing it.

Here the watcher's requests land on the very emulator whose latency is being measured. So it sends one small request
at a time, a few a second, and puts the picture together from what it last heard of each part.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.tasks import TrialRef
from stepbench.errors import LocalEnvironmentError, RecordsUnavailableError
from stepbench.local.executions import RUNNING
from stepbench.local.progress import PhaseStart, Snapshot, sent
from stepbench.records import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.local.executions import Executions

STEP_S = 0.25
"""Four requests a second, every fourth of them for the status: a run's end is seen within about a second."""
_MAX_FAILURES, _MAX_LOCAL_FAILURES = 20, 4
"""In a row, each of them four requests. A network comes back after a minute or two; an emulator that died does not."""
LOST_S = 300
"""What hangs answers no request for 70 s, four times over: too long for twenty of them."""


@dataclass
class Observer:
    """Asks for one thing at a time."""

    executions: Executions
    clock: Clock
    status: str = RUNNING
    done: int = 0
    trial: int | None = None
    phase: PhaseStart | None = None
    sent: int = 0
    _shards: dict[int, int] = field(default_factory=dict)
    _before_load: dict[int, int] = field(default_factory=dict)
    _failures: int = 0
    _look_past_probes: bool = True

    def __post_init__(self) -> None:
        self._questions = self._rounds()
        self._answered_ns = self.clock.now_ns()

    def step(self) -> None:
        """
        Ask one thing. An answer that does not come is no news.

        Raises:
            LocalEnvironmentError: nothing has answered for a while.
        """
        try:
            next(self._questions)()
        except (BotoCoreError, ClientError, RecordsUnavailableError) as error:
            self._failures += 1
            silent_ns = self.clock.now_ns() - self._answered_ns
            limit = _MAX_FAILURES if self.executions.stack.endpoint is None else _MAX_LOCAL_FAILURES
            if self._failures >= limit or silent_ns > LOST_S * 10**9:
                message = f"lost sight of run {self.executions.run.run_id}: {error}"
                raise LocalEnvironmentError(message) from error

    def snapshot(self) -> Snapshot:
        """What is known now."""
        before = sum(self._before_load.values())
        run = self.executions.run
        return Snapshot(
            specs=run.specs,
            started_ns=int(run.started_at.timestamp() * 1e9),
            now_ns=self.clock.now_ns(),
            trial=self.trial,
            done=self.done,
            phase=self.phase,
            sent=self.sent,
            received=max(0, sum(self._shards.values()) - before),
        )

    def _rounds(self) -> Iterator[Callable[[], None]]:
        shards = cycle(range(layout.T4_SHARDS))
        for question in cycle((self._ask_children, self._ask_beats, self._ask_phase)):
            yield self._ask_status
            yield lambda: self._ask_shard(next(shards))
            yield question
            yield lambda: self._ask_shard(next(shards))

    def _ask_status(self) -> None:
        self.status = self.executions.status() or RUNNING
        # Only here: the other questions are not always asked, and one that was not asked has not been answered.
        self._failures = 0
        self._answered_ns = self.clock.now_ns()

    def _ask_children(self) -> None:
        children = self.executions.children()
        trial = max((child.ref.trial for child in children), default=None)
        if trial == self.trial:
            return
        # Trials run one after the other: all before the one that runs are over, and so is one that ran and is gone.
        self.done = trial if trial is not None else (self.trial or 0) + 1
        self.trial, self.phase, self.sent = trial, None, 0
        self._shards, self._before_load = {}, {}

    def _ask_beats(self) -> None:
        if self.trial is not None:
            self.sent = sent(self.executions.stack.table.beats(self._tag))

    def _ask_phase(self) -> None:
        """Whether the phase's end has been fixed, for one with `until`; then whether the next one has been planned."""
        index = 0 if self.phase is None else self.phase.index + 1
        if self.phase is not None and self.trial is not None and self._stop_unknown(self.phase):
            stop_at_ns = self.executions.stack.table.stop_at_ns(self._tag, self.phase.index)
            self.phase = replace(self.phase, stop_at_ns=stop_at_ns)
        if self.trial is None or index >= len(self._spec.plan.phases):
            return
        spec, index = self._spec, self._candidate(index)
        ref = TrialRef(run_id=spec.run_id, trial=spec.index, tag=spec.tag)
        found = self.executions.stack.runs.find_json(layout.phase_key(ref, index, "plan.json"))
        if found is not None:
            self.phase = PhaseStart(index, int(found["start_at_ns"]))

    def _candidate(self, index: int) -> int:
        """The phase at `index`, or every other time, if that is a probe, the first after all probes."""
        self._look_past_probes = not self._look_past_probes
        later = enumerate(self._spec.plan.phases[index:], index)
        past = next((number for number, phase in later if not phase.probe), index)
        return past if self._look_past_probes else index

    def _stop_unknown(self, phase: PhaseStart) -> bool:
        return phase.stop_at_ns is None and self._spec.plan.phases[phase.index].until is not None

    def _ask_shard(self, shard: int) -> None:
        """What arrived before any load are canaries; they are not counted as received."""
        if self.trial is None:
            return
        self._shards[shard] = self.executions.stack.table.t4_shard_count(self._tag, shard)
        if self.sent == 0:
            self._before_load[shard] = self._shards[shard]

    @property
    def _spec(self) -> TrialSpec:
        return self.executions.run.specs[self.trial or 0]

    @property
    def _tag(self) -> str:
        return self._spec.tag


def watch(observer: Observer, show: Callable[[Snapshot], None], clock: Clock) -> str:
    """Observe until the execution is over, and return its status."""
    while observer.status == RUNNING:
        observer.step()
        show(observer.snapshot())
        clock.sleep(STEP_S)
    return observer.status
