from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.measures import Estimate
from stepbench.report.published import replication_sentence

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult


def test_both_readings_stand_beside_the_published_number(elastic: tuple[TrialResult, ...]) -> None:
    """The paper describes its start both ways."""
    trial = elastic[0].summary
    each = trial.replication[0].model_copy(
        update={
            "ours": Estimate(value=1_200.0),
            "ratio": Estimate(value=1.037),
            "ours_after_ack": Estimate(value=1_160.0),
            "ratio_after_ack": Estimate(value=1.0026),
        }
    )
    assert replication_sentence(trial, each, aws_emulated=False) == (
        "p50 of before: published 1,157 ms (TriggerPerf, Fig. 7); here 1,200 ms (1.0 times as long) from the write's "
        "send and 1,160 ms (1.0 times as long) from its acknowledgement."
    )


def test_an_emulators_number_is_not_taken_for_that_of_aws(elastic: tuple[TrialResult, ...]) -> None:
    """Nor is that of a real store on a laptop; on AWS nothing is added."""
    real, emulated = (result.summary for result in elastic)
    said = replication_sentence(emulated, emulated.replication[0], aws_emulated=False)
    assert said.endswith("This is an emulator's number, not AWS's.")
    said = replication_sentence(real, real.replication[0], aws_emulated=True)
    assert said.endswith("This is a number of this machine's, not AWS's.")


def test_a_number_that_is_missing_says_why(elastic: tuple[TrialResult, ...]) -> None:
    """A trial of one window needs no name for it."""
    trial = elastic[0].summary.model_copy(update={"windows": elastic[0].summary.windows[:1]})
    none = Estimate(value=None, reason="n=200 < 368")
    each = trial.replication[0].model_copy(update={"ours": none, "ratio": none, "metric": "p99"})
    said = replication_sentence(trial, each, aws_emulated=False)
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
    assert replication_sentence(trial, each, aws_emulated=False) == (
        "p90 of before over p50 of after: published up to 9.00 × (TriggerPerf, Fig. 7); here "  # noqa: RUF001
        "3.60 × (0.40 times that limit) from the write's send and "  # noqa: RUF001
        "no value (n=9 < 72) from its acknowledgement."
    )
    time = trial.replication[0].model_copy(update={"published": 1_700.0, "bound": "above"})
    assert "published above 1,700 ms" in replication_sentence(trial, time, aws_emulated=False)
