"""Which verdicts stand on the first screen, and in a terminal."""

from __future__ import annotations

import re

from tests.samples.comparisons import estimate, etcd_verdicts, trial, window
from tests.samples.operations import operation_results
from tests.samples.results import sample_manifest, sample_results, sample_summary

from stepbench import digits
from stepbench.analysis.verdicts import plan_verdicts
from stepbench.contracts.result import RunSummary
from stepbench.contracts.threshold_grammar import parse_judge
from stepbench.experiments.report.page import render_page
from stepbench.report import document as doc
from stepbench.report.verdicts import (
    describe_few_runs,
    effect_rows,
    first_reported,
    format_result,
    of_settings,
    verdict_lines,
    verdict_table,
)


def test_each_setting_has_a_place_on_the_first_screen() -> None:
    """Ten stores would leave none to TLS."""
    stores, tls = etcd_verdicts("target.store", 10), etcd_verdicts("target.tls", 2)
    found = first_reported([*stores, *tls], 4)
    assert [each.aspect for each in found] == ["target.store"] * 2 + ["target.tls"] * 2


def test_other_pairs_and_kinds_that_say_the_same_are_in_the_table_only() -> None:
    """A reader of the first screen wants to know what differs."""
    (one,) = etcd_verdicts("writers", 1)
    other = one.model_copy(update={"primary": False})
    same = one.model_copy(update={"kind": "read"})
    assert first_reported([one, same, other], 8) == [one]


def test_kinds_that_differ_are_told_each() -> None:
    """In their first words, or in how much: an insert that is 7 times as fast, where a read is twice."""
    (one,) = etcd_verdicts("writers", 1)
    read = one.model_copy(update={"kind": "read"})
    slower = one.model_copy(update={"kind": "insert", "text": "writers 2 is faster at p50: 1 against 2 ms."})
    assert first_reported([one, read, slower], 8) == [read, slower, one]
    effect, *others = one.effects
    much = effect.model_copy(update={"ratio": estimate(7)})
    larger = one.model_copy(update={"kind": "insert", "effects": (much, *others)})
    assert first_reported([one, read, larger], 8) == [read, larger, one]


def test_a_terminal_has_a_few_lines_and_says_how_many_more_there_are() -> None:
    """Eighty would push the table away."""
    run = sample_summary(sample_results()).model_copy(update={"verdicts": etcd_verdicts("writers", 9)})
    *lines, rest = verdict_lines(run)
    assert len(lines) == 6
    assert rest == "3 more comparisons in the report"
    page = render_page(run, sample_results(), sample_manifest())
    assert page.count('<li data-aspect="writers"') == 8
    assert verdict_lines(run.model_copy(update={"verdicts": ()})) == ()


def test_comparisons_that_were_not_made_are_counted_with_the_command_that_makes_them() -> None:
    """A matrix of a hundred would look as if each had been compared."""
    run = sample_summary(sample_results())
    cut = run.model_copy(update={"verdicts": etcd_verdicts("writers", 9), "verdicts_left_out": 12})
    told = "12 further comparisons were left out; `stepbench compare RUN#TRIAL RUN#TRIAL` compares any two trials"
    assert verdict_lines(cut)[-1] == f"3 more comparisons in the report; {told}"
    page = render_page(cut, sample_results(), sample_manifest())
    assert f'<p class="note" id="left-out">{told}.</p>' in page
    assert 'id="left-out"' not in render_page(run, sample_results(), sample_manifest())
    assert (
        RunSummary.model_validate(run.model_dump(by_alias=True, exclude={"verdicts_left_out"})).verdicts_left_out == 0
    )


def test_what_may_be_the_reason_is_said_beside_the_verdict() -> None:
    """Late sends explain more than the setting does."""
    (one,) = etcd_verdicts("writers", 1)
    doubted = one.model_copy(update={"doubts": ("host_jitter", "watch_gap")})
    assert format_result(doubted) == f"{one.text} Doubtful: host jitter, watch gap."


def test_stores_that_are_only_listed_are_no_setting() -> None:
    """`How long after my write …?` is answered for each before one is set against the other."""
    run = sample_summary(sample_results())
    for aspect, expected in (("target.store", False), ("trial", False), ("writers", True)):
        assert of_settings(run.model_copy(update={"verdicts": etcd_verdicts(aspect, 2)})) is expected


