"""Watching a run whose stack has gone."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError

from stepbench.contracts.plan import Plan
from stepbench.errors import LocalEnvironmentError
from stepbench.local.observing import LOST_S, Observer, watch
from stepbench.local.progress import PhaseStart
from stepbench.planning import expand
from stepbench.testing.fake_clock import FakeClock
from stepbench.testing.trials import small_plan

if TYPE_CHECKING:
    from stepbench.local.executions import Executions


class Gone:
    """A stack that answers nothing, each time after so long; `asked` counts."""

    def __init__(self, clock: FakeClock, after_s: float) -> None:
        self.clock = clock
        self.after_s = after_s
        self.asked = 0

    def __getattr__(self, _name: str) -> Any:  # noqa: ANN401 -- any question
        return self

    def __call__(self, *_arguments: object) -> None:
        """Ask."""
        self.asked += 1
        self.clock.sleep(self.after_s)
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")


def lose(endpoint: str | None, after_s: float) -> tuple[int, float]:
    """Watch a run in its last phase until it is given up: requests, and seconds."""
    clock = FakeClock(now_ns=0)
    plan = Plan.model_validate({"name": "p", "trials": [small_plan("s3").model_dump(exclude_none=True)]})
    run = SimpleNamespace(run_id="r", specs=expand(plan, "r"), started_at=datetime(2026, 1, 1, tzinfo=UTC))
    gone = Gone(clock, after_s)
    stack = SimpleNamespace(endpoint=endpoint, table=gone, runs=gone)
    executions = cast("Executions", SimpleNamespace(run=run, stack=stack, status=gone, children=gone))
    last = len(run.specs[0].plan.phases) - 1
    observer = Observer(executions, clock, trial=0, phase=PhaseStart(last, 0))
    with pytest.raises(LocalEnvironmentError, match="lost sight of run r"):
        watch(observer, lambda _snapshot: None, clock)
    return gone.asked, clock.now_ns() / 1e9


@pytest.mark.timeout(10)
def test_an_emulator_that_died_is_noticed_in_the_last_phase_too() -> None:
    """There nothing more is asked about phases, and what is not asked must not pass for an answer."""
    asked, seconds = lose("http://127.0.0.1:1", after_s=4)
    assert asked == 4
    assert seconds < 20


@pytest.mark.timeout(10)
def test_a_network_gets_longer_to_come_back() -> None:
    """A run on AWS goes on without us; stopping it for a minute without Wi-Fi would be rash."""
    assert lose(None, after_s=4)[0] == 20


@pytest.mark.timeout(10)
def test_a_stack_that_hangs_is_given_up_by_time() -> None:
    """Each request takes minutes to fail then, and twenty of them an hour and a half."""
    _, seconds = lose(None, after_s=280)
    assert LOST_S < seconds < 2 * LOST_S


class Planned:
    """A bucket with the schedules of some phases; `asked` for which."""

    def __init__(self, *phases: int) -> None:
        self.phases = phases
        self.asked: list[int] = []

    def find_json(self, key: str) -> dict[str, int] | None:
        """As `RunStore`."""
        phase = int(key.split("/")[-2])
        self.asked.append(phase)
        return {"start_at_ns": 5} if phase in self.phases else None


def searching(runs: Planned, now_in: int) -> Observer:
    """Watching a trial with four probes (phases 1 to 4) between two other phases."""
    find = {"low_per_s": 10, "high_per_s": 20, "probe_s": 5, "probes": 4}
    load = {"rate_per_s": 10, "of_found": 1, "duration_s": 5}
    phases = [{"name": "before", "load": [{"rate_per_s": 1, "count": 2}]}, {"name": "load", "load": [load]}]
    trial = {"target": {"store": "etcd"}, "phases": phases, "find_rate": find}
    specs = expand(Plan.model_validate({"name": "p", "trials": [trial]}), "r")
    run = SimpleNamespace(run_id="r", specs=specs, started_at=datetime(2026, 1, 1, tzinfo=UTC))
    stack = SimpleNamespace(endpoint=None, table=None, runs=runs)
    executions = cast("Executions", SimpleNamespace(run=run, stack=stack))
    return Observer(executions, FakeClock(now_ns=0), trial=0, phase=PhaseStart(now_in, 0))


def test_a_search_that_ended_early_does_not_hide_what_comes_after() -> None:
    """Probes 3 and 4 are never planned; the load after them is."""
    observer = searching(runs := Planned(0, 1, 2, 5), now_in=2)
    for _ in range(2):
        observer._ask_phase()
    assert observer.phase == PhaseStart(5, 5)
    assert set(runs.asked) <= {3, 5}


def test_the_next_probe_is_seen() -> None:
    """As soon as it is asked for."""
    observer = searching(Planned(0, 1, 2), now_in=1)
    for _ in range(2):
        observer._ask_phase()
    assert observer.phase == PhaseStart(2, 5)
