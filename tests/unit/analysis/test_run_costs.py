from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.comparisons import SHORT, estimate, trial, window

from stepbench.analysis.run_costs import RunUsage, per_dollar, run_cost
from stepbench.contracts.cost import Cost, CostItem
from stepbench.costs.actual import LATER, FunctionUsage
from stepbench.costs.standing import Deployment

if TYPE_CHECKING:
    from stepbench.contracts.cost import Part
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import TrialSummary

USE = RunUsage(
    run_s=7_200, functions=(FunctionUsage("AnalyseTrial", 2, 18),), missing_logs="", stored_bytes=0, objects=30
)
NODES = Deployment(options={"EtcdNodes": "on", "EtcdInstanceType": "m6i.large"})


def item(name: str, quantity: float, price: float = 0.5, part: Part = "store", note: str = "") -> CostItem:
    """Return an item of a cost."""
    usd = quantity * price
    return CostItem(part=part, item=name, unit="x", quantity=quantity, unit_price_usd=price, usd=usd, note=note)


def spent(*items: CostItem, **fields: Any) -> Cost:  # noqa: ANN401 -- a cost's fields
    """Return a trial's cost."""
    return Cost(estimate=9, actual=sum(each.usd for each in items), items=items, **fields)


def test_a_run_costs_what_its_trials_cost_and_what_is_its_own() -> None:
    """3 + 5 units of one thing; 12 transitions for two trials; 30 objects, of which the trials have counted 12."""
    puts = [item("Results bucket PUT requests", count, 5e-6, "records") for count in (5, 7)]
    trials = [
        trial("a", cost_usd=spent(item("puts", 3), puts[0], left_out=(LATER, "reads"))),
        trial("b", cost_usd=spent(item("puts", 5), puts[1], left_out=(LATER, "reads", "hours"))),
    ]
    cost = run_cost(trials, USE, Deployment())
    found = {each.item: each for each in cost.items}
    assert (found["puts"].quantity, found["puts"].usd) == (8, 4)
    assert found["Step Functions state transitions, run itself"].quantity == 8 + 2 * 2
    assert found["Results bucket PUT requests, run itself"].quantity == 30 - 12
    assert found["Lambda duration (x86), other functions, run itself"].quantity == 18
    assert cost.estimate == 18
    assert cost.actual == pytest.approx(sum(each.quantity * each.unit_price_usd for each in cost.items))
    assert cost.left_out[:2] == ("reads", "hours (1 of 2 trials)")
    assert not any(LATER in text for text in cost.left_out)


def test_a_note_stays_where_all_trials_have_it() -> None:
    """What one trial's quantity rests on is not what the sum rests on."""
    same, differing = (
        [trial(name, cost_usd=spent(item("puts", 1, note=note))) for name, note in zip("ab", notes, strict=True)]
        for notes in (("scaled", "scaled"), ("scaled", ""))
    )
    assert [run_cost(each, USE, Deployment()).items[0].note for each in (same, differing)] == ["scaled", ""]


def test_what_is_known_of_no_trial_is_named() -> None:
    """A trial that left no result cost something all the same; so did functions whose lines nobody could read."""
    use = USE._replace(functions=None, missing_logs="run-2 used the same functions meanwhile")
    cost = run_cost([trial("a", cost_usd=Cost(estimate=1))], use, Deployment())
    assert cost.left_out[:2] == ("all of a", f"{LATER}: run-2 used the same functions meanwhile")


def test_a_budget_is_charged_what_trials_may_have_cost() -> None:
    """$9 of a trial whose cost nobody knows, $4 of one that was charged more than was counted, and the run's own."""
    trials = [
        trial("a", cost_usd=Cost(estimate=9)),
        trial("b", cost_usd=spent(item("puts", 5), charged=4)),
        trial("c", cost_usd=spent(item("puts", 5), charged=2.5)),
    ]
    cost = run_cost(trials, USE, Deployment())
    assert cost.actual is not None
    assert cost.charged == pytest.approx(9 + 4 + 2.5 + (cost.actual - 5))
    unknown = run_cost(trials, USE._replace(functions=None, missing_logs="gone"), Deployment())
    assert unknown.charged == unknown.estimate == 27


def test_idle_hours_are_those_of_the_run_in_which_no_trial_held_the_store() -> None:
    """Three nodes for two hours, of which a trial held them for half an hour; they are no part of the run's cost."""
    held = item("m6i.large (EC2)", 1.5, 0.096)
    cost = run_cost([trial("a", cost_usd=spent(held))], USE, NODES)
    idle = {each.item: each for each in cost.idle}
    assert idle["m6i.large (EC2)"].quantity == pytest.approx(4.5)
    assert idle["m6i.large (EC2)"].usd == pytest.approx(4.5 * 0.096)
    assert idle["VPC interface endpoints"].quantity == pytest.approx(2 * 8)
    assert idle["VPC interface endpoints"].note == "of the stack's network, which no trial holds: all the run's hours"
    own = sum(each.usd for each in cost.items if each.item != "m6i.large (EC2)")
    assert cost.actual == pytest.approx(own + 1.5 * 0.096)


