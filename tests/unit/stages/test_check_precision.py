from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.samples.finished_trials import FinishedTrial
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import START_NS, FakeClock

from stepbench.analysis.impossible import SETTLE_S
from stepbench.analysis.precision import GROWTH
from stepbench.contracts.phase import MAX_PRECISION_CHECKS, PrecisionLook, PrecisionLooks
from stepbench.contracts.tasks import CheckPrecisionInput, CheckPrecisionOutput
from stepbench.records.storage import layout
from stepbench.stages.check_precision import SILENT_S, STOP_LEAD_S, check_precision

SECOND_NS = 10**9


class Running:
    """A phase of 50 events a second that has begun: 20 s at least, 200 s at most, until p50 is known as asked for."""

    def __init__(self, *, metric: str = "p50", relative_width: float = 0.3) -> None:
        until = {"metric": metric, "relative_width": relative_width, "max_events": 10_000}
        phases = [{"name": "steady", "load": [{"rate_per_s": 50, "duration_s": 20}], "until": until}]
        plan = small_plan(phases=phases)
        self.clock = FakeClock(START_NS)
        self.memory = MemoryServices(self.clock)
        self.ref = stored_trial(self.memory.services, plan)
        self.records = FinishedTrial(self.memory.services, self.ref, plan, START_NS)
        self.records.plan_phase(0)
        self.beat(START_NS + 10_000 * SECOND_NS)

    def beat(self, at_ns: int) -> None:
        """Leave a writer's last sign of life."""
        sk = f"{layout.HEARTBEAT}writer#00-0000-0000-00"
        self.memory.table.put_item(Item={"pk": layout.trial_pk(self.ref.tag), "sk": sk, "at_ns": at_ns})

    def at(self, second: float, **recorded: Any) -> CheckPrecisionOutput:  # noqa: ANN401 -- as `FinishedTrial.phase`
        """Call the stage so many seconds after the phase's start; all is recorded that was due 10 s before."""
        self.clock.advance(START_NS + round(second * SECOND_NS) - self.clock.now_ns())
        self.records.phase(0, **{"to_s": second - 10, "last": False, "clocks": False, **recorded})
        return check_precision(CheckPrecisionInput(ref=self.ref, phase=0), self.memory.services)

    def looks(self) -> PrecisionLooks:
        """Return the looks that the stage has noted."""
        key = layout.phase_key(self.ref, 0, "until.json")
        return self.memory.services.runs.get_model(key, PrecisionLooks)

    @property
    def stop_s(self) -> float | None:
        """Return where the phase ends, in seconds from its start."""
        stop_at_ns = self.memory.services.table.stop_at_ns(self.ref.tag, 0)
        return None if stop_at_ns is None else (stop_at_ns - START_NS) / SECOND_NS


WHOLE_S = 1.0
"""By so much at most the next call is put off: Step Functions waits until a whole second."""


def seconds(answer: CheckPrecisionOutput) -> float:
    """Return when it is to be called again, from the phase's start."""
    return (answer.next_at - datetime.fromtimestamp(START_NS / SECOND_NS, UTC)).total_seconds()


@pytest.fixture
def running() -> Running:
    """Return a phase under way."""
    return Running()


def test_nothing_is_looked_at_before_the_shortest_load_has_been_recorded(running: Running) -> None:
    """20 s of load, and 15 s for rows and arrivals."""
    answer = running.at(3)
    assert not answer.done
    assert 0 <= seconds(answer) - (20 + SETTLE_S) <= WHOLE_S
    assert running.memory.services.runs.find_bytes(layout.phase_key(running.ref, 0, "until.json")) is None


@pytest.mark.parametrize("fraction_ns", [0, 1, 500_000_000, 999_999_999])
def test_a_wait_that_cuts_its_time_to_the_second_does_not_call_too_early(fraction_ns: int, running: Running) -> None:
    """Step Functions does; called before the look is due, it would call again and again for up to a second."""
    running.clock.advance(fraction_ns)
    running.records.plan_phase(0)
    answer = check_precision(CheckPrecisionInput(ref=running.ref, phase=0), running.memory.services)
    assert answer.next_at.microsecond == 0
    assert seconds(answer) >= 20 + SETTLE_S


