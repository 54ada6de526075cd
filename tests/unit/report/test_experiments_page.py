from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.unit.report.test_page import EVIL, Elements, without_script_bodies

from stepbench.contracts.measures import Estimate, GroupWindow
from stepbench.contracts.result import GroupResult
from stepbench.report.page import render_page
from stepbench.report.runtime import javascript
from stepbench.report.summary import summarise
from stepbench.testing.sample_results import sample_manifest

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult
    from stepbench.report.summary import RunFacts

SECTIONS = ("published", "steps", "repeats")
TABLES = ("replication", "boxes", "modes", "comparisons", "changes", "groups")
MAX_BYTES = 1_300_000
"""Of the two elastic trials alone: 0.9 MB of it is the runtime."""


def section(page: str, name: str) -> str:
    """One section's markup."""
    return without_script_bodies(page).split(f'<section id="{name}"')[1].split("</section>")[0]


def row(page: str, table: str, marks: str) -> str:
    """The row of a table whose tag begins so."""
    return section_of_table(page, table).split(f"<tr {marks}")[1].split("</tr>")[0]


def section_of_table(page: str, table: str) -> str:
    """A table's markup."""
    return without_script_bodies(page).split(f'id="{table}">')[1].split("</table>")[0]


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_without_results_do_not_appear(name: str, page: str, experiments_page: str) -> None:
    """Nor does their entry in the navigation: the quick plan has nothing of the kind."""
    assert f'<section id="{name}"' not in page
    assert f'href="#{name}"' not in page
    assert f'<section id="{name}"' in experiments_page
    assert f'href="#{name}"' in experiments_page


@pytest.mark.parametrize("name", TABLES)
def test_tables_without_results_do_not_appear(name: str, page: str, experiments_page: str) -> None:
    """Boxes and modes stand in a section that is always there."""
    assert f'id="{name}"' not in page
    assert f'id="{name}"' in experiments_page


