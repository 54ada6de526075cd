"""Caveats by kind, in place of six times the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.comparisons import etcd, etcd_trials
from tests.samples.results import EMULATED

from stepbench.analysis.comparability import flatten_setup
from stepbench.contracts.plan import TrialPlan
from stepbench.planning import expanded, parse_plan
from stepbench.planning.presets import find_preset
from stepbench.report.caveats import caveat_groups, describe_conditions

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialSummary


def test_a_kind_is_told_once_with_how_many_trials_have_it() -> None:
    """Six times the same would be read once at most."""
    trials = [trial.model_copy(update={"caveats": (EMULATED,)}) for trial in etcd_trials(5)]
    (group,) = caveat_groups([*trials, etcd_trials(6)[-1]])
    assert (group.kind, group.extent) == ("emulated", "5 of 6 trials")
    assert [group.label(trial) for trial, _ in group.caveats] == ["t0", "t1", "t2", "t3", "t4"]


def test_one_trial_needs_no_count() -> None:
    """There is no other."""
    (trial,) = etcd_trials(1)
    (group,) = caveat_groups([trial.model_copy(update={"caveats": (EMULATED,)})])
    assert group.extent == ""
    assert caveat_groups([trial]) == ()


PAPER = "Measured with records of 948 B (key 59 B, value 889 B)"
SIZES = "Measured with records of 159, 948 and 10,059 B"


def measured(preset: str) -> list[TrialSummary]:
    """Return trials that measured something, set as a preset has them."""
    return [
        etcd(1.0, trial.name).model_copy(
            update={
                "store": trial.plan.target.store,
                "experiment": trial.plan.experiment,
                "setup": flatten_setup(trial.plan),
                "point": trial.point,
            }
        )
        for trial in expanded(parse_plan(find_preset(preset)))
    ]


def trial(**target: Any) -> TrialSummary:  # noqa: ANN401 -- a target's fields
    """Return a trial of DynamoDB with records of 5,000 bytes, 20 a second."""
    plan = TrialPlan.model_validate(
        {
            "target": {"store": "dynamodb", **target},
            "record": {"value_bytes": 5_000},
            "phases": [{"name": "p", "load": [{"rate_per_s": 20, "count": 20}]}],
        }
    )
    return etcd(1.0).model_copy(update={"store": "dynamodb", "experiment": "trigger", "setup": flatten_setup(plan)})


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        (
            "quick-batch-dynamodb",
            f"{PAPER}, at 40/s. Varied: batch size 1, 10 and 100.",
        ),
        (
            "quick-unloaded",
            f"{PAPER}, at 20/s. Varied: store s3, dynamodb, postgresql and etcd.",
        ),
        (
            "quick-sizes",
            f"{SIZES}, at 40/s. Varied: value bytes 100, 889 and 10,000; store etcd and dynamodb.",
        ),
    ],
)
def test_a_preset_says_what_it_measures_with_and_what_it_compares(preset: str, words: str) -> None:
    """A reader who has not seen the plan has to know it beside the answer."""
    assert describe_conditions(measured(preset)) == words


def test_trials_that_are_written_out_differ_in_what_their_setups_say() -> None:
    """What has its default is not in a setup."""
    assert describe_conditions([trial(), trial(batch_size=10)]) == (
        "Measured with records of 5,059 B (key 59 B, value 5,000 B), at 20/s. Varied: batch size default and 10."
    )


def test_what_all_have_is_said_once() -> None:
    """It is a condition of the answer, not what it compares."""
    assert describe_conditions([trial(batch_size=10), trial(batch_size=10)]) == (
        "Measured with records of 5,059 B (key 59 B, value 5,000 B), at 20/s, batch size 10."
    )


def test_of_many_values_the_ends_are_named() -> None:
    """A list of all would be a table."""
    words = describe_conditions(measured("quick-clients"))
    assert words == "Measured with records of 948 B (key 59 B, value 889 B), 1, 2, …, 80 clients."


def test_operations_have_the_size_of_their_shape_and_their_clients() -> None:
    """A product's values are 312 bytes, which no plan says."""
    words = describe_conditions(measured("quick-products"))
    assert words.startswith("Measured with records of 349 B (key 37 B, value 312 B), 5 clients. Varied: store ")


def test_of_an_older_summary_nothing_is_known() -> None:
    """It has no setup; a default would be a guess."""
    assert not describe_conditions([etcd(1.0).model_copy(update={"setup": {}})])
    assert not describe_conditions([])
