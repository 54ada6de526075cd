from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from typing import Any

import pytest
import vl_convert
from benchmarks import __main__ as benchmarks
from benchmarks.command import RESULTS
from benchmarks.pages import data_page, number, page, section
from benchmarks.result import Case, Figure, Goal, Machine, Measure, Result, figures_of, median_interval


def figure_of(ours: tuple[float, ...], peer: tuple[float, ...] = (), goal: Goal | None = None) -> Figure:
    """Return a figure in µs."""
    return Figure(name="p50", unit="µs", ours=ours, peer=peer, goal=goal)


def test_a_ratio_is_taken_within_a_round() -> None:
    """Else a busy minute, which slows both, would be held against one of them: the medians here are equal."""
    assert figure_of((2, 4, 60), (1, 4, 20)).ratios == (2, 1, 3)
    assert figure_of((2, 4, 60), (1, 4, 20)).ratio == 2


@pytest.mark.parametrize(
    ("rounds", "ranks"), [(6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (10, (2, 9)), (15, (4, 12)), (20, (6, 15))]
)
def test_the_interval_of_a_median_is_that_of_the_tables(rounds: int, ranks: tuple[int, int]) -> None:
    """Ranks of the 95 % interval, as the sign test's tables have them (Conover 1999, table A3 at p = 0.5)."""
    descending = tuple(float(rank) for rank in range(rounds, 0, -1))
    assert median_interval(descending) == ranks


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_there_is_no_interval_of_fewer_than_six_rounds(rounds: int) -> None:
    """All of five values on one side of the median has a probability of 2/32: more than 5 %."""
    assert median_interval(tuple(float(rank) for rank in range(rounds))) is None


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal(at_most=2), True),
        (Goal(at_most=1.9), False),
        (Goal(at_least=2), True),
        (Goal(at_least=2.1), False),
        (Goal(of="value", at_most=4), True),
        (Goal(of="value", at_most=3), False),
        (None, None),
    ],
)
def test_a_goal_is_met_by_the_median(goal: Goal | None, met: bool | None) -> None:  # noqa: FBT001 -- what is expected
    """The ratio (2) decides, or our own value (4) where the goal says so; the bound itself is within."""
    assert figure_of((2, 4, 60), (1, 4, 20), goal).met is met


@pytest.mark.parametrize(
    ("goal", "sure"),
    [
        (Goal(at_most=0.9), True),
        (Goal(at_most=1.0), False),
        (Goal(at_most=1.1), True),
        (Goal(at_least=1.05), False),
        (Goal(of="value", at_most=1), True),
        (None, True),
    ],
)
def test_a_goal_within_the_interval_is_decided_by_noise(goal: Goal | None, sure: bool) -> None:  # noqa: FBT001 -- as above
    """The interval goes from 0.95 to 1.1 here."""
    assert figure_of((0.95, 1, 1, 1, 1, 1.1), (1,) * 6, goal).sure is sure


def test_without_an_interval_the_median_decides() -> None:
    """There is nothing to be unsure by."""
    assert figure_of((0.9, 1.1), (1, 1), Goal(at_most=1)).sure


def test_a_goal_for_a_ratio_is_open_without_a_peer() -> None:
    """Nothing was compared, so nothing was met."""
    assert figure_of((1,), goal=Goal(at_most=1)).met is None


def test_what_only_ours_has_becomes_a_figure_without_a_peer() -> None:
    """A peer that knows nothing of unsent events is not compared by them."""
    p50, unsent = figures_of((Measure("p50", "µs"), Measure("unsent", "events")), [((1, 0), (2,)), ((3, 5), (4,))])
    assert (p50.ours, p50.peer) == ((1, 3), (2, 4))
    assert (unsent.ours, unsent.peer) == ((0, 5), ())


def test_rounds_become_figures_column_by_column() -> None:
    """A round gives all its numbers at once; a figure has one of them of every round."""
    columns = (Measure("p50", "µs"), Measure("throughput", "operations/s", Goal(at_least=0.9)))
    p50, throughput = figures_of(columns, [((1, 10), (2, 20)), ((3, 30), (4, 40))])
    assert (p50.name, p50.unit, p50.ours, p50.peer, p50.goal) == ("p50", "µs", (1, 3), (2, 4), None)
    assert (throughput.ours, throughput.peer, throughput.goal) == ((10, 30), (20, 40), Goal(at_least=0.9))


MACHINE = Machine(cpu="Some CPU", cores=2, memory_gb=8, system="Linux 6", python="3.13.1", load_average=(0.1, 1.2))
SEVEN = (2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0)


def result(*figures: Figure, peer: str = "a peer 1.0", notes: tuple[str, ...] = ()) -> Result:
    """Return a result of one case."""
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
    """Return a figure that is half of the peer's in every round."""
    return Figure(**{"name": "p50", "unit": "µs", "ours": SEVEN, "peer": (4.0,) * 7, **fields})


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.03149, "0.0315"), (1.0, "1"), (1.005, "1"), (57.44, "57.4"), (123.6, "124"), (81_234.5, "81,234")],
)
def test_a_number_has_three_digits(value: float, text: str) -> None:
    """More would claim a precision that a median of some rounds has not; before the point all are needed."""
    assert number(value) == text


