from __future__ import annotations

from typing import TYPE_CHECKING

from tests.samples.templates import ROOT, load_template

from stepbench.costs.standing import DEFAULT_TYPES
from stepbench.digits import dollars
from stepbench.experiments.estimates import budgeted, estimate
from stepbench.planning import expanded, parse_plan
from stepbench.planning.presets import find_plan, list_plans
from stepbench_tools.documents.pages import OPTIONS, part, updated

if TYPE_CHECKING:
    from stepbench.contracts.plan import AnyTrial

PAGE = (ROOT / "docs" / "costs.md").read_text("utf-8")


def test_the_cost_guide_is_what_the_code_says() -> None:
    """Prices, presets and stacks change; run `python -m stepbench_tools.documents.pages docs/costs.md`."""
    assert updated(PAGE, ROOT) == PAGE
    for name in ("idle", "presets"):
        assert f"<!-- begin {name} -->\n{part(name, ROOT)}<!-- end {name} -->" in PAGE


def test_the_page_on_deploying_has_the_same_numbers() -> None:
    """Of an idle stack, of the two runs that show whether it works, and of what is made."""
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    month = part("idle", ROOT).splitlines()[2].split("|")[3].strip()
    trials = [each for store in ("s3", "dynamodb") for each in trials_of(f"quick-unloaded-{store}")]
    expected, most = (sum(price(trial).total_usd for trial in trials) for price in (estimate, budgeted))
    resources = load_template("template.yaml")["Resources"].values()
    assert f"an idle stack {month} a month" in page
    assert f"the two runs {dollars(expected)}, at most {dollars(most)}" in page
    assert f"the template's {sum('Condition' not in body for body in resources)} resources" in page


def trials_of(preset: str) -> list[AnyTrial]:
    """Return what a preset runs."""
    return [each.plan for each in expanded(parse_plan(find_plan(preset)))]


def test_every_preset_and_every_option_is_in_it() -> None:
    """The types are the template's defaults; what it may make is what the guide has a row for."""
    parameters = load_template(ROOT / "template.yaml")["Parameters"]
    assert {name: parameters[name]["Default"] for name in DEFAULT_TYPES} == DEFAULT_TYPES
    switches = {"AuroraPostgresql", "EtcdNodes", "ElastiCache", "CassandraNode", "LoadHost"}
    shown = {(name, value) for _, _, options in OPTIONS for name, value in options.items() if name in switches}
    asked = {(name, str(value)) for name in switches for value in parameters[name]["AllowedValues"]}
    assert asked - shown == {(name, "off") for name in switches} | {("LoadHost", "own")}
    assert all(f"| `{name}` |" in PAGE for name in list_plans())
