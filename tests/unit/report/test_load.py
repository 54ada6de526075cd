"""What the page says of a search for a rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.report.test_page import EVIL, without_script_bodies

from stepbench.contracts.result import FoundRate, Utilisation
from stepbench.report.load import busy, search_sentence
from stepbench.report.page import render_page
from stepbench.report.summary import summarise
from stepbench.testing.sample_results import sample_manifest

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult
    from stepbench.report.summary import RunFacts


def utilisation(phase: str, rate_per_s: float, share: float | None, *, probe: bool = True) -> Utilisation:
    """A phase of which everything was acknowledged."""
    return Utilisation(
        phase=phase, probe=probe, offered_per_s=rate_per_s, achieved_per_s=rate_per_s, utilisation=share, text="cpu"
    )


FOUND = FoundRate(
    wanted=0.8,
    rate_per_s=1_850,
    text="1,850/s makes it 79 % busy",
    phases=(
        utilisation("probe-1", 100, 0.042),
        utilisation("probe-2", 1_850, 0.79),
        utilisation("load", 1_850, 0.78, probe=False),
    ),
)


def page_of(found: FoundRate, results: tuple[TrialResult, ...], facts: RunFacts) -> str:
    """A page whose first trial has searched."""
    first, *others = results
    searched = first.model_copy(update={"summary": first.summary.model_copy(update={"found_rate": found})})
    everything = (searched, *others)
    return without_script_bodies(render_page(summarise(facts, everything), everything, sample_manifest("run-1")))


def test_the_section_appears_only_where_there_was_a_search(
    page: str, results: tuple[TrialResult, ...], facts: RunFacts
) -> None:
    """Nor does its entry in the navigation."""
    assert 'id="load"' not in page
    assert 'href="#load"' not in page
    searched = page_of(FOUND, results, facts)
    assert '<section id="load"' in searched
    assert 'href="#load"' in searched


def test_every_phase_of_the_search_has_a_row(results: tuple[TrialResult, ...], facts: RunFacts) -> None:
    """Probes in order, then the load, with raw values for scripts."""
    table = page_of(FOUND, results, facts).split('id="probes">')[1].split("</table>")[0]
    rows = table.split("<tr data-trial")[1:]
    assert [row.split('data-phase="')[1].split('"')[0] for row in rows] == ["probe-1", "probe-2", "load"]
    assert [row.split('data-probe="')[1].split('"')[0] for row in rows] == ["true", "true", "false"]
    assert 'data-metric="utilisation" data-value="0.042">4.2 %' in rows[0]
    assert 'data-metric="offered_per_s" data-value="1850.0">1,850' in rows[1]


def test_the_answer_is_one_sentence() -> None:
    """What was wanted, what was found, and how the load then was."""
    assert search_sentence(FOUND) == (
        "80 % busy was wanted: 1,850/s makes it 79 % busy. Phase load was then offered 1,850/s, of which 1,850/s were "
        "acknowledged, and was 78 % busy."
    )


def test_a_search_without_a_rate_says_why() -> None:
    """And there is no load to tell of."""
    found = FoundRate(wanted=0.8, rate_per_s=None, text="the lowest rate is too much", phases=())
    assert search_sentence(found) == "80 % busy was wanted: no rate was found: the lowest rate is too much."


@pytest.mark.parametrize(("share", "text"), [(0.0512, "5.1 %"), (0.296, "30 %"), (1.7, "170 %"), (None, "\N{EN DASH}")])
def test_a_share_has_two_digits(share: float | None, text: str) -> None:
    """More would claim a precision that no metric has; servers with several cores may show more than 100 %."""
    assert busy(share) == text


def test_what_a_metric_is_called_cannot_inject_markup(results: tuple[TrialResult, ...], facts: RunFacts) -> None:
    """It comes from a stack's parameter."""
    evil = FOUND.model_copy(update={"phases": (FOUND.phases[0].model_copy(update={"text": EVIL}),), "text": EVIL})
    assert EVIL not in page_of(evil, results, facts)