def test_a_phase_that_is_sure_is_told_to_end_some_seconds_ahead(running: Running) -> None:
    """Every writer looks once a second; load goes on meanwhile, so that there is no gap."""
    assert running.at(40).done
    assert running.stop_s == 40 + STOP_LEAD_S
    looks = running.looks()
    (look,) = looks.looks
    assert (looks.reason, look.at_s, look.events) == ("sure", 25, 25 * 50)
    assert look.relative_width is not None
    assert 0 < look.relative_width <= 0.3


def test_a_phase_that_is_not_sure_is_looked_at_again_a_quarter_of_its_events_later() -> None:
    """25 s of 50/s are 1,250 events; the next look is at those of 31.25 s, and load goes on."""
    running = Running(relative_width=0.001)
    answer = running.at(40)
    assert (answer.done, running.stop_s) == (False, None)
    assert 0 <= seconds(answer) - (25 * GROWTH + SETTLE_S) <= WHOLE_S
    assert running.looks().reason is None
    early = running.at(45)
    assert (early.done, seconds(early)) == (False, seconds(answer))
    running.at(47)
    assert [look.at_s for look in running.looks().looks] == [25, 32]


def test_at_its_longest_the_phase_has_ended_without_another_look() -> None:
    """No call after the load: the state machine waits for both branches."""
    running = Running(relative_width=0.001)
    assert 0 <= seconds(running.at(190)) - 200 <= WHOLE_S
    assert running.at(200.01).done
    assert (running.looks().reason, len(running.looks().looks), running.stop_s) == ("max_events", 1, None)


def test_being_sure_at_the_very_end_needs_no_stop(running: Running) -> None:
    """It would lie beyond the schedule."""
    assert running.at(197).done
    assert (running.looks().reason, running.stop_s) == ("sure", None)


def test_what_has_not_arrived_counts_as_missing() -> None:
    """The slowest come last: to leave them out would be sure of a tail that is not there. 2 % of p99's 1 %."""
    assert Running(metric="p99", relative_width=2).at(100).done
    running = Running(metric="p99", relative_width=2)
    assert not running.at(100, lost=tuple(range(0, 90 * 50, 50))).done
    (look,) = running.looks().looks
    assert (look.events, look.relative_width) == (85 * 49, None)


def test_a_repeated_call_changes_nothing(running: Running) -> None:
    """Lambda may run a function twice, and a lost answer is asked for again."""
    running.at(40)
    looks = running.looks()
    assert running.at(42).done
    assert (running.looks(), running.stop_s) == (looks, 40 + STOP_LEAD_S)


def test_a_stop_that_could_not_be_noted_is_found_again(running: Running) -> None:
    """The function died between the two: writers may have seen the time already, so it stays."""
    running.memory.services.table.set_stop(running.ref.tag, 0, START_NS + 44 * SECOND_NS)
    assert running.at(42).done
    assert (running.looks().reason, running.stop_s) == ("sure", 44)
    running.memory.services.table.set_stop(running.ref.tag, 0, START_NS + 99 * SECOND_NS)
    assert running.stop_s == 44


def test_a_cancelled_trial_is_not_waited_for() -> None:
    """Ctrl-C should not take until the longest load is over."""
    running = Running(relative_width=0.001)
    running.memory.services.table.set_flag(running.ref.tag, layout.CANCELLED, "Ctrl-C")
    assert running.at(10).done
    assert running.looks().reason == "cancelled"


def test_a_phase_without_writers_is_not_waited_for() -> None:
    """All of them failed: nothing more will come."""
    running = Running(relative_width=0.001)
    running.beat(START_NS + 30 * SECOND_NS)
    assert not running.at(40).done
    assert running.at(31 + SILENT_S).done
    assert running.looks().reason == "writers_gone"


def test_looks_are_bounded() -> None:
    """An execution's history has an end."""
    running = Running(relative_width=0.001)
    looks = PrecisionLooks(looks=(PrecisionLook(at_s=1, events=50, relative_width=1),) * MAX_PRECISION_CHECKS)
    running.memory.services.runs.put_model(layout.phase_key(running.ref, 0, "until.json"), looks)
    answer = running.at(60)
    assert not answer.done
    assert 0 <= seconds(answer) - 200 <= WHOLE_S


def test_a_phase_without_until_is_never_looked_at() -> None:
    """The state machine does not ask; if somebody does, nothing happens."""
    memory = MemoryServices(FakeClock(START_NS + SECOND_NS))
    plan = small_plan()
    ref = stored_trial(memory.services, plan)
    FinishedTrial(memory.services, ref, plan, START_NS).plan_phase(0)
    assert check_precision(CheckPrecisionInput(ref=ref, phase=0), memory.services).done
