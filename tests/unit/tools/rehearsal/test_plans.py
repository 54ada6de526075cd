"""The rounds: what is tried, on what, and with what turned on."""

from __future__ import annotations

from pathlib import Path

from ruamel.yaml import YAML

from stepbench.contracts.target import target_models
from stepbench_tools.rehearsal.plans import GIVEN, first_round, store_plan, store_rounds

ROOT = Path(__file__).parents[4]
LOCAL_ONLY = {"reference"}
"""It calibrates, and has no server on AWS."""


def _stores(*, clock_check: bool = True) -> set[str]:
    rounds = (first_round(writers=12, clock_check=clock_check, given={}), *store_rounds())
    return {trial.target.store for each in rounds for plan in each.plans for trial in plan.trials}


def test_every_store_that_a_stack_can_have_is_rehearsed() -> None:
    """A new store is missing here until it has a round."""
    assert _stores() == target_models().keys() - LOCAL_ONLY | {"files"}
    assert set(GIVEN.values()) == _stores() - {"s3", "dynamodb", "files"}


def test_each_round_turns_on_what_the_template_has() -> None:
    """By a parameter that can be turned off again, for the next round."""
    text = (ROOT / "template.yaml").read_text().partition("\nRules:")[0]
    parameters = YAML(typ="safe", pure=True).load(text)["Parameters"]
    for each in store_rounds():
        for name, value in each.parameters.items():
            assert {value, "off"} <= {str(allowed) for allowed in parameters[name]["AllowedValues"]}
    assert GIVEN.keys() <= parameters.keys()


def test_triggers_are_tried_where_a_store_has_one() -> None:
    """Beside its operations."""
    triggers = {store: model.trigger is not None for store, model in target_models().items()}
    for store in GIVEN.values():
        experiments = {trial.experiment for trial in store_plan(store).trials}
        assert experiments == ({"trigger", "operations"} if triggers[store] else {"operations"})


def test_without_the_clock_check_the_stream_is_tried_all_the_same() -> None:
    """An account with a small quota has no sandbox to reserve, nor a dozen for writers."""
    small = first_round(writers=1, clock_check=False, given={})
    names = [trial.name for trial in small.plans[0].trials]
    assert names == ["s3", "dynamodb-operations", "batched", "dynamodb"]
    assert small.parameters == {"ClockCheck": "off"}


def test_servers_of_ones_own_are_tried_before_the_run_that_is_stopped() -> None:
    """The last plan of the round is the one that is stopped."""
    given = {"etcd": store_plan("etcd")}
    plans = first_round(writers=1, clock_check=True, given=given).plans
    assert [plan.name for plan in plans] == ["rehearse-s3-and-dynamodb", "rehearse-etcd", "rehearse-stopping"]
