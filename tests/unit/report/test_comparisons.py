"""Published numbers beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.experiments import sample_applications
from tests.samples.operations import over_trials
from tests.samples.results import changed, checked_pair, checked_summary, sample_manifest, sample_summary

from stepbench.analysis.application import trigger_shares
from stepbench.contracts.findings import TrialReplication
from stepbench.contracts.measures import Estimate
from stepbench.experiments.report.page import drawings, render_page
from stepbench.report.comparisons import (
    ROWS_PER_FIGURE,
    describe_replication,
    format_share,
    scored,
    share_figures,
    share_rows,
)

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult


def test_an_emulated_store_is_set_against_no_other_and_the_page_says_so(operated: tuple[TrialResult, ...]) -> None:
    """Both have their numbers; which of them is faster, AWS decides."""
    both = (operated[0], changed(operated[1], emulated=True))
    page = render_page(over_trials(sample_summary(both)), both, sample_manifest())
    assert 'data-aspect="target.store"' not in page
    note = page[page.index('id="not-compared"') :]
    assert note[: note.index("</p>")].endswith(
        "Dynamodb is emulated: no comparison with another store; on AWS the same plan decides."
    )


def test_curves_without_a_fit_are_in_no_table_of_fits(run: RunSummary, operated: tuple[TrialResult, ...]) -> None:
    """Five times the same reason in each of twelve rows; the sentence has it once."""
    page = render_page(run, operated, sample_manifest())
    fits = page[page.index('id="scaling-table"') :]
    fits = fits[: fits.index("</table>")]
    assert 'data-curve="postgresql"' in fits
    assert 'data-curve="etcd"' not in fits
    few = tuple(result for result in operated if result.summary.name in {"etcd-1", "etcd-2"})
    alone = render_page(over_trials(sample_summary(few)), few, sample_manifest())
    assert 'id="scaling-table"' not in alone
    assert "No knee is shown: 2 different numbers of clients, and the fit needs 4." in alone
    assert 'data-metric="kept_runs" data-value="1">1 of 1</td>' in alone


def test_both_readings_stand_beside_the_published_number(elastic: tuple[TrialResult, ...]) -> None:
    """The paper describes its start both ways."""
    trial = elastic[0].summary
    each = trial.replication[0].model_copy(
        update={
            "ours": Estimate(value=1_200.0),
            "ratio": Estimate(value=1.037, low=0.992, high=1.082),
            "ours_after_ack": Estimate(value=1_160.0),
            "ratio_after_ack": Estimate(value=1.0026),
        }
    )
    assert describe_replication(trial, each, aws_emulated=False) == (
        "p50 of before: published 1,157 ms (TriggerPerf, Fig. 7); here 1,200 ms (1.037 × [0.992, 1.082]) from "  # noqa: RUF001
        "the write's send and 1,160 ms (1.00 ×) from its acknowledgement."  # noqa: RUF001
    )


def test_a_published_distance_is_scored_like_other_numbers() -> None:
    """D, p and n, and whose number it is."""
    specs, results = checked_pair()
    summary = checked_summary(specs, results)
    page = render_page(summary, results, sample_manifest())
    table = page[page.index('id="replication"') :]
    table = table[: table.index("</table>")]
    assert 'data-metric="published" data-value="0.14" data-unit="d">0.140</td>' in table
    (each,) = scored(summary.trials[0], summary)
    assert list(scored(summary.trials[1], summary)) == []
    said = describe_replication(summary.trials[0], each, aws_emulated=False)
    assert said.startswith("Kolmogorov and Smirnov’s D: published 0.140 (TriggerPerf, Fig. 4); here 0.")  # noqa: RUF001
    assert "n = 200, m = 200) from the write's send and 0." in said


def test_a_ratio_of_two_stores_is_scored_with_its_range_and_its_note(elastic: tuple[TrialResult, ...]) -> None:
    """The first of its repeats has it; the other store's emulator makes it a number of an emulator's, too."""
    trial, other = (result.summary for result in elastic)
    each = TrialReplication.model_validate(
        {
            **trial.replication[0].model_dump(),
            "over": "p50 of etcd",
            "unit": "ratio",
            "published": 10.0,
            "published_to": 100.0,
            "note": "It contradicts itself.",
            "ours": Estimate(value=5.0, low=4.0, high=6.0),
            "ratio": Estimate(value=0.5, low=0.4, high=0.6),
            "ours_after_ack": None,
            "ratio_after_ack": None,
            "trial": trial.name,
            "over_trial": other.name,
            "emulated": (other.name,),
        }
    )
    summary = sample_summary(elastic).model_copy(update={"published_ratios": (each,)})
    assert list(scored(trial, summary)) == [*trial.replication, each]
    assert each not in scored(trial.model_copy(update={"group": trial.name, "repeat": 1}), summary)
    assert describe_replication(trial, each, aws_emulated=False) == (
        "p50 of before over p50 of etcd: published 10.0 to 100 × (TriggerPerf, Fig. 7); here 5.00 × "  # noqa: RUF001
        "(0.50 × [0.40, 0.60] of that range's nearer end). This is an emulator's number, not AWS's. "  # noqa: RUF001
        "It contradicts itself."
    )
    page = render_page(summary, elastic, sample_manifest())
    assert 'data-value="10.0" data-unit="ratio">10.0 to 100 ×</td>' in page  # noqa: RUF001
    assert '<span class="note">It contradicts itself.</span>' in page


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(1.0, 1.0, "(within that range)"), (0.9, 1.0, "(within that range, but not all of its interval)")],
)
def test_what_lies_within_a_range_is_said_so(
    elastic: tuple[TrialResult, ...], low: float, high: float, said: str
) -> None:
    """A ratio of 1 would be read as if one number had been met."""
    trial = elastic[0].summary
    fields = {"published": 10.0, "published_to": 100.0, "unit": "ratio", "ours": Estimate(value=40.0)}
    ratio = Estimate(value=1.0, low=low, high=high)
    each = trial.replication[0].model_copy(update={**fields, "ratio": ratio, "ours_after_ack": None})
    assert describe_replication(trial, each, aws_emulated=False).endswith(f"here 40.0 × {said}.")  # noqa: RUF001


def test_a_writes_median_is_called_so(elastic: tuple[TrialResult, ...]) -> None:
    """It is no latency of a trigger."""
    trial = elastic[0].summary
    each = trial.replication[0].model_copy(update={"metric": "write_p50", "ours_after_ack": None})
    said = describe_replication(trial, each, aws_emulated=False)
    assert said.startswith("p50 of writes, t2 − t1 of before: published 1,157 ms")  # noqa: RUF001


def test_an_emulators_number_is_not_taken_for_that_of_aws(elastic: tuple[TrialResult, ...]) -> None:
    """A real store's number on a laptop is not either; on AWS nothing is added."""
    real, emulated = (result.summary for result in elastic)
    said = describe_replication(emulated, emulated.replication[0], aws_emulated=False)
    assert said.endswith("This is an emulator's number, not AWS's.")
    said = describe_replication(real, real.replication[0], aws_emulated=True)
    assert said.endswith("This is a number of this machine's, not AWS's.")


