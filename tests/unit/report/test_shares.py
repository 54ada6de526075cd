from __future__ import annotations

from typing import TYPE_CHECKING

from tests.samples.experiments import sample_applications

from stepbench.analysis.share import trigger_shares
from stepbench.contracts.measures import Estimate
from stepbench.report.shares import ROWS_PER_FIGURE, format_share, share_figures, share_rows

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult


def test_rows_name_application_and_store_and_whether_it_is_emulated(elastic: tuple[TrialResult, ...]) -> None:
    """An emulator's share must not pass for that of AWS."""
    trials = [result.summary for result in elastic]
    rows = share_rows(tuple(trigger_shares(sample_applications(), trials)), trials)
    assert [(row.label, row.emulated) for row in rows] == [
        (f"{application}, {trial.name}", trial.emulated) for application in ("thumbnails", "etl") for trial in trials
    ]


def test_a_chain_is_emulated_as_soon_as_one_of_its_stores_is(elastic: tuple[TrialResult, ...]) -> None:
    """It is so whichever name it goes by; another trial's emulator is none of its business."""
    trials = [result.summary for result in elastic]
    assert [trial.emulated for trial in trials] == [False, True]
    (share,) = trigger_shares(sample_applications()[:1], trials[:1])
    both = share.model_copy(update={"trials": tuple(trial.name for trial in trials)})
    assert [row.emulated for row in share_rows([share, both], trials)] == [False, True]


def test_a_figure_holds_a_few_bars_and_leaves_out_what_has_no_share(elastic: tuple[TrialResult, ...]) -> None:
    """A bar of nothing would be read as no share at all."""
    trials = [result.summary for result in elastic]
    (share,) = trigger_shares(sample_applications()[:1], trials[:1])
    unknown = share.model_copy(update={"share": Estimate(value=None, reason="no trial measured s3")})
    figures = share_figures(share_rows([*[share] * (ROWS_PER_FIGURE + 1), unknown], trials))
    assert [len(figure.labels) for figure in figures] == [ROWS_PER_FIGURE, 1]
    assert figures[1].bars["share"] == [share.share.value]
    assert format_share(unknown.share) == "no value (no trial measured s3)"


def test_a_share_is_said_with_its_interval() -> None:
    """Small ones with a decimal, since the paper's smallest is two percent."""
    assert format_share(Estimate(value=0.25, low=0.213, high=0.3)) == "25 % (21 % to 30 %)"
    assert format_share(Estimate(value=0.02, low=0.0195, high=0.021)) == "2.0 % (1.9 % to 2.1 %)"
    # A local store's 2 ms in a chain of a minute: not nothing.
    assert format_share(Estimate(value=4.3e-5, low=3.8e-5, high=9.96e-4)) == "0.004 % (0.004 % to 0.100 %)"
