"""What the PostgreSQL driver decides without a server."""

from __future__ import annotations

import pytest

from stepbench.drivers.postgresql.trigger import region_of


@pytest.mark.parametrize(
    ("function", "region"),
    [("arn:aws:lambda:eu-central-1:000000000000:function:f", "eu-central-1"), ("f", ""), ("arn:aws", "")],
)
def test_the_receivers_region_is_in_its_arn(function: str, region: str) -> None:
    """Aurora refuses a region that contradicts the ARN."""
    assert region_of(function) == region