def test_a_number_that_is_missing_says_why(elastic: tuple[TrialResult, ...]) -> None:
    """A trial of one window needs no name for it."""
    trial = elastic[0].summary.model_copy(update={"windows": elastic[0].summary.windows[:1]})
    none = Estimate(value=None, reason="n=200 < 368")
    each = trial.replication[0].model_copy(update={"ours": none, "ratio": none, "metric": "p99"})
    said = describe_replication(trial, each, aws_emulated=False)
    assert said.startswith(
        "p99: published 1,157 ms (TriggerPerf, Fig. 7); here no value (n=200 < 368) from the write's"
    )


def test_a_limit_and_a_ratio_are_called_so(elastic: tuple[TrialResult, ...]) -> None:
    """A paper that says "up to 9 times the median" has published no number, and no time."""
    trial = elastic[0].summary
    each = trial.replication[0].model_copy(
        update={
            "metric": "p90",
            "over": "p50 of after",
            "published": 9.0,
            "unit": "ratio",
            "bound": "up_to",
            "ours": Estimate(value=3.6),
            "ratio": Estimate(value=0.4),
            "ours_after_ack": Estimate(value=None, reason="n=9 < 72"),
            "ratio_after_ack": Estimate(value=None, reason="n=9 < 72"),
        }
    )
    assert describe_replication(trial, each, aws_emulated=False) == (
        "p90 of before over p50 of after: published up to 9.00 × (TriggerPerf, Fig. 7); here "  # noqa: RUF001
        "3.60 × (against that limit 0.400 ×) from the write's send and "  # noqa: RUF001
        "no value (n=9 < 72) from its acknowledgement."
    )
    time = trial.replication[0].model_copy(update={"published": 1_700.0, "bound": "above"})
    assert "published above 1,700 ms" in describe_replication(trial, time, aws_emulated=False)


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
    first, second = drawings(share_figures(share_rows([*[share] * (ROWS_PER_FIGURE + 1), unknown], trials)))
    assert [len(drawing.params["labels"]) for drawing in (first, second)] == [ROWS_PER_FIGURE, 1]
    assert second.data["shares"]["share"] == [share.share.value]
    assert format_share(unknown.share) == "no value (no trial measured s3)"


def test_a_share_is_said_with_its_interval() -> None:
    """Small ones with a decimal, since the paper's smallest is two percent."""
    assert format_share(Estimate(value=0.25, low=0.213, high=0.3)) == "25 % (21 % to 30 %)"
    assert format_share(Estimate(value=0.02, low=0.0195, high=0.021)) == "2.0 % (1.9 % to 2.1 %)"
    # A local store's 2 ms in a chain of a minute: not nothing.
    assert format_share(Estimate(value=4.3e-5, low=3.8e-5, high=9.96e-4)) == "0.004 % (0.004 % to 0.100 %)"
