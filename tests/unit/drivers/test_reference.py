"""What the reference driver decides without a server."""

from __future__ import annotations

import pytest

from stepbench.drivers.reference import ReferenceDriver
from stepbench.errors import PlanError
from stepbench.settings import Settings
from stepbench.testing.driver_subject import contract_spec
from stepbench.testing.fake_clock import FakeClock

BARE = Settings(results_table="t", results_bucket="b")


def test_without_an_endpoint_the_plan_is_refused_with_the_remedy() -> None:
    """A stack on AWS comes without a reference store; the plan's author is told what to give."""
    with pytest.raises(PlanError, match="ReferenceEndpoint"):
        ReferenceDriver(contract_spec({"store": "reference"}), BARE, FakeClock())


def test_the_plans_own_endpoint_stands_before_the_stacks() -> None:
    """The stack's could not even be parsed here."""
    settings = BARE.model_copy(update={"reference_endpoint": "host:port"})
    ReferenceDriver(contract_spec({"store": "reference", "endpoint": "127.0.0.1:7300"}), settings, FakeClock())
    with pytest.raises(PlanError, match="is not an address"):
        ReferenceDriver(contract_spec({"store": "reference"}), settings, FakeClock())