def test_a_doubt_is_a_link_to_its_caveat() -> None:
    """What `host jitter` means stands further down, with its remedy."""
    (one,) = etcd_verdicts("writers", 1)
    doubted = sample_summary(sample_results()).model_copy(
        update={"verdicts": (one.model_copy(update={"doubts": ("host_jitter",)}),)}
    )
    page = render_page(doubted, sample_results(), sample_manifest())
    assert 'Doubtful: <a class="caveat" href="#caveat-host_jitter">host jitter</a>' in page


def test_all_that_was_found_is_a_folded_table() -> None:
    """The sentence has one quantile; who wants the others unfolds them."""
    (one,) = etcd_verdicts("writers", 1)
    rows = effect_rows(one)
    assert [measure for measure, *_ in rows] == ["p50", "p90", "p99", "max"]
    assert rows[0] == ("p50", "3.00 ms", "1.00 ms", "3.000 × [2.916, 3.086]", "slower")  # noqa: RUF001 -- times
    assert rows[2][-1] == "needs a run about 1.8 × longer"  # noqa: RUF001 -- times
    run = sample_summary(sample_results()).model_copy(update={"verdicts": (one,)})
    page = render_page(run, sample_results(), sample_manifest())
    (table,) = re.findall(r'<details class="fold effect-table">(.*?)</details>', page, re.DOTALL)
    assert [measure for measure, *_ in rows] == re.findall(r'<th scope="row">([^<]*)</th>', table)


def test_shares_that_a_run_is_judged_by_stand_with_their_difference() -> None:
    """There is no ratio of none to some: the leading column would be empty."""
    clean, failing = (trial(name, window(estimate(1), sent=1_000, failed=n), store=name, index=n)
                      for name, n in (("a", 0), ("b", 50)))  # fmt: skip
    table = verdict_table(plan_verdicts([clean, failing], judge=parse_judge("errors")))
    ((row,),) = (body.rows for body in table.bodies)
    cell = row.cells[3]
    assert cell.line == "5.0 points [3.8, 6.5]"
    assert (cell.data["metric"], cell.data["value"], cell.data["unit"]) == ("errors.difference", 0.05, "points")


def test_kinds_without_the_measure_have_a_row_of_the_same_columns() -> None:
    """Throughput is of all kinds together: the others have a dash there, and their quantiles."""
    trials = [result.summary for result in operation_results()]
    verdicts = plan_verdicts(trials, judge=parse_judge("throughput"))
    table = verdict_table([*(each for each in verdicts if each.kind), *verdicts])
    ((first, *others),) = (body.rows for body in table.bodies)
    assert {len(row.cells) + 1 for row in (first, *others)} == {len(table.columns)}
    assert [column.heading for column in table.columns[2:7]] == [
        *("throughput, first", "throughput, second"),
        *("throughput", "p50", "p90"),
    ]
    assert [doc.plain(cell.text) == digits.NONE for cell in first.cells[1:5]] == [True, True, True, False]


def test_kinds_are_told_only_where_they_differ_from_one_another() -> None:
    """What all together are judged by is no measure of that."""
    (one,) = etcd_verdicts("writers", 1)
    whole = one.model_copy(update={"judged": "throughput", "text": "writers 2 has a higher throughput: 2 against 1/s."})
    read, insert = (one.model_copy(update={"kind": kind}) for kind in ("read", "insert"))
    assert first_reported([whole, read, insert], 8) == [whole]


def test_two_repeats_are_no_single_runs() -> None:
    """Nor are three, of which nothing is said."""
    (one,) = etcd_verdicts("writers", 1)
    two = one.model_copy(update={side: getattr(one, side).model_copy(update={"runs": 2}) for side in ("a", "b")})
    assert describe_few_runs([one]).startswith("These are single runs: ")
    assert describe_few_runs([two]).startswith("These are two runs of each: ")
    assert describe_few_runs([one, two]).startswith("These are one or two runs of each: ")
    assert describe_few_runs([one.model_copy(update={"over_runs": True})]) == ""
