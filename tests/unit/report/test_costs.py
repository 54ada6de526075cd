from __future__ import annotations

import re

import pytest
from tests.samples.comparisons import estimate, run, trial, window
from tests.samples.results import sample_manifest
from tests.unit.analysis.test_run_costs import NODES, USE, item, measured, spent

from stepbench.analysis.run_costs import per_dollar, run_cost
from stepbench.contracts.result import RunSummary, TrialResult, TrialSummary
from stepbench.costs.prices import unit_price
from stepbench.costs.standing import Deployment
from stepbench.experiments.report.page import render_page
from stepbench.experiments.report.tables import render_csv
from stepbench.report.costs import describe_cost, describe_per_dollar, own_items, quantity
from stepbench_tools.local.terminal import headline
from stepbench_tools.printing import render_markdown

DEARER, CHEAPER = measured("dear", estimate(4), 2), measured("fast", estimate(2), 1, 1)


def costed(*trials: TrialSummary, emulator: str = "") -> RunSummary:
    """Return a run of these trials with its cost."""
    deployment = Deployment(emulator=emulator, options=NODES.options)
    found = {"cost_usd": run_cost(trials, USE, deployment), "per_dollar": per_dollar(trials)}
    return run(*trials).model_copy(update=found)


def cost_section(summary: RunSummary) -> str:
    """Return the page's section about costs, without markup."""
    results = [TrialResult(summary=each, series=(), phases=(), ecdf=()) for each in summary.trials]
    page = render_page(summary, results, sample_manifest())
    markup = page.split('<section id="cost"')[1].split("</section>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", markup.replace("&#39;", "'")).split())


def test_one_line_says_what_was_spent_on_what_and_what_is_not_known() -> None:
    """For the terminal, Markdown and the section's first line."""
    told = describe_cost(costed(DEARER, CHEAPER))
    assert told.startswith("cost $201.00 counted, $18.00 estimated; most of it writers ($198.00); 1 amount not known")
    assert "emulated" not in told
    assert describe_cost(costed(DEARER, emulator="MiniStack")).endswith(
        "(AWS was emulated, nothing was billed: AWS's prices times what was done here)"
    )
    assert describe_cost(run(DEARER)) == ""


def test_performance_per_dollar_is_a_sentence_where_something_is_compared() -> None:
    """Twice as fast for half the money: four times."""
    (told,) = describe_per_dollar(costed(DEARER, CHEAPER))
    assert told.endswith("of store and trigger): fast 4.0 times dear [3.9, 4.1]")
    assert describe_per_dollar(costed(DEARER)) == ()
    emulated = (each.model_copy(update={"emulated": True}) for each in (DEARER, CHEAPER))
    assert describe_per_dollar(costed(*emulated)) == ()


def test_what_may_be_chance_is_no_difference() -> None:
    """100 [90, 111] and 93 [84, 103] are 1.1 times apart, and may as well be the same; repeats have one name."""
    other = measured("b", estimate(4.3, 0.1), 1, 2)
    (told,) = describe_per_dollar(costed(measured("a", estimate(4, 0.1), 1, 1), other))
    assert told.endswith("no difference shown between a and b (1.1 times [0.93, 1.2])")
    repeats = [measured(f"a #{n}", estimate(4), 1, n, group="a") for n in (1, 2)]
    assert describe_per_dollar(costed(*repeats)) == ()
    (told,) = describe_per_dollar(costed(*repeats, measured("b", estimate(8), 1, 3)))
    assert told.endswith("): a 2.0 times b [1.9, 2.1]")


def test_terminal_and_markdown_have_the_same_line() -> None:
    """What is pasted into a pull request is what was seen."""
    summary = costed(DEARER, CHEAPER)
    shown = [str(part) for part in headline(summary, 200).renderables]
    for sentence in (describe_cost(summary), *describe_per_dollar(summary)):
        assert sentence in shown
        assert sentence[1:40] in render_markdown(summary).replace("\\", "")


def test_the_page_has_every_item_with_quantity_and_price() -> None:
    """So that a reader can check each dollar, and sees what was paid while nobody measured."""
    text = cost_section(costed(DEARER, CHEAPER))
    for shown in ("puts $3.00 3 x $1", "Step Functions state transitions, run itself", "12 transition $0.000025"):
        assert shown in text
    assert "idle: hours of the run in which none of its trials held it; not in the sum" in text
    assert "Not known, and so not counted: RenderReport, ConcludeRun" in text
    assert "fast 2.00 ms $1.00 500 [490, 510] 4.0 [3.9, 4.1]" in text


def test_a_part_that_is_not_whole_is_marked() -> None:
    """Half a store's cost beside another's whole would decide for the wrong one."""
    half = trial("half", window(estimate(1)), cost_usd=spent(item("puts", 1), incomplete=("store",)))
    assert "$0.50 incomplete" in cost_section(costed(half))


def test_an_older_run_s_page_has_what_it_had() -> None:
    """Its trials have an estimate and a sum, and no items."""
    text = cost_section(
        run(DEARER.model_copy(update={"cost_usd": spent(item("puts", 2)).model_copy(update={"items": ()})}))
    )
    assert "$1.00" in text
    assert "What was counted" not in text


def test_csv_has_a_row_for_what_each_trial_cost_and_for_each_performance_per_dollar() -> None:
    """The window's columns are the window's; a trial's cost belongs to no window."""
    rows = [line.split(",") for line in render_csv(costed(DEARER, CHEAPER)).splitlines()]
    at = {name: place for place, name in enumerate(rows[0])}
    found = [(row[at["name"]], row[at["window"]], row[at["measure"]], row[at["value"]]) for row in rows[1:]]
    assert [each for each in found if each[2] == "per_dollar"] == [
        ("dear", "steady", "per_dollar", "125.0"),
        ("fast", "steady", "per_dollar", "500.0"),
    ]
    assert ("dear", "", "cost_usd", "101.0") in found


def test_what_belongs_to_no_trial() -> None:
    """The run's sum less its trials'."""
    summary = costed(DEARER)
    assert own_items(summary) == pytest.approx((summary.cost_usd.actual or 0) - 101 if summary.cost_usd else None)
    assert own_items(run(DEARER)) == 0


def test_prices_of_one_unit_have_all_their_digits() -> None:
    """With two of them, nobody could check the product."""
    assert [unit_price(usd) for usd in (0.0000166667, 2.3e-9, 5e-6, 0.26, 1)] == [
        *("$0.0000166667", "$0.0000000023", "$0.000005", "$0.26"),
        "$1",
    ]
    assert [quantity(each) for each in (403, 1_234_567, 25.317, 0.0001336)] == [
        "403",
        "1,234,567",
        "25.32",
        "0.0001336",
    ]
