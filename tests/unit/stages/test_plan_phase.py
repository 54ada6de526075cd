from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import pytest
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import FakeClock

from stepbench.contracts.findings import Utilisation
from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.runs import ValidatePlanInput
from stepbench.contracts.tasks import PlanPhaseInput, PlanPhaseOutput, WriterItem
from stepbench.errors import LoadHostLostError, PlanError, RateNotFoundError, TrialCancelledError
from stepbench.records.storage import layout
from stepbench.stages.plan_phase import plan_phase, with_found_rate
from stepbench.stages.validate_plan import validate_plan

NOW_NS = 1_700_000_000_123_456_789
SECOND_NS = 10**9


def planned(
    plan: TrialPlan, lead_s: float = 30.0, emulator: str = ""
) -> tuple[PlanPhaseOutput, list[WriterItem], PhaseSchedule]:
    """Return the stage's output and what it stored, for phase 0."""
    memory = MemoryServices(FakeClock(NOW_NS), lead_s=lead_s, emulator=emulator)
    ref = stored_trial(memory.services, plan)
    output = plan_phase(PlanPhaseInput(ref=ref, phase=0), memory.services)
    items = [WriterItem.model_validate(item) for item in memory.services.runs.find_json(output.items_key)]
    schedule = memory.services.runs.get_model(layout.phase_key(ref, 0, "plan.json"), PhaseSchedule)
    return output, items, schedule


def phase(duration_s: float) -> list[dict[str, object]]:
    """Return one phase of that length."""
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


def test_invocations_begin_at_once_and_as_many_as_are_allowed() -> None:
    """No lead and no barrier: how fast the Map begins them is what is measured."""
    workload = {"experiment": "operations", "workload": {"mix": {"insert": 1}, "records": 0}}
    invoked = {"phases": [{"name": "load", "invoked": {}}], "writers": 6, "max_concurrency": 2, **workload}
    output, items, schedule = planned(small_plan("postgresql", **invoked))
    assert (schedule.start_at_ns, output.max_concurrency, output.invoked, output.inline) == (NOW_NS, 2, True, False)
    assert [(item.writer, item.start_at_ns, item.invoked) for item in items] == [(w, NOW_NS, True) for w in range(6)]
    assert datetime.fromisoformat(items[0].wait_until).timestamp() <= NOW_NS / 1e9
    inline = small_plan("postgresql", **{**invoked, "phases": [{"name": "load", "invoked": {"map": "inline"}}]})
    output, items, _ = planned(inline)
    assert (output.inline, list(output.items)) == (True, items)


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


def warmed_up(*lengths_s: float) -> list[dict[str, Any]]:
    """Return phases of these lengths, each right after the one before; only the last is measured."""
    phases = [
        {**phase(length_s)[0], "name": f"p{number}", "gapless": number > 0, "measured": False}
        for number, length_s in enumerate(lengths_s)
    ]
    phases[-1]["measured"] = True
    return phases


