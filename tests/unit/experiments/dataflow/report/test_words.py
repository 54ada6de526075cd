"""What is said of a DAG where more than one thing may be so."""

from __future__ import annotations

from tests.samples.dataflow_findings import tuning_steps
from tests.samples.tuning import CACHED

from stepbench import digits
from stepbench.contracts.dataflow.result import CriticalTask
from stepbench.experiments.dataflow.report.words import describe_critical, describe_decision, format_configuration


def test_stages_of_one_level_are_alternatives() -> None:
    """Of one level the executions wait for one task each, and then for one of the next."""
    path = (
        CriticalTask(level=0, stage="split", executions=5, most_often=0),
        CriticalTask(level=1, stage="map", executions=3, most_often=2),
        CriticalTask(level=1, stage="model", executions=2, most_often=0),
    )
    said = describe_critical(path)
    assert said.startswith("split (")
    assert said.count(", then ") == 1
    assert said.index(", then map (") < said.index(" or model (")


def test_a_decision_says_which_number_is_the_larger() -> None:
    """Whatever was decided; a static store is configured at any cost, and weighs nothing."""
    pays, not_worth, _ = (step.decision for step in tuning_steps())
    assert describe_decision(pays) == "4,800 requests gained in 60.0 s, more than the 2,520 lost in 12.0 s away"
    assert "300 requests gained in 60.0 s, not more than the 2,520 lost" in describe_decision(not_worth)
    assert describe_decision(pays.model_copy(update={"mode": "static"})) == digits.NONE


def test_a_configuration_is_told_in_a_line() -> None:
    """On the page, in messages of a tuning, and in notes of its benchmark."""
    assert format_configuration(None) == "as released"
    assert format_configuration(CACHED) == "STCS, 16 writes, 512 MiB file cache, clean-up at 0.33, 2 compactors"