def measured(name: str, p50: Estimate, usd: float, index: int = 0, **fields: Any) -> TrialSummary:  # noqa: ANN401 -- a summary's
    """Return a whole trial with this median, whose store cost so much, and its other parts more."""
    cost = spent(item("puts", usd, 1.0), item("writers", 99, 1.0, "load"), **fields.pop("cost", {}))
    return trial(name, window(p50), index=index, **{"cost_usd": cost, **fields})


def test_performance_per_dollar_is_one_over_latency_over_dollars() -> None:
    """A median of 2 ms [1, 4] and $0.10: 1 / 0.002 / 0.1 is 5,000, from 2,500 to 10,000."""
    p50 = estimate(2).model_copy(update={"low": 1.0, "high": 4.0})
    (found,) = per_dollar([measured("a", p50, 0.1)])
    assert (found.value, found.low, found.high) == pytest.approx((5_000, 2_500, 10_000))
    assert (found.latency_s, found.usd, found.times_worst) == (0.002, 0.1, None)


def test_trials_with_the_same_work_are_compared_whatever_their_store() -> None:
    """Twice as fast at the same price is twice as good; settings of the store are what is compared."""
    setup = {"target.store": "s3", "target.capacity.mode": "on_demand", "arrivals": "constant"}
    found = per_dollar([measured("a", estimate(4), 1), measured("b", estimate(2), 1, 1, store="s3", setup=setup)])
    assert [each.group for each in found] == [0, 0]
    assert [each.times_worst for each in found] == pytest.approx([1, 2])


def test_repeats_of_a_trial_are_no_others() -> None:
    """They lie apart by chance, which would be shown as a difference; together they are set against another trial."""
    etcd = [measured(f"etcd #{n + 1}", estimate(ms), 1, n, group="etcd") for n, ms in enumerate((4, 4.4, 4.2))]
    assert [each.times_worst for each in per_dollar(etcd)] == [None, None, None]
    redis = [measured(f"redis #{n + 1}", estimate(ms), 1, 3 + n, group="redis") for n, ms in enumerate((2, 2.1, 2.2))]
    found = per_dollar([*etcd, *redis])
    assert [each.times_worst for each in found[:3]] == [1, 1, 1]
    (times,) = {(each.times_low, each.times_worst, each.times_high) for each in found[3:]}
    assert times[1] == pytest.approx(2)  # the geometric mean of 4, 4.4 and 4.2 over that of 2, 2.1 and 2.2
    assert 1.7 < (times[0] or 0) < 2 < (times[2] or 0) < 2.3


@pytest.mark.parametrize(
    "other",
    [
        {"setup": {"target.store": "etcd", "arrivals": "poisson"}},
        {"setup": {"target.store": "etcd", "arrivals": "constant", "writers": 4}},
        {"load_hosts": ("m6g.xlarge",)},
        {"experiment": "operations"},
    ],
)
def test_what_did_other_work_is_not_compared(other: dict[str, Any]) -> None:
    """Half the writers do half the work."""
    found = per_dollar([measured("a", estimate(4), 1), measured("b", estimate(2), 1, 1, **other)])
    assert [each.group for each in found] == [0, 1]
    assert [each.times_worst for each in found] == [None, None]


def test_an_emulator_performs_nothing_for_a_dollar_of_aws() -> None:
    """Its latency is this machine's, and so is that of a real store which an emulated AWS reads."""
    store = measured("a", estimate(4), 1, emulated=True)
    real = measured("b", estimate(2), 1, 1)
    aws = real.model_copy(update={"cost_usd": real.cost_usd.model_copy(update={"emulated": True})})
    assert per_dollar([store, aws]) == ()
    assert len(per_dollar([store, aws, real])) == 1


def test_as_many_events_are_part_of_the_work() -> None:
    """Another number of events costs other dollars."""
    first, second = measured("a", estimate(4), 1), measured("b", estimate(2), 1, 1)
    assert second.accounting is not None
    more = second.accounting.model_copy(update={"offered": second.accounting.offered * 2})
    found = per_dollar([first, second.model_copy(update={"accounting": more})])
    assert [each.group for each in found] == [0, 1]


def lossy(lost: int) -> TrialSummary:
    """Return a trial of which so many events in a thousand were lost."""
    one = measured("a", estimate(4), 1)
    assert one.accounting is not None
    counts = {"offered": 1_000, "sent": 1_000, "ok": 1_000, "lost": lost, "failed": 0, "unknown": 0, "unsent": 0}
    return one.model_copy(update={"accounting": one.accounting.model_copy(update={**counts, "unrecorded": 0})})


@pytest.mark.parametrize(
    "without",
    [
        measured("a", estimate(4), 1, incomplete=True),
        measured("a", SHORT, 1),
        measured("a", estimate(4), 0),
        measured("a", estimate(4), 1, cost={"incomplete": ("store",)}),
        measured("a", estimate(4), 1, cost={"incomplete": ("trigger",)}),
        measured("a", estimate(4), 1, cost_usd=Cost(estimate=1)),
        lossy(2),
    ],
)
def test_where_it_means_nothing_there_is_none(without: TrialSummary) -> None:
    """Work left undone, a median nobody is sure of, a store that costs something unknown."""
    assert per_dollar([without]) == ()


def test_what_is_missing_elsewhere_does_not_matter() -> None:
    """Writers and logs are the instrument's; one lost event in a thousand is still the work."""
    assert per_dollar([measured("a", estimate(4), 1, cost={"incomplete": ("load", "control")})])
    assert per_dollar([lossy(1)])
