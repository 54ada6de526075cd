from __future__ import annotations

from tests.samples.templates import ROOT, load_template

from stepbench.planning.cost_guide import OPTIONS, TYPES, tables, updated
from stepbench.planning.presets import list_plans

PAGE = (ROOT / "docs" / "costs.md").read_text("utf-8")


def test_the_cost_guide_is_what_the_code_says() -> None:
    """Prices, presets and stacks change; run `python -m stepbench.planning.cost_guide docs/costs.md`."""
    assert updated(PAGE) == PAGE
    for name, table in tables().items():
        assert f"<!-- {name} -->\n{table}\n<!-- end of {name} -->" in PAGE


def test_every_preset_and_every_option_is_in_it() -> None:
    """The types are the template's defaults; what it may make is what the guide has a row for."""
    parameters = load_template(ROOT / "template.yaml")["Parameters"]
    assert {name: parameters[name]["Default"] for name in TYPES} == TYPES
    switches = {"AuroraPostgresql", "EtcdNodes", "ElastiCache", "CassandraNode", "LoadHost"}
    shown = {(name, value) for _, _, options in OPTIONS for name, value in options.items() if name in switches}
    asked = {(name, str(value)) for name in switches for value in parameters[name]["AllowedValues"]}
    assert asked - shown == {(name, "off") for name in switches} | {("LoadHost", "own")}
    assert all(f"| `{name}` |" in PAGE for name in list_plans())
