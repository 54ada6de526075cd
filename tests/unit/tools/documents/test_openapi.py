"""The API's description, against the routes and the template."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.samples.templates import load_template

from stepbench.api import app, datasets
from stepbench.planning import plan_schema
from stepbench_tools.documents.openapi import openapi

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[4]


def test_the_committed_description_is_of_these_routes() -> None:
    """`python -m stepbench_tools.documents.openapi > docs/openapi.json` makes it again."""
    assert json.loads((ROOT / "docs/openapi.json").read_text()) == openapi()


OF_BROWSERS = {"GET /", "GET /dashboard/assets/{name}"}
"""By tokens these need none (docs/dashboard.md); the dashboard's other pages come by `$default`."""


def test_every_route_is_a_resource_of_the_template() -> None:
    """API Gateway passes on what it has a route for, and IAM permits by route."""
    described = {f"{method.upper()} {path}" for path, methods in openapi()["paths"].items() for method in methods}
    resources = load_template("template.yaml")["Resources"].values()
    routes = {each["Properties"]["RouteKey"]: each for each in resources if each["Type"].endswith("::Route")}
    assert described | {"$default"} | OF_BROWSERS == routes.keys()
    for key, route in routes.items():
        kind = route["Properties"]["AuthorizationType"]
        expected = ("NONE", "WithJwt") if key in OF_BROWSERS else ({"Fn::If": ["WithJwt", "JWT", "AWS_IAM"]}, None)
        assert (kind, route.get("Condition")) == expected, key


@pytest.mark.parametrize(("room", "integration"), [(app, "Api"), (datasets, "Dataset")])
def test_each_route_goes_to_the_function_that_answers_it(room: ModuleType, integration: str) -> None:
    """The other one would say that it knows no such route."""
    paths = json.loads(room.app.get_openapi_schema().model_dump_json(by_alias=True, exclude_none=True))["paths"]
    keys = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert keys
    resources = load_template("template.yaml")["Resources"].values()
    routes = [each["Properties"] for each in resources if each["Type"].endswith("::Route")]
    targets = {str(each["Target"]["Fn::Sub"]) for each in routes if each["RouteKey"] in keys}
    assert targets == {f"integrations/${{{integration}Integration}}"}


def test_a_submission_is_described_down_to_the_plan() -> None:
    """Clients are generated from it, and so are requests that try the API."""
    schemas = openapi()["components"]["schemas"]
    assert schemas["Submission"]["properties"]["plan"]["anyOf"][0] == {"$ref": "#/components/schemas/Plan"}
    assert set(schemas["Plan"]["properties"]) == set(plan_schema()["properties"])


def test_every_reference_leads_somewhere() -> None:
    """A generator of clients would stop at the first that does not."""
    text = json.dumps(document := openapi())
    named = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert named <= set(document["components"]["schemas"])
