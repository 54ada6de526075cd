"""What a tear-down saw of a trial's objects, in the summary that was made before it."""

from __future__ import annotations

import pytest
from tests.samples.dataflow_findings import dataflow_results, object_accounting

from stepbench.contracts.result import Caveat, TrialSummary
from stepbench.experiments.dataflow.sentences import missing_objects, with_remaining

OTHER = Caveat(kind="failed_executions", text="One failed.", remedy="Mend it.")


def analysed(unconfirmed: int) -> TrialSummary:
    """Return a summary as the analysis leaves it: nobody has looked yet."""
    summary = dataflow_results()[0].summary
    assert summary.dataflow is not None
    objects = object_accounting(unconfirmed=unconfirmed, left=None)
    caveats = (OTHER, *missing_objects(objects), OTHER)
    findings = summary.dataflow.model_copy(update={"objects": objects})
    return summary.model_copy(update={"dataflow": findings, "caveats": caveats})


@pytest.mark.parametrize(
    ("unconfirmed", "left", "caveat", "sentence"),
    [
        (64, 0, None, "and removed (of 64 only seen at the trial's tear-down)."),
        (64, 2, "2 objects were still there at the trial's tear-down, which removed them.", "2 were still there"),
        (0, 0, None, "and removed."),
        (0, 1, "1 objects were still there at the trial's tear-down, which removed them.", "1 were still there"),
    ],
)
def test_what_the_tear_down_saw_replaces_what_was_not_known(
    unconfirmed: int, left: int, caveat: str | None, sentence: str
) -> None:
    """A deletion that timed out is no object that is left."""
    before = analysed(unconfirmed)
    told = [each.text for each in before.caveats if each.kind == "missing_objects"]
    assert told == [f"{unconfirmed} removals at executions' ends were not confirmed."] * bool(unconfirmed)
    after = with_remaining(before, left)
    assert after.dataflow is not None
    assert after.dataflow.objects.left == left
    assert [each.text for each in after.caveats if each.kind == "missing_objects"] == [caveat] * bool(caveat)
    assert [each for each in after.caveats if each.kind != "missing_objects"] == [OTHER, OTHER]
    assert any(sentence in answer for answer in after.dataflow.answers)


def test_a_trial_without_dags_stays_as_it_is() -> None:
    """Its tear-down looks at nothing."""
    summary = analysed(0).model_copy(update={"dataflow": None})
    assert with_remaining(summary, 3) is summary
