"""Whether a reconfiguration pays: worked by hand on a model of round numbers (T_r 20 s, and 2 s live)."""

from __future__ import annotations

import pytest
from tests.samples.dags import dataflow_trial, stage
from tests.samples.refusals import plan_of
from tests.samples.tuning import BROADCAST, CACHED, LEVELED, SCATTER, model

from stepbench.contracts.dataflow.dag import Dag
from stepbench.contracts.tuning import Expected, StoreWorkload
from stepbench.planning import expand, parse_plan
from stepbench.tuning.decision import (
    NO_OTHER,
    NOTHING_COMES,
    Analyser,
    Moment,
    as_given,
    expected_from,
    within,
    workload_of,
)

MOMENT = Moment("burst", "dag", 7)
SECONDS = {"scatter": SCATTER, "broadcast": BROADCAST}


def ahead(**seconds: float) -> tuple[Expected, ...]:
    """Return so many seconds of each workload, in this order."""
    return tuple(Expected(workload=SECONDS[name], duration_s=each) for name, each in seconds.items())


def test_a_long_phase_pays_for_a_restart() -> None:
    """By hand: 300 s at 300/s less 300 s at 200/s are 30,000 more; 20 s away cost 300 x 20 = 6,000."""
    decided = Analyser(model()).adaptive(MOMENT, ahead(broadcast=300), None)
    assert (decided.old_benefit, decided.new_benefit) == pytest.approx((60_000, 90_000))
    assert (decided.cost, decided.reconfiguration_s) == pytest.approx((6_000, 20))
    assert (decided.reconfigure, decided.new) == (True, CACHED)


def test_a_short_phase_does_not() -> None:
    """By hand: 50 s win 5,000, and 20 s away cost 6,000. The numbers are kept all the same."""
    decided = Analyser(model()).adaptive(MOMENT, ahead(broadcast=50), None)
    assert (decided.reconfigure, decided.new) == (False, CACHED)
    assert decided.new_benefit - decided.old_benefit == pytest.approx(5_000)
    assert decided.cost == pytest.approx(6_000)
    assert decided.reason == "B_new - B_old = 5,000 requests is not more than C = 6,000"


def test_at_the_very_cost_it_is_left_alone() -> None:
    """By hand: 60 s win 6,000, which is what 20 s away cost; nothing would be won, and something might go wrong."""
    assert not Analyser(model()).adaptive(MOMENT, ahead(broadcast=59.999), None).reconfigure
    assert Analyser(model()).adaptive(MOMENT, ahead(broadcast=60.001), None).reconfigure


def test_a_change_without_a_restart_costs_less() -> None:
    """By hand: 10 s at 300/s less 10 s at 220/s are 800; 2 s in which load waits cost 600."""
    decided = Analyser(model()).adaptive(MOMENT, ahead(broadcast=10), LEVELED)
    assert (decided.reconfigure, decided.new, decided.reconfiguration_s) == (True, CACHED, 2)
    assert decided.cost == pytest.approx(600)


def test_what_serves_the_workload_well_is_kept() -> None:
    """A store that has the best configuration is not touched, however long the phase is."""
    decided = Analyser(model()).adaptive(MOMENT, ahead(broadcast=3_000), CACHED)
    assert not decided.reconfigure
    assert decided.new_benefit < decided.old_benefit


def test_phases_to_come_count_as_far_as_one_looks_ahead() -> None:
    """By hand: 10 s of scatter win nothing, 100 s of broadcast after them 10,000, and 20 s of scatter cost 2,000."""
    both = ahead(scatter=10, broadcast=100)
    decided = Analyser(model()).adaptive(MOMENT, within(both, 300), None)
    assert decided.reconfigure
    assert decided.cost == pytest.approx(2_000)
    assert not Analyser(model()).adaptive(MOMENT, within(both, 10), None).reconfigure


def test_the_look_ahead_cuts_the_last_stretch() -> None:
    """15 s of 10 and 100 are 10 and 5."""
    assert within(ahead(scatter=10, broadcast=100), 15) == ahead(scatter=10, broadcast=5)
    assert within(ahead(scatter=10, broadcast=100), 10) == ahead(scatter=10)


def test_nodes_are_away_one_after_the_other() -> None:
    """By hand: at 0 and 20 s it is scatter (100/s), at 40 s broadcast (300/s): 20 x (100 + 100 + 300) = 10,000."""
    decided = Analyser(model(), nodes=3).adaptive(MOMENT, ahead(scatter=30, broadcast=300), None)
    assert decided.cost == pytest.approx(10_000)


