from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from tests.samples.finished_trials import SECOND_NS, FinishedTrial
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import FakeClock

from stepbench.contracts.findings import Utilisation
from stepbench.contracts.tasks import MeasureUtilisationInput
from stepbench.drivers.protocol import Meter, Reading
from stepbench.errors import TrialCancelledError
from stepbench.records.storage import layout
from stepbench.stages.measure_utilisation import SHORTEST_WAIT_S, measure_utilisation
from stepbench.workload.arrivals import phase_offsets_ns

if TYPE_CHECKING:
    from collections.abc import Callable

START_NS = 1_700_000_000 * SECOND_NS
PHASES = [
    {"name": "load", "load": [{"rate_per_s": 20, "duration_s": 10}]},
    {"name": "rest", "load": [{"rate_per_s": 20, "duration_s": 10}]},
]
END_NS = START_NS + 10 * SECOND_NS
BUSY = Reading(0.5, whole=True, text="half of it")


class ToldMeter:
    """Says what it is told to, and notes what it was asked."""

    def __init__(self, *readings: Reading | Exception, period_s: int = 1) -> None:
        self.period_s = period_s
        self.readings = list(readings)
        self.asked: list[tuple[int, int]] = []

    def read(self, from_ns: int, to_ns: int) -> Reading:
        """Return the next reading; the last one again and again."""
        self.asked.append((from_ns, to_ns))
        reading = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        if isinstance(reading, Exception):
            raise reading
        return reading


class Scene:
    """A trial whose first phase has just ended, 200 events in 10 s, all acknowledged."""

    def __init__(self, meter: Meter | None, after_s: float = 2) -> None:
        self.clock = FakeClock(END_NS + round(after_s * SECOND_NS))
        self.memory = MemoryServices(self.clock)
        self.plan = small_plan(phases=PHASES)
        self.ref = stored_trial(self.memory.services, self.plan)
        self.records = FinishedTrial(self.memory.services, self.ref, self.plan, START_NS)
        self.records.phase(0)
        self.build: Callable[..., Meter | None] = lambda *_: meter

    def measures(self, phase: int = 0) -> bool:
        """Call the stage once."""
        task = MeasureUtilisationInput(ref=self.ref, phase=phase)
        return measure_utilisation(task, self.memory.services, build=self.build).done

    def stored(self) -> Utilisation | None:
        """Return what the stage stored."""
        key = layout.phase_key(self.ref, 0, "utilisation.json")
        return self.memory.services.runs.find_model(key, Utilisation)

    def result(self) -> Utilisation:
        """Return what is stored, which there has to be."""
        stored = self.stored()
        assert stored is not None
        return stored


def test_utilisation_and_achieved_rate_are_stored() -> None:
    """For the search, and for the report."""
    meter = ToldMeter(BUSY)
    scene = Scene(meter)
    assert scene.measures()
    assert meter.asked == [(START_NS, END_NS)]
    assert scene.stored() == Utilisation(
        phase="load", probe=False, offered_per_s=20, achieved_per_s=20, utilisation=0.5, text="half of it"
    )


def test_what_was_acknowledged_after_the_end_was_not_achieved_in_time() -> None:
    """A queue that is worked off afterwards hides that the rate could not be held."""
    scene = Scene(ToldMeter(BUSY))
    late = scene.records.start_of(0) + 5 * SECOND_NS  # half of the schedule's 200 events, 5 s late
    scene.records.rows(0, late + SECOND_NS * 10 * np.arange(200) // 200)
    assert scene.measures()
    assert scene.result().achieved_per_s == pytest.approx(10, abs=0.2)


def test_of_poisson_arrivals_what_was_due_counts_as_offered() -> None:
    """Three writers, some 200 events: the expected number would make a load that was held look as if it was not."""
    scene = Scene(ToldMeter(BUSY))
    plan = small_plan(phases=PHASES, arrivals="poisson", writers=3)
    scene.ref = stored_trial(scene.memory.services, plan)
    due = sum(phase_offsets_ns(plan, 0, writer).size for writer in range(3))
    assert due != 200
    assert scene.measures()
    assert scene.result().offered_per_s == due / 10


def test_other_phases_writes_do_not_count() -> None:
    """They have been offered by then, when a state is retried late."""
    scene = Scene(ToldMeter(BUSY))
    scene.records.phase(1)
    assert scene.measures()
    assert scene.result().achieved_per_s == 20


def test_a_metric_that_is_still_to_come_is_asked_for_again() -> None:
    """Here after seconds, on AWS after minutes."""
    scene = Scene(ToldMeter(Reading(0.2, whole=False, text="3 of 9 periods"), BUSY))
    assert not scene.measures()
    assert scene.stored() is None
    assert scene.measures()


def test_the_last_period_is_given_time_to_be_complete() -> None:
    """A value that has just appeared may still grow."""
    meter = ToldMeter(BUSY, period_s=60)
    scene = Scene(meter, after_s=59)
    assert not scene.measures()
    assert meter.asked == []
    scene.clock.sleep(1)
    assert scene.measures()


@pytest.mark.parametrize(
    ("reading", "text"),
    [
        (Reading(None, whole=False, text="no value yet"), "no value yet"),
        (EndpointConnectionError(endpoint_url="http://x"), "the metric cannot be read: Could not connect"),
        (ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetMetricData"), "AccessDenied"),
    ],
)
def test_a_metric_that_never_comes_is_stored_as_unknown(reading: Any, text: str) -> None:  # noqa: ANN401 -- either kind
    """The trial goes on; what it is worth without, others decide."""
    scene = Scene(ToldMeter(reading), after_s=SHORTEST_WAIT_S)
    assert not scene.measures()
    scene.clock.sleep(1)
    assert scene.measures()
    stored = scene.result()
    assert stored.utilisation is None
    assert text in stored.text
    assert stored.achieved_per_s == 20


def test_a_part_of_the_metric_is_better_than_none() -> None:
    """Once its time is up."""
    scene = Scene(ToldMeter(Reading(0.4, whole=False, text="3 of 9 periods")), after_s=SHORTEST_WAIT_S + 1)
    assert scene.measures()
    stored = scene.result()
    assert (stored.utilisation, stored.text) == (0.4, "3 of 9 periods")


def test_a_stack_without_a_metric_says_so_at_once() -> None:
    """Waiting would bring nothing."""
    scene = Scene(None)
    assert scene.measures()
    assert scene.result().text == "this stack knows no metric of s3"


def test_a_phase_that_was_not_offered_has_no_utilisation() -> None:
    """A probe that was passed over."""
    scene = Scene(ToldMeter(BUSY))
    assert scene.measures(phase=1)
    assert scene.memory.services.runs.find_json(layout.phase_key(scene.ref, 1, "utilisation.json")) is None


def test_a_cancelled_trial_is_not_waited_for() -> None:
    """Up to five minutes."""
    scene = Scene(ToldMeter(BUSY))
    scene.memory.services.table.set_flag(scene.ref.tag, layout.CANCELLED, "Ctrl-C")
    with pytest.raises(TrialCancelledError):
        scene.measures()