def test_what_follows_without_a_gap_is_planned_with_the_phase_before() -> None:
    """15 minutes to warm up, then 6 that are measured: nobody is called in between, so no store cools down."""
    memory = MemoryServices(FakeClock(NOW_NS))
    ref = stored_trial(memory.services, small_plan(writers=2, phases=warmed_up(900, 360)))
    first, second = (plan_phase(PlanPhaseInput(ref=ref, phase=number), memory.services) for number in range(2))
    items = [WriterItem.model_validate(item) for item in memory.services.runs.find_json(first.items_key)]
    starts_ns = [
        memory.services.runs.get_model(layout.phase_key(ref, number, "plan.json"), PhaseSchedule).start_at_ns
        for number in range(2)
    ]
    assert starts_ns[1] - starts_ns[0] == 900 * SECOND_NS
    assert [(item.phase, item.slice, (item.start_at_ns - starts_ns[0]) // SECOND_NS) for item in items[::2]] == [
        (0, 0, 0),
        (0, 1, 600),
        (1, 0, 900),
    ]
    assert [item.writer for item in items] == [0, 1] * 3
    assert not second.needed


@pytest.mark.parametrize(
    ("lengths_s", "waves"), [([60, 60], 2), ([900, 360], 3), ([2_400, 360], 3), ([601, 1, 601], 4), ([1, 1, 1], 3)]
)
def test_a_short_slice_lets_its_successor_wait_beside_it(lengths_s: list[float], waves: int) -> None:
    """The last second of 601 is too short to start the next phase's writers in."""
    output, _, _ = planned(small_plan(writers=4, phases=warmed_up(*lengths_s)))
    assert output.max_concurrency == 4 * waves


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


FIND = {"utilisation": 0.8, "tolerance": 0.05, "low_per_s": 100, "high_per_s": 5_000, "probe_s": 10, "probes": 3}
PHASES = [
    {"name": "unloaded", "load": [{"rate_per_s": 20, "count": 40}]},
    {"name": "load", "load": [{"rate_per_s": 3_000, "of_found": 1, "duration_s": 30}]},
]
METRIC = {"namespace": "Own", "metric": "Cpu", "dimensions": [{"Server": "etcd"}], "period_s": 1}
FIRST_PROBE, LOAD = 1, 4


class Search:
    """A stored trial: unloaded, three probes, the load."""

    def __init__(self, **load: Any) -> None:  # noqa: ANN401 -- a load step's fields
        phases = [PHASES[0], {**PHASES[1], "load": [{**PHASES[1]["load"][0], **load}]}]  # type: ignore[dict-item]
        plan = small_plan("etcd", phases=phases, find_rate=FIND)
        self.plan = TrialPlan.model_validate({**plan.model_dump(), "phases": plan.run_phases})
        self.memory = MemoryServices()
        self.ref = stored_trial(self.memory.services, self.plan)

    def plans(self, phase: int) -> PlanPhaseOutput:
        """Call the stage once."""
        return plan_phase(PlanPhaseInput(ref=self.ref, phase=phase), self.memory.services)

    def measured(self, phase: int, utilisation: float | None) -> None:
        """Store a utilisation as MeasureUtilisation does, everything acknowledged."""
        rate_per_s = self.rate_per_s(phase)
        self.memory.services.runs.put_model(
            layout.phase_key(self.ref, phase, "utilisation.json"),
            Utilisation(
                phase=self.plan.phases[phase].name,
                probe=self.plan.phases[phase].probe,
                offered_per_s=rate_per_s,
                achieved_per_s=rate_per_s,
                utilisation=utilisation,
                text="",
            ),
        )

    def rate_per_s(self, phase: int) -> float:
        """Return the rate that writers and analysis will read."""
        return self.memory.services.trial(self.ref).plan.phases[phase].load[0].rate_per_s


@pytest.fixture
def search() -> Search:
    """Return a search for a rate."""
    return Search()


def test_probes_are_planned_at_the_rates_of_the_search(search: Search) -> None:
    """100/s; from 40 % busy twice that; the stored specification says so, and only of that phase."""
    assert search.plans(FIRST_PROBE).needed
    assert search.rate_per_s(FIRST_PROBE) == 100
    search.measured(FIRST_PROBE, 0.4)
    assert search.plans(FIRST_PROBE + 1).needed
    rates = [search.rate_per_s(phase) for phase in range(5)]
    assert rates == [20, 100, 200, 5_000, 3_000]


def test_a_retry_plans_the_same_rate(search: Search) -> None:
    """The specification is rewritten by then."""
    search.plans(FIRST_PROBE)
    search.measured(FIRST_PROBE, 0.4)
    search.plans(FIRST_PROBE + 1)
    search.plans(FIRST_PROBE + 1)
    assert search.rate_per_s(FIRST_PROBE + 1) == 200


def test_probes_after_the_one_that_found_are_passed_over(search: Search) -> None:
    """Without a schedule nothing of them counts as offered."""
    search.plans(FIRST_PROBE)
    search.measured(FIRST_PROBE, 0.78)
    assert not search.plans(FIRST_PROBE + 1).needed
    key = layout.phase_key(search.ref, FIRST_PROBE + 1, "plan.json")
    assert search.memory.services.runs.find_json(key) is None


@pytest.mark.parametrize(("load", "rate_per_s"), [({}, 100), ({"of_found": 0.5}, 50), ({"of_found": 10}, 1_000)])
def test_the_load_gets_its_share_of_what_was_found(load: dict[str, float], rate_per_s: float) -> None:
    """Twice, as a retry would."""
    search = Search(**load)
    search.plans(FIRST_PROBE)
    search.measured(FIRST_PROBE, 0.8)
    for _ in range(2):
        assert search.plans(LOAD).needed
        assert search.rate_per_s(LOAD) == rate_per_s


def test_the_load_never_exceeds_the_plan_s_rate() -> None:
    """The price was estimated for it."""
    search = Search(rate_per_s=60)
    search.plans(FIRST_PROBE)
    search.measured(FIRST_PROBE, 0.8)
    search.plans(LOAD)
    assert search.rate_per_s(LOAD) == 60


def test_without_a_rate_the_load_is_not_offered_and_the_numbers_are_told(search: Search) -> None:
    """Any other load would be measured under a name that it does not have."""
    search.plans(FIRST_PROBE)
    search.measured(FIRST_PROBE, 0.97)
    assert not search.plans(FIRST_PROBE + 1).needed
    with pytest.raises(RateNotFoundError, match="lowest rate, 100/s, is too much already") as raised:
        search.plans(LOAD)
    assert "Probes: 100/s: 100/s acknowledged, 97 % busy" in str(raised.value)
    assert "Widen find_rate.low_per_s" in str(raised.value)
    assert search.rate_per_s(LOAD) == 3_000


def test_a_plan_that_does_not_hold_at_the_rate_is_never_stored(search: Search) -> None:
    """No stage could read it any more: not the tear-down, nor the sweeper."""
    before = search.memory.bucket.objects[layout.trial_key(search.ref, "trial.json")]
    spec = search.memory.services.trial(search.ref)
    filtered = spec.offered.record.model_copy(update={"matching_share": 0.0005})  # 1,000 events at 100/s: none passes
    broken = spec.model_copy(update={"plan": spec.offered.model_copy(update={"record": filtered})})
    with pytest.raises(RateNotFoundError, match="phase probe-1 would be offered at 100/s") as raised:
        with_found_rate(broken, FIRST_PROBE, search.memory.services)
    assert "lets none of a writer's 1000 events pass the filter" in str(raised.value)
    assert "Raise find_rate.low_per_s" in str(raised.value)
    assert search.memory.bucket.objects[layout.trial_key(search.ref, "trial.json")] == before


def test_a_phase_before_the_search_is_none_of_its_business(search: Search) -> None:
    """Nothing is read or written for it."""
    before = search.memory.bucket.objects[layout.trial_key(search.ref, "trial.json")]
    assert search.plans(0).needed
    assert search.memory.bucket.objects[layout.trial_key(search.ref, "trial.json")] == before


def refusal(store: str = "etcd", find: dict[str, Any] | None = None, **settings: Any) -> str:  # noqa: ANN401
    """Return the message with which ValidatePlan refuses."""
    target: dict[str, Any] = {"store": store}
    if store == "dynamodb":
        target["capacity"] = {"mode": "provisioned", "write_units": 10}
    plan = {"name": "p", "trials": [{"target": target, "phases": PHASES, "find_rate": {**FIND, **(find or {})}}]}
    task = ValidatePlanInput.model_validate({"plan": plan, "run_id": "r", "started_at": "2026-01-01T00:00:00Z"})
    try:
        validate_plan(task, MemoryServices(**settings).services)
    except PlanError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("store", "parameter"), [("etcd", "EtcdMetric"), ("postgresql", "PostgresqlMetric")])
