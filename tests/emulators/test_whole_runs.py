"""What every emulator has to do: deploy the template whole, and run the smallest plans with nothing lost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.templates import load_template

from stepbench.planning import find_plan, parse_plan
from stepbench_tools.cli.command import OK, THRESHOLD_MISSED
from stepbench_tools.local.deploy import STACK
from stepbench_tools.local.emulator.server import emulator_name

if TYPE_CHECKING:
    from tests.end_to_end.deployment import Deployment

pytestmark = [pytest.mark.end_to_end, pytest.mark.emulator]

PASSED_OVER = re.compile(r"Resource type (\S+) is not supported")
"""What LocalStack says of a resource that it does not make."""
NOT_NEEDED = ("AWS::ApiGatewayV2::", "Custom::DroppedFiles")
"""LocalStack's last release that needs no account does not know them; runs are started, and stacks deleted, without."""
FUNCTION = "AWS::Serverless::Function"
EVENTS = 200
"""Of the measured phase of both plans."""


def preset(store: str) -> dict[str, Any]:
    """Return the plan as a user gives it."""
    document: dict[str, Any] = parse_plan(find_plan(f"quick-unloaded-{store}")).model_dump(mode="json")
    return document


def test_the_template_is_deployed_whole(deployment: Deployment) -> None:
    """What an emulator passes over is missing here, and would be missed by nobody else."""
    cloudformation = deployment.stack.aws("cloudformation")
    template = cloudformation.get_template(StackName=STACK, TemplateStage="Processed")
    events = cloudformation.get_paginator("describe_stack_events").paginate(StackName=STACK)
    said = [event.get("ResourceStatusReason") or "" for page in events for event in page["StackEvents"]]
    passed_over = {found[1] for text in said if (found := PASSED_OVER.search(text))}
    assert {kind for kind in passed_over if not kind.startswith(NOT_NEEDED)} == set()
    pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=STACK)
    made = [each for page in pages for each in page["StackResourceSummaries"]]
    assert {each["ResourceStatus"] for each in made} <= {"CREATE_COMPLETE", "UPDATE_COMPLETE"}
    assert template["TemplateBody"]
    resources = load_template("template.yaml")["Resources"].items()
    functions = {name for name, each in resources if each["Type"] == FUNCTION and "Condition" not in each}
    assert functions <= {each["LogicalResourceId"] for each in made}


@pytest.mark.parametrize("store", ["s3", "dynamodb"])
def test_every_event_of_the_smallest_plan_is_accounted_for(deployment: Deployment, store: str) -> None:
    """Each that was written came, once, whatever the emulator; what a busy machine left unsent is counted."""
    finished = deployment.run(preset(store))
    assert finished.code in {OK, THRESHOLD_MISSED}, finished.stderr
    accounting = finished.trial["accounting"]
    assert accounting["offered"] == accounting["ok"] + accounting["unsent"] == EVENTS, accounting
    assert accounting["received"] == accounting["ok"] > 0, accounting
    assert (accounting["lost"], accounting["duplicates"], accounting["malformed"]) == (0, 0, 0), accounting
    assert finished.trial["provider"] == emulator_name()
    assert finished.trial["emulated"]


def test_nothing_is_left_of_the_plans(deployment: Deployment) -> None:
    """Targets, triggers, leases and executions end with the runs."""
    inventory = deployment.inventory()
    tables = inventory.pop("tables")
    assert sorted(tables) == sorted(deployment.stack.outputs[name] for name in ("ResultsTableName", "RunsTableName"))
    account = ("objects", "notifications", "mappings", "executions", "leases")
    assert {name: inventory[name] for name in account if inventory[name]} == {}
