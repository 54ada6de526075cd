"""Estimates against what was counted, in runs on one machine, and in walks through every preset and its variations."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.unit.costs.simulated_trials import HERE, ON_AWS, Place, count, count_run
from tests.unit.costs.variations import Variation, variations

from stepbench.contracts.capacity import AutoscaledCapacity
from stepbench.experiments.estimates import budgeted, estimate, upper_bound
from stepbench.planning import expanded, parse_plan
from stepbench.planning.presets import list_plans
from stepbench.planning.wall_time import AWS, LOCAL, Overheads, run_s, trial_s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import AnyTrial

COUNTED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("counted_runs.json").read_text("utf-8"))
"""Plans that were run on the emulator and local stores, with the seconds and dollars that their summaries have."""
FACTOR = 2.0
PLACES = {"here": (HERE, LOCAL), "on AWS": (ON_AWS, AWS)}


class Row(NamedTuple):
    """Estimate over count of one variation in one place."""

    preset: str
    changed: str
    time: float
    dollars: float


def trials_of(run: dict[str, Any]) -> list[AnyTrial]:
    """Return the trials of a run that was counted."""
    return [each.plan for each in expanded(parse_plan(json.dumps(run["plan"]).encode()))]


def ratios(place: Place, overheads: Overheads, each: Variation) -> Row:
    """Return how far an estimate is from the count."""
    seconds, usd = count(each.trial, place)
    estimated = estimate(each.trial, overheads.assumed).total_usd
    return Row(each.preset, each.changed, trial_s(each.trial, overheads) / seconds, estimated / usd)


@cache
def all_variations() -> tuple[Variation, ...]:
    """Return every preset's trials and their variations."""
    return tuple(variations())


def runs_here(trial: AnyTrial) -> bool:
    """Tell whether an emulator plays all of it, and this machine has a server of its store."""
    return trial.target.store != "dsql" and not isinstance(getattr(trial.target, "capacity", None), AutoscaledCapacity)


def rows(where: str) -> Iterator[Row]:
    """Yield a row for each variation that can run there."""
    place, overheads = PLACES[where]
    yield from (ratios(place, overheads, each) for each in all_variations() if place is ON_AWS or runs_here(each.trial))


@pytest.mark.parametrize("run", COUNTED, ids=lambda run: str(run["plan"]["name"]))
def test_an_estimate_is_within_a_factor_of_two_of_a_run(run: dict[str, Any]) -> None:
    """A transfer plan without cold starts was estimated at 12 min 46 s and $0.83, and took 15 s and $0.016."""
    trials = trials_of(run)
    usd = sum(estimate(trial, LOCAL.assumed).total_usd for trial in trials)
    assert run["seconds"] / FACTOR <= run_s(trials, LOCAL) <= run["seconds"] * FACTOR
    assert run["usd"] / FACTOR <= usd <= run["usd"] * FACTOR


@pytest.mark.parametrize("run", COUNTED, ids=lambda run: str(run["plan"]["name"]))
def test_what_the_walk_counts_was_counted_in_a_run(run: dict[str, Any]) -> None:
    """The other test is worth no more than its model."""
    seconds, usd = count_run(trials_of(run), HERE)
    assert run["seconds"] / FACTOR <= seconds <= run["seconds"] * FACTOR
    assert run["usd"] / FACTOR <= usd <= run["usd"] * FACTOR


@pytest.mark.parametrize("where", PLACES)
def test_every_preset_and_each_choice_of_its_fields_is_estimated_within_a_factor_of_two(where: str) -> None:
    """Time and dollars; `python -m tests.unit.costs.test_estimates` prints the table."""
    found = list(rows(where))
    assert {row.preset for row in found} >= {name for name in list_plans() if name.startswith(("quick", "ycsb"))}
    off = [row for row in found for ratio in (row.time, row.dollars) if not 1 / FACTOR <= ratio <= FACTOR]
    assert off == []


def test_what_budgets_are_held_against_is_never_below_the_estimate() -> None:
    """What holds against it holds against the bill; DAGs' tasks alone may take longer."""
    for each in all_variations():
        assert estimate(each.trial).total_usd <= upper_bound(each.trial).total_usd
        assert budgeted(each.trial).total_usd <= upper_bound(each.trial).total_usd * (1 + 1e-9)


def table() -> Iterator[str]:
    """Yield the range of estimate over count, by preset, and the number of variations."""
    yield "| preset | variations | time here | dollars here | time on AWS | dollars on AWS |"
    yield "|---|---:|---|---|---|---|"
    tables = {where: list(rows(where)) for where in PLACES}
    for preset in list_plans():
        cells = []
        for found in tables.values():
            own = [row for row in found if row.preset == preset]
            columns = zip(*((row.time, row.dollars) for row in own), strict=True) if own else ((), ())
            cells += [f"{min(column):.2f} to {max(column):.2f}" if column else "-" for column in columns]
        number = sum(row.preset == preset for row in tables["on AWS"])
        yield f"| `{preset}` | {number} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in table())