def test_a_store_whose_metric_nobody_knows_is_refused(store: str, parameter: str) -> None:
    """Not after the first probe."""
    assert f"Deploy with {parameter}" in refusal(store)
    assert refusal(store, None, **{f"{store}_metric": json.dumps(METRIC)}) == ""


def test_a_parameter_that_is_no_metric_is_told_with_its_field() -> None:
    """It is the stack's owner who has to mend it."""
    said = refusal(etcd_metric=json.dumps({**METRIC, "period_s": 0}))
    assert "EtcdMetric is no metric: period_s: " in said


def test_a_probe_lasts_two_periods_of_the_metric() -> None:
    """Otherwise it may hold no whole one."""
    by_the_minute = json.dumps({**METRIC, "period_s": 60})
    said = refusal(etcd_metric=by_the_minute)
    assert "trials[0].find_rate.probe_s" in said
    assert "Raise it to 120" in said
    assert refusal(find={"probe_s": 120}, etcd_metric=by_the_minute) == ""


def test_a_table_s_own_metric_needs_no_parameter() -> None:
    """But it comes by the minute."""
    assert "Raise it to 120" in refusal("dynamodb")
    assert refusal("dynamodb", {"probe_s": 120}) == ""
    assert refusal("dynamodb", dynamodb_metric=json.dumps(METRIC)) == ""


