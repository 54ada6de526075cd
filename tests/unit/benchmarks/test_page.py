from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from typing import Any

import pytest
import vl_convert
from benchmarks import __main__ as benchmarks
from benchmarks import chart, page
from benchmarks.result import Case, Figure, Goal, Machine, Result

MACHINE = Machine(cpu="Some CPU", cores=2, memory_gb=8, system="Linux 6", python="3.13.1", load_average=(0.1, 1.2))
SEVEN = (2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0)


def result(*figures: Figure, peer: str = "a peer 1.0", notes: tuple[str, ...] = ()) -> Result:
    """Of one case."""
    return Result(
        benchmark="redis",
        question="How long does it take?",
        taken_at=datetime(2026, 11, 22, 8, 0, tzinfo=UTC),
        commit="abc1234",
        machine=MACHINE,
        rounds=7,
        cases=(Case(name="SET, 1 client", peer=peer, figures=figures),),
        notes=notes,
    )


def figure(**fields: Any) -> Figure:  # noqa: ANN401 -- a figure's fields
    """Half of the peer's in every round."""
    return Figure(**{"name": "p50", "unit": "µs", "ours": SEVEN, "peer": (4.0,) * 7, **fields})


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.03149, "0.0315"), (1.0, "1"), (1.005, "1"), (57.44, "57.4"), (123.6, "124"), (81_234.5, "81,234")],
)
def test_a_number_has_three_digits(value: float, text: str) -> None:
    """More would claim a precision that a median of some rounds has not; before the point all are needed."""
    assert page.number(value) == text


def test_a_row_tells_ours_the_peers_their_ratio_and_the_verdict() -> None:
    """This is what the page is read for."""
    shown = page.section(result(figure(goal=Goal(at_most=0.5))))
    assert "| SET, 1 client | p50, µs | 2 | 4 | 0.5 (0.5–0.5) | ≤ 0.5 × | met |" in shown  # noqa: RUF001 -- as shown
    assert "Beside a peer 1.0." in shown


def test_a_missed_goal_stands_out() -> None:
    """A miss must not be overlooked."""
    assert "≥ 0.9 × | **missed** |" in page.section(result(figure(goal=Goal(at_least=0.9))))  # noqa: RUF001 -- as shown


def test_a_verdict_that_the_interval_does_not_bear_out_says_so() -> None:
    """Another seven rounds might say the opposite."""
    noisy = (*SEVEN[2:], 1.0, 9.0)
    for goal, verdict in ((Goal(at_most=0.5), "met, not sure"), (Goal(at_most=0.4), "missed, not sure")):
        shown = page.section(result(figure(ours=(1.0, *noisy[1:]), goal=goal)))
        assert f"| {verdict} |" in shown


def test_a_ratio_of_few_rounds_has_no_interval() -> None:
    """Rather none than one that is made up."""
    assert "| 2 | 4 | 0.5 |  |  |" in page.section(result(figure(ours=(2.0,), peer=(4.0,))))


def test_a_value_without_a_peer_is_held_against_its_own_goal() -> None:
    """Lateness at 15,000/s has a limit in microseconds."""
    alone = figure(name="p99", peer=(), goal=Goal(of="value", at_most=1_000))
    assert "| p99, µs | 2 | – | – | ≤ 1,000 µs | met |" in page.section(result(alone, peer=""))  # noqa: RUF001 -- as shown


def test_the_page_gathers_the_goals_and_says_what_it_lacks() -> None:
    """Whoever looks for the answer finds it in one table, and does not take a gap for a success."""
    shown = page.page([result(figure(goal=Goal(at_most=0.25)), figure(name="CPU"))], lacking=["etcd"])
    goals = shown[shown.index("## Goals") : shown.index("## redis")]
    assert "[redis](#redis)" in goals
    assert goals.count("p50") == 1
    assert "CPU" not in goals
    assert "`etcd`" in goals


def test_remarks_stand_below_the_figures_that_they_explain() -> None:
    """Why a goal is missed is for a person to say, and measuring anew must not lose it."""
    shown = page.page([result(figure())], {"redis": "Half of it is `epoll_wait`.\n"})
    assert shown.index("## redis") < shown.index("Half of it is `epoll_wait`.") < shown.index("## How to run")


def test_notes_the_machine_and_the_load_stand_with_the_figures() -> None:
    """A ratio is of this machine at this moment."""
    shown = page.section(result(figure(), notes=("Both use TLS.",)))
    assert "- Both use TLS." in shown
    assert "7 rounds, 2026-11-22 08:00 UTC, commit `abc1234`" in shown
    assert "Some CPU, 2 cores, 8 GB, Linux 6, Python 3.13.1; load average 0.1 before, 1.2 after" in shown


def test_the_chart_draws_the_ratios_that_have_a_goal_and_compiles() -> None:
    """In order; what has no peer has no place. Vega-Lite's compiler finds what Altair's schema lets pass."""
    low, high = figure(name="z", goal=Goal(at_most=0.25)), figure(name="a", goal=Goal(at_least=0.4))
    others = figure(name="m", peer=()), figure(name="b"), figure(name="c", goal=Goal(of="value", at_most=1))
    specification = chart.specification([result(low, *others, high)])
    rows = [row for data in specification["datasets"].values() for row in data if "row" in row]
    assert [(row["ratio"], row["low"], row["high"], row["goal"], row["verdict"]) for row in rows] == [
        (0.5, 0.5, 0.5, 0.25, "goal missed"),
        (0.5, 0.5, 0.5, 0.4, "goal met"),
    ]
    assert [" z" in row["row"] for row in rows] == [True, False]
    assert vl_convert.vegalite_to_vega(specification)["marks"]


@pytest.mark.parametrize("name", benchmarks.NAMES)
def test_every_benchmark_that_is_listed_is_there(name: str) -> None:
    """`make bench` would fail at it after an hour."""
    assert importlib.util.find_spec(f"benchmarks.{name}") is not None


def test_the_page_shows_the_results_that_are_kept() -> None:
    """To renew: `python -m benchmarks --render`."""
    assert benchmarks.PAGE.read_text(encoding="utf-8") == benchmarks.rendered(benchmarks.kept())