def test_tables_and_figures_are_numbered_through(experiments_page: str) -> None:
    """A gap in the numbers would look like something missing."""
    body = without_script_bodies(experiments_page)
    for kind in ("Table", "Figure"):
        numbers = [int(number) for number in re.findall(rf"<b>{kind} (\d+)\.</b>", body)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > 4


def test_what_the_step_did_stands_before_its_table(experiments_page: str) -> None:
    """A sentence that a person understands first."""
    steps = section(experiments_page, "steps")
    sentence = "After the step from 50/s to 100/s the median was 1.15 times as high (1.10 to 1.19)."
    assert steps.index(sentence) < steps.index('id="comparisons"')


def test_comparisons_carry_their_raw_numbers(experiments_page: str, elastic: tuple[TrialResult, ...]) -> None:
    """For scripts, with the unit: a ratio is no latency."""
    (comparison,) = elastic[0].summary.comparisons
    cells = row(experiments_page, "comparisons", 'data-trial="0" data-a="before" data-b="after"')
    for name, unit in (
        ("median_shift_ms", "ms"),
        ("median_ratio", "ratio"),
        ("iqr_ratio", "ratio"),
        ("tail_ratio", "ratio"),
    ):
        each = getattr(comparison, name)
        raw = f'data-value="{each.value}" data-low="{each.low}" data-high="{each.high}" data-unit="{unit}"'
        assert f'data-metric="{name}" {raw}' in cells


def test_change_points_and_modes_are_told_in_words(experiments_page: str) -> None:
    """No reader should have to know what a p-value of 0.4 means."""
    changed = row(experiments_page, "changes", 'data-trial="1" data-phase="step" data-series="latency_ms"')
    assert "No change seen (p = 0.4)" in changed
    assert 'data-value="0.4"' in changed
    modes = row(experiments_page, "modes", 'data-trial="1" data-window="before" data-phase="step" data-modes="2"')
    assert "2 modes, near 9.40 ms and 37.6 ms (p = 0.002 for one)" in modes


def test_the_gap_at_the_step_is_told_and_marked_when_events_were_due(experiments_page: str) -> None:
    """It is the claim that the experiment stands on."""
    steps = section(experiments_page, "steps")
    assert "No 100 ms bin without a send within 5 s of the step at 40 s." in steps
    assert 'class="gap bad" data-metric="step_gap" data-step="40.0"' in steps
    assert 'data-bins="3" data-due="30"' in steps


def test_boxes_say_what_cannot_be_drawn(experiments_page: str) -> None:
    """3 % of the second store's events are lost after the step: p99 is beyond the drain limit."""
    assert "Of s3-elastic · after, p99 lies beyond the drain limit" in section(experiments_page, "distribution")
    cells = row(experiments_page, "boxes", 'data-trial="1" data-window="after" data-phase="step"')
    assert re.search(r'data-metric="box\.p99" data-unit="ms">&gt; drain limit', cells)


def test_no_emulated_number_stands_beside_a_published_one_unmarked(
    experiments_page: str, elastic: tuple[TrialResult, ...], facts: RunFacts
) -> None:
    """Wherever a ratio to a published number is shown, it is said whose number ours is."""
    published = section(experiments_page, "published")
    assert "with AWS emulated. No ratio below replicates a number of AWS's" in published
    rows = re.findall(r"<tr data-trial.*?</tr>", published, flags=re.DOTALL)
    assert [("not-aws" in each, 'data-emulated="true"' in each, "badge emulated" in each) for each in rows] == [
        (True, False, False), (True, False, False), (True, True, True), (True, True, True),
    ]  # fmt: skip
    on_aws = sample_manifest().model_copy(update={"emulated": False})
    published = section(render_page(summarise(facts, elastic), elastic, on_aws), "published")
    assert "with AWS emulated" not in published
    assert published.count('class="provider not-aws"') == 2


def test_groups_show_their_runs_and_range(experiments_page: str) -> None:
    """Three runs of a point are one row; a range is not set in an interval's brackets."""
    cells = row(experiments_page, "groups", 'data-group="postgresql-10" data-window="steady" data-runs="3"')
    assert "batch_size = 10" in cells
    found = re.search(
        r'data-metric="across.p50" data-value="([\d.]+)" data-least="([\d.]+)" data-greatest="([\d.]+)"', cells
    )
    assert found is not None
    middle, least, greatest = map(float, found.groups())
    assert least < middle < greatest
    assert re.search(r"range [\d.]+ to [\d.]+", cells)
    assert "[" in row(experiments_page, "groups", 'data-group="dynamodb-100-10" data-window="steady" data-runs="1"')


def test_the_mean_over_runs_stands_beside_the_runs(experiments: tuple[TrialResult, ...], facts: RunFacts) -> None:
    """With its interval over runs; a group that the summary does not have gets a dash."""
    made = experiments[2:11]
    mean = Estimate(value=5.9, low=5.5, high=6.3)
    window = GroupWindow(
        window="steady", phase="steady", runs=3, p50=mean, p90=mean, p95=mean, p99=mean, median_ratio=mean
    )
    first = window.model_copy(update={"median_ratio": None})
    found = (
        GroupResult(name="postgresql-1", trials=(2, 5, 8), windows=(first,)),
        GroupResult(name="postgresql-10", trials=(3, 6, 9), windows=(window,)),
    )
    page = render_page(summarise(facts, made).model_copy(update={"groups": found}), made, sample_manifest())
    metrics = ("over_runs.p50", "over_runs.median_ratio")
    shown = {
        name: [
            f'data-metric="{metric}" data-value="5.9"' in row(page, "groups", f'data-group="{name}"')
            for metric in metrics
        ]
        for name in ("postgresql-1", "postgresql-10", "postgresql-100")
    }
    assert shown == {"postgresql-1": [True, False], "postgresql-10": [True, True], "postgresql-100": [False, False]}


def test_runs_that_measured_nothing_are_named_below_the_groups(
    experiments: tuple[TrialResult, ...], facts: RunFacts
) -> None:
    """A failed run must not make the others look complete."""
    failed = experiments[2].summary.model_copy(update={"windows": (), "incomplete": True})
    made = (experiments[2].model_copy(update={"summary": failed}), *experiments[3:11])
    body = section(render_page(summarise(facts, made), made, sample_manifest()), "repeats")
    assert "since they measured nothing: postgresql-1-r1." in body


def test_repeats_alone_are_a_table_without_figures(experiments: tuple[TrialResult, ...], facts: RunFacts) -> None:
    """Nothing varies, so there is nothing to draw against."""
    made = [
        result.model_copy(update={"summary": result.summary.model_copy(update={"point": {}, "group": "etcd"})})
        for result in experiments[2:5]
    ]
    body = section(render_page(summarise(facts, made), made, sample_manifest()), "repeats")
    assert ">Repeats</h2>" in body
    assert 'class="chart"' not in body
    assert body.count("<tr data-group") == 1


def test_many_windows_have_their_sentences_in_the_table(experiments: tuple[TrialResult, ...], facts: RunFacts) -> None:
    """A matrix of a hundred has more than anyone reads."""
    body = section(render_page(summarise(facts, experiments), experiments, sample_manifest()), "answer")
    windows = sum(len(result.summary.windows) for result in experiments)
    assert body.count("<li><strong>") == 12
    assert f"The other {windows - 12} are in the table." in body


def test_the_elastic_page_is_small_enough_to_mail(elastic: tuple[TrialResult, ...], facts: RunFacts) -> None:
    """Bins of 100 ms are summed before they are sent."""
    assert len(render_page(summarise(facts, elastic), elastic, sample_manifest()).encode()) < MAX_BYTES


def test_ids_are_unique_and_links_lead_somewhere(experiments_page: str) -> None:
    """With every section there is."""
    elements = Elements(experiments_page)
    identifiers = [each["id"] for _, each in elements.found if each.get("id")]
    assert len(set(identifiers)) == len(identifiers)
    assert {str(each["href"])[1:] for each in elements.all("a")} <= set(identifiers)
    labelled = {str(each["aria-labelledby"]) for _, each in elements.found if each.get("aria-labelledby")}
    assert labelled <= set(identifiers)


def test_no_text_from_outside_becomes_markup(experiments: tuple[TrialResult, ...], facts: RunFacts) -> None:
    """Sources, settings and groups come with the plan, and plans from other teams."""
    hostile = []
    for result in experiments:
        summary = result.summary
        told = tuple(each.model_copy(update={"source": EVIL}) for each in summary.replication)
        modes = tuple(each.model_copy(update={"p_value": None, "reason": EVIL}) for each in summary.modality)
        point = {EVIL: next(iter(summary.point.values())), "b." + EVIL: EVIL} if summary.point else {}
        summary = summary.model_copy(
            update={"group": EVIL, "point": point, "replication": told, "modality": modes, "name": EVIL}
        )
        hostile.append(result.model_copy(update={"summary": summary}))
    page = render_page(summarise(facts, hostile), hostile, sample_manifest())
    assert Elements(page).all("img") == []
    assert len(Elements(page).all("script")) == 3
    assert "<img" not in page.replace(javascript(), "")
