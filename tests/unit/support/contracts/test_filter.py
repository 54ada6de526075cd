"""The filter's contract: each way of breaking it is found. A driver that keeps it is in `test_example_store`."""

from __future__ import annotations

import pytest
from tests.support.contracts import filter as filter_contract
from tests.support.contracts.filter import FilterContract
from tests.support.example_store import driver as example_driver
from tests.support.example_store.server import example_server
from tests.unit.support.conftest import ExampleSubject


@pytest.mark.parametrize("head", ["{}", "{}/nothing", "{}/00-"], ids=["lets all pass", "holds all back", "or canaries"])
async def test_a_breach_is_noticed(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What never comes is waited for until a limit; here nothing is on its way, so a short one does."""
    monkeypatch.setattr(filter_contract, "DELIVERY_LIMIT_S", 0.5)
    monkeypatch.setattr(example_driver, "matching_head", head.format)
    with example_server() as server, pytest.raises((AssertionError, TimeoutError)):
        await FilterContract().test_the_filter_lets_the_matching_and_the_canaries_pass(ExampleSubject(server))
