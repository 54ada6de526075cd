"""A measured window in which no event is due is refused, and no other."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepbench.contracts.phase import LoadStep, Phase
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.target import EtcdTarget
from stepbench.errors import PlanError
from stepbench.planning import parse_plan
from stepbench.planning.schedule import first_due_ns
from stepbench.workload.arrivals import phase_offsets_ns
from stepbench.workload.payloads import first_client_ns, windows_without

SLOW = {"rate_per_s": 0.5, "duration_s": 10}
"""Events at 0, 2, 4, 6 and 8 s."""


def window(name: str, from_s: float, to_s: float) -> dict[str, Any]:
    """Return a window of a plan."""
    return {"name": name, "from_s": from_s, "to_s": to_s}


def plan(*windows: dict[str, Any], load: Any = (SLOW,), phase: Any = None, **trial: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a plan of one trial, whose measured phase follows a warm-up."""
    measured = {"name": "p", "windows": list(windows), **(phase or {"load": list(load)})}
    warm_up = {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 10, "count": 20}]}
    return {"name": "x", "trials": [{"target": {"store": "etcd"}, "phases": [warm_up, measured], **trial}]}


def refused(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return path and text of each problem."""
    try:
        parse_plan(document)
    except PlanError as error:
        return [(each.path, str(each)) for each in error.problems]
    return []


@pytest.mark.parametrize(
    ("from_s", "to_s", "says"),
    [
        (1, 1.9, "the next one is due at 2 s"),
        (8.001, 10, "the last one is due before it begins"),
        (2.5, 4, "the next one is due at 4 s"),  # a window ends before its end
        (2, 2.1, ""),
        (3.9, 4.1, ""),
        (0, 0.001, ""),
    ],
)
def test_a_window_between_two_events_is_refused(from_s: float, to_s: float, says: str) -> None:
    """It passed, ran for its ten minutes, and failed the trial."""
    found = refused(plan(window("all", 0, 10), window("w", from_s, to_s)))
    assert [path for path, _ in found] == (["trials[0].phases[1].windows[1]"] if says else [])
    for _, text in found:
        assert says in text
        assert f"(got w: {from_s:g} to {to_s:g} s)" in text
        assert "rate_per_s" in text


def test_a_step_without_an_event_leaves_its_own_window_empty_only() -> None:
    """Whatever other steps offer; a step that is a pause is none's business."""
    load = ({"rate_per_s": 10, "duration_s": 5}, {"rate_per_s": 0.01, "duration_s": 5}, {"rate_per_s": 1, "count": 5})
    assert refused(plan(load=load)) == []
    found = refused(plan(window("a", 0, 5), window("b", 5, 10), window("c", 10, 15), load=load))
    assert [path for path, _ in found] == ["trials[0].phases[1].windows[1]"]


def test_random_arrivals_are_those_of_the_seed() -> None:
    """Of two expected events none comes with one seed in seven; each repeat has a seed of its own."""
    document = plan(load=({"rate_per_s": 0.2, "duration_s": 10},), arrivals="poisson", seed=0, repeats=40)
    trial = TrialPlan.model_validate(document["trials"][0])
    empty = [
        seed
        for seed in range(40)
        if not phase_offsets_ns(trial.model_copy(update={"seed": seed}), phase=1, writer=0).size
    ]
    found = refused(document)
    assert 0 < len(found) < 40
    assert [path for path, _ in found] == ["trials[0].phases[1].load"] * len(empty)
    assert all(f"with seed {seed} " in text for seed, (_, text) in zip(empty, found, strict=True))
    document["trials"][0]["arrivals"] = "constant"
    assert refused(document) == []


def test_a_window_in_which_nothing_passes_the_filter_is_refused() -> None:
    """The tenth of every writer's ten events passes: of ten a second, at 0.9 s, 1.9 s and so on."""
    windows = (window("a", 0, 0.85), window("b", 0.85, 0.95), window("c", 1, 1.8))
    found = refused(plan(*windows, load=({"rate_per_s": 10, "duration_s": 60},), record={"matching_share": 0.1}))
    assert [path for path, _ in found] == [f"trials[0].phases[1].windows[{place}]" for place in (0, 2)]
    assert "none that passes the filter comes" in found[0][1]


OPERATIONS = {"experiment": "operations", "target": {"store": "redis"}, "workload": {"mix": {"read": 1}, "records": 9}}


def test_clients_that_pause_longer_than_a_window_lasts_are_refused() -> None:
    """Each begins at a random part of its first pause; by then the window is over."""
    closed = {"clients": 2, "think_ms": 60_000, "duration_s": 60}
    document = plan(phase={"closed": closed}, **OPERATIONS)
    trial = TrialPlan.model_validate(document["trials"][0])
    phase = trial.phases[1]
    assert phase.closed is not None
    begin_s = first_client_ns(trial, 1, phase.closed) / 1e9
    assert 0 < begin_s < 60
    assert refused(document) == []
    found = refused(plan(window("a", 0, begin_s - 0.1), phase={"closed": closed}, **OPERATIONS))
    assert [path for path, _ in found] == ["trials[0].phases[1].windows[0]"]
    assert "Lower think_ms" in found[0][1]
    found = refused(plan(phase={"closed": {**closed, "duration_s": begin_s / 2}}, **OPERATIONS))
    assert [path for path, _ in found] == ["trials[0].phases[1].closed"]
    assert refused(plan(phase={"closed": {**closed, "think_ms": 0, "duration_s": 0.1}}, **OPERATIONS)) == []


def test_executions_of_dags_are_due_as_events_are() -> None:
    """A phase of them is a phase of events, one execution each."""
    dags = [{"name": "d", "stages": [{"name": "s", "task": "synthetic.work"}]}]
    document = plan(window("w", 1, 1.5), experiment="dataflow", dags=dags, target={"store": "redis"})
    assert [path for path, _ in refused(document)] == ["trials[0].phases[1].windows[0]"]


def test_the_first_probe_has_an_event_at_its_lowest_rate() -> None:
    """Later ones have rates that nobody knows; the phase at the rate that is found has the lowest at least."""
    find = {"low_per_s": 0.25, "high_per_s": 10, "probe_s": 5}
    seeds = {
        seed: [
            path
            for path, _ in refused(
                plan(
                    load=({"rate_per_s": 10, "duration_s": 600, "of_found": 1},),
                    find_rate=find,
                    arrivals="poisson",
                    seed=seed,
                    target={"store": "dynamodb", "capacity": {"mode": "provisioned", "write_units": 10}},
                )
            )
        ]
        for seed in range(20)
    }
    assert set(map(tuple, seeds.values())) == {(), ("trials[0].find_rate.low_per_s",)}


def test_without_numpy_what_is_random_is_left_to_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ValidatePlan` has none on AWS; what is evenly spaced needs none."""
    monkeypatch.setitem(sys.modules, "stepbench.workload.payloads", None)
    sparse = ({"rate_per_s": 0.2, "duration_s": 10},)
    assert refused(plan(load=sparse, arrivals="poisson", seed=0, repeats=40)) == []
    assert len(refused(plan(window("w", 1, 1.9)))) == 1


steps = st.builds(
    LoadStep,
    rate_per_s=st.floats(0.05, 50).map(lambda rate: round(rate, 3)),
    duration_s=st.floats(0.5, 20).map(lambda length: round(length, 2)),
)


@settings(max_examples=200)
@given(st.lists(steps, min_size=1, max_size=3), st.floats(0, 60), st.integers(1, 4))
def test_the_next_event_is_the_one_that_writers_have(load: list[LoadStep], at_s: float, writers: int) -> None:
    """To the nanosecond, at whatever rate, in whatever step, and however many share them."""
    phase = Phase(name="p", load=tuple(load))
    target = EtcdTarget(store="etcd")
    trial = TrialPlan.model_construct(target=target, phases=(phase,), arrivals="constant", writers=writers, seed=7)
    due_ns = np.sort(np.concatenate([phase_offsets_ns(trial, 0, writer) for writer in range(writers)]))
    for at_ns in (round(at_s * 1e9), *due_ns[:5].tolist(), *(due_ns[:5] + 1).tolist()):
        later = due_ns[due_ns >= at_ns]
        assert first_due_ns(load, at_ns) == (int(later[0]) if later.size else None)


def test_windows_are_drawn_over_all_writers() -> None:
    """What one writer leaves out another may offer."""
    document = plan(load=({"rate_per_s": 0.2, "duration_s": 10},), arrivals="poisson", writers=2)
    trials = [TrialPlan.model_validate({**document["trials"][0], "seed": seed}) for seed in range(40)]
    found = set()
    for trial in trials:
        counts = [phase_offsets_ns(trial, 1, writer).size for writer in range(2)]
        empty = windows_without(trial, 1, trial.phases[1].all_windows())
        assert bool(empty) is (sum(counts) == 0)
        found.add((counts[0] > 0, counts[1] > 0))
    assert len(found) == 4  # every combination was among them
