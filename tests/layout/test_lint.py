"""What cfn-lint says of the template and of every stack, in regions of AWS's three public partitions."""

from __future__ import annotations

import pytest
from cfnlint.api import lint_file  # type: ignore[import-untyped] # it has none
from cfnlint.config import ManualArgs  # type: ignore[import-untyped]
from tests.samples.templates import ROOT

TEMPLATES = ["template.yaml", *sorted(f"stacks/{each.name}" for each in (ROOT / "stacks").glob("*.yaml"))]
REGIONS = ["us-east-1", "eu-west-1", "ap-northeast-1", "cn-north-1", "us-gov-west-1"]
MISSING = {
    f"E3006: Resource type 'AWS::DSQL::Cluster' does not exist in '{region}'"
    for region in ("cn-north-1", "us-gov-west-1")
}
"""Aurora DSQL is in no other partition than `aws` (docs/deploy.md); its parameter is off unless asked for."""


@pytest.mark.parametrize("path", TEMPLATES)
def test_lint_finds_nothing(path: str) -> None:
    """It knows each resource's schema by region, and finds circles between functions, roles and clusters."""
    found = {f"{each.rule.id}: {each.message}" for each in lint_file(ROOT / path, ManualArgs(regions=REGIONS))}
    assert found == (MISSING if path == "stacks/dsql.yaml" else set())
