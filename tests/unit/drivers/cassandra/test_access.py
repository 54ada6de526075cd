"""Which of a stack's hosts a trial reaches."""

from __future__ import annotations

import pytest

from stepbench.contracts.target import CassandraTarget
from stepbench.drivers.cassandra.access import stack_address
from stepbench.settings import Settings


@pytest.mark.parametrize(
    ("endpoint", "host", "address"),
    [
        ("i3.large=10.0.0.1:9042,m5.large=10.0.0.2:9042", None, "10.0.0.1:9042"),
        ("i3.large=10.0.0.1:9042,m5.large=10.0.0.2:9042", "m5.large", "10.0.0.2:9042"),
        ("10.0.0.1:9042,10.0.0.2:9042", None, "10.0.0.1:9042,10.0.0.2:9042"),
        ("10.0.0.1:9042", "m5.large", ""),
    ],
)
def test_a_trial_reaches_the_host_that_it_names(endpoint: str, host: str | None, address: str) -> None:
    """Hosts side by side are no cluster, to which somebody else's several addresses belong."""
    settings = Settings(results_table="t", results_bucket="b", cassandra_endpoint=endpoint)
    assert stack_address(CassandraTarget(store="cassandra", host=host), settings) == address