def test_a_model_whose_gains_did_not_hold_changes_nothing() -> None:
    """The released configuration is then the only one that can be trusted."""
    decided = Analyser(model(confirmations=())).adaptive(MOMENT, ahead(broadcast=3_000), None)
    assert (decided.reconfigure, decided.new, decided.reason) == (False, None, NO_OTHER)


def test_a_static_store_is_configured_at_any_cost() -> None:
    """It is done before the run, whose phases are too short to pay for it, and once."""
    analyser = Analyser(model())
    decided = analyser.static(MOMENT, ahead(broadcast=1), None)
    assert (decided.reconfigure, decided.new) == (True, CACHED)
    assert not analyser.static(MOMENT, ahead(broadcast=1), CACHED).reconfigure


def test_what_the_plan_sets_itself_needs_no_model() -> None:
    """Settings that somebody published are measured as they are."""
    decided = as_given(MOMENT, ahead(broadcast=1), None, LEVELED)
    assert (decided.reconfigure, decided.new) == (True, LEVELED)
    assert not as_given(MOMENT, ahead(broadcast=1), LEVELED, LEVELED).reconfigure


@pytest.mark.parametrize("mode", ["adaptive", "static"])
def test_where_nothing_comes_the_store_is_left_alone(mode: str) -> None:
    """A phase whose DAG has a single stage, say: nothing of it goes through the store."""
    decided = getattr(Analyser(model()), mode)(MOMENT, (), CACHED)
    assert (decided.reconfigure, decided.configured, decided.ahead) == (False, CACHED, ())
    assert decided.reason == NOTHING_COMES


def test_a_workload_in_between_is_decided_on_as_well() -> None:
    """A DAG is seldom one that was tuned for; between two the gain lies between theirs: root of 1.5 at half way."""
    half = StoreWorkload(read_share=0.7, blob_bytes=65_536, clients=8)
    decided = Analyser(model()).adaptive(MOMENT, (Expected(workload=half, duration_s=600),), None)
    assert decided.reconfigure
    assert 1 < decided.new_per_s / decided.old_per_s < 1.5


def dag(*stages: dict[str, object]) -> Dag:
    """Return a DAG of these stages."""
    return Dag.model_validate({"name": "dag", "stages": stages})


def test_a_scatter_is_read_as_often_as_written_and_a_broadcast_more_often() -> None:
    """By hand: four parts, each read once; and one object that six read, with six that one gathers: 12 of 19."""
    scatter = workload_of(dag(stage("split"), stage("map", ("split", "scatter"), tasks=4)))
    broadcast = dag(stage("pca"), stage("train", ("pca", "broadcast"), tasks=6), stage("join", ("train", "gather")))
    assert scatter is not None
    assert (scatter.read_share, scatter.clients) == (0.5, 4)
    assert workload_of(broadcast) == scatter.model_copy(update={"read_share": 12 / 19, "clients": 6})


def test_sizes_are_taken_together_on_a_logarithmic_scale() -> None:
    """By hand: one object of 1 MiB and one of 4 KiB are as far from 64 KiB."""
    first, second = ({"parameters": {"output_bytes": each}} for each in (2**20, 4_096))
    found = workload_of(
        dag({**stage("a"), **first}, {**stage("b", ("a", "gather")), **second}, stage("c", ("b", "gather")))
    )
    assert found is not None
    assert found.blob_bytes == 65_536


def test_a_dag_that_passes_nothing_on_asks_for_nothing() -> None:
    """There is nothing to configure a store for."""
    assert workload_of(dag(stage("alone", tasks=3))) is None


def test_a_closed_phase_lasts_as_long_as_its_executions_took() -> None:
    """By hand: five in series of 3 s each; before any was seen, the bound of 60 s is all that is known."""
    closed = {"clients": 1, "duration_s": 60, "operations": 5}
    document = dataflow_trial(phases=[{"name": "a", "closed": closed}, {"name": "b", "closed": closed}])
    trial = expand(parse_plan(plan_of(document)), "run")[0].offered
    assert [each.duration_s for each in expected_from(trial, 0)] == [60, 60]
    assert [each.duration_s for each in expected_from(trial, 1, {trial.dags[0].name: 3.0})] == pytest.approx([15])
