"""How far a running run is, as the API tells it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.services import MemoryServices, small_plan

from stepbench.api.plans import MOST_COUNTED, read_progress
from stepbench.contracts.plan import Plan
from stepbench.contracts.runs import RunRecord
from stepbench.planning import expand
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from stepbench.contracts.api import Progress
    from stepbench.contracts.plan import TrialSpec

S = 10**9
RUN = "run-1"
WRITER = "writer#00-0000-0000-00"


class Running:
    """A run in its first trial, whose load began 10 s ago and was told of 4 s ago."""

    def __init__(
        self, trial: dict[str, Any], sent: int, *, arrived: int = 0, failed: int = 0, repeats: int = 1
    ) -> None:
        self.memory = MemoryServices()
        self.clock = self.memory.services.clock
        self.began_ns = self.clock.now_ns()
        plan = Plan.model_validate({"name": "p", "trials": [{**trial, "repeats": repeats}]})
        services = self.memory.services
        services.runs.put_model(layout.run_key(RUN, "plan.json"), plan)
        spec = self.spec = expand(plan, RUN)[0]
        services.table.take_lease("bucket", spec.ref, "arn", self.began_ns)
        services.table.put_t4(spec.tag, "canaries", self.began_ns - S, {"n": 3})
        services.runs.put_json(layout.phase_key(spec.ref, 0, "plan.json"), {"start_at_ns": self.began_ns})
        self._beat(spec, {"sent": sent, "failed": failed}, self.began_ns + 6 * S)
        if arrived:
            services.table.put_t4(spec.tag, "events", self.began_ns + S, {"n": arrived})
        self.clock.sleep(10)

    def _beat(self, spec: TrialSpec, progress: dict[str, int], at_ns: int) -> None:
        self.memory.services.table.beat(spec.tag, WRITER, progress)
        self.memory.table.items[layout.trial_pk(spec.tag), layout.HEARTBEAT + WRITER]["at_ns"] = at_ns

    def progress(self) -> Progress:
        """Return what the API tells."""
        started = datetime.fromtimestamp(self.began_ns / S, UTC)
        known = {"run_id": RUN, "team": "default", "plan": "p", "state": "running"}
        record = RunRecord.model_validate({**known, "submitted_at": started, "started_at": started})
        found = read_progress(record, self.memory.services)
        assert found is not None
        return found


def trial(count: int = 200, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- a plan's
    """Return a trial of so many events in 20 s, and then 100 s of drain."""
    phases = [{"name": "load", "load": [{"rate_per_s": count / 20, "count": count}]}]
    return small_plan(**fields).model_dump(mode="json", exclude_none=True, exclude={"phases"}) | {"phases": phases}


def test_canaries_are_not_received() -> None:
    """Three more than were sent had arrived."""
    found = Running(trial(), 120, arrived=100).progress()
    assert (found.sent, found.received, found.lag) == (120, 100, 20)


def test_what_a_filter_holds_back_does_not_lag() -> None:
    """Half of the events looked as if they were lost."""
    found = Running(trial(store="dynamodb", record={"matching_share": 0.5}), 100, arrived=50).progress()
    assert (found.received, found.lag) == (50, 0)


def test_what_was_not_written_does_not_lag() -> None:
    """It never arrives; an event whose outcome is unknown may, and then nothing lags less than nothing."""
    assert Running(trial(), 100, arrived=80, failed=20).progress().lag == 0
    assert Running(trial(), 100, arrived=90, failed=20).progress().lag == 0


@pytest.mark.parametrize("plan", [{"experiment": "operations", "workload": {}}, MOST_COUNTED + 1])
def test_where_no_arrivals_are_counted_none_are_told(plan: dict[str, Any] | int) -> None:
    """2,000 operations, all of them answered, had "received 0, lag 2,000"."""
    spec = trial(plan) if isinstance(plan, int) else trial(store="redis", **plan)
    found = Running(spec, 100).progress()
    assert (found.sent, found.received, found.lag) == (100, None, None)


def test_time_goes_on_when_the_writers_have_ended() -> None:
    """The share stood still through drain and analysis; the counters' time is still that of the last heartbeat."""
    running = Running(trial(), 200, arrived=200)
    before = running.progress()
    running.clock.sleep(60)
    after = running.progress()
    assert after.share > before.share
    assert after.left_s < before.left_s
    assert (after.activity, after.at) == ("arrivals and analysis", before.at)


def test_between_two_trials_no_plan_is_validated() -> None:
    """It was, before the first."""
    running = Running(trial(), 200, repeats=2)
    services, ref = running.memory.services, running.spec.ref
    services.table.release_lease("bucket", ref.tag)
    services.runs.put_json(layout.trial_key(ref, "result.json"), {})
    assert running.progress().activity == "between two trials"