def test_a_row_tells_ours_the_peers_their_ratio_and_the_verdict() -> None:
    """This is what the page is read for."""
    shown = section(result(figure(goal=Goal(at_most=0.5))))
    assert "| SET, 1 client | p50, µs | 2 | 4 | 0.5 (0.5–0.5) | ≤ 0.5 × | met |" in shown  # noqa: RUF001 -- as shown
    assert "Beside a peer 1.0." in shown


def test_a_missed_goal_stands_out() -> None:
    """A miss must not be overlooked."""
    assert "≥ 0.9 × | **missed** |" in section(result(figure(goal=Goal(at_least=0.9))))  # noqa: RUF001 -- as shown


def test_a_verdict_that_the_interval_does_not_bear_out_says_so() -> None:
    """Another seven rounds might say the opposite."""
    noisy = (*SEVEN[2:], 1.0, 9.0)
    for goal, verdict in ((Goal(at_most=0.5), "met, not sure"), (Goal(at_most=0.4), "missed, not sure")):
        shown = section(result(figure(ours=(1.0, *noisy[1:]), goal=goal)))
        assert f"| {verdict} |" in shown


def test_a_ratio_of_few_rounds_has_no_interval() -> None:
    """No interval is better than one that is made up."""
    assert "| 2 | 4 | 0.5 |  |  |" in section(result(figure(ours=(2.0,), peer=(4.0,))))


def test_a_value_without_a_peer_is_held_against_its_own_goal() -> None:
    """Lateness at 15,000/s has a limit in microseconds."""
    alone = figure(name="p99", peer=(), goal=Goal(of="value", at_most=1_000))
    assert "| p99, µs | 2 | – | – | ≤ 1,000 µs | met |" in section(result(alone, peer=""))  # noqa: RUF001 -- as shown


def test_the_page_gathers_the_goals_and_says_what_it_lacks() -> None:
    """Whoever looks for the answer finds it in one table, and does not take a gap for a success."""
    shown = page([result(figure(goal=Goal(at_most=0.25)), figure(name="CPU"))], lacking=["etcd"])
    goals = shown[shown.index("## Goals") : shown.index("## redis")]
    assert "[redis](#redis)" in goals
    assert goals.count("p50") == 1
    assert "CPU" not in goals
    assert "`etcd`" in goals


def test_cases_with_the_same_goal_share_a_row_that_names_the_misses() -> None:
    """A hundred rows are not read; what is missed has to be found in them all the same."""
    goal = Goal(at_most=0.5)
    cases = [Case(name=name, peer="a peer 1.0", figures=(figure(ours=(own,) * 7, goal=goal),)) for name, own in GRADED]
    shown = page([result().model_copy(update={"cases": tuple(cases)})])
    row = "| [redis](#redis) | p50, beside a peer 1.0 | 0.25 to 1 × | ≤ 0.5 × | 2 of 3; **missed**: c |"  # noqa: RUF001 -- as shown
    assert row in shown
    assert shown.count("p50") == 1


GRADED = (("a", 1.0), ("b", 2.0), ("c", 4.0))
"""Ours, of three cases in which the peer takes 4."""


def test_the_conclusion_is_the_remark_s_first_paragraph_and_the_data_page_has_all_of_it() -> None:
    """Why a goal is missed is for a person to say; the profile behind it stands with the figures."""
    remarks = {"redis": "Half of it is `epoll_wait`.\n\nBy a profile: 51 %.\n"}
    shown, data = page([result(figure())], remarks), data_page([result(figure())], remarks)
    assert shown.index("## redis") < shown.index("Half of it is `epoll_wait`.") < shown.index("## How to run")
    assert "51 %" not in shown
    assert data.index("| p50, µs |") < data.index("Half of it is `epoll_wait`.") < data.index("51 %")


def test_notes_the_machine_and_the_load_stand_with_the_figures() -> None:
    """A ratio is of this machine at this moment."""
    shown = section(result(figure(), notes=("Both use TLS.",)))
    assert "- Both use TLS." in shown
    assert "7 rounds, 2026-11-22 08:00 UTC, commit `abc1234`" in shown
    assert "Some CPU, 2 cores, 8 GB, Linux 6, Python 3.13.1; load average 0.1 before, 1.2 after" in shown


def test_the_chart_draws_the_ratios_that_have_a_goal_and_compiles() -> None:
    """Rows keep their order, without a peer none; Vega-Lite's compiler finds what Altair's schema lets pass."""
    low, high = figure(name="z", goal=Goal(at_most=0.25)), figure(name="a", goal=Goal(at_least=0.4))
    others = figure(name="m", peer=()), figure(name="b"), figure(name="c", goal=Goal(of="value", at_most=1))
    specification = benchmarks.specification([result(low, *others, high)])
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


def test_the_pages_show_the_results_that_are_kept() -> None:
    """To renew: `python -m benchmarks --render`. Each conclusion stands on the page."""
    shown = (benchmarks.PAGE.read_text(encoding="utf-8"), benchmarks.DATA.read_text(encoding="utf-8"))
    assert shown == benchmarks.rendered(benchmarks.kept())
    assert all((RESULTS / f"{each.benchmark}.md").exists() for each in benchmarks.kept())
