"""The published schema of plans, and the page that explains it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from stepbench.contracts.trial import MAX_PHASES
from stepbench.planning import find_plan, list_plans, plan_schema
from stepbench.planning.schema import locate

PUBLISHED = Path(__file__).parents[3] / "docs" / "plan.schema.json"


def test_the_published_schema_is_current() -> None:
    """Editors check plans against it. To renew it: `stepbench schema > docs/plan.schema.json`."""
    assert json.loads(PUBLISHED.read_text()) == plan_schema()


def test_it_is_a_schema_that_presets_fulfil() -> None:
    """A validator of its dialect accepts it, too."""
    jsonschema.Draft202012Validator.check_schema(plan_schema())
    validator = jsonschema.Draft202012Validator(plan_schema())
    for name in list_plans():
        validator.validate(json.loads(find_plan(name)))


def test_it_refuses_what_the_parser_refuses() -> None:
    """Unknown fields, in the middle of a union too."""
    plan = json.loads(find_plan("quick-unloaded-dynamodb"))
    plan["trials"][0]["target"]["batchsize"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(plan_schema()).validate(plan)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ((), "plan"),
        (("trials", 0, "trigger", "target", "s3", "endpoint"), "trials[0].target.endpoint"),
        (("trials", 0, "trigger", "target", "dynamodb", "capacity", "provisioned", "write_units"),
         "trials[0].target.capacity.write_units"),
        (("trials", 0, "trigger", "target", "s3", "s3"), "trials[0].target.s3"),
        (("trials", 2, "trigger", "phases", 1, "scale", "capacity", "on_demand", "x"),
         "trials[2].phases[1].scale.capacity.x"),
        (("trials", 0, "trigger", "matrix", "a", 3), "trials[0].matrix.a[3]"),
    ],
)  # fmt: skip
def test_paths_are_those_of_the_user_s_document(location: tuple[str | int, ...], path: str) -> None:
    """Pydantic's union tags stand in no plan."""
    assert locate(location).path == path


PAGES = ("plans", "adaptive-load", "operations", "transfer", "dataflow", "tuning", "applications", "published")
DOCS = Path(__file__).parents[3] / "docs"
PAGE = "\n".join((DOCS / f"{page}.md").read_text("utf-8") for page in PAGES)


@pytest.mark.parametrize("model", ["Plan", *plan_schema()["$defs"]])
def test_every_field_is_explained(model: str) -> None:
    """A field that is on none of the pages does not exist for its reader."""
    schema = plan_schema() if model == "Plan" else plan_schema()["$defs"][model]
    assert [name for name in schema["properties"] if name not in PAGE] == []


def test_the_page_says_how_many_phases_a_trial_may_have() -> None:
    """It said 50 when the schema said 100."""
    assert f"1 to {MAX_PHASES} stretches of load" in PAGE
    assert plan_schema()["$defs"]["TrialPlan"]["properties"]["phases"]["maxItems"] == MAX_PHASES
