"""Which verdicts stand on the first screen, and in a terminal."""

from __future__ import annotations

import re

from tests.samples.comparisons import estimate, etcd_verdicts
from tests.samples.results import sample_manifest, sample_results, sample_summary

from stepbench.contracts.result import RunSummary
from stepbench.experiments.report.page import render_page
from stepbench.report.verdicts import (
    describe_few_runs,
    effect_rows,
    first_reported,
    format_result,
    of_settings,
    verdict_lines,
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


def test_two_repeats_are_no_single_runs() -> None:
    """Nor are three, of which nothing is said."""
    (one,) = etcd_verdicts("writers", 1)
    two = one.model_copy(update={side: getattr(one, side).model_copy(update={"runs": 2}) for side in ("a", "b")})
    assert describe_few_runs([one]).startswith("These are single runs: ")
    assert describe_few_runs([two]).startswith("These are two runs of each: ")
    assert describe_few_runs([one, two]).startswith("These are one or two runs of each: ")
    assert describe_few_runs([one.model_copy(update={"over_runs": True})]) == ""
