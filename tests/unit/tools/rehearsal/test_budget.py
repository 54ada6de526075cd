"""The budget: what is left out for it, and when everything has to go."""

from __future__ import annotations

import pytest

from stepbench.errors import PlanError
from stepbench_tools.rehearsal.budget import OVERHEAD_USD, Meter, Round, choose, total_usd
from stepbench_tools.rehearsal.plans import first_round, store_rounds

FIRST = Round("first", ())
CHEAP, DEAR = Round("cheap", (), hourly_usd=0.2, limit_h=1), Round("dear", (), hourly_usd=1.0, limit_h=0.5)


def test_a_rehearsal_costs_its_hours_and_the_deletion_of_its_dearest() -> None:
    """0.05 + 0.2 for 1 h + 1.0 for 0.5 h + 1.0 for 1 h of deletion."""
    assert total_usd([FIRST, CHEAP, DEAR]) == pytest.approx(OVERHEAD_USD + 0.2 + 0.5 + 1.0)


def test_the_least_expensive_come_first_and_the_others_are_named() -> None:
    """Of $1.70, the cheap one takes 0.2 and its deletion 0.2; with the dear one it would be $1.75."""
    chosen, left_out = choose(FIRST, [DEAR, CHEAP], 1.7)
    assert [each.name for each in chosen] == ["first", "cheap"]
    assert left_out == {"dear": "with it the rehearsal might cost $1.75, above the budget of $1.7"}


def test_everything_fits_into_what_it_costs() -> None:
    """The budget itself may be reached."""
    chosen, left_out = choose(FIRST, [DEAR, CHEAP], 1.75)
    assert ([each.name for each in chosen], left_out) == (["first", "cheap", "dear"], {})


def test_a_budget_below_the_first_round_is_refused() -> None:
    """Before anything is made, with what it takes."""
    first = first_round(writers=12, clock_check=True, given={})
    with pytest.raises(
        PlanError, match=r"BUDGET: is below the \$0\.1\d that S3 and DynamoDB alone may cost \(got 0.1\)"
    ):
        choose(first, store_rounds(), 0.1)


def test_the_published_budget_pays_for_all_stores() -> None:
    """`make rehearse BUDGET=5` leaves nothing out, and nothing of it is dearer than a store's hour."""
    chosen, left_out = choose(first_round(writers=12, clock_check=True, given={}), store_rounds(), 5.0)
    assert (len(chosen), left_out) == (8, {})
    assert total_usd(chosen) < 3.5


def test_the_clock_spends() -> None:
    """Half an hour at $0.40, after a plan of $0.10."""
    meter = Meter(5.0)
    meter.begin(0.4, 1_000.0)
    meter.add(0.1)
    assert meter.spent_usd(2_800.0) == pytest.approx(OVERHEAD_USD + 0.1 + 0.2)


def test_what_was_dear_stays_spent_when_something_else_begins() -> None:
    """An hour at $1.00, then an hour at nothing."""
    meter = Meter(5.0)
    meter.begin(1.0, 0.0)
    meter.begin(0.0, 3_600.0)
    assert meter.spent_usd(7_200.0) == pytest.approx(OVERHEAD_USD + 1.0)


def test_the_time_is_up_before_the_deletion_would_pass_the_budget() -> None:
    """Of $2.05, $1.00 is the deletion's and $0.05 are spent: at $1.00 an hour, one is left."""
    meter = Meter(2.05)
    meter.begin(1.0, 0.0)
    assert meter.seconds_left(0.0) == pytest.approx(3_600)
    assert meter.seconds_left(4_000.0) == pytest.approx(-400)


def test_without_anything_by_the_hour_there_is_no_such_time() -> None:
    """S3 and DynamoDB cost by request."""
    meter = Meter(1.0)
    meter.begin(0.0, 0.0)
    assert meter.seconds_left(10.0) == float("inf")


def test_a_plan_above_what_is_left_is_refused() -> None:
    """$1.00 less $0.05 and the hour of deletion at $0.50 leaves $0.45."""
    meter = Meter(1.0)
    meter.begin(0.5, 0.0)
    assert meter.allows(0.44, 0.0)
    assert not meter.allows(0.46, 0.0)
