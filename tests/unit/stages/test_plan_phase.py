from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from stepbench.contracts.phase_documents import PhaseSchedule
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.tasks import PlanPhaseInput, PlanPhaseOutput, WriterItem
from stepbench.errors import TrialCancelledError
from stepbench.records import layout
from stepbench.stages.plan_phase import plan_phase
from stepbench.testing.fake_clock import FakeClock
from stepbench.testing.memory_services import MemoryServices
from stepbench.testing.trials import small_plan, stored_trial

NOW_NS = 1_700_000_000_123_456_789
SECOND_NS = 10**9


def planned(
    plan: TrialPlan, lead_s: float = 30.0, emulator: str = ""
) -> tuple[PlanPhaseOutput, list[WriterItem], PhaseSchedule]:
    """The stage's output and what it stored, for phase 0."""
    memory = MemoryServices(FakeClock(NOW_NS), lead_s=lead_s, emulator=emulator)
    ref = stored_trial(memory.services, plan)
    output = plan_phase(PlanPhaseInput(ref=ref, phase=0), memory.services)
    items = [WriterItem.model_validate(item) for item in memory.services.runs.find_json(output.items_key)]
    schedule = memory.services.runs.get_model(layout.phase_key(ref, 0, "plan.json"), PhaseSchedule)
    return output, items, schedule


def phase(duration_s: float) -> list[dict[str, object]]:
    """One phase of that length."""
    return [{"name": "load", "load": [{"rate_per_s": 10, "duration_s": duration_s}]}]


def test_a_phase_starts_after_the_lead_and_a_margin_for_the_map() -> None:
    """On AWS: 30 s for the writers, 6 s and 20 ms a writer for the Map to start them."""
    _, items, schedule = planned(small_plan(writers=10))
    assert schedule.start_at_ns == NOW_NS + 36_200_000_000
    assert {item.start_at_ns for item in items} == {schedule.start_at_ns}


def test_sandboxes_that_start_on_one_machine_get_longer_for_each_writer() -> None:
    """Ten that start at once on two cores take ten times as long as one, and a late writer leaves events unsent."""
    _, items, schedule = planned(small_plan(writers=10), lead_s=2, emulator="MiniStack")
    lead_ns = (2_000 + 9 * 500) * 10**6
    assert schedule.start_at_ns == NOW_NS + lead_ns * 6 // 5 + 10 * 20 * 10**6
    waited_until_ns = int(datetime.fromisoformat(items[0].wait_until).timestamp() * 1_000) * 1_000_000
    assert 0 <= schedule.start_at_ns - lead_ns - waited_until_ns < 1_000_000


def test_no_more_writers_than_a_minute_s_are_waited_for() -> None:
    """A writer's lead, slice and drain have to fit into its function's 900 s; 600 starts would take 300."""
    _, items, schedule = planned(small_plan(writers=600), lead_s=2, emulator="MiniStack")
    waited_until_ns = int(datetime.fromisoformat(items[0].wait_until).timestamp() * 1_000) * 1_000_000
    assert 0 <= schedule.start_at_ns - 62 * SECOND_NS - waited_until_ns < 1_000_000


def test_children_wait_until_the_lead_begins() -> None:
    """To the millisecond, as a Wait state's timestamp has it, and never later than the lead."""
    _, (item,), schedule = planned(small_plan(), lead_s=5)
    # 1.02 s after now: margin 0.2 * 5 s + 1 writer * 0.02 s.
    assert item.wait_until == "2023-11-14T22:13:21.143Z"
    waited_until_ns = int(datetime.fromisoformat(item.wait_until).timestamp() * 1_000) * 1_000_000
    assert 0 <= schedule.start_at_ns - 5 * SECOND_NS - waited_until_ns < 1_000_000


def test_every_writer_has_one_item_per_slice_and_slices_come_first() -> None:
    """Writer-major, the first writers' later slices would take the places that the last writers need now."""
    output, items, schedule = planned(small_plan(writers=3, phases=phase(1_500)))
    assert [(item.slice, item.writer) for item in items] == [(s, w) for s in range(3) for w in range(3)]
    assert [item.start_at_ns - schedule.start_at_ns for item in items[::3]] == [0, 600 * SECOND_NS, 1_200 * SECOND_NS]
    assert output.max_concurrency == 6


@pytest.mark.parametrize(
    ("duration_s", "fields", "at_once"),
    [
        (60, {"writers": 4}, 4),
        (60, {"writers": 4, "max_concurrency": 7}, 7),
        (700, {"writers": 4}, 8),
        (700, {"writers": 4, "max_concurrency": 7}, 14),
    ],
)
def test_successors_wait_beside_their_predecessors(duration_s: float, fields: dict[str, Any], at_once: int) -> None:
    """Twice the concurrency where there is more than one slice; else no more than asked for."""
    output, _, _ = planned(small_plan(phases=phase(duration_s), **fields))
    assert output.max_concurrency == at_once


def test_the_items_are_where_the_map_s_reader_is_told() -> None:
    """Bucket and key are all that passes through the state machine."""
    output, _, _ = planned(small_plan())
    assert (output.items_bucket, output.items_key) == ("results", "runs/run-1/trials/0000/phases/00/items.json")


def test_a_cancelled_trial_s_phase_is_not_planned() -> None:
    """It is the last gate before load."""
    memory = MemoryServices()
    ref = stored_trial(memory.services)
    memory.services.table.set_flag(ref.tag, layout.CANCELLED, "watcher died")
    with pytest.raises(TrialCancelledError, match="watcher died"):
        plan_phase(PlanPhaseInput(ref=ref, phase=0), memory.services)
    assert [key for key in memory.bucket.objects if "phases" in key] == []