def test_probes_and_the_load_are_marked_for_the_state_machine() -> None:
    """Only of those is the utilisation asked for."""
    plan = {"name": "p", "trials": [{"target": {"store": "etcd"}, "phases": PHASES, "find_rate": FIND}]}
    task = ValidatePlanInput.model_validate({"plan": plan, "run_id": "r", "started_at": "2026-01-01T00:00:00Z"})
    (trial,) = validate_plan(task, MemoryServices(etcd_metric=json.dumps(METRIC)).services).trials
    assert [phase.utilisation for phase in trial.phases] == [False, True, True, True, True]


HOURS_NS = 3_600 * SECOND_NS


def planned_on_host(
    clock_ns: int, *, ended: bool | None = False, at_once: tuple[int, ...] = (64,), writers: int = 1
) -> list[dict[str, Any]]:
    """Return the items of a plan for load hosts that have just given a sign of life, or their last; None: none ever."""
    memory = MemoryServices(FakeClock(clock_ns))
    for number, each in enumerate(() if ended is None else at_once):
        memory.services.table.beat(layout.LOAD_HOSTS, f"host {number}", {}, ended=ended, at_once=each)
    ref = stored_trial(memory.services, small_plan(load_from="host", writers=writers))
    output = plan_phase(PlanPhaseInput(ref=ref, phase=0), memory.services)
    items: list[dict[str, Any]] = memory.services.runs.find_json(output.items_key)
    return items


def test_the_map_s_items_say_who_runs_them() -> None:
    """The state machine's Choice reads nothing else."""
    assert {item["load_from"] for item in planned_on_host(time.time_ns())} == {"host"}
    assert {item.load_from for item in planned(small_plan())[1]} == {"lambda"}


@pytest.mark.parametrize(("later_ns", "ended"), [(0, None), (HOURS_NS, False), (0, True)])
def test_load_is_planned_only_for_a_host_that_takes_it(later_ns: int, ended: bool | None) -> None:  # noqa: FBT001 -- of a test
    """None was ever there, it has gone silent, or it is draining: the queue would be nobody's."""
    with pytest.raises(LoadHostLostError, match=r"sign of life for 20 s.*`stepbench load-host --stack NAME`"):
        planned_on_host(time.time_ns() + later_ns, ended=ended)


def test_load_is_planned_only_for_hosts_that_run_all_writers_at_once() -> None:
    """ValidatePlan knows LoadHostWriters only, and not what each host was started with; the rest would wait in vain."""
    assert len(planned_on_host(time.time_ns(), at_once=(2, 3), writers=5)) == 5
    with pytest.raises(LoadHostLostError, match=r"6 writers at once.* run 5.*--at-once 6"):
        planned_on_host(time.time_ns(), at_once=(2, 3), writers=6)
